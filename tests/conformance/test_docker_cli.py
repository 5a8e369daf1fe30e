"""A stranger's backend: a distribution with an entry point, made of nothing but what is public."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from support import docker_cli
from support.cli_kit import command, environment
from support.docker_subject import subject_spec
from support.full import FULL
from support.misfit_kit import PACKAGE, PLACEHOLDER, ensure_image
from support.plugin import install

from coworld_core import read_record
from coworld_runner import Backend, UnitSpec, make_backend
from coworld_runner.backends.registry import backend_names
from coworld_runner.testing import BackendConformance

pytestmark = pytest.mark.docker

SOURCE = Path(docker_cli.__file__).read_text(encoding="utf-8")


@pytest.fixture(scope="module", autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The distribution, installed for this process and those that it starts."""
    site = install(
        tmp_path_factory.mktemp("site"),
        distribution="coworld-docker-cli",
        backends={"docker-cli": "coworld_docker_cli:make_backend"},
        modules={"coworld_docker_cli": SOURCE},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        yield site
    sys.modules.pop("coworld_docker_cli", None)


QUICK = {
    "test_a_killed_runner_leaves_nothing_that_reap_does_not_remove",
    "test_a_start_that_fails_half_way_leaves_nothing",
    "test_cancelling_the_body_stops_everything",
    "test_logs_are_complete_when_wait_has_returned",
    "test_secrets_are_in_the_environment_and_nowhere_else",
    "test_stop_takes_the_whole_tree",
    "test_what_it_cannot_enforce_it_refuses_before_anything_is_made",
}
"""The checks of what such a backend has to write itself; that its units answer is shown by the episode below.

All of them take two minutes, with a process for each call: what is shown each time is that the contract can be kept
from outside."""


class TestDockerCli(BackendConformance):
    def make_backend(self) -> Backend:
        return make_backend("docker-cli")

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        return subject_spec(run_id, name, *steps)


assert set(dir(TestDockerCli)) >= QUICK
if not FULL:
    for check in {name for name in dir(TestDockerCli) if name.startswith("test_")} - QUICK:
        setattr(TestDockerCli, check, None)


def test_example_backend_uses_public_names_only() -> None:
    taken = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in taken if (node.module or "").startswith("coworld_")]
    assert {"coworld_core", "coworld_runner", "coworld_runner.backends.base"} <= {node.module for node in ours}
    for node in ours:
        assert "._" not in str(node.module)
        assert {alias.name for alias in node.names} <= set(import_module(str(node.module)).__all__)


def test_episode_runs_on_the_example_backend(site: Path, tmp_path: Path) -> None:
    assert "docker-cli" in backend_names()
    template = (PACKAGE / "coworld_manifest_template.json").read_text(encoding="utf-8")
    document = json.loads(template.replace(PLACEHOLDER, ensure_image()))
    document["game"]["version"] = "1.0"
    (tmp_path / "coworld_manifest.json").write_text(json.dumps(document), encoding="utf-8")
    out = tmp_path / "out"
    # A program of its own, that reads what is installed
    done = subprocess.run(
        command("run-episode", tmp_path, "--backend", "docker-cli", "-o", out),
        env=environment({"PYTHONPATH": str(site)}),
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    record = read_record(out)
    assert (record.ok, record.backend, len(record.scores)) == (True, "docker-cli", 2)
    assert record.game is not None
    assert record.game.image.digest.startswith("sha256:")
