"""Hints: a text that goes where any text goes, with a code and values that outlast errors, processes and files."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
from typing import Any

import pytest

from coworld_core import EpisodeRecord, Fault, Issue
from coworld_core.documents.records import READING
from coworld_core.episode.events import Notice
from coworld_core.errors import UsageError
from coworld_core.hints import Hint, hint_fields, hint_from

LONGER = Hint("allow_longer", "Pass more than timeout={seconds!r}; {reason}.", seconds=30.0, reason="it takes {long}")
TEXT = "Pass more than timeout=30.0; it takes {long}."
VALUES = {"seconds": 30.0, "reason": "it takes {long}"}


def whole(hint: str | None) -> bool:
    return isinstance(hint, Hint) and (str(hint), hint.code, hint.values) == (TEXT, "allow_longer", VALUES)


def test_a_hint_is_its_text() -> None:
    assert LONGER == TEXT
    assert f"See: {LONGER}" == f"See: {TEXT}"
    assert str(UsageError("Too slow.", hint=LONGER)) == f"Too slow. {TEXT}"
    assert json.dumps({"hint": LONGER}) == json.dumps({"hint": TEXT})


def test_a_hint_without_one_of_its_values_is_not_made() -> None:
    with pytest.raises(KeyError):
        Hint("a", "Pass {this}.")


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_code_and_values_come_along_with_an_error(copied: Any) -> None:
    assert whole(copied(UsageError("Too slow.", hint=LONGER)).hint)


def test_an_error_as_data_has_the_code_and_the_values() -> None:
    data = UsageError("Too slow.", hint=LONGER).to_dict()
    assert data.items() >= {"hint": TEXT, "hint_code": "allow_longer", "hint_values": VALUES}.items()
    assert type(data["hint"]) is str
    assert whole(hint_from(data))
    assert UsageError("No.", hint="Ask.").to_dict().keys() == {"code", "message", "hint", "context"}


def test_a_hint_without_values_has_no_field_for_them() -> None:
    assert hint_fields(Hint("ask", "Ask.")) == {"hint": "Ask.", "hint_code": "ask"}
    assert (hint_fields("Ask."), hint_fields(None)) == ({"hint": "Ask."}, {"hint": None})


@pytest.mark.parametrize("values", [None, [1], "text"])
def test_values_of_another_shape_are_left_out(values: object) -> None:
    hint = hint_from({"hint": "Ask.", "hint_code": "ask", "hint_values": values})
    assert isinstance(hint, Hint)
    assert (hint, hint.values) == ("Ask.", {})
    assert hint_from({"hint_code": "ask"}) is None


@pytest.mark.parametrize(
    "value",
    [
        Issue(code="slow", message="Too slow.", hint=LONGER),
        Notice(level="warning", message="Too slow.", hint=LONGER),
        Fault(party="game", error_type="crash", message="Too slow.", hint=LONGER, time=dt.datetime.now(dt.UTC)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_code_and_values_outlast_a_file(value: Issue | Notice | Fault) -> None:
    assert whole(value.hint)
    text = value.model_dump_json()
    assert json.loads(text).items() >= {"hint": TEXT, "hint_code": "allow_longer", "hint_values": VALUES}.items()
    again = type(value).model_validate_json(text, context=READING)
    assert whole(again.hint)
    assert again == value


def test_a_plain_hint_is_written_as_before() -> None:
    issue = Issue(code="slow", message="Too slow.", hint="Wait.")
    assert "hint_code" not in issue.model_dump_json()
    assert (type(issue.hint), issue.hint) == (str, "Wait.")
    assert "hint_code" in EpisodeRecord.model_json_schema()["$defs"]["Fault"]["properties"]
