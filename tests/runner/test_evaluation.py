"""Comparisons that are played: early ends, faults, going on after an interruption, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.contest import compared, contest
from support.small_world import World

from coworld_core.episode.events import EvaluationProgressed, Notice
from coworld_core.episode.record import EpisodeRow, StarvationRecord, read_rows
from coworld_core.errors import UsageError
from coworld_core.evaluation import ComparisonPlan, RankingPlan, block_seed, compare_rows, rank_rows
from coworld_runner.episode.single import EpisodeOptions
from coworld_runner.episode.starvation import StarvationMeter
from coworld_runner.evaluation import EvaluationRules, diagnose, mix, pickup, rank, read_evaluation, scrimmage
from coworld_runner.testing.fake_backend import FakeBackend

pytestmark = pytest.mark.slow


def files(workspace: Path) -> tuple[bytes, bytes]:
    return (workspace / "report.json").read_bytes(), (workspace / "report.md").read_bytes()


async def test_the_stronger_player_is_better(tmp_path: Path) -> None:
    heard: list[Any] = []
    async with contest() as small:
        report = await compared(small, tmp_path / "run", parallel=1, listeners=(heard.append,))
    assert (report.verdict, report.stopped, report.blocks, report.won) == ("better", "evidence", 15, 15)
    assert [entrant.mean_score is not None and entrant.forfeits == 0 for entrant in report.entrants] == [True, True]
    rows = list(read_rows(tmp_path / "run"))
    assert len(rows) == 30
    seats = {row.key: [seat.player_id for seat in row.slots] for row in rows}
    assert seats["block-0001.1-1"] == ["first", "second"]
    assert seats["block-0001.1-2"] == ["second", "first"]
    seeds = {row.key: row.seed for row in rows}
    assert seeds["block-0002.1-1"] == seeds["block-0002.1-2"] == block_seed(report.plan.seed, 2)
    progress = [event for event in heard if isinstance(event, EvaluationProgressed)]
    assert (progress[-1].stopped, progress[-1].won, progress[-1].max_blocks) == ("evidence", 15, 200)
    # The report is what its files say it is, and nothing else goes into it
    plan = ComparisonPlan.model_validate_json((tmp_path / "run/plan.json").read_bytes())
    assert compare_rows(plan, reversed(rows)) == report
    assert files(tmp_path / "run")[0] == (report.model_dump_json(indent=2) + "\n").encode()
    assert files(tmp_path / "run")[1].decode().startswith("### First is better than Second, after 15 blocks.\n")


async def test_equal_players_are_not_told_apart_and_more_blocks_may_follow(tmp_path: Path) -> None:
    async with contest(1.0, 1.0) as small:
        report = await compared(small, tmp_path / "run", max_blocks=4)
        assert (report.verdict, report.stopped, report.blocks, report.drawn) == ("undecided", "max_blocks", 4, 4)
        longer = await compared(small, tmp_path / "run", max_blocks=6)
        assert (longer.blocks, len(list(read_rows(tmp_path / "run")))) == (6, 12)
        with pytest.raises(UsageError, match="differs from this one in: seed and margin") as refused:
            await compared(small, tmp_path / "run", max_blocks=6, seed=1, margin=0.1)
        assert refused.value.code == "another_evaluation"
        other = await compared(small, tmp_path / "run", max_blocks=1, seed=1, overwrite=True)
        assert other.blocks == 1


async def test_comparison_resumes(tmp_path: Path) -> None:
    async with contest() as small:
        whole = await compared(small, tmp_path / "whole", max_blocks=5)
        # A seed that is named repeats everything; whoever goes on need not name it again
        seed: int | None = whole.plan.seed
        for stop_after in (1, 3):
            with anyio.CancelScope() as scope:

                def stop(event: Any, scope: anyio.CancelScope = scope, at: int = stop_after) -> None:
                    if isinstance(event, EvaluationProgressed) and event.blocks >= at:
                        scope.cancel()

                await compared(small, tmp_path / "run", parallel=2, max_blocks=5, seed=seed, listeners=(stop,))
            seed = None
            kept = list(read_rows(tmp_path / "run"))
            so_far = json.loads(files(tmp_path / "run")[0])
            assert (so_far["stopped"], so_far["blocks"] >= stop_after) == ("", True)
        await compared(small, tmp_path / "run", max_blocks=5)
    assert list(read_rows(tmp_path / "run"))[: len(kept)] == kept
    assert files(tmp_path / "run") == files(tmp_path / "whole")
    assert whole.blocks == 5


async def test_a_player_that_dies_at_once_ends_it_after_three_blocks(tmp_path: Path) -> None:
    async with contest(1.0, 0.0, "second:dies") as small:
        report = await compared(small, tmp_path / "run", parallel=1, options=EpisodeOptions(failure_grace_seconds=0.05))
    assert (report.stopped, report.blocks, report.entrants[1].forfeits) == ("always_failed", 0, 6)
    assert len(list(read_rows(tmp_path / "run"))) == 6
    first = report.entrants[1].first_forfeit
    assert first is not None
    assert (tmp_path / "run" / first.log).is_file()
    assert f"({first.log})" in report.headline


async def test_a_battery_goes_through_all_variants_and_is_gone_on_with(tmp_path: Path) -> None:
    async with contest() as small:
        how: Any = {"backend": small.backend, "parallel": 4, "workspace": tmp_path / "run"}
        how |= {"baseline": "second", "strong": "third"}
        rules = EvaluationRules(max_blocks=2, count_starved=True)
        more = dataclasses.replace(rules, max_blocks=3)
        report = await diagnose(small.package, "first", rules=rules, **how)
        assert [(one.id, one.blocks, one.repeated) for one in report.variants] == [("default", 2, 2), ("long", 2, 2)]
        assert all(one.over_baseline is not None and one.over_baseline.value == 1.0 for one in report.variants)
        assert [row.variant for row in read_rows(tmp_path / "run")].count("long") == 10
        longer = await diagnose(small.package, "first", before=tmp_path / "run", rules=more, **how)
        assert (longer.blocks, longer.changes) == (6, ())
        assert read_evaluation(tmp_path / "run").report == longer
        some = dataclasses.replace(rules, variant="l?ng*", max_blocks=1)
        report = await diagnose(small.package, "first", rules=some, **{**how, "workspace": tmp_path / "some"})
        assert [one.id for one in report.variants] == ["long"]
        with pytest.raises(UsageError, match=r'No variant of counting matches "x\*"'):
            await diagnose(small.package, "first", rules=dataclasses.replace(rules, variant="x*"), **how)
        with pytest.raises(UsageError, match="differs from this one in: strong"):
            await diagnose(small.package, "first", rules=more, **{**how, "strong": None})


async def test_starved_blocks_are_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0.9, *[0.0] * 100])
    monkeypatch.setattr(
        StarvationMeter,
        "read",
        lambda _: StarvationRecord(
            starved=(share := next(readings)) > 0.5, waited_share=share, threshold=0.5, source=""
        ),
    )
    heard: list[Any] = []
    async with contest() as small:
        report = await compared(
            small, tmp_path / "run", parallel=1, count_starved=False, max_blocks=2, listeners=(heard.append,)
        )
    assert (report.blocks, report.replayed, report.spoiled) == (2, 1, 0)
    # What was to come next is left for later
    keys = [row.key for row in read_rows(tmp_path / "run")]
    assert keys == [f"block-{key}" for key in ("0001.1-1", "0001.1-2", "0001.2-1", "0001.2-2", "0002.1-1", "0002.1-2")]
    assert any("short of processors" in event.message for event in heard if isinstance(event, Notice))


async def test_game_without_seeds_can_be_compared(tmp_path: Path) -> None:
    async with contest(seeds={}) as small:
        report = await compared(small, tmp_path / "run", max_blocks=3)
    assert [remark.code for remark in report.remarks][:2] == ["no_seed", "same_blocks"]
    assert {row.seed for row in read_rows(tmp_path / "run")} == {None}


@pytest.mark.parametrize(
    "seeds", [{"type": "integer", "minimum": 5, "maximum": 9}, {"type": "integer", "exclusiveMaximum": 2**32}]
)
async def test_seeds_are_such_as_the_game_takes(tmp_path: Path, seeds: dict[str, Any]) -> None:
    async with contest(seeds=seeds) as small:
        report = await compared(small, tmp_path / "run", max_blocks=3)
    assert report.plan.seeded
    assert report.blocks == 3


async def test_a_player_compared_with_itself(tmp_path: Path) -> None:
    async with contest() as small:
        report = await compared(small, tmp_path / "run", old="first", max_blocks=1)
    assert [remark.code for remark in report.remarks] == ["same_player", "no_interval"]
    assert (report.plan.new.name, report.plan.old.name) == ("First (new)", "First (old)")


async def test_measure_other_than_scores_is_compared(tmp_path: Path) -> None:
    async with contest() as small:
        report = await compared(small, tmp_path / "run", max_blocks=2, metric="/strengths/by~1slot")
        assert [entrant.mean_score for entrant in report.entrants] == [1.0, 0.0]
        with pytest.raises(UsageError) as refused:
            await compared(small, tmp_path / "other", metric="/strength")
    assert refused.value.code == "metric_unknown"
    assert refused.value.hint == "There is /scores and /strengths/by~1slot."


async def test_a_ranking(tmp_path: Path) -> None:
    rules = EvaluationRules(variant="default", count_starved=True, max_blocks=6)
    async with contest() as small:
        run: Any = {"backend": small.backend, "workspace": tmp_path / "run", "parallel": 4}
        report = await rank(small.package, ["third", "first", "second"], rules=rules, **run)
        with pytest.raises(UsageError, match="at least 2 players"):
            await rank(small.package, ["first"], **run)
    names = {label: player.name for label, player in report.plan.players().items()}
    assert names[report.standings[0].label] == "First"
    assert (report.stopped, report.blocks, len(report.pairs)) == ("max_blocks", 6, 3)
    assert {names[pair.first]: pair.won for pair in report.pairs if names[pair.first] == "First"} == {"First": 2}
    rows = list(read_rows(tmp_path / "run"))
    assert len({frozenset(seat.player_id for seat in row.slots) for row in rows}) == 3
    plan = RankingPlan.model_validate_json((tmp_path / "run/plan.json").read_bytes())
    assert rank_rows(plan, reversed(rows)) == report
    assert "- Not told apart: " in files(tmp_path / "run")[1].decode()


def how(small: World, workspace: Path) -> Any:
    """Where and how to play."""
    rules = EvaluationRules(variant="default", count_starved=True)
    return {"backend": small.backend, "workspace": workspace, "parallel": 4, "rules": rules}


async def test_scrimmage_can_be_extended(tmp_path: Path) -> None:
    async with contest(2.0) as small:
        await scrimmage(small.package, "first", episodes=2, **how(small, tmp_path / "run"))
        report = await scrimmage(small.package, "first", episodes=5, **how(small, tmp_path / "run"))
        with pytest.raises(UsageError, match="differs from this one in: player"):
            await scrimmage(small.package, "second", episodes=5, **how(small, tmp_path / "run"))
        with pytest.raises(UsageError, match="differs from this one in: kind"):
            await mix(small.package, {"first": 1}, episodes=5, **how(small, tmp_path / "run"))
        with pytest.raises(UsageError, match="at least 1 episode"):
            await scrimmage(small.package, "first", episodes=0, **how(small, tmp_path / "other"))
    rows = list(read_rows(tmp_path / "run"))
    assert (report.blocks, len(rows), len({row.seed for row in rows})) == (5, 5, 5)
    assert {seat.player_id for row in rows for seat in row.slots} == {"first"}
    # The report is what its files say it is, whichever kind it is of
    left = read_evaluation(tmp_path / "run")
    assert (left.report, left.episodes, list(left.rows())) == (report, len(rows), rows)


async def test_a_mixture_plays_whole_blocks(tmp_path: Path) -> None:
    async with contest(2.0) as small:
        report = await mix(small.package, {"first": 3, "second": 2}, episodes=3, **how(small, tmp_path / "run"))
        assert (report.plan.counts, report.blocks) == ((1, 1), 2)
        resumed = await mix(small.package, {"first": 3, "second": 2}, episodes=5, **how(small, tmp_path / "run"))
        assert (resumed.blocks, len(list(read_rows(tmp_path / "run")))) == (3, 6)
        with pytest.raises(UsageError) as refused:
            await mix(small.package, dict.fromkeys(("first", "second", "third"), 1), **how(small, tmp_path / "other"))
        with pytest.raises(UsageError, match="at least 1 player"):
            await mix(small.package, {}, **how(small, tmp_path / "other"))
    assert refused.value.code == "too_few_seats"
    assert {entrant.mean_score is not None for entrant in report.entrants} == {True}
    assert [(pair.won, pair.lost) for pair in report.pairs] == [(2, 0)]


async def test_a_pickup(tmp_path: Path) -> None:
    async with contest(2.0) as small:
        report = await pickup(
            small.package, "first", ["second"], episodes=8, credit="shapley", **how(small, tmp_path / "run")
        )
        for pool, credit, code in (
            ([], "", "empty_pool"),
            (["second", "first"], "", "candidate_in_pool"),
            (["second", "third"], "shapley", "too_few_seats"),
        ):
            with pytest.raises(UsageError) as refused:
                await pickup(small.package, "first", pool, credit=credit, **how(small, tmp_path / "other"))  # type: ignore[arg-type]
            assert refused.value.code == code
    # Three lineups by seats, and four groups of two
    assert (report.blocks, len(list(read_rows(tmp_path / "run")))) == (2, 14)
    assert report.overall is not None
    assert report.overall.value > 0
    assert [one.label for one in report.credits] == ["candidate", "pool-1"]


async def test_another_player_has_the_seats_of_the_games_own(tmp_path: Path) -> None:
    async with contest(2.0) as small:
        run = how(small, tmp_path / "run")
        run["rules"] = dataclasses.replace(run["rules"], others="third")
        report = await pickup(small.package, "first", ["second"], episodes=1, credit="shapley", **run)
        with pytest.raises(UsageError) as refused:
            await compared(small, tmp_path / "other", others="third")
    assert refused.value.code == "no_other_seats"
    assert not (tmp_path / "other").exists()
    assert (report.plan.others or report.plan.candidate).name == "Third"
    seated = {seat.player_id for row in read_rows(tmp_path / "run") for seat in row.slots}
    assert seated == {"first", "second", "third"}


class _Pushed(FakeBackend):
    """Has another image under the same name from some moment on."""

    pushed = False

    async def ensure_image(self, image: str, **more: Any) -> Any:
        found = await super().ensure_image(image, **more)
        return dataclasses.replace(found, digest="sha256:after" if self.pushed else "sha256:before")


async def test_an_image_that_changes_is_refused(tmp_path: Path) -> None:
    async with contest(backend=_Pushed) as small:

        def push(event: Any) -> None:
            if isinstance(event, EvaluationProgressed) and event.blocks:
                small.backend.pushed = True  # type: ignore[attr-defined]

        with pytest.raises(UsageError) as refused:
            await compared(small, tmp_path / "run", parallel=1, listeners=(push,))
    assert refused.value.code == "image_changed"
    kept: list[EpisodeRow] = list(read_rows(tmp_path / "run"))
    assert {seat.digest for row in kept for seat in row.slots} == {"sha256:before"}
    report = json.loads(files(tmp_path / "run")[0])
    assert [entrant["digest"] for entrant in report["entrants"]] == ["sha256:before"] * 2
    assert report["blocks"] == 1
