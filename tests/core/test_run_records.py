"""Labels of runs, what a search asks for, and turns from a replay."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from coworld_core.errors import RecordError, UsageError
from coworld_core.records.episode_store import fits_episode, samples_of, with_labels
from coworld_core.records.labels import (
    LABELS_NAME,
    RunLabels,
    check_changes,
    check_labels,
    label_changes,
    label_patterns,
    matches_labels,
    matches_pattern,
    read_labels,
)
from coworld_core.records.run_entries import SeatEntry, StoredEpisode, StoredEpisodes
from coworld_core.records.run_filter import RunFilter, read_moment
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


@pytest.mark.parametrize(
    ("pattern", "fit", "unfit"),
    [
        ("a", "a", "ab"),
        ("a*", "a", "ba"),
        ("?", "ü", ""),
        ("[!a]x", "bx", "ax"),
        ("[^a]x", "bx", "ax"),
        ("[a-c]1", "b1", "d1"),
        ("[]]", "]", "["),
        ("[", "[", "x"),
        ("a.b", "a.b", "axb"),
        ("[\\d]", "\\", "1"),
        ("a-z", "a-z", "b"),
        ("*", "", None),
        ("[z-a]", None, "m"),
    ],
)
def test_patterns(pattern: str, fit: str | None, unfit: str | None) -> None:
    assert fit is None or matches_pattern(fit, pattern)
    assert unfit is None or not matches_pattern(unfit, pattern)


def test_what_a_search_asks_of_labels() -> None:
    asked = label_patterns(["exp=a*", "why", "eq=a=b"])
    assert asked == {"exp": "a*", "why": "*", "eq": "a=b"}
    assert matches_labels({"exp": "ab", "why": "x", "eq": "a=b", "more": "y"}, asked)
    assert not matches_labels({"exp": "ab", "eq": "a=b"}, asked)
    for wrong in (["a b=1"], ["=1"], ["exp=a", "exp=b"]):
        with pytest.raises(UsageError) as caught:
            label_patterns(wrong)
        assert caught.value.code == "bad_label"
    with pytest.raises(UsageError, match="No label is given"):
        check_changes({})


def stored(**values: Any) -> StoredEpisode:
    seats = (
        SeatEntry(slot=0, name="counter", player_id="ply_1", image="counter:v1", digest="sha256:abc", score=1.0),
        SeatEntry(slot=1, name="rival", player_id=None, image="", digest="", score=None),
    )
    told: dict[str, Any] = {
        "id": "ereq_1",
        "coworld": "nim",
        "version": "1",
        "variant": "small-2",
        "seed": None,
        "status": "completed",
        "ok": True,
        "started_at": dt.datetime(2026, 11, 26, 12, tzinfo=dt.UTC),
        "seconds": None,
        "error_type": None,
        "party": None,
        "fault_slot": None,
        "message": None,
        "seats": seats,
        "labels": {"exp": "a"},
    }
    return StoredEpisode(**{**told, **values})


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({}, True),
        ({"game": "n*", "variant": "small-*", "labels": {"exp": "?"}}, True),
        ({"player": "counter", "min_score": 1, "max_score": 1, "digest": "ab"}, True),
        ({"player": "ply_1"}, True),
        # The score is one of that player's, and what is not known is no score
        ({"player": "rival", "min_score": 0}, False),
        ({"player": "rival", "max_score": 9}, False),
        ({"digest": "sha256:b"}, False),
        ({"fault": "*"}, False),
        ({"labels": {"exp": "b"}}, False),
        ({"since": dt.datetime(2026, 11, 26, 12, tzinfo=dt.UTC)}, True),
        ({"until": dt.datetime(2026, 11, 26, 12, tzinfo=dt.UTC)}, False),
    ],
)
def test_an_episode_is_what_is_asked_for(asked: dict[str, Any], fits: bool) -> None:
    assert fits_episode(stored(), RunFilter(**asked)) is fits


def test_faults_are_found_by_type_and_party_and_what_has_no_time_is_at_none() -> None:
    failed = stored(error_type="player_error", party="player", started_at=None)
    assert all(fits_episode(failed, RunFilter(fault=word)) for word in ("*", "player", "player_*"))
    assert not fits_episode(failed, RunFilter(since=dt.datetime(2000, 1, 1, tzinfo=dt.UTC)))
    assert with_labels(RunFilter(game="nim", labels={"a": "1"}), {"b": "2"}).labels == {"a": "1", "b": "2"}
    assert with_labels(None, None) == RunFilter()


def test_stored_episodes_are_a_table_with_a_row_for_each_seat() -> None:
    rows = StoredEpisodes(episodes=(stored(),)).to_records()
    assert [(row["id"], row["name"], row["score"], row["labels"]) for row in rows] == [
        ("ereq_1", "counter", 1.0, "exp=a"),
        ("ereq_1", "rival", None, "exp=a"),
    ]


def test_the_replay_of_another_game_has_no_samples() -> None:
    for replay in (b"{}", b"quick replay", b""):
        with pytest.raises(UsageError) as caught:
            list(samples_of(replay, episode="ereq_1"))
        assert (caught.value.code, "ereq_1" in caught.value.message) == ("no_samples", True)
