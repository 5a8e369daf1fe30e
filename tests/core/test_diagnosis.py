"""Diagnoses of players whose truth is known, and what they say first."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.simulated import diagnosis_plan, played, strengths

from coworld_core.episode.record import EpisodeRow, PlayerFault, SlotRow
from coworld_core.episode.seat_behaviour import SeatBehaviour, quantile_seconds, read_behaviour
from coworld_core.evaluation import DiagnosisReport, report_rows
from coworld_core.evaluation.battery import BASELINE, BOT, STRONG, EarlierDiagnosis, EarlierNumber
from coworld_core.evaluation.diagnosis import Diagnosis
from coworld_core.evaluation.estimates import Interval, difference_interval, share_interval
from coworld_core.evaluation.report_base import IntervalRecord

OTHERS: dict[str, Any] = {"baseline": SlotRow(name="Weak"), "strong": SlotRow(name="Strong")}


def reported(plan: Any, of: dict[str, float], *, seat: float = 0.0, noise: float = 1.0, seed: int = 0) -> Any:
    return report_rows(plan, played(plan, strengths(of, noise=noise, seat=seat), seed=seed))


def codes(report: DiagnosisReport) -> list[str]:
    return [finding.code for finding in report.findings]


def test_battery_lineups_are_balanced() -> None:
    evaluation = Diagnosis(diagnosis_plan(("duel", 2), ("alone", 1), **OTHERS))
    whole = (BOT, BOT)
    assert evaluation.lineups(1) == (whole, whole, (BOT, None), (BASELINE, None), (STRONG, None))
    assert evaluation.lineups(2) == ((BOT,), (BOT,), (BASELINE,), (STRONG,))
    # The seat turns, and only the first two blocks of a variant are played twice
    assert evaluation.lineups(3) == (whole, whole, (None, BOT), (None, BASELINE), (None, STRONG))
    assert evaluation.lineups(5) == (whole, (BOT, None), (BASELINE, None), (STRONG, None))
    assert Diagnosis(diagnosis_plan(("duel", 2))).lineups(5) == (whole, (BOT, None))


def test_a_player_between_two_others() -> None:
    plan = diagnosis_plan(("duel", 2), ("table", 4), ("alone", 1), max_blocks=180, **OTHERS)
    report: DiagnosisReport = reported(plan, {BOT: 3.0, BASELINE: 1.0, STRONG: 5.0}, seat=2.0)
    assert [one.blocks for one in report.variants] == [60, 60, 60]
    for one in report.variants:
        for value, truth in ((one.over_baseline, 2.0), (one.over_strong, -2.0), (one.normalised, 0.5)):
            assert value is not None
            assert value.interval is not None
            assert value.interval.low < truth < value.interval.high
        assert (one.repeated, one.other_scores, one.other_replays) == (2, 0, 0)
        assert one.conduct.acted is None
    assert [len(one.slot_effects) for one in report.variants] == [2, 4, 0]
    assert report.variants[0].with_itself is not None
    assert report.variants[2].with_itself is None
    # The seat is odd; nothing is wrong with the player
    assert codes(report) == ["seat_effect", "seat_effect"]
    assert report.findings[0].message.startswith("duel: With itself it scores ")
    assert str(report).startswith("2 things about Player are worth looking at, after 180 blocks. First: duel: ")


def test_the_interval_of_the_normalised_score_holds() -> None:
    held = runs = 0
    for seed in range(60):
        report = reported(diagnosis_plan(max_blocks=12, **OTHERS), {BOT: 2.0, STRONG: 4.0}, seed=seed)
        one = report.variants[0].normalised
        if one is not None and one.interval is not None:
            runs += 1
            held += one.interval.low <= 0.5 <= one.interval.high
    assert runs > 50
    assert held / runs > 0.88


def test_without_a_scale_nothing_is_normalised() -> None:
    report = reported(diagnosis_plan(max_blocks=12, **OTHERS), {BOT: 1.0})
    assert report.variants[0].normalised is None
    assert codes(report) == ["no_scale"]
    assert "Weak and Strong are not told apart in default" in report.findings[0].message


def test_constant_scores_are_reported() -> None:
    battery = diagnosis_plan(("duel", 2), ("table", 4), max_blocks=24, **OTHERS)
    for of, told in (
        ({}, ["constant_scores"]),
        ({BOT: 1.0, BASELINE: 0.0, STRONG: 2.0}, ["same_blocks"]),
    ):
        report: DiagnosisReport = reported(battery, of, noise=0.0)
        assert [remark.code for remark in report.remarks] == told
    # What differs between variants, seats or seeds is no repetition
    assert reported(battery, {BOT: 1.0}, seat=1.0, noise=0.1).remarks == ()


def test_faults_are_ranked_before_lost_points() -> None:
    plan = diagnosis_plan(max_blocks=30, baseline=SlotRow(name="Weak"))
    rows: list[EpisodeRow] = []
    for at, row in enumerate(played(plan, strengths({BASELINE: 9.0}, seat=50.0))):
        conduct = SeatBehaviour(acted=9, idle=1, refused=2, seconds=((0.01, 8), (2.0, 1)))
        changed: dict[str, Any] = {"conduct": (conduct, conduct), "replay_sha256": str(at)}
        if row.key.startswith(("block-0004.1-1", "block-0005.1-2")):
            kind = "player_timeout" if row.key.endswith("1-1") else "player_error"
            slot = 0 if kind == "player_timeout" or row.key.endswith("1-2") else 1
            changed |= {"ok": False, "status": "failed", "scores": (), "party": "player", "fault_slot": slot}
            changed |= {"error_type": kind, "message": "Oh.", "workspace": f"in-{kind}"}
        rows.append(row.model_copy(update=changed))
    report = report_rows(plan, reversed(rows))
    assert isinstance(report, DiagnosisReport)
    order = ["failed", "timed_out", "idle", "refused", "under_baseline", "slow", "not_repeatable", "seat_effect"]
    assert codes(report) == order
    conduct = report.variants[0].conduct
    assert (conduct.episodes, conduct.failed, conduct.timed_out) == (62, 1, 1)
    assert conduct.first_fault in ("in-player_timeout", "in-player_error")
    assert (conduct.median_seconds, conduct.slow_seconds) == (0.01, 2.0)
    assert conduct.idle_share is not None
    assert conduct.idle_share.value == pytest.approx(0.1)
    assert "It let 94 turns pass, 10.00%" in report.findings[2].message
    # In the order in which they are worth looking at
    assert report.contents().notes[: len(order)] == tuple(finding.message for finding in report.findings)
    assert report == report_rows(plan, rows)


def test_absent_player_ends_the_diagnosis_after_three_blocks() -> None:
    plan = diagnosis_plan(max_blocks=30, **OTHERS)
    kind = "player_never_started"
    gone = {"ok": False, "status": "failed", "scores": (), "party": "player", "error_type": kind}
    evaluation = Diagnosis(plan)
    rows: list[EpisodeRow] = []
    for row in played(plan, strengths({})):
        block, lineup = int(row.key[6:10]), int(row.key.rpartition("-")[2])
        seated = evaluation.lineups(block)[lineup - 1]
        own = [slot for slot, label in enumerate(seated) if label == BOT]
        faults = tuple(PlayerFault(slot=slot, error_type=kind, message="Oh.") for slot in own)
        rows.append(row.model_copy(update={**gone, "fault_slot": own[0], "player_faults": faults} if own else {}))
    report = report_rows(plan, rows)
    assert isinstance(report, DiagnosisReport)
    assert (report.stopped, report.blocks, codes(report)[0]) == ("never_started", 0, "never_started")
    assert "It never came in 8 of 8 episodes" in report.findings[0].message
    assert str(report).startswith("Player forfeited 8 episodes. The first:")
    assert "Nothing could be measured. 1 thing about Player is worth looking at" in str(report)
    assert "It never came in 8 of 8 episodes." in str(report)
    assert "Player failed in every episode of the first 3 blocks, so nothing was counted." in report.contents().notes
    assert not any("The game was measured" in note for note in report.contents().notes)


def test_only_significant_changes_are_reported() -> None:
    before = reported(diagnosis_plan(max_blocks=40), {BOT: 1.0})
    earlier = EarlierDiagnosis(
        name="monday",
        player="Player",
        numbers=tuple(
            EarlierNumber(quantity=one.quantity, of=one.of, value=one.value, interval=one.interval)
            for one in before.estimates()
        ),
    )
    plan = diagnosis_plan(max_blocks=40, before=earlier)
    assert reported(plan, {BOT: 1.0}, seed=1).changes == ()
    report: DiagnosisReport = reported(plan, {BOT: 4.0}, seed=1)
    assert {change.quantity for change in report.changes} == {"score alone", "score with itself"}
    for change in report.changes:
        assert change.interval.low < 3.0 < change.interval.high
    assert codes(report) == ["changed"]
    assert report.contents().tables[-1].title == "Changed since monday"


def test_intervals_of_shares_and_of_differences() -> None:
    """Those of 0 of 10 and 5 of 10 are in any textbook."""
    none, half = share_interval(0.0, 10), share_interval(0.5, 10)
    assert none is not None
    assert half is not None
    assert (none.low, none.high) == pytest.approx((0.0, 0.30850), abs=1e-5)
    assert (half.low, half.high) == pytest.approx((0.18709, 0.81291), abs=1e-5)
    assert share_interval(0.0, 0) is None
    # Newcombe (1998), method 10, from Wilson's intervals: 56 of 70 less 48 of 80
    one = Interval(low=0.691834, high=0.876953, method="mover")
    other = Interval(low=0.490455, high=0.700382, method="mover")
    less = difference_interval(56 / 70, one, 48 / 80, other)
    assert (less.low, less.high) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    same = Interval(low=-1.0, high=1.0, method="mover")
    assert difference_interval(0.0, same, 0.0, same).high == pytest.approx(math.sqrt(2))
    assert difference_interval(0.0, same, 0.0, same, among=20).high > 2.0


# --- what games say of turns --------------------------------------------------------------------------------------


EVENTS: list[Any] = [
    {"tick": 0, "kind": "acted", "agent": 0, "seconds": 0.01234},
    {"tick": 1, "kind": "acted", "agent": 0, "seconds": 0.01199},
    {"tick": 1, "kind": "idle", "agent": 1},
    {"tick": 2, "kind": "refused", "agent": 1, "reason": "no"},
    # What others make of the same file
    {"tick": 2, "kind": "goal", "agent": 0},
    {"tick": 2, "kind": "acted", "agent": 7, "seconds": 1},
    {"tick": 2, "kind": "acted", "agent": "0"},
    {"tick": 2, "kind": "acted", "agent": 0, "seconds": "soon"},
    [1],
    None,
]


@pytest.mark.parametrize("lines", [True, False])
def test_turns_as_a_game_tells_them(lines: bool, tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in EVENTS) if lines else json.dumps(EVENTS))
    assert read_behaviour(path, 2) == (
        SeatBehaviour(acted=3, seconds=((0.012, 2),)),
        SeatBehaviour(idle=1, refused=1),
    )


@pytest.mark.parametrize("text", ["", "[", "not json", "{}\n{}", "[1, 2", '"text"', "[" * 100_000, "\x00", "1e999"])
def test_events_that_say_nothing_of_turns(text: str, tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(text)
    assert read_behaviour(path, 2) == ()
    assert read_behaviour(tmp_path / "none", 2) == ()


def test_how_long_turns_take() -> None:
    assert quantile_seconds([], 0.5) is None
    seconds = [(0.02, 49), (0.01, 50), (3.0, 1)]
    assert [quantile_seconds(seconds, share) for share in (0.5, 0.51, 0.99, 1.0)] == [0.01, 0.02, 0.02, 3.0]
    assert quantile_seconds([(1.0, 1)], 0.99) == 1.0


def test_intervals_in_files_know_how_they_were_made() -> None:
    for method in ("wilson", "mover"):
        assert IntervalRecord.model_validate({"low": 0.0, "high": 1.0, "method": method}).method == method
