"""A backend that somebody else has made and that is installed: every command takes its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_kit import QUICK, RUN_MODULE, environment, launcher_of
from support.launcher import Done
from support.plugin import MOON, install


class Shell:
    """A machine on which the distribution is installed."""

    def __init__(self, directory: Path) -> None:
        backends = {"moon": "moon:make_backend", "broken": "no_such_module:make"}
        self.site = install(directory / "site", backends=backends, modules={"moon": MOON})
        self.imported = directory / "imported"

    def run(self, *args: str | Path, env: dict[str, str | None] | None = None) -> Done:
        """Run a command that finds it."""
        own = {"PYTHONPATH": str(self.site), "MOON_IMPORTED": str(self.imported), **(env or {})}
        words = [str(RUN_MODULE), "coworld_cli", *map(str, args)]
        return launcher_of("coworld").run(words, env=environment(own), cwd=Path.cwd())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.slow
def test_episode_runs_on_an_installed_backend(shell: Shell, tmp_path: Path) -> None:
    done = shell.run("run-episode", QUICK, "--backend", "moon", "-o", tmp_path / "out", "--json")
    assert done.status == 0, done.stderr
    assert json.loads((tmp_path / "out" / "episode.json").read_text())["backend"] == "moon"
    assert shell.imported.exists()


def test_environment_variable_selects_an_installed_backend(shell: Shell, tmp_path: Path) -> None:
    done = shell.run("replay", QUICK, tmp_path / "none", env={"COWORLD_BACKEND": "mooon"})
    assert done.status == 2
    assert "There is no backend 'mooon'. Did you mean 'moon'?" in done.stderr


def test_doctor_and_clean_include_installed_backends(shell: Shell) -> None:
    looked = shell.run("doctor", "--backend", "moon", "--json")
    assert looked.status == 0, looked.stderr
    assert json.loads(looked.stdout)["backends"] == ["moon"]
    cleaned = shell.run("clean", "--run", "0000", "--backend", "moon", "--json")
    assert cleaned.status == 0, cleaned.stderr


def test_broken_backend_is_an_environment_error(shell: Shell, tmp_path: Path) -> None:
    done = shell.run("run-episode", QUICK, "--backend", "broken", "-o", tmp_path / "out", "--json")
    assert done.status == 3
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "backend_broken"
    assert "No module named 'no_such_module'" in error["message"]
    assert error["context"]["distribution"] == "coworld-moon"
    assert error["context"]["entry_point"] == "no_such_module:make"
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_help_and_completion_do_not_import_backends(shell: Shell) -> None:
    for args in (["--help"], ["run-episode", "--help"], ["doctor", "--help"]):
        assert shell.run(*args).status == 0
    asked = {
        "_COWORLD_COMPLETE": "bash_complete",
        "COMP_WORDS": "coworld run-episode w --backend mo",
        "COMP_CWORD": "4",
    }
    assert shell.run(env={**asked}).stdout == "plain,moon\n"
    assert not shell.imported.exists()
