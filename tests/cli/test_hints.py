"""Hints of the libraries, in words of the command line: in the terminal and as JSON."""

from __future__ import annotations

import json

import click
import pytest

from coworld_cli import failures
from coworld_cli.hints import with_command_hints, worded
from coworld_cli.output import Output
from coworld_cli.render.issues import render_issue
from coworld_core.errors import BackendUnavailable, UsageError
from coworld_core.hints import Hint
from coworld_core.issues import Issue, Report

BUILD = Hint("build_directory", "Build it first: build_coworld({directory!r}).", directory="my games/duel")
OURS = "Run `coworld build 'my games/duel'` first."


def test_an_error_is_told_in_words_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    failures.report(UsageError("Not built.", hint=BUILD), json=False)
    assert capsys.readouterr().err == f"error: Not built.\n  hint: {OURS}\n"


@pytest.mark.parametrize("lines", [False, True])
def test_json_has_the_words_with_their_code_and_values(lines: bool, capsys: pytest.CaptureFixture[str]) -> None:
    failures.report(UsageError("Not built.", hint=BUILD), json=True, lines=lines)
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["hint"], error["hint_code"]) == (OURS, "build_directory")
    assert error["hint_values"] == {"directory": "my games/duel"}


def test_hints_inside_a_result_are_worded_too(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(source="x", issues=(Issue(code="old", severity="info", message="Old.", hint=BUILD),))
    assert click.unstyle(render_issue("x", report.issues[0])).endswith(f"\n    hint: {OURS}")
    Output(json=True).answer(report)
    assert json.loads(capsys.readouterr().out)["issues"][0]["hint"] == OURS
    Output(json=True).line({"rows": [report.model_dump()]})
    assert json.loads(capsys.readouterr().out)["rows"][0]["issues"][0]["hint"] == OURS


@pytest.mark.parametrize("hint", [None, "Ask.", Hint("of_a_plugin", "Pass it."), Hint("build_directory", "Build it.")])
def test_a_hint_without_words_of_ours_stays_as_it_is(hint: str | None) -> None:
    """Plain ones, those of other packages, and those of a version that gave other values."""
    assert worded(hint) == hint


@pytest.mark.parametrize("data", [{"hint_code": "sign_in"}, {"hint": 3, "hint_code": "sign_in"}, ["hint_code"], None])
def test_other_data_is_left_alone(data: object) -> None:
    assert with_command_hints(data) == data


def test_an_alternative_is_told_after_what_the_engine_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    hint = Hint("or_processes", '{hint} Or pass backend="process", which needs no engine.', hint="Start Docker.")
    failures.report(BackendUnavailable("No engine.", hint=hint), json=False)
    said = "  hint: Start Docker. Or use --backend process, which needs no engine.\n"
    assert capsys.readouterr().err.endswith(said)
