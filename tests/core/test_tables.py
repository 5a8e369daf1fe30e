"""What records look like in a notebook, and the rows that data frames are made of."""

from __future__ import annotations

import datetime as dt
from typing import Any

from coworld_core.episode.outcome import Exit, Fault
from coworld_core.episode.record import BatchSummary, EpisodeRecord, EpisodeRow, ImageRecord, SlotRecord, SlotRow
from coworld_core.tables import html_table

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
HOSTILE = '<img src=x onerror="alert(1)">\n\x1b[2J'
SEAT_KEYS = ["slot", "player", "player_id", "image", "digest", "score"]
FAULT_KEYS = ["error_type", "party", "fault_slot", "message"]


def record(**changes: Any) -> EpisodeRecord:
    fields: dict[str, Any] = {
        "run_id": "r",
        "coworld": "paint",
        "version": "1.0",
        "backend": "process",
        "variant": "quick",
        "started_at": NOW,
        "ended_at": NOW,
        "seconds": 1.5,
        "status": "completed",
        "scores": (1.0, 2.5),
        "slots": (
            SlotRecord(slot=0, name="Ada", image=ImageRecord(image="ada"), exit=Exit(reason="exited", code=0)),
            SlotRecord(slot=1, name=HOSTILE, player_id="bob", image=ImageRecord(image="bob", digest="sha256:1")),
        ),
    }
    return EpisodeRecord(**(fields | changes))


def row(index: int, **changes: Any) -> EpisodeRow:
    fields: dict[str, Any] = {"index": index, "run_id": f"r{index}", "workspace": f"e{index}", "seconds": 1.0}
    fields |= {"status": "completed", "ok": True, "scores": (1.0, 2.5)}
    fields["slots"] = (SlotRow(name="Ada", image="ada"), SlotRow(name=HOSTILE, player_id="bob", image="bob"))
    return EpisodeRow(**(fields | changes))


def summary(*rows: EpisodeRow) -> BatchSummary:
    return BatchSummary(
        coworld="paint",
        version="1.0",
        backend="process",
        variant="quick",
        status="failed",
        planned=3,
        completed=2,
        faulted=1,
        seconds=4.0,
        mean_scores=(1.0, 2.5),
        episodes=rows,
    )


FAULT = Fault(party="player", slot=1, error_type="player_error", message=HOSTILE, time=NOW)


def test_an_episode_in_a_line() -> None:
    assert str(record()) == "paint 'quick': completed [1, 2.5]"
    assert repr(record(scores=())) == "<EpisodeRecord paint 'quick': completed []>"
    blamed = str(record(coworld=HOSTILE, faults=(FAULT,)))
    assert "player_error" in blamed
    assert blamed.isprintable(), "nothing steers the terminal"


def test_several_episodes_are_counted_indexed_and_gone_through() -> None:
    several = summary(row(1), row(2), row(3))
    assert str(several) == "paint 'quick': failed, 2 of 3 episodes, 1 with faults [1, 2.5]"
    assert len(several) == 3
    assert several[-1].index == 3
    assert [episode.index for episode in several[:2]] == [1, 2]
    assert [episode.index for episode in several] == [1, 2, 3]
    assert summary(), "a summary of no episode is there all the same"


def test_rows_of_an_episode() -> None:
    first, second = record(faults=(FAULT,)).to_records()
    keys = ["coworld", "version", "backend", "run_id", "variant", "seed", "status", "ok", "seconds"]
    assert list(first) == list(second) == keys + FAULT_KEYS + SEAT_KEYS
    assert [second[key] for key in SEAT_KEYS] == [1, HOSTILE, "bob", "bob", "sha256:1", 2.5]
    assert [first[key] for key in FAULT_KEYS] == ["player_error", "player", 1, HOSTILE]
    assert [record().to_records()[0][key] for key in FAULT_KEYS] == [None] * 4
    (nobody,) = record(slots=(), scores=()).to_records()
    assert list(nobody) == list(first)
    assert {nobody[key] for key in SEAT_KEYS} == {None}


def test_rows_of_several_episodes() -> None:
    failed = row(
        3, status="failed", ok=False, scores=(), slots=(), error_type="player_error", party="player", fault_slot=1
    )
    rows = summary(row(1), row(2, slots=()), failed).to_records()
    assert [(found["index"], found["slot"], found["score"]) for found in rows] == [
        (1, 0, 1.0),
        (1, 1, 2.5),
        (2, 0, 1.0),
        (2, 1, 2.5),
        (3, None, None),
    ]
    assert {*map(tuple, rows)} == {("coworld", "version", "backend", *row(1).to_records()[0])}
    assert set(record().to_records()[0]) < set(rows[0]), "one and several fit into one table"
    assert (rows[-1]["party"], rows[-1]["fault_slot"]) == ("player", 1)


def test_pages_are_inert() -> None:
    failed = row(2, status="failed", ok=False, message=HOSTILE)
    for page in (
        record(coworld=HOSTILE, faults=(FAULT,), warnings=(HOSTILE,))._repr_html_(),  # pyright: ignore[reportPrivateUsage]
        summary(row(1), failed)._repr_html_(),  # pyright: ignore[reportPrivateUsage]
    ):
        assert "<img" not in page
        assert "&lt;img" in page
        assert "\x1b" not in page


def test_a_notebook_shows_what_was_played() -> None:
    assert record(seed=7).about[1] == "seed 7"
    assert "seed" not in " ".join(record(seed=None).about)
    assert " · ".join(record(seed=7).about) in record(seed=7)._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_a_long_table_is_cut_and_an_empty_one_is_its_caption() -> None:
    page = html_table("Many", [{"n": number, "x": 0.5, "none": None} for number in range(102)])
    assert page.count("<tr>") == 101
    assert "2 more are not shown." in page
    assert html_table("None", []) == "<table><caption>None</caption></table>"
