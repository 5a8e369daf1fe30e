"""Codes of errors that decide whose doing something was, and errors that task groups wrap."""

from __future__ import annotations

import pickle
import traceback
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from coworld_core.commissioner.messages import read_commissioner_message
from coworld_core.errors import (
    TRANSFER_CODES,
    CommissionerError,
    TransferCode,
    TransferError,
    TransferParty,
    UsageError,
    first_mistake,
    unwrapped,
)
from coworld_core.rules import RulesError


def test_every_code_of_a_transfer_has_a_party() -> None:
    assert set(TRANSFER_CODES) == set(get_args(TransferCode))
    assert set(TRANSFER_CODES.values()) == set(get_args(TransferParty))


@pytest.mark.parametrize(
    ("code", "party"),
    [
        (None, "writer"),
        ("not_regular", "writer"),
        ("file_too_large", "writer"),
        ("file_name", "caller"),
        ("disk_full", "platform"),
        ("not_writable", "platform"),
        ("transfer_lost", "platform"),
    ],
)
def test_transfer_error_party(code: TransferCode | None, party: TransferParty) -> None:
    assert TransferError("No.", code=code).party == party


def test_one_error_is_raised_as_itself_and_several_of_ours_as_the_first() -> None:
    cause = KeyError("the reason")
    first, second = UsageError("One."), UsageError("Two.")
    first.__cause__ = cause
    with pytest.raises(UsageError, match="One") as caught, unwrapped():
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [first]), second])
    assert caught.value.__cause__ is cause
    assert caught.value.__notes__ == ["also: Two."]
    with pytest.raises(OSError, match="alone"), unwrapped():
        raise ExceptionGroup("group", [OSError("alone")])
    with pytest.raises(ExceptionGroup), unwrapped():
        raise ExceptionGroup("group", [first, OSError("not ours")])


def test_a_traceback_says_what_to_do_next() -> None:
    error = UsageError("There is no backend 'dokcer'.", hint="Did you mean 'docker'?")
    shown = "".join(traceback.format_exception_only(error)).strip()
    assert shown.endswith("UsageError: There is no backend 'dokcer'. Did you mean 'docker'?")
    assert (error.message, str(UsageError("No."))) == ("There is no backend 'dokcer'.", "No.")


def test_an_error_comes_whole_from_another_process() -> None:
    try:
        raise UsageError("No.", hint="Ask again.")
    except UsageError as cause:
        error = RulesError.raised(cause, where="step", tick=3, seat=1)
    there = pickle.loads(pickle.dumps(error))
    assert (there.message, there.where, there.tick, there.seat, there.lines) == (
        *(error.message, "step", 3, 1),
        error.lines,
    )


def test_very_many_errors_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Describing them takes minutes, and pydantic describes all or none."""
    adapter = TypeAdapter(list[int])

    def mistake(count: int) -> tuple[str, str]:
        with pytest.raises(ValidationError) as raised:
            adapter.validate_python(["x"] * count)
        described: list[int] = []

        class Counted:
            def error_count(self) -> int:
                return raised.value.error_count()

            def errors(self, **options: bool) -> Any:
                described.append(1)
                return raised.value.errors(**options)

        place = first_mistake(Counted())
        assert len(described) == (count <= 1000)
        return place

    assert mistake(1000)[0] == "0"
    assert mistake(1001) == ("", "1001 values are not valid")


def test_only_the_first_wrong_element_of_a_commissioners_list_counts() -> None:
    text = '{"type": "schedule_episodes", "episodes": [' + "{}," * 5000 + "{}]}"
    with pytest.raises(CommissionerError, match=r"episodes\.0\."):
        read_commissioner_message(text)
