"""Labels of runs, what a search asks for, and turns from a replay."""

from __future__ import annotations

import datetime as dt

import pytest

from coworld_core.errors import RecordError, UsageError
from coworld_core.records.labels import LABELS_NAME, RunLabels, check_labels, label_changes, read_labels
from coworld_core.records.run_filter import read_moment
from coworld_core.records.turn_rows import turn_rows
from coworld_core.rules.play import Frame
from coworld_core.rules.replay import ReplayHeader, ReplayWriter
from coworld_core.rules.rules_errors import ReplayFormatError

HEADER = ReplayHeader(rules="Game", version="1", config={}, seed=1, seats=2, names=["ada", "bob"])


@pytest.mark.parametrize(
    "labels",
    [{"": "a"}, {"a b": "c"}, {"-a": "b"}, {"a": ""}, {"a": " b"}, {"a": "b\n"}, {"a" * 64: "b"}, {"a": "b" * 201}],
)
def test_labels_that_are_none_are_refused_with_the_rule(labels: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE") as caught:
        check_labels(labels)
    assert caught.value.code == "bad_label"


def test_changes_of_labels() -> None:
    assert label_changes(["exp=a=b", "team/x.y="]) == {"exp": "a=b", "team/x.y": None}
    for wrong in (["exp"], ["exp=a", "exp=b"], ["=a"]):
        with pytest.raises(UsageError, match=r"label") as caught:
            label_changes(wrong)
        assert caught.value.code == "bad_label"


def test_a_change_goes_before_what_a_run_began_with_and_can_take_it_away(tmp_path) -> None:
    labels = RunLabels().changed({"exp": "b", "gone": None}).changed({"exp": None, "own": "1"}, episode="k")
    (tmp_path / LABELS_NAME).write_text(labels.model_dump_json())
    read = read_labels(tmp_path)
    assert read.of({"exp": "a", "gone": "x", "kept": "y"}) == {"exp": "b", "kept": "y"}
    assert read.of({"exp": "a", "gone": "x"}, episode="k") == {"own": "1"}
    assert read_labels(tmp_path / "elsewhere").of({"exp": "a"}) == {"exp": "a"}
    (tmp_path / LABELS_NAME).write_text('{"labels": {"exp": 3}}')
    with pytest.raises(RecordError):
        read_labels(tmp_path)


def test_moments() -> None:
    now = dt.datetime(2026, 11, 26, 12, tzinfo=dt.UTC)
    assert read_moment("36h", now=now) == dt.datetime(2026, 11, 25, tzinfo=dt.UTC)
    assert read_moment("2026-11-26T10:00:00+02:00") == dt.datetime(2026, 11, 26, 8, tzinfo=dt.UTC)
    for wrong in ("", "yesterday", "3", "1e99d", "xh"):
        with pytest.raises(UsageError, match="is no time"):
            read_moment(wrong)


def replay(*, live: bool = True, over: bool = True) -> bytes:
    """Two seats act in turn, three times in all; the second misses its turn."""
    writer = ReplayWriter(HEADER)
    for tick, scores in enumerate([(0.0, 0.0), (1.0, 0.0), (1.0, 5.0), (4.0, 5.0)]):
        to_act = (tick % 2,) if tick < 3 else ()
        frame = Frame(tick=tick, to_act=to_act, drawing="", scores=scores if live else None)
        actions = {0: None, 1: {0: {"take": 1}}, 2: {1: None}, 3: {0: {"take": 2}}}[tick]
        writer.add(frame, actions, by={0: "human"} if tick == 3 else None)
    return writer.finish(reason="over" if over else None, results={"scores": [4, 6]})  # pyright: ignore[reportArgumentType]


def test_a_turn_has_what_was_gained_until_the_seat_acts_again_or_the_game_is_over() -> None:
    first, second, third = sorted(turn_rows(replay()), key=lambda row: row.tick)
    assert first == (0, 0, "ada", '{"take":1}', None, 1.0, 1.0, False)
    assert second == (1, 1, "bob", None, None, 6.0, 6.0, True)
    assert third == (2, 0, "ada", '{"take":2}', "human", 4.0, 3.0, True)


def test_what_is_not_known_of_a_turn_is_none_and_never_0() -> None:
    rows = sorted(turn_rows(replay(live=False)), key=lambda row: row.tick)
    assert [(row.score, row.reward, row.done) for row in rows] == [
        (None, None, False),
        (6.0, 6.0, True),
        (4.0, 4.0, True),
    ]
    cut = sorted(turn_rows(replay(live=False, over=False)), key=lambda row: row.tick)
    assert [(row.score, row.reward, row.done) for row in cut] == [(None, None, False)] * 3


@pytest.mark.parametrize("data", [b"", b"{}", b"PK\x03\x04", b'{"format": "other/1"}\n'])
def test_another_format_is_no_replay(data: bytes) -> None:
    with pytest.raises(ReplayFormatError) as caught:
        list(turn_rows(data))
    assert caught.value.code == "replay_invalid"
