"""A library's game that hangs, or ends the process that tries it, is told like any other that cannot be wrapped."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from coworld_core.errors import UsageError
from coworld_runner.kit.wrappers import wrap_game
from coworld_runner.kit.wrappers.trial import Trials

LIBRARY = """
import os, signal
from types import SimpleNamespace

class SpielError(Exception):
    pass

def registered_names():
    return ["stuck", "gone", "unknown"]

def load_game(name):
    print("libraries print what they like")
    while name == "stuck":
        signal.pause()
    if name == "gone":
        os._exit(7)
    raise SpielError(name)
"""
"""What OpenSpiel has of what is asked here, with games that do the worst: it has no such game to try."""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyspiel.py").write_text(LIBRARY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    spec = importlib.util.spec_from_file_location("pyspiel", tmp_path / "pyspiel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "pyspiel", module)


@pytest.mark.usefixtures("library")
def test_a_game_that_hangs_is_refused() -> None:
    with Trials(seconds=1) as trials:
        for _ in range(2):
            assert trials.refusal("openspiel:stuck") == "it has not begun within 1 s"


@pytest.mark.usefixtures("library")
def test_a_game_that_ends_its_process_is_refused_and_the_next_one_tried() -> None:
    with Trials() as trials:
        assert trials.refusal("openspiel:gone") == "it has ended the process that tried it, with status 7"
        with pytest.raises(UsageError, match="OpenSpiel cannot load unknown") as refused:
            trials.find("openspiel:unknown")
    assert (refused.value.code, "hanabi(colors=3)" in str(refused.value.hint)) == ("not_wrappable", True)


@pytest.mark.usefixtures("library")
def test_nothing_is_written_of_a_game_that_ends_its_process(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it has ended the process"):
        wrap_game("openspiel:gone", directory=tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
