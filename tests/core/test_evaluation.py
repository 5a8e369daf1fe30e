"""Designs, judgement, estimates, verdicts and ratings: by simulation where the truth is a probability."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import statistics
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.full import FULL
from support.simulated import DIFFERENCES, comparison_plan, episode_row, pair_rows, ranking_plan, strength_blocks

from coworld_cli.options.values import RATINGS
from coworld_core.episode.model_use import ModelUse
from coworld_core.episode.outcome import Fault
from coworld_core.episode.record import EpisodeRow, PlayerFault, SlotRow
from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.evaluation import ratings
from coworld_core.evaluation.beta import beta_below, beta_quantile
from coworld_core.evaluation.betting import MeanTest
from coworld_core.evaluation.block_ledger import BlockLedger, JudgedBlock
from coworld_core.evaluation.comparison import Comparison, ComparisonReport, compare_rows
from coworld_core.evaluation.designs import (
    block_seed,
    comparison_lineups,
    episode_key,
    parse_key,
    rotation,
    round_robin,
)
from coworld_core.evaluation.elo import EloTest, share_of
from coworld_core.evaluation.estimates import (
    Sample,
    Scale,
    least_wins,
    mean_interval,
    running_interval,
    sign_evidence,
    student_quantile,
)
from coworld_core.evaluation.evaluation_files import measure_row, require_same_plan
from coworld_core.evaluation.lost_blocks import FirstDifference, LineOfPlay, LossNote, LossNotes
from coworld_core.evaluation.markdown import report_markdown
from coworld_core.evaluation.needed_episodes import NeededEpisodes
from coworld_core.evaluation.power import forecast
from coworld_core.evaluation.ranking import Ranking, RankingReport, least_ranking_blocks, not_apart
from coworld_core.evaluation.ratings import RatingName, pairings, rate
from coworld_runner.evaluation.evaluation_rules import EvaluationRules

# --- designs ------------------------------------------------------------------------------------------------------


def test_two_seats_are_swapped_and_more_replaced() -> None:
    assert comparison_lineups("a", "b", 2, 7) == (("a", "b"), ("b", "a"))
    assert comparison_lineups("a", "b", 1, 7) == (("a",), ("b",))
    assert comparison_lineups("a", "b", 2, 2, opponent="c") == (("c", "a"), ("c", "b"))
    assert comparison_lineups("a", "b", 3, 1, opponent="c") == (("a", "c", "c"), ("b", "c", "c"))
    seats = [comparison_lineups("a", "b", 3, block) for block in (1, 2, 3, 4)]
    assert seats[1] == ((None, "a", None), (None, "b", None))
    assert [lineup.index("a") for lineup, _ in seats] == [0, 1, 2, 0]


@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 2**63))
def test_a_round_robin_is_balanced(seats: int, entrants: int, seed: int) -> None:
    labels = [str(number) for number in range(entrants)]
    groups = math.comb(entrants, seats) if 1 < seats < entrants else entrants if seats > 1 else 1
    played = [lineup for block in range(1, groups + 1) for lineup in round_robin(labels, seats, block, seed=seed)]
    sat = Counter((label, slot) for lineup in played for slot, label in enumerate(lineup))
    assert set(sat) == {(label, slot) for label in labels for slot in range(seats)}
    assert len(set(sat.values())) == 1
    again = [lineup for block in range(1, groups + 1) for lineup in round_robin(labels, seats, block, seed=seed)]
    assert played == again


def test_everybody_sits_everywhere_once_in_a_rotation() -> None:
    assert rotation("abc") == (("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b"))


@given(st.integers(), st.integers(-5, 10**9), st.integers(-100, 100), st.integers(0, 2**64))
def test_seeds_fit_and_hold(base: int, block: int, least: int, span: int) -> None:
    seed = block_seed(base, block, least=least, most=least + span)
    assert least <= seed <= least + span
    assert seed - least < 2**63
    assert seed == block_seed(base, block, least=least, most=least + span)


def test_seeds_stay_what_they_were() -> None:
    """Runs of years ago are repeated with them."""
    assert [block_seed(0, block) for block in (1, 2)] == [8003828004978139229, 1380540049871534315]
    assert len({block_seed(base, block) for base in range(30) for block in range(30)}) == 900


def test_keys_are_read_as_they_are_written() -> None:
    assert parse_key(episode_key(7, 1, 2)) == (7, 1, 2)
    assert parse_key(episode_key(123456, 12, 10)) == (123456, 12, 10)
    assert parse_key("episode-0001") is None


# --- judgement ----------------------------------------------------------------------------------------------------


class Ledger(BlockLedger):
    """A ledger of two players that keeps its blocks."""

    def __init__(self, seats: int = 2, **options: Any) -> None:
        super().__init__(lambda block: comparison_lineups("a", "b", seats, block), **options)
        self.blocks: list[JudgedBlock] = []

    def add(self, row: EpisodeRow) -> list[JudgedBlock]:
        judged = super().add(row)
        self.blocks += judged
        assert self.judged == len(self.blocks)
        return judged


def spoilt(key: str, party: str, error_type: str = "crash", *scores: float, slot: int | None = None) -> EpisodeRow:
    return episode_row(key, *scores, ok=False, party=party, error_type=error_type, fault_slot=slot, message="It broke.")


def test_blocks_are_judged_in_their_own_order() -> None:
    book = Ledger()
    assert book.missing(2) == [("block-0002.1-1", ("a", "b")), ("block-0002.1-2", ("b", "a"))]
    for row in pair_rows(2, 1.0):
        assert book.add(row) == []
    first, second = pair_rows(1, 3.0, seat=2.0)
    assert book.add(second) == []
    assert book.missing(1) == [("block-0001.1-1", ("a", "b"))]
    assert [block.scores for block in book.add(first)] == [{"a": 14.0, "b": 11.0}, {"a": 11.0, "b": 10.0}]
    assert book.blocks[0].by_seat == (13.5, 11.5)
    assert book.missing(1) == book.missing(2) == []


@pytest.mark.parametrize("party", ["platform", "operator", "something new", "starved"])
def test_spoiled_blocks_are_replayed_then_left_out(party: str) -> None:
    book = Ledger()
    for attempt in (1, 2, 3):
        good, bad = pair_rows(1, 1.0, attempt=attempt)
        assert [key for key, _ in book.missing(1)] == [good.key, bad.key]
        book.add(good)
        starved = party == "starved"
        book.add(bad.model_copy(update={"starved": True}) if starved else spoilt(bad.key, party))
    (block,) = book.blocks
    assert (block.fate, block.attempts, block.scores) == ("spoiled", 3, {})
    assert block.reason == ("The machine was short of processors." if party == "starved" else "It broke.")


def test_an_attempt_that_goes_well_counts_whole() -> None:
    book = Ledger()
    for row in pair_rows(1, 100.0)[:1]:
        book.add(row)
    book.add(spoilt("block-0001.1-2", "platform"))
    for row in pair_rows(1, 1.0, attempt=2):
        book.add(row)
    assert (book.blocks[0].scores, book.blocks[0].attempts) == ({"a": 11.0, "b": 10.0}, 2)


def test_starved_episodes_count_where_time_does_not_matter() -> None:
    book = Ledger(starved=True)
    for row in pair_rows(1, 1.0):
        book.add(row.model_copy(update={"starved": True}))
    assert book.blocks[0].fate == "counted"


def test_the_game_voids_a_block() -> None:
    book = Ledger()
    book.add(pair_rows(1, 1.0)[0])
    book.add(spoilt("block-0001.1-2", "game", "game_contract_violation", 1.0, 2.0))
    assert (book.blocks[0].fate, book.blocks[0].reason) == ("void", "It broke.")


@pytest.mark.parametrize("results", [(), (12.0, 3.0)])
@pytest.mark.parametrize(
    ("limits", "low", "high"),
    [
        ({}, "seen", 14.0),
        ({"forfeit": -5.0}, -5.0, 14.0),
        ({"lowest": 0.0, "highest": 100.0}, 0.0, 100.0),
        ({"forfeit": -5.0, "lowest": 0.0}, -5.0, 14.0),
    ],
)
def test_failing_player_forfeits_despite_results(
    results: tuple[float, ...], limits: Any, low: float | str, high: float
) -> None:
    book = Ledger(**limits)
    for row in pair_rows(1, 4.0):
        book.add(row)
    # B sits in seat 0 of the second lineup
    book.add(pair_rows(2, 4.0)[0])
    book.add(spoilt("block-0002.1-2", "player", "player_error", *results, slot=0))
    block = book.blocks[1]
    lowest = low if isinstance(low, float) else min((10.0, *results))
    assert block.tables[1] == (lowest, high)
    assert block.scores == {"a": (14 + high) / 2, "b": (10 + lowest) / 2}
    assert (dict(block.forfeits), block.by_seat, block.forfeited) == ({"b": 1}, (), (False, True))
    assert block.first_forfeits["b"] == ("block-0002.1-2", "player_error", "It broke.", "", "")


def test_first_forfeit_says_how_the_log_ends() -> None:
    comparison = Comparison(comparison_plan(max_blocks=3))
    tail = "Traceback:\n  line 3\nValueError: no\n\n"
    fault = Fault(
        party="player",
        slot=0,
        error_type="player_error",
        message="It exited.",
        time=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        log="logs/policy_agent_0.log",
        log_tail=tail,
    )
    for row in pair_rows(1, 1.0):
        comparison.add(row)
    lost = spoilt("block-0002.1-1", "player", "player_error", slot=0)
    comparison.add(lost.model_copy(update={"player_faults": (PlayerFault.of(fault, slot=0, connected=True),)}))
    comparison.add(pair_rows(2, 1.0)[1])
    report = comparison.report()
    (note,) = [remark.message for remark in report.remarks if remark.code == "forfeits"]
    assert note.endswith(
        "The first: It exited. [player_error] Its log ends: ValueError: no (block-0002.1-1/logs/policy_agent_0.log)"
    )
    assert "ValueError" not in report.headline


@pytest.mark.parametrize("seats", [2, 3])
def test_forfeiting_player_cannot_win_the_block(seats: int) -> None:
    """However much it won the others by."""
    book = Ledger(seats)
    if seats == 2:
        book.add(episode_row("block-0001.1-1", 100.0, 0.0))
        book.add(spoilt("block-0001.1-2", "player", "player_error", slot=1))
    else:
        book.add(spoilt("block-0001.1-1", "player", "player_error", 100.0, 0.0, 0.0, slot=0))
        book.add(episode_row("block-0001.1-2", 0.0, 0.0, 0.0))
    assert book.blocks[0].scores["a"] <= book.blocks[0].scores["b"]
    many = BlockLedger(lambda _: rotation("abcd"))
    for number in (1, 2, 3):
        lineup = rotation("abcd")[number - 1]
        many.add(episode_row(f"block-0001.1-{number}", *(50.0 if label == "a" else 1.0 for label in lineup)))
    (block,) = many.add(spoilt("block-0001.1-4", "player", "player_timeout", slot=1))
    assert block.scores == {"a": 53 / 4, "b": 53 / 4, "c": 53 / 4, "d": 53 / 4}


def test_a_block_in_which_both_forfeit_is_drawn() -> None:
    book = Ledger()
    book.add(spoilt("block-0001.1-1", "player", "player_error", 9.0, 1.0, slot=0))
    # B sits in seat 0 here, and both are at fault
    both = tuple(PlayerFault(slot=slot, error_type="player_left_early", message="It left.") for slot in (0, 1))
    book.add(spoilt("block-0001.1-2", "player", "player_left_early", slot=0).model_copy(update={"player_faults": both}))
    block = book.blocks[0]
    assert dict(block.forfeits) == {"a": 2, "b": 1}
    assert block.tables == ((1.0, 9.0), (1.0, 1.0))
    assert block.scores["a"] == block.scores["b"]


def test_a_player_that_never_connected_has_not_played_until_it_does() -> None:
    book = Ledger(lowest=0.0, highest=1.0)

    def away(block: int, lineup: int, *scores: float) -> None:
        key, slot = episode_key(block, 1, lineup), lineup - 1
        fault = PlayerFault(slot=slot, error_type="player_error", message="It exited.", connected=False)
        book.add(
            spoilt(key, "player", "player_error", *scores, slot=slot).model_copy(update={"player_faults": (fault,)})
        )

    away(1, 1)
    away(1, 2, 0.0, 1.0)
    assert (book.blocks[0].fate, book.blocks[0].unplayed) == ("unplayed", {"a"})
    # It was there in one of two episodes, so it lost the other
    away(2, 1)
    book.add(episode_row("block-0002.1-2", 0.0, 1.0))
    assert (book.blocks[1].fate, book.blocks[1].scores) == ("counted", {"a": 0.5, "b": 0.5})
    away(3, 1)
    away(3, 2)
    assert (book.blocks[2].fate, book.blocks[2].scores) == ("counted", {"a": 0.0, "b": 1.0})


def test_self_inflicted_starvation_does_not_repeat_a_block() -> None:
    book = Ledger()
    for row in pair_rows(1, 1.0):
        book.add(row.model_copy(update={"starved": True, "starved_by": (1,)}))
    assert (book.blocks[0].fate, book.blocks[0].attempts) == ("counted", 1)


def test_unmeasured_player_forfeits_nothing() -> None:
    book = Ledger(3)
    book.add(episode_row("block-0001.1-1", 1.0, 2.0, 3.0))
    book.add(spoilt("block-0001.1-2", "player", "player_error", slot=2))
    assert (book.blocks[0].fate, dict(book.blocks[0].forfeits)) == ("void", {})


# --- estimates ----------------------------------------------------------------------------------------------------


def test_quantiles_of_student() -> None:
    known = {1: 12.7062, 2: 4.30265, 5: 2.57058, 6: 2.44691, 19: 2.09302, 1000: 1.96234}
    assert {freedom: student_quantile(0.975, freedom) for freedom in known} == pytest.approx(known, rel=1e-5)


@pytest.mark.parametrize(("blocks", "method", "runs"), [(12, "student-t", 1500), (40, "bootstrap", 150)])
def test_intervals_cover(blocks: int, method: str, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coworld_core.evaluation.estimates._DRAWS", 1000)
    chance, missed = random.Random(1), 0
    for _ in range(runs):
        interval = mean_interval([chance.gauss(3, 2) for _ in range(blocks)])
        assert interval is not None
        assert interval.method == method
        missed += interval.excludes(3)
    assert 0.02 < missed / runs < 0.09


UNIT = Scale(low=0.0, high=1.0, certain=True)
BOUNDED: dict[str, tuple[Callable[[random.Random], float], float]] = {
    "0.9": (lambda chance: float(chance.random() < 0.9), 0.9),
    "0.5": (lambda chance: float(chance.random() < 0.5), 0.5),
    "thirds": (lambda chance: chance.choice((0.0, 0.5, 0.5, 1.0)), 0.5),
    "nearly always drawn": (lambda chance: 0.5 if chance.random() < 0.9 else 1.0, 0.55),
    "rarely lost": (lambda chance: float(chance.random() > 0.03), 0.97),
}
"""Numbers between 0 and 1, and their means."""


@pytest.mark.parametrize("shape", BOUNDED)
def test_bounded_intervals_cover_with_few_blocks(shape: str) -> None:
    draw, mean = BOUNDED[shape]
    runs = 2_000 if FULL else 60
    for blocks in (2, 5, 10, 20, *((200,) if FULL else ())):
        chance, missed = random.Random(blocks), 0
        for _ in range(runs):
            interval = mean_interval([draw(chance) for _ in range(blocks)], scale=UNIT)
            assert interval is not None
            assert interval.low < interval.high
            missed += interval.excludes(mean)
        assert missed <= (0.06 if FULL else 0.1) * runs


@pytest.mark.parametrize("shape", BOUNDED)
def test_bounded_intervals_hold_at_every_look(shape: str) -> None:
    """A test of a mean says at every block what the interval says of it, and rarely refutes the true one."""
    draw, mean = BOUNDED[shape]
    chance, refuted, runs = random.Random(4), 0, 2_000 if FULL else 60
    for run in range(runs):
        values = [draw(chance) for _ in range(200 if FULL else 60)]
        tests = [MeanTest(candidate, alpha=0.05) for candidate in (mean, mean - 0.3, mean + 0.02)]
        for value in values:
            for test in tests:
                test.take(value)
        refuted += tests[0].larger or tests[0].smaller
        if run < 5:
            interval = running_interval(values, scale=UNIT)
            assert interval is not None
            for candidate, test in zip((mean, mean - 0.3, mean + 0.02), tests, strict=True):
                assert (test.larger, test.smaller) == (interval.low > candidate, interval.high < candidate)
    assert refuted <= 0.05 * runs


def test_blocks_that_all_agree_are_no_certainty() -> None:
    known = mean_interval([1.0] * 5, scale=UNIT)
    assert known is not None
    assert (known.low, known.high, known.method) == (pytest.approx(0.025 ** (1 / 5)), 1.0, "clopper-pearson")
    seen = Scale(low=0.0, high=4.0, certain=False)
    assert mean_interval([1.0] * 9, scale=seen) is None
    assert mean_interval([1.0] * 40) is None
    for interval in (mean_interval([1.0] * 40, scale=seen), running_interval([1.0] * 40, scale=seen)):
        assert interval is not None
        assert 0.1 < interval.high - interval.low < 2.0
    with_noise = mean_interval([0.1 + 0.2, 0.3] * 20)
    assert with_noise is None


def test_the_scale_of_scores_is_what_is_allowed_unless_that_is_far_from_what_is_seen() -> None:
    assert Scale.of((0.0, 1.0), None) == Scale.of((0.0, 1.0), (1.0, 1.0)) == UNIT
    assert Scale.of((0.0, 1e9), (20.0, 60.0)) == Scale(low=20.0, high=60.0, certain=False)
    assert Scale.of((0.0, None), (1.0, 2.0)) == Scale(low=1.0, high=2.0, certain=False)
    assert Scale.of((None, None), None) is None
    assert UNIT.differences() == Scale(low=-1.0, high=1.0, certain=True)


@given(st.floats(0.01, 0.99), st.floats(0.5, 300), st.floats(0.5, 300))
def test_quantiles_of_the_beta_distribution_are_where_it_says(share: float, a: float, b: float) -> None:
    assert beta_below(beta_quantile(share, a, b), a, b) == pytest.approx(share, abs=1e-9)


def test_the_beta_distribution_of_whole_numbers_is_a_sum() -> None:
    for a, b in ((1, 1), (3, 8), (20, 5)):
        for value in (0.1, 0.5, 0.83):
            summed = sum(math.comb(a + b - 1, k) * value**k * (1 - value) ** (a + b - 1 - k) for k in range(a, a + b))
            assert beta_below(value, a, b) == pytest.approx(summed, rel=1e-10)


def test_a_sample_says_the_same_of_many_numbers_without_keeping_them() -> None:
    chance = random.Random(5)
    values = [1e6 + chance.gauss(0, 1) for _ in range(2_000)]
    sample = Sample(values)
    assert sample.mean == pytest.approx(statistics.fmean(values), rel=1e-15)
    assert sample.deviation == pytest.approx(statistics.stdev(values), rel=1e-9)
    assert sys.getsizeof(sample._kept) <= sys.getsizeof([0.0] * 512)  # pyright: ignore[reportPrivateUsage]


def test_an_interval_is_the_same_each_time() -> None:
    chance = random.Random(2)
    values = [chance.gauss(0, 1) for _ in range(25)]
    assert mean_interval(values) == mean_interval(values)
    assert mean_interval([1.0]) is None
    assert running_interval(values[:9]) is None


def test_evidence_is_what_its_formula_says() -> None:
    assert sign_evidence(0, 0) == 1
    assert sign_evidence(7, 3) == sign_evidence(3, 7)
    assert sign_evidence(1, 0) == pytest.approx(1.0)
    assert sign_evidence(2, 0) == pytest.approx(11 / 21 * 2)
    assert sign_evidence(14, 0) < 20 < sign_evidence(15, 0)
    assert sign_evidence(10_000, 0) > 1e300


# --- comparisons --------------------------------------------------------------------------------------------------


def decided(differences: list[float], **plan: Any) -> ComparisonReport:
    """A comparison whose blocks have these differences, as far as it needs them."""
    comparison = Comparison(comparison_plan(**{"max_blocks": len(differences), **plan}))
    for block, difference in enumerate(differences, 1):
        for row in pair_rows(block, difference):
            comparison.add(row)
        if comparison.stopped:
            break
    return comparison.report()


def codes(report: ComparisonReport) -> list[str]:
    return [remark.code for remark in report.remarks]


@pytest.mark.parametrize("shape", DIFFERENCES)
def test_false_alarms_are_rare_whenever_one_looks(shape: str) -> None:
    chance, alarms, runs = random.Random(3), 0, 200
    for _ in range(runs):
        won = lost = 0
        alarm, values = False, list[float]()
        for look in range(200):
            difference = DIFFERENCES[shape](chance)
            values.append(difference)
            won, lost = won + (difference > 0), lost + (difference < 0)
            alarm = alarm or sign_evidence(won, lost) >= 20
            interval = running_interval(values) if look % 20 == 19 else None
            alarm = alarm or (interval is not None and interval.excludes(0))
        alarms += alarm
    assert alarms / runs <= 0.05


def test_a_better_player_is_seen_to_be_better() -> None:
    chance = random.Random(4)
    report = decided([chance.gauss(1.2, 1) for _ in range(200)])
    assert (report.verdict, report.stopped) == ("better", "evidence")
    assert report.blocks < 40
    assert report.evidence >= 20
    assert report.won + report.lost + report.drawn == report.blocks
    assert report.difference is not None
    assert report.difference > 0
    assert decided([-1.0] * 20).verdict == "worse"


def test_a_difference_not_worth_having() -> None:
    chance = random.Random(5)
    report = decided([chance.gauss(0, 0.2) for _ in range(100)], margin=0.3)
    assert (report.verdict, report.stopped) == ("equal", "margin")
    assert report.interval is not None
    assert -0.3 <= report.interval.low < report.interval.high <= 0.3


def test_players_that_differ_rarely_are_not_called_equal() -> None:
    """However many of the first blocks agree."""
    runs, equal = 200 if FULL else 12, 0
    for seed in range(runs):
        chance = random.Random(seed)
        differences = [-10.0 if chance.random() < 0.06 else 0.0 for _ in range(100)]
        equal += decided(differences, margin=0.5, lowest=0.0, highest=20.0).verdict == "equal"
    assert equal <= 0.05 * runs
    assert decided([0.0] * 100, margin=5.0, lowest=0.0, highest=20.0).stopped == "margin"
    # What is seen of a game of unknown bounds is less
    assert decided([0.0] * 100).interval is None


def test_a_test_of_an_elo_difference() -> None:
    wins = decided([1.0] * 400, elo0=0.0, elo1=100.0)
    assert (wins.verdict, wins.stopped) == ("better", "evidence")
    assert wins.elo_test is not None
    assert wins.elo_test.evidence >= 20 > wins.elo_test.counter_evidence
    assert wins.headline == f"New is better than Old by more than 0 Elo, after {wins.blocks} blocks."
    even = decided([1.0, -1.0] * 200, elo0=0.0, elo1=100.0)
    assert (even.verdict, even.stopped) == ("not_better", "evidence")
    assert even.headline == f"New is not better than Old by 100 Elo, after {even.blocks} blocks."
    with pytest.raises(ValidationError, match="elo0 is the lower one"):
        comparison_plan(elo0=5.0, elo1=0.0)


@pytest.mark.parametrize("draws", [0.0, 0.7])
@pytest.mark.parametrize(("elo", "wrong"), [(0.0, "passed"), (60.0, "failed")])
def test_a_test_of_an_elo_difference_errs_rarely_and_ends(elo: float, wrong: str, draws: float) -> None:
    runs, most = (2_000, 4_000) if FULL else (40, 1_500)
    errors = ended = 0
    for seed in range(runs):
        chance, test, blocks = random.Random(seed), EloTest(0.0, 60.0, alpha=0.05, beta=0.05), 0
        win = share_of(elo) - draws / 2
        while blocks < most and not (test.passed or test.failed):
            luck = chance.random()
            share = 1.0 if luck < win else 0.5 if luck < win + draws else 0.0
            test.take(share, share)
            blocks += 1
        errors += getattr(test, wrong)
        ended += test.passed or test.failed
    assert errors <= 0.05 * runs
    assert ended >= 0.9 * runs


def test_blocks_in_doubt_fail_a_test_rather_than_pass_it() -> None:
    sure, doubted = EloTest(0.0, 100.0, alpha=0.05, beta=0.05), EloTest(0.0, 100.0, alpha=0.05, beta=0.05)
    for _ in range(60):
        sure.take(0.75, 0.75)
        doubted.take(0.0, 0.75)
    assert sure.passed
    assert not doubted.passed
    assert (sure.counter_evidence, sure.blocks_left() < 0) == (doubted.counter_evidence, True)


def test_forecast_is_what_comparisons_do() -> None:
    plan = comparison_plan(max_blocks=200)
    found = forecast(plan)
    assert found == forecast(plan)
    assert (found.least_blocks, found.episodes_per_block) == (15, 2)
    assert [row.better for row in found.rows] == sorted(row.better for row in found.rows)
    equal, *_, clear = found.rows
    assert equal.better + equal.otherwise <= 0.05
    assert (clear.undecided, clear.median is not None and 15 <= clear.median <= 30) == (0.0, True)
    # The same truth, compared with the program that decides
    chance, ended = random.Random(1), list[int]()
    for _ in range(30):
        ended.append(decided([1.0 if chance.random() < clear.share else -1.0 for _ in range(200)]).blocks)
    assert clear.median == pytest.approx(statistics.median(ended), abs=4)


def test_forecast_of_long_tests_in_strides_is_that_of_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = comparison_plan(elo0=0.0, elo1=60.0, max_blocks=300)
    exact = forecast(plan)
    monkeypatch.setattr("coworld_core.evaluation.power._EXACT", 0)
    strides = forecast(plan)
    assert exact != strides
    for one, other in zip(exact.rows, strides.rows, strict=True):
        assert (one.better, one.undecided) == (
            pytest.approx(other.better, abs=0.1),
            pytest.approx(other.undecided, abs=0.1),
        )
        assert one.median == pytest.approx(other.median, rel=0.3)


def test_what_a_bot_author_reads_first() -> None:
    report = decided([1.0] * 9 + [-1.0] * 4 + [0.0] * 2)
    assert report.elo is not None
    # The mean of 9 wins and 2 draws in 15 blocks, on the logistic scale
    assert report.elo.value == pytest.approx(400 * math.log10(10 / 5), abs=0.01)
    assert report.elo.low is not None
    assert report.elo.high is not None
    assert report.elo.low < 0 < 200 < report.elo.high
    # The share of a beta distribution (10, 5) above a half is a sum of binomials
    assert report.chance == pytest.approx(sum(math.comb(14, k) for k in range(10)) / 2**14, rel=1e-5)
    assert report.more_blocks is not None
    enough = report.blocks + report.more_blocks
    share = enough / 15
    assert sign_evidence(round(9 * share), round(4 * share)) >= 20 > sign_evidence(round(8 * share), round(5 * share))
    facts = dict(report.contents().facts)
    assert facts["Elo"].startswith("+120 (-")
    assert facts["Chance"].startswith("91 % that New is better (Beta posterior of 13 decided blocks")
    assert facts["Evidence"].startswith("hardly any: ")
    assert facts["Needed"] == f"about {report.more_blocks} more blocks, if it goes on like this"
    unbeaten = decided([1.0] * 15)
    assert unbeaten.elo is not None
    assert (unbeaten.elo.value, unbeaten.elo.high, unbeaten.more_blocks) == (None, None, None)
    facts = dict(unbeaten.contents().facts)
    assert facts["Elo"].startswith("+∞ (+")
    assert facts["Evidence"].startswith("decisive: ")
    assert "Needed" not in facts
    assert decided([1.0, -1.0]).more_blocks is None


def test_the_worst_of_the_blocks_that_were_lost_are_shown() -> None:
    differences = [-1.0, 2.0, -3.0, -1.0, -2.0, 0.0, -2.0]
    comparison = Comparison(comparison_plan(max_blocks=len(differences)))
    for block, difference in enumerate(differences, 1):
        for row in pair_rows(block, difference):
            comparison.add(row)
    report = comparison.report()
    assert [(one.block, one.difference) for one in report.lost_blocks] == [(3, -3.0), (5, -2.0), (7, -2.0)]
    assert report.lost_blocks[0].episodes == (episode_key(3, 1, 1), episode_key(3, 1, 2))
    assert report.lost_blocks[0].scores == ((7.0, 10.0), (10.0, 7.0))
    first = FirstDifference(
        tick=4,
        slot=1,
        text="a ```board```\n<b>",
        new=LineOfPlay(episode=episode_key(3, 1, 2), action={"take": 1, "how": [2]}, score=7.0),
        old=LineOfPlay(episode=episode_key(3, 1, 1), action=None, score=10.0),
    )
    why = LossNote(block=7, note="There is no replay.")
    comparison.worst.notes = LossNotes(note="Nothing.", blocks=(LossNote(block=3, first_difference=first), why))
    report = comparison.report()
    found = report.contents()
    assert found.scenes_title == "Blocks that were lost, the 3 worst of 5"
    assert [scene.title for scene in found.scenes] == [
        "Block 3, by 3: seat 1 at tick 4",
        "Block 5, by 2",
        "Block 7, by 2",
    ]
    assert found.scenes[0].lines[0] == ("New: take 1, how [2]; scored 7", "block-0003.1-2")
    assert found.scenes[0].lines[1] == ("Old: no action; scored 10", "block-0003.1-1")
    assert found.scenes[1].lines[0] == ("New scored 8; Old scored 10", "block-0005.1-1")
    assert "Nothing." in found.notes
    said = report_markdown(report)
    assert "\n  ````text\n  a ```board```\n  <b>\n  ````\n" in said
    assert "- Block 7, by 2: There is no replay.\n  - New scored 8; Old scored 10 (block-0007.1-1)\n" in said


def test_a_lost_block_that_was_forfeited_says_so() -> None:
    rows = pair_rows(1, -1.0)
    fault = {"ok": False, "party": "player", "fault_slot": 0, "error_type": "player_error", "message": "Exit 1."}
    report = compare_rows(comparison_plan(max_blocks=1), [rows[0].model_copy(update=fault), rows[1]])
    assert [one.note for one in report.lost_blocks] == ["It was forfeited: Exit 1. [player_error]"]


def test_not_enough_evidence() -> None:
    report = decided([1.0, -1.0] * 10)
    assert (report.verdict, report.stopped, report.blocks) == ("undecided", "max_blocks", 20)


def test_the_report_depends_on_the_rows_alone() -> None:
    chance = random.Random(6)
    rows = [row for block in range(1, 61) for row in pair_rows(block, chance.gauss(1, 1))]
    plan = comparison_plan(max_blocks=60)
    report = compare_rows(plan, rows)
    assert report.blocks < 60
    # What was under way when it was decided changes nothing
    chance.shuffle(rows)
    assert compare_rows(plan, rows).model_dump_json() == report.model_dump_json()
    assert json.loads(report.model_dump_json())["plan"]["slot_count"] == 2


def test_player_that_never_starts_ends_the_evaluation() -> None:
    comparison = Comparison(comparison_plan())
    for block in (1, 2, 3):
        assert comparison.stopped == ""
        # New sits in seat 0, then in seat 1
        comparison.add(spoilt(f"block-{block:04d}.1-1", "player", "player_never_started", slot=0))
        comparison.add(spoilt(f"block-{block:04d}.1-2", "player", "player_never_started", slot=1))
    report = comparison.report()
    assert (report.stopped, report.verdict, report.blocks) == ("never_started", "undecided", 0)
    assert (report.won, report.lost, report.difference) == (0, 0, None)
    assert report.entrants[0].forfeits == 6
    assert report.headline.startswith(
        "New forfeited 6 episodes. The first: It broke. [player_never_started] (block-0001"
    )
    assert "New failed in every episode of the first 3 blocks" in report.remarks[0].message


@pytest.mark.parametrize(
    ("kind", "stopped"), [("player_never_started", "never_started"), ("player_error", "always_failed")]
)
def test_player_that_always_fails_is_not_judged_by_results(kind: str, stopped: str) -> None:
    comparison = Comparison(comparison_plan())
    for block in (1, 2, 3):
        for lineup, slot in ((1, 1), (2, 0)):
            key = episode_key(block, 1, lineup)
            comparison.add(spoilt(key, "player", kind, slot=slot))
    report = comparison.report()
    assert (report.stopped, report.blocks) == (stopped, 0)
    assert report.remarks[0].message.startswith("Old failed")


@pytest.mark.parametrize("starts", [True, False])
def test_machine_faults_in_every_block_end_the_evaluation(starts: bool) -> None:
    comparison = Comparison(comparison_plan())
    for block in (1, 2, 3):
        for attempt in (1, 2, 3):
            assert comparison.stopped == ""
            for lineup, row in enumerate(pair_rows(block, 1.0, attempt=attempt)):
                absent = spoilt(row.key, "player", "player_never_started", slot=lineup)
                comparison.add((row if starts else absent).model_copy(update={"starved": True}))
    report = comparison.report()
    assert (report.stopped, report.blocks) == ("spoiled", 0)
    assert (report.spoiled, report.replayed) == (3, 6)
    assert codes(report)[-1] == "spoiled_blocks"


def test_game_failures_are_reported() -> None:
    comparison = Comparison(comparison_plan())
    for block in (1, 2, 3):
        comparison.add(spoilt(episode_key(block, 1, 1), "game", "game_unhealthy"))
        comparison.add(spoilt(episode_key(block, 1, 2), "game", "game_unhealthy"))
    report = comparison.report()
    assert (report.stopped, report.void, codes(report)) == ("game_faults", 3, ["game_faults"])


def test_remarks() -> None:
    assert codes(decided([0.0] * 4)) == ["constant_scores", "no_interval"]
    assert "they need more than one block" in decided([1.0]).remarks[-1].message
    assert codes(decided([1.0, 1.0, 1.0], lowest=5.0, highest=14.0)) == ["same_blocks"]
    assert codes(decided([1.0, 2.0, 1.5], seeded=False)) == ["no_seed", "no_interval"]
    assert codes(decided([1.0, -2.0, 1.5], same_commands=(("new", "old"),))) == ["same_player", "no_interval"]
    # Rarely won, but by far
    assert codes(decided([90.0, *[-1.0, -1.1] * 9])) == ["means_disagree"]


def test_the_seat_that_the_game_favours() -> None:
    chance = random.Random(7)
    rows = [row for block in range(1, 31) for row in pair_rows(block, chance.gauss(0, 1), seat=2 + chance.random())]
    report = compare_rows(comparison_plan(max_blocks=30), rows)
    assert [seat.effect for seat in report.slot_effects] == pytest.approx([1.25, -1.25], abs=0.1)
    assert codes(report) == ["seat_effect"]


def test_markdown_keeps_its_form_whatever_players_are_called() -> None:
    report = decided([1.0, 2.0], new=SlotRow(name="a|b\n<b>"))
    text = report_markdown(report)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert rows[2].startswith(r"| a\|b \<b\> | 11.5 |")
    assert "<b>" not in text.replace(r"\<b\>", "")


# --- ratings ------------------------------------------------------------------------------------------------------

LABELS = ["0", "1", "2", "3"]
STRENGTHS = [-0.9, -0.2, 0.2, 0.9]
POINTS = 400 / math.log(10)


def climbed(outcomes: Counter[tuple[int, int, int]], players: int) -> list[float]:
    """Another way to the same top: Davidson's likelihood with the same prior, by plain gradient steps."""
    prior = (POINTS / 1000) ** 2
    place = [0.0] * (players + 1)
    rate_of_step = 1.0 / sum(outcomes.values())
    for _ in range(20_000):
        gradient = [-prior * value for value in place]
        for (i, j, outcome), times in outcomes.items():
            a, b = math.exp(place[i]), math.exp(place[j])
            tie = math.exp(place[players]) * math.sqrt(a * b)
            total = a + b + tie
            gradient[i] += times * ((outcome == 0) + (outcome == 2) / 2 - (a + tie / 2) / total)
            gradient[j] += times * ((outcome == 1) + (outcome == 2) / 2 - (b + tie / 2) / total)
            gradient[players] += times * ((outcome == 2) - tie / total)
        place = [value + 4 * rate_of_step * change for value, change in zip(place, gradient, strict=True)]
        if max(map(abs, gradient)) < 1e-9:
            break
    return [value * POINTS for value in place[:players]]


def test_ratings_are_those_of_a_reference_fit() -> None:
    chance = random.Random(8)
    blocks: list[dict[str, float]] = []
    outcomes: Counter[tuple[int, int, int]] = Counter()
    for block in range(1, 121):
        lineup = round_robin(LABELS[:3], 2, block)[0]
        i, j = sorted(int(label or 0) for label in lineup)
        outcome = chance.choice((0, 0, 1, 2) if i == 0 else (0, 1, 1, 2))
        outcomes[i, j, outcome] += 1
        blocks.append({str(i): float(outcome == 0), str(j): float(outcome == 1)})
    found = {rating.label: rating.points for rating in rate(blocks)}
    assert [found[label] for label in LABELS[:3]] == pytest.approx(climbed(outcomes, 3), abs=1e-6)
    assert sum(found.values()) == pytest.approx(0, abs=1e-9)
    chance.shuffle(blocks)
    assert rate(blocks) == rate(reversed(blocks))
    assert {rating.label: rating.points for rating in rate(blocks)} == found


def climbed_rankings(blocks: list[dict[str, float]], players: int) -> list[float]:
    """Another way to the same top: Cox's partial likelihood with Efron's ties and the same prior, by gradient steps."""
    prior = (POINTS / 1000) ** 2
    place = [0.0] * players
    for _ in range(20_000):
        gradient = [-prior * value for value in place]
        for block in blocks:
            for score in set(block.values()):
                tied = [int(label) for label, own in block.items() if own == score]
                rest = sum(math.exp(place[int(label)]) for label, own in block.items() if own < score)
                of_tied = sum(math.exp(place[player]) for player in tied)
                for turn in range(len(tied)):
                    gone = turn / len(tied)
                    total = rest + (1 - gone) * of_tied
                    gradient[tied[turn]] += 1
                    for label, own in block.items():
                        if own <= score:
                            share = 1 - gone if own == score else 1.0
                            gradient[int(label)] -= share * math.exp(place[int(label)]) / total
        place = [value + change / len(blocks) for value, change in zip(place, gradient, strict=True)]
        if max(map(abs, gradient)) < 1e-8:
            break
    middle = sum(place) / players
    return [(value - middle) * POINTS for value in place]


def test_ratings_of_rankings_are_those_of_a_reference_fit() -> None:
    chance = random.Random(8)
    # Whole numbers, so that some tie, and some blocks without somebody
    blocks = [{label: float(chance.randrange(5) + int(label)) for label in LABELS} for _ in range(20)]
    blocks += [{label: float(chance.randrange(3)) for label in chance.sample(LABELS, 3)} for _ in range(10)]
    found = {rating.label: rating.points for rating in rate(blocks, by="plackett-luce")}
    assert [found[label] for label in LABELS] == pytest.approx(climbed_rankings(blocks, 4), abs=1e-6)
    assert sum(found.values()) == pytest.approx(0, abs=1e-9)
    chance.shuffle(blocks)
    assert rate(blocks, by="plackett-luce") == rate(reversed(blocks), by="plackett-luce")
    assert {rating.label: rating.points for rating in rate(blocks, by="plackett-luce")} == found


@pytest.mark.parametrize(("blocks", "runs"), [(60, 8), (5_100, 1)])
def test_intervals_of_ratings_of_rankings_cover(blocks: int, runs: int) -> None:
    chance, missed = random.Random(9), 0
    for _ in range(runs):
        drawn = strength_blocks(chance, STRENGTHS, lambda block: round_robin(LABELS, 4, block), blocks)
        for rating in rate(drawn, by="plackett-luce"):
            missed += not rating.low <= STRENGTHS[int(rating.label)] * POINTS <= rating.high
            assert rating.low < rating.points < rating.high
    # Of 32, more than 5 in one of 1,000 times
    assert missed < (6 if runs > 1 else 3)


def test_of_two_without_ties_both_models_say_the_same() -> None:
    blocks = [{"a": 1.0, "b": 0.0}] * 7 + [{"a": 0.0, "b": 1.0}] * 3
    pairs, whole = rate(blocks), rate(blocks, by="plackett-luce")
    assert [one.points for one in whole] == pytest.approx([one.points for one in pairs], abs=1e-9)
    (best, _) = rate([{"a": 1.0, "b": 0.0}] * 5, by="plackett-luce")
    assert (math.isfinite(best.points), best.high - best.low > 400, best.method) == (True, True, "model")
    # Ties alone tell nothing
    assert {one.points for one in rate([{"a": 1.0, "b": 1.0}] * 5, by="plackett-luce")} == {0.0}
    assert rate([], by="plackett-luce") == rate([{"a": 1.0}], by="openskill") == []


def test_the_online_alternative() -> None:
    chance = random.Random(9)
    blocks = list(strength_blocks(chance, STRENGTHS, lambda block: round_robin(LABELS, 4, block), 150))
    found = rate(blocks, by="openskill")
    assert [rating.label for rating in found] == LABELS[::-1]
    assert sum(rating.points for rating in found) == pytest.approx(0, abs=1e-9)
    assert all(rating.low < rating.points < rating.high for rating in found)
    assert rate(blocks, by="openskill") == found


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openskill.models", None)
    with pytest.raises(EnvironmentFault, match=r"openskill is not installed") as refused:
        rate([{"a": 1.0, "b": 0.0}], by="openskill")
    assert refused.value.hint == "pip install 'coworld-core[rating]'"


def test_a_command_knows_all_ratings() -> None:
    assert get_args(RatingName) == RATINGS


@pytest.mark.parametrize("seats", [2, 4])
def test_rating_intervals_cover(seats: int) -> None:
    chance, missed, runs = random.Random(9), 0, 100
    for _ in range(runs):
        blocks = strength_blocks(chance, STRENGTHS, lambda block: round_robin(LABELS, seats, block), 60)
        for rating in rate(blocks):
            missed += not rating.low <= STRENGTHS[int(rating.label)] * POINTS <= rating.high
    assert 0.01 < missed / (4 * runs) < 0.09


def blocks_of_many(count: int, rounds: int, truth: dict[str, float]) -> list[dict[str, float]]:
    """Everybody meets somebody at random in each round, and wins by the model; fills in the truth, in points."""
    chance, blocks = random.Random(3), list[dict[str, float]]()
    drawn = [chance.gauss(0, 1) for _ in range(count)]
    strengths = [one - statistics.fmean(drawn) for one in drawn]
    truth |= {f"{number:04d}": strength * POINTS for number, strength in enumerate(strengths)}
    for _ in range(rounds):
        order = chance.sample(range(count), count)
        for one, other in zip(order[::2], order[1::2], strict=True):
            won = chance.random() < 1 / (1 + math.exp(strengths[other] - strengths[one]))
            blocks.append({f"{one:04d}": float(won), f"{other:04d}": float(not won)})
    return blocks


def test_ratings_of_many_are_those_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = blocks_of_many(60, 8, {})
    exact = rate(blocks)
    monkeypatch.setattr(ratings, "EXACT", 10)
    many = rate(blocks)
    assert [(one.label, one.points) for one in many] == [(one.label, one.points) for one in exact]
    widths = [(one.high - one.low) / (other.high - other.low) for one, other in zip(many, exact, strict=True)]
    assert min(widths) > 0.9
    assert 0.98 < statistics.median(widths) < 1.05
    assert max(widths) < 1.3


def test_ratings_of_many_take_no_square_of_memory_and_their_intervals_cover() -> None:
    truth: dict[str, float] = {}
    blocks = blocks_of_many(400, 10, truth)
    tracemalloc.start()
    try:
        rated = rate(blocks)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(truth) ** 2 * 20, "one matrix of all pairs"
    missed = sum(not one.low <= truth[one.label] <= one.high for one in rated)
    assert 0.02 < missed / len(truth) < 0.09


def test_unbeaten_player_has_a_finite_rating_and_wide_interval() -> None:
    best, other = rate([{"a": 1.0, "b": 0.0}] * 5)
    assert (best.label, other.label) == ("a", "b")
    assert math.isfinite(best.points)
    assert best.high - best.low > 400
    assert rate([]) == []


def test_distinguishable_players_are_reported() -> None:
    strong = [{"a": 1.0, "b": 0.0}] * 25
    even = [{"b": float(turn % 2), "c": float(turn % 2 == 0)} for turn in range(30)]
    found = {(pair.first, pair.second): pair for pair in pairings(strong + even)}
    assert found["a", "b"].apart
    assert not found["b", "c"].apart
    assert (found["b", "c"].won, found["b", "c"].lost, found["b", "c"].drawn) == (15, 15, 0)
    assert ("a", "c") not in found


def test_pairs_that_are_told_apart_leave_their_share_of_the_risk_to_the_others() -> None:
    clear = [{"a": 1.0, "b": 0.0}, {"a": 1.0, "c": 0.0}, {"b": 1.0, "c": 0.0}]
    least = least_wins(3 / 0.05)
    assert all(pair.apart for pair in pairings(clear * least))
    assert not any(pair.apart for pair in pairings(clear * (least - 1)))
    # The last pair needs no more than a pair alone
    uneven = clear[:2] * least + clear[2:] * least_wins(1 / 0.05)
    assert least_wins(1 / 0.05) < least
    assert all(pair.apart for pair in pairings(uneven))
    assert [pair.apart for pair in pairings(uneven[:-1])] == [True, True, False]


@pytest.mark.parametrize(("players", "seats"), [(2, 2), (5, 2), (4, 3), (4, 4), (3, 1)])
def test_clearest_ranking_needs_as_many_blocks_as_it_says(players: int, seats: int) -> None:
    least = least_ranking_blocks(players, seats)
    report = ranked(least, *map(float, range(0, 9 * players, 9)), slot_count=seats)
    assert (report.stopped, report.blocks) == ("told_apart", least)
    assert EvaluationRules().most_blocks(least) == max(200, 3 * least)


def ranked(blocks: int, *strengths: float, **plan: Any) -> RankingReport:
    """A ranking of players who differ in nothing but their strengths."""
    entrants = tuple(SlotRow(name=f"Player {index}") for index in range(len(strengths)))
    ranking = Ranking(ranking_plan(entrants=entrants, max_blocks=blocks, **plan))
    strength = dict(zip(ranking.plan.players(), strengths, strict=True))
    chance = random.Random(11)
    for block in range(1, blocks + 1):
        luck = {label: chance.gauss(0, 0.5) for label in strength}
        for number, lineup in enumerate(ranking.lineups(block), 1):
            scores = [strength[label] + luck[label] for label in lineup if label is not None]
            ranking.add(episode_row(episode_key(block, 1, number), *scores))
    return ranking.report()


def test_ranking_ends_when_all_players_are_distinguishable() -> None:
    report = ranked(200, 0.0, 4.0, 2.0)
    assert report.stopped == "told_apart"
    assert report.blocks < 90
    assert [standing.label for standing in report.standings] == ["player-2", "player-3", "player-1"]
    assert not_apart(report) == []
    assert report.headline == f"Everybody is told apart from everybody else, after {report.blocks} blocks."


@pytest.mark.parametrize("seats", [1, 2, 3, 4])
def test_indistinguishable_players_are_reported(seats: int) -> None:
    report = ranked(120, 0.0, 3.0, 0.0, slot_count=seats)
    assert report.stopped == "max_blocks"
    assert report.standings[0].label == "player-2"
    assert [name for name, _ in not_apart(report)] in (["Player 0"], ["Player 2"])
    text = report_markdown(report)
    assert text.startswith("### 2 of 3 pairs are told apart, after 120 blocks.")
    assert len([line for line in text.split("####")[0].splitlines() if line.startswith("|")]) == 5


@pytest.mark.parametrize("rating", ["bradley-terry", "plackett-luce"])
def test_equal_players_share_a_place(rating: RatingName) -> None:
    ranking = Ranking(ranking_plan(entrants=tuple(SlotRow(name=name) for name in "ABCD"), rating=rating))
    strengths = dict(zip(ranking.plan.players(), (1.0, 1.0, 2.0, 0.0), strict=True))
    for block in range(1, 7):
        for number, lineup in enumerate(ranking.lineups(block), 1):
            ranking.add(episode_row(episode_key(block, 1, number), *(strengths[label] for label in lineup if label)))
    report = ranking.report()
    assert [standing.rank for standing in report.standings] == [1, 2, 2, 4]
    table = [line for line in report_markdown(report).splitlines() if line.startswith("| ")]
    assert [line[2] for line in table[2:6]] == ["1", "2", "2", "4"]


def test_equal_players_are_rarely_distinguished() -> None:
    chance, alarms, runs = random.Random(10), 0, 200
    for _ in range(runs):
        blocks = strength_blocks(chance, [0.0] * 4, lambda block: round_robin(LABELS, 2, block), 120)
        alarms += any(pair.apart for pair in pairings(blocks))
    assert alarms / runs <= 0.05


def test_nothing_heavy_is_loaded() -> None:
    code = (
        "import sys, coworld_core.evaluation as package\n"
        "assert 'pydantic' not in sys.modules\n"
        "for name in package.__all__: getattr(package, name)\n"
        "assert not {'numpy', 'scipy', 'anyio', 'jsonschema'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- language models ----------------------------------------------------------------------------------------------


def asked(block: int, cost: float | None, *, unknown: str = "") -> list[EpisodeRow]:
    """A drawn block whose new player is a model, each of whose episodes costs this."""
    use = ModelUse(model="m", calls=3, prompt_tokens=30, completion_tokens=6, refused=1, cost=cost, unknown=unknown)  # pyright: ignore[reportArgumentType]
    new, old = SlotRow(name="New", model_use=use), SlotRow(name="Old")
    seats = [(new, old), (old, new)]
    return [row.model_copy(update={"slots": at}) for row, at in zip(pair_rows(block, 0.0), seats, strict=True)]


def test_models_cost_beside_the_verdict() -> None:
    rows = [*asked(1, 0.1), *asked(2, 0.25)]
    report = compare_rows(comparison_plan(max_blocks=2), rows)
    assert [(one.label, one.calls, one.prompt_tokens, one.refused, one.cost) for one in report.models] == [
        ("new", 12, 120, 4, 0.7)
    ]
    assert compare_rows(comparison_plan(max_blocks=2), reversed(rows)) == report
    shown = report_markdown(report)
    assert "| New | 12 | 120 | 24 | 4 | $0.7 |" in shown
    assert "- Cost: $0.7\n" in shown
    assert "models" not in compare_rows(comparison_plan(), pair_rows(1, 0.0)).model_dump()
    dear = compare_rows(comparison_plan(), [*asked(1, 0.1), *asked(2, None, unknown="uncounted")])
    assert (dear.cost, dear.stopped) == (None, "")
    assert [remark.code for remark in dear.remarks][:1] == ["cost_unknown"]
    assert "- Cost: not known\n" in report_markdown(dear)


def test_no_further_block_is_begun_once_the_budget_is_used_up() -> None:
    comparison = Comparison(comparison_plan(max_cost=0.5))
    needed = NeededEpisodes(comparison)
    rows = {row.key: row for block in (1, 2, 3) for row in asked(block, 0.2)}
    taken = [needed.take() for _ in range(3)]
    for found in taken:
        assert found is not None
        comparison.add(rows[found[1]])
    assert comparison.over_budget
    # The second block has begun, and is played to its end
    last = needed.take()
    assert last is not None
    assert last[1] == episode_key(2, 1, 2)
    assert needed.take() is None
    comparison.add(rows[last[1]])
    needed.restart()
    assert needed.take() is None
    report = comparison.report()
    assert (report.stopped, report.blocks, report.verdict, report.cost) == ("max_cost", 2, "undecided", 0.8)
    assert "after 2 blocks. It was stopped by the budget of $0.5: $0.8 is spent." in report.headline
    # Read again with more, it goes on; a cost that is not known uses up any budget
    more = Comparison(comparison_plan(max_cost=1.0))
    for row in [*asked(1, 0.2), *asked(2, 0.2)]:
        more.add(row)
    following = NeededEpisodes(more).take()
    assert following is not None
    assert (following[0], more.halted) == (3, "")
    more.add(asked(3, None, unknown="no_account")[0])
    assert more.halted == "max_cost"
    assert "what is spent is not known" in more.report().headline
    said = [next(one.message for one in each.report().remarks if one.code == "max_cost") for each in (comparison, more)]
    assert [words.partition(",")[0] for words in said] == ["With a larger budget", "Without a budget"]
    require_same_plan(comparison.plan, more.plan, Path())
    # A verdict is a verdict
    won = [row for block in range(1, 16) for row in pair_rows(block, 1.0)]
    assert compare_rows(comparison_plan(max_cost=0.1), [*asked(16, 9.0), *won]).stopped == "evidence"


@pytest.mark.parametrize("elsewhere", ["../elsewhere", "/etc", "a/../../b"])
def test_a_row_does_not_lead_out_of_its_run(tmp_path: Path, elsewhere: str) -> None:
    row = pair_rows(1, 0.5)[0].model_copy(update={"workspace": elsewhere, "results": None})
    with pytest.raises(UsageError) as refused:
        measure_row(row, comparison_plan(metric="moves"), tmp_path / "run")
    assert refused.value.code == "episode_elsewhere"
