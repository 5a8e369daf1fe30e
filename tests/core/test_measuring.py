"""Scrimmages, mixtures and pickups of games that are drawn, whose truth is known; and what their reports show."""

from __future__ import annotations

import importlib.util
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.escapes import COMMANDS, ESCAPES, FEW, alarmed
from support.full import FULL
from support.simulated import (
    ADDS,
    TOGETHER,
    added,
    comparison_plan,
    diagnosis_plan,
    hostile_run,
    leave,
    mixture_plan,
    pair_rows,
    pickup_plan,
    played,
    ranking_plan,
    scrimmage_plan,
    strengths,
)

from coworld_core.episode.record import EpisodeRow, PlayerFault, SlotRow, read_rows
from coworld_core.errors import CoworldError, EnvironmentFault, UsageError
from coworld_core.evaluation import (
    MixtureReport,
    PickupReport,
    ScrimmageReport,
    ShownReport,
    read_plan,
    report_markdown,
    report_rows,
)
from coworld_core.evaluation.comparison import NEW, OLD, Comparison
from coworld_core.evaluation.designs import (
    coalitions,
    credit_lineups,
    mixture_lineups,
    pickup_lineups,
    rotation,
    shares,
)
from coworld_core.evaluation.estimates import Doubt, firm_evidence
from coworld_core.evaluation.evaluation_files import open_evaluation
from coworld_core.evaluation.report_base import EvaluationPlan

# --- designs ------------------------------------------------------------------------------------------------------


def test_seats_are_shared_by_largest_remainder() -> None:
    assert shares("ab", [3, 1], 4) == (3, 1)
    assert shares("abc", [1, 1, 1], 4) == (2, 1, 1)
    assert shares("ab", [0.7, 0.3], 10) == (7, 3)
    assert shares("abc", [5, 3, 1], 7) == (4, 2, 1)


@pytest.mark.parametrize(
    ("proportions", "seats", "code", "said"),
    [
        ([1, 1, 1], 2, "too_few_seats", "There are 3 players and 2 seats."),
        ([100, 1, 1], 4, "bad_share", "b gets none of the 4 seats."),
        ([1, 0, 1], 4, "bad_share", "The proportion of b is 0: it must be more than 0."),
        ([1, math.nan, 1], 4, "bad_share", "The proportion of b is nan"),
    ],
)
def test_proportions_that_do_not_fit(proportions: list[float], seats: int, code: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        shares("abc", proportions, seats)
    assert refused.value.code == code


@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), st.integers(1, 50), st.integers())
def test_everybody_sits_equally_often_everywhere(counts: list[int], block: int, seed: int) -> None:
    labels = [str(number) for number in range(len(counts))]
    lineups = mixture_lineups(labels, counts, block, seed=seed)
    sat = Counter((label, slot) for lineup in lineups for slot, label in enumerate(lineup))
    seats = sum(counts)
    assert sat == {(label, slot): count for label, count in zip(labels, counts, strict=True) for slot in range(seats)}
    assert lineups == rotation([str(label) for label in lineups[0]])


@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 40), st.integers())
def test_a_pickup_changes_only_the_candidate_s_seats(seats: int, pool: int, block: int, seed: int) -> None:
    labels = [str(number) for number in range(pool)]
    lineups, order = pickup_lineups("me", labels, seats, block, seed=seed)
    dealt = Counter(lineups[0])
    assert set(dealt) <= set(labels)
    assert max(dealt.values()) - min(dealt[label] for label in labels) <= 1
    for count, lineup in enumerate(lineups):
        assert {slot for slot, label in enumerate(lineup) if label == "me"} == set(order[:count])
        assert all(lineup[slot] == lineups[0][slot] for slot in order[count:])


@pytest.mark.parametrize("seats", [2, 5])
def test_each_seat_is_taken_first_equally_often(seats: int) -> None:
    first = Counter(pickup_lineups("me", ["a", "b"], seats, block)[1][0] for block in range(1, 4 * seats + 1))
    assert first == dict.fromkeys(range(seats), 4)


@pytest.mark.parametrize(("entrants", "groups"), [(2, 4), (3, 8), (4, 1 + 4 + 6 + 3), (8, 1 + 8 + 28 + 2 * 5 + 1)])
def test_coalitions_of_credit_are_complete(entrants: int, groups: int) -> None:
    labels = [str(number) for number in range(entrants)]
    orders, found = coalitions(labels, 1)
    assert len(found) == len(set(found)) == groups
    assert len(orders) == (math.factorial(entrants) if entrants < 4 else 2)
    for lineup, group in zip(credit_lineups(labels, 8, 1), found, strict=True):
        assert {label for label in lineup if label is not None} == group


# --- scrimmages ---------------------------------------------------------------------------------------------------


def reported(plan: EvaluationPlan, table: Any, *, seed: int = 0) -> Any:
    return report_rows(plan, played(plan, table, seed=seed))


def always(*scores: float) -> Any:
    return lambda *_: list(scores)  # pyright: ignore[reportUnknownLambdaType]


def test_a_scrimmage() -> None:
    report: ScrimmageReport = reported(scrimmage_plan(max_blocks=60), strengths({"player": 3.0}, seat=1.0))
    (player,) = report.entrants
    assert player.interval is not None
    assert player.interval.low < 3.5 < player.interval.high
    assert report.spread is not None
    assert report.spread.deviation == pytest.approx(math.sqrt(1 + 0.25), rel=0.2)
    assert report.spread.lowest < 2 < 5 < report.spread.highest
    assert [remark.code for remark in report.remarks] == ["seat_effect"]
    assert report.durations is not None
    assert (report.durations.episodes, report.durations.median, report.durations.total) == (60, 1.0, 60.0)
    assert str(report).startswith("Player scores 3.")


def test_zero_sum_scores_still_show_seat_effects() -> None:
    """The mean of a scrimmage is the same then in every block, and only the seats differ."""
    chance = random.Random(1)

    def table(*_: object) -> list[float]:
        won = chance.choice((-1.0, 1.0))
        return [won, -won]

    report = reported(scrimmage_plan(max_blocks=20), table)
    assert report.remarks == ()
    constant = reported(scrimmage_plan(max_blocks=3), always(2.0, 2.0))
    assert [remark.code for remark in constant.remarks] == ["constant_scores", "no_interval"]
    alike = reported(scrimmage_plan(max_blocks=3, seeded=False), always(1.0, 2.0))
    assert [remark.code for remark in alike.remarks] == ["no_seed", "same_blocks", "no_interval"]


def test_faults_are_counted_in_episodes_that_are_played_again_too() -> None:
    plan = scrimmage_plan(max_blocks=1)
    good = next(played(plan, strengths({})))
    bad = {
        "ok": False,
        "status": "failed",
        "scores": (),
        "party": "platform",
        "error_type": "crash",
        "message": "Gone.",
    }
    rows = [good.model_copy(update=bad), good.model_copy(update={"key": "block-0001.2-1"})]
    report = report_rows(plan, rows)
    assert (report.blocks, report.replayed) == (1, 1)
    assert [(fault.party, fault.error_type, fault.episodes) for fault in report.faults] == [("platform", "crash", 1)]
    assert ("Faults", "1 crash (platform)") in report.contents().facts


# --- mixtures -----------------------------------------------------------------------------------------------------


def test_a_mixture() -> None:
    plan = mixture_plan(2, 1, 1, max_blocks=60)
    report: MixtureReport = reported(plan, strengths({"player-1": 2.0, "player-2": 1.0}, seat=1.0))
    means = [entrant.mean_score for entrant in report.entrants]
    # Nobody sits in the better seat more often than others
    assert means == pytest.approx([2.25, 1.25, 0.25], abs=0.25)
    assert [seat.effect > 0.5 for seat in report.slot_effects] == [True, False, False, False]
    assert len(report.slot_scores) == 12
    first = next(place for place in report.slot_scores if (place.label, place.slot) == ("player-1", 0))
    assert first.interval is not None
    assert first.interval.low < 3 < first.interval.high
    assert [(pair.first, pair.second, pair.apart) for pair in report.pairs] == [
        ("player-1", "player-2", True),
        ("player-1", "player-3", True),
        ("player-2", "player-3", True),
    ]
    assert report.pairs[0].difference == pytest.approx(1.0, abs=0.3)
    assert str(report).startswith("A scores most, 2.")
    assert "is told apart from all others, after 60 blocks." in str(report)


def test_a_mixture_of_one() -> None:
    report = reported(mixture_plan(3, max_blocks=4), strengths({}))
    assert (report.blocks, report.durations.episodes, report.pairs) == (4, 4, ())
    assert str(report).startswith("A scores ")


# --- pickups ------------------------------------------------------------------------------------------------------


def test_values_are_exact_where_nothing_is_left_to_chance() -> None:
    plan = pickup_plan(2, slot_count=4, max_blocks=8)
    of = {"candidate": 3.0, "pool-1": 1.0, "pool-2": 2.0}
    report: PickupReport = reported(plan, strengths(of, noise=0.0, seat=5.0))
    assert report.self_play is not None
    assert (report.self_play.slot_count, report.self_play.value) == (4, 1.5)
    assert [one.slot_count for one in report.values] == [1, 2, 3]
    # What each seat is worth, and whom it replaces, cancels over the blocks
    assert [one.value for one in report.values] == pytest.approx([1.5] * 3, abs=0.3)


def test_a_team_is_measured_by_its_table() -> None:
    plan = pickup_plan(1, slot_count=2, max_blocks=4)
    table = strengths({"candidate": 3.0}, noise=0.0)
    assert reported(plan, table).overall.value == 3.0
    assert reported(plan.model_copy(update={"team": True}), table).overall.value == 1.5


def test_a_pickup_in_a_game_for_one() -> None:
    report = reported(pickup_plan(3, slot_count=1, max_blocks=6), strengths({"candidate": 3.0}, noise=0.0))
    assert (report.overall.value, len(report.values), report.self_play) == (3.0, 1, None)


def test_credit_is_exact_where_nothing_is_left_to_chance() -> None:
    plan = pickup_plan(2, slot_count=4, max_blocks=5, credit="shapley", team=True)
    report: PickupReport = reported(plan, added(0.0))
    found = {one.label: one.value for one in report.credits}
    # What two add together is shared by both
    assert found == pytest.approx({"candidate": 0.6 + 0.25, "pool-1": 0.3 + 0.25, "pool-2": 0.0})
    assert [(one.first, one.second, one.value) for one in report.synergies] == [
        ("candidate", "pool-1", pytest.approx(TOGETHER)),
        ("candidate", "pool-2", 0.0),
        ("pool-1", "pool-2", 0.0),
    ]


def test_intervals_of_values_credit_and_synergy_contain_the_truth() -> None:
    held: Counter[str] = Counter()
    runs = 20
    for run in range(runs):
        # Of fewer than twenty blocks, intervals are Student's, and quick
        plan = pickup_plan(2, slot_count=3, max_blocks=12, credit="shapley", team=True)
        report: PickupReport = reported(plan, added(0.5), seed=run)
        truth = {label: adds + TOGETHER / 2 * (label != "pool-2") for label, adds in ADDS.items()}
        said = [("credit", one, truth[one.label]) for one in report.credits]
        said += [
            ("synergy", one, TOGETHER * ((one.first, one.second) == ("candidate", "pool-1")))
            for one in report.synergies
        ]
        null: PickupReport = reported(pickup_plan(2, slot_count=3, max_blocks=12), strengths({}, seat=1.0), seed=run)
        said += [("value", one, 0.0) for one in null.values]
        for what, one, value in said:
            assert one.interval is not None
            held[what] += one.interval.low <= value <= one.interval.high
    shares_of = {"credit": 3, "synergy": 3, "value": 2}
    for what, each in shares_of.items():
        assert 0.85 < held[what] / (each * runs) <= 1.0, what


def test_credit_of_many_is_sampled() -> None:
    def table(lineup: Any, luck: random.Random) -> list[float]:
        return [sum(map(float, (ADDS.get(label, 0.1) for label in lineup if label)), luck.random())] * len(lineup)

    plan = pickup_plan(5, slot_count=6, max_blocks=3, credit="shapley")
    report: PickupReport = reported(plan, table)
    assert [one.value for one in report.credits] == pytest.approx([0.6, 0.3, 0.0, 0.1, 0.1, 0.1])
    assert len(report.synergies) == 15
    assert all(one.value == 0 for one in report.synergies)


# --- failing to avoid a loss --------------------------------------------------------------------------------------


def deserted(deserter: str, seed: int, **game: Any) -> Comparison:
    """A comparison of a player with a copy of itself that escapes as soon as it is losing."""
    comparison = Comparison(comparison_plan(max_blocks=60))
    hostile_run(comparison, deserter, random.Random(seed), **game)
    return comparison


@pytest.mark.parametrize("how", ESCAPES[1:])
@pytest.mark.parametrize("steps", [1, 12])
@pytest.mark.parametrize(("deserter", "alarm"), [(NEW, "better"), (OLD, "worse")])
def test_escaping_as_soon_as_one_is_losing_does_not_make_one_better(
    deserter: str, alarm: str, steps: int, how: str
) -> None:
    runs = 1_000 if FULL else 10
    for results in (True, False) if how == "crash" else (True,):
        found = [deserted(deserter, seed, steps=steps, results=results, how=how) for seed in range(runs)]
        assert sum(comparison.verdict == alarm for comparison in found) <= 0.05 * runs
        if how in ("crash", "burn"):
            assert all(set(comparison.totals.forfeits) == {deserter} for comparison in found)


@pytest.mark.parametrize("how", ESCAPES)
@pytest.mark.parametrize("command", COMMANDS)
def test_escaping_and_looking_after_every_block_do_not_raise_alarms(command: str, how: str) -> None:
    runs, few = (1_000, 60) if FULL else (3, 20)
    blocks = 30 if command in FEW else few
    assert sum(alarmed(command, how, seed, blocks) for seed in range(runs)) <= 0.05 * runs


@pytest.mark.parametrize("how", ESCAPES[1:])
def test_where_such_escapes_counted_by_their_results_they_paid(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The games in which the rules are tried are such as can be played by escaping."""
    nobody: dict[str, PlayerFault] = {}
    ledger = "coworld_core.evaluation.block_ledger"
    monkeypatch.setattr(f"{ledger}._guilty", lambda lineup, episode: nobody)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(f"{ledger}._doubts", lambda judged, starved: {})  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    verdicts = [deserted(NEW, seed, how=how).verdict for seed in range(8)]
    assert ("better" in verdicts) is (how != "burn")


def test_a_player_whose_processes_starve_others_forfeits() -> None:
    """And what the others miss for want of a processor is not held against them."""
    report = deserted(NEW, 1, how="burn").report()
    assert "New forfeited" in report.headline
    first = report.entrants[0].first_forfeit
    assert first is not None
    assert (first.error_type, report.entrants[1].forfeits, report.replayed) == ("starved_others", 0, 0)


def test_blocks_that_disappear_are_counted_against_whoever_leads() -> None:
    report = next(found for seed in range(9) if (found := deserted(NEW, seed, how="break").report()).won)
    assert report.doubtful == report.void > 0
    assert report.evidence <= 1
    assert any(name == "Doubtful" and text.endswith("against New") for name, text in report.contents().facts)
    # What failed for both alike costs time, not the verdict
    assert firm_evidence(40, 10, Doubt(0, 5, 0, 5)) > 20
    assert firm_evidence(16, 0, Doubt(0, 16, 0, 0)) <= 1


def test_a_verdict_names_forfeits_and_the_first_of_them() -> None:
    report = deserted(NEW, 1, steps=12).report()
    first = report.entrants[0].first_forfeit
    assert first is not None
    assert (first.error_type, first.message) == ("player_error", "Exit 1.")
    count = report.entrants[0].forfeits
    assert report.headline == f"New is worse than Old, after {report.blocks} blocks. New forfeited {count} episodes."
    assert report_markdown(report).startswith(f"### {report.headline}")
    (remark,) = [remark for remark in report.remarks if remark.code == "forfeits"]
    assert remark.message.endswith(f"The first: Exit 1. [player_error] ({first.workspace})")
    assert ("Forfeits", str(count)) == (report.contents().tables[0].head[3], report.contents().tables[0].rows[0][3])


def test_a_forfeit_costs_a_team_all_that_it_would_share() -> None:
    """Otherwise whoever fails would raise the mean of its table by what the others are given."""
    plan = pickup_plan(1, slot_count=3, max_blocks=6, team=True, credit="shapley")
    rows: list[EpisodeRow] = []
    for row in played(plan, strengths({}, seat=1.0)):
        lineup = open_evaluation(plan).lineups(int(row.key[6:10]))[int(row.key.rpartition("-")[2]) - 1]
        at = lineup.index("candidate") if "candidate" in lineup else None
        fault = {"ok": False, "party": "player", "fault_slot": at, "error_type": "player_error", "message": "Exit 1."}
        rows.append(row.model_copy(update=fault) if at is not None else row)
    report = report_rows(plan, rows)
    assert isinstance(report, PickupReport)
    assert all(value.value < 0 for value in (*report.values, *report.credits[:1]))


# --- what is shown ------------------------------------------------------------------------------------------------

HOSTILE = "<b>x</b>|`y`\n\u202e[z](javascript:1)"


def reports() -> list[ShownReport]:
    """One of each kind, with names that nobody should trust."""
    player = SlotRow(name=HOSTILE)
    rank = ranking_plan(entrants=(player, SlotRow(name="B"), SlotRow(name="C")), slot_count=2, max_blocks=6)
    found = [
        reported(scrimmage_plan(player=player, max_blocks=4), strengths({})),
        reported(mixture_plan(1, 1, max_blocks=4).model_copy(update={"entrants": (player, player)}), strengths({})),
        reported(pickup_plan(2, slot_count=3, candidate=player, credit="shapley", max_blocks=4), strengths({})),
        reported(rank, strengths({})),
        reported(diagnosis_plan(player=player, baseline=player, max_blocks=6), strengths({}, seat=9.0)),
    ]
    rows = [row for block in range(1, 4) for row in pair_rows(block, float(block))]
    return [*found, report_rows(comparison_plan(new=player, max_blocks=3), rows)]


@pytest.fixture(scope="module")
def of_each_kind() -> list[ShownReport]:
    return reports()


def test_markdown_and_notebooks_keep_their_form(of_each_kind: list[ShownReport]) -> None:
    for report in of_each_kind:
        text = report_markdown(report)
        assert text.startswith("### ")
        assert "<b>" not in text.replace(r"\<b\>", "")
        widths = [line.replace(r"\|", "").count("|") for line in text.splitlines() if line.startswith("|")]
        assert len(widths) > 2
        page = report._repr_html_()  # pyright: ignore[reportPrivateUsage]
        assert "<b>" not in page
        assert "\u202e" not in page
        assert page.count("<table>") == len(report.contents().tables)
        assert "\n" not in str(report)


def test_reports_as_rows(of_each_kind: list[ShownReport]) -> None:
    quantities = {
        "scrimmage": {"mean score", "seat effect"},
        "mix": {"mean score", "seat effect", "difference", "mean score in a seat"},
        "pickup": {"value over replacement", "value in all seats", "credit", "synergy", "mean score"},
        "rank": {"rating", "mean score", "seat effect"},
        "compare": {"difference", "mean score", "seat effect"},
        "diagnose": {
            *("over the baseline", "score alone", "score with itself", "seat effect"),
            "share of episodes spoiled",
        },
    }
    for report in of_each_kind:
        rows = report.to_records()
        assert len({tuple(row) for row in rows}) == 1
        assert {row["quantity"] for row in rows} == quantities[str(rows[0]["kind"])]
        low, value, high = rows[0]["low"], rows[0]["value"], rows[0]["high"]
        assert low is None or (isinstance(low, float) and isinstance(high, float) and low <= float(value or 0) <= high)


def test_data_frames_or_what_to_install(of_each_kind: list[ShownReport]) -> None:
    for name in ("pandas", "polars"):
        frame = getattr(of_each_kind[0], f"to_{name}")
        if importlib.util.find_spec(name) is not None:
            assert len(frame()) == len(of_each_kind[0].to_records())
            continue
        with pytest.raises(EnvironmentFault, match=f"pip install {name}") as refused:
            frame()
        assert refused.value.code == "not_installed"


def test_every_report_can_be_drawn(of_each_kind: list[ShownReport]) -> None:
    for report in of_each_kind:
        if importlib.util.find_spec("matplotlib") is None:
            with pytest.raises(EnvironmentFault, match=r"matplotlib is not installed.*coworld-core\[plot\]"):
                report.plot()
            continue
        found = report.contents()
        axes = report.plot().get_axes()
        assert [one.get_title(loc="left") for one in axes[: len(found.plots)]] == [plot.title for plot in found.plots]
        assert len(axes) == len(found.plots) + bool(found.encounters)
        for plot, drawn in zip(found.plots, axes, strict=False):
            assert len(drawn.get_yticklabels()) == len(plot.estimates)


def test_numbers_have_the_digits_that_their_intervals_say_something_about() -> None:
    report = reported(scrimmage_plan(max_blocks=15), strengths({"player": 3.0}))
    (row,) = report.contents().tables[0].rows
    assert len(row[1].partition(".")[2]) == 2
    assert [len(end.partition(".")[2]) for end in row[2].removesuffix(" (Student's t)").split(" to ")] == [2, 2]


# --- what was left ------------------------------------------------------------------------------------------------


def test_evaluation_kind_is_read_from_its_directory(of_each_kind: list[ShownReport], tmp_path: Path) -> None:
    plan = mixture_plan(1, 1, max_blocks=4)
    rows: list[EpisodeRow] = list(played(plan, strengths({})))
    place = leave(tmp_path / "mixture", plan, reversed(rows))
    assert read_plan(place) == plan
    assert report_rows(read_plan(place), read_rows(place)) == report_rows(plan, rows)
    for report in of_each_kind:
        (place / "plan.json").write_text(report.plan.model_dump_json())
        assert type(read_plan(place)) is type(report.plan)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "has no evaluation: there is no plan.json."),
        ({"events.ndjson": ""}, "That is one episode, or several of one plan."),
        ({"events.ndjson": "", "tournament.toml": ""}, "That is a tournament: read_tournament("),
        ({"plan.json": '{"kind": "divine"}'}, "is of an unknown kind of evaluation."),
        ({"plan.json": "[]"}, "unknown kind of evaluation"),
        ({"plan.json": "{"}, "plan.json"),
        ({"plan.json": '{"kind": "compare"}'}, 'The evaluation plan lacks "coworld".'),
    ],
)
def test_directory_without_an_evaluation_is_refused(files: dict[str, str], said: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CoworldError) as refused:
        read_plan(tmp_path)
    assert said in str(refused.value)
