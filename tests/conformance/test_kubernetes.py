"""The whole backend contract on pods of a real cluster."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from support.docker_subject import subject_spec
from support.kube import backend_for, labelled, namespace_for_tests, pod_directory

from coworld_runner.backend import Backend, UnitSpec
from coworld_runner.testing import BackendConformance

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def namespace() -> Generator[str]:
    """A namespace that these checks have to themselves."""
    with namespace_for_tests() as name:
        yield name


class TestKubernetes(BackendConformance):
    # A pod takes a second or two to come and to go, and more on a machine with other work
    deadline = 150.0
    namespace = ""

    @pytest.fixture(autouse=True)
    def own_namespace(self, namespace: str) -> Generator[None]:
        self.namespace = namespace
        yield
        assert labelled(namespace) == []

    def make_backend(self) -> Backend:
        return backend_for(self.namespace)

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        return subject_spec(run_id, name, *steps)

    def inside(self, run_id: str, name: str, directory: Path) -> Path:
        return pod_directory(run_id, name)
