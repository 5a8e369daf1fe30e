"""The whole backend contract on containers."""

from __future__ import annotations

import dataclasses

import pytest
from support.docker_subject import subject_spec

from coworld_runner.backend import Backend, UnitSpec
from coworld_runner.backends import DockerBackend
from coworld_runner.testing import BackendConformance

pytestmark = pytest.mark.docker


class TestDocker(BackendConformance):
    def make_backend(self) -> Backend:
        return DockerBackend()

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        # Without a route out, as a player is by default; that also saves each check an open network
        return dataclasses.replace(subject_spec(run_id, name, *steps), network="none")
