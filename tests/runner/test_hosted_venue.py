"""Suites that a real Observatory plays: planned, measured, gone on with after a cut, and reported as those of here."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.observatory_kit import MISFITS, QUICK, Account, Platform, World, open_platform, seed

from coworld_client import CoworldClient, HostedController, NotFound, TooManyRequests
from coworld_core.episode.events import BaseEvent, BatchProgressed
from coworld_core.episode.record import ROWS_NAME, read_rows
from coworld_core.errors import UsageError, WorkspaceError
from coworld_core.evaluation.mixture import MixtureReport
from coworld_core.evaluation.suite_plan import read_suite
from coworld_core.evaluation.suite_report import SuiteReport
from coworld_runner import HostedVenue
from coworld_runner.evaluation import EvaluationRules, mix
from coworld_runner.evaluation.suite import play_suite, read_suite_settings
from observatory.quotas import Quotas

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TEXT = """
episodes = 4

[[entry]]
name = "pairs"
variants = ["duel"]
lineups = [["{player}", "right"]]

[[entry]]
name = "table"
episodes = 1
variants = ["four"]
config = { linger = 0.0 }
lineups = [["{player}"]]
"""


@asynccontextmanager
async def hosted(tmp_path: Path, **more: Any) -> AsyncGenerator[tuple[Platform, Account, World, CoworldClient]]:
    async with open_platform(tmp_path, **more) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, league=False)
        for name in ("left", "right"):
            await platform.policy(ann, name)
        async with CoworldClient(platform.url, token=ann.token) as api:
            yield platform, ann, world, api


def suite(directory: Path, text: str = TEXT) -> Path:
    path = directory / "strength.toml"
    path.write_text(text)
    return path


async def play(
    api: CoworldClient, path: Path, directory: Path, *, coworld: str, players: tuple[str, ...] = ("left",), **how: Any
) -> SuiteReport:
    settings = read_suite_settings(path)
    controller = HostedController(api)
    game = await controller.game(coworld, (*settings.players, *players))
    venue = HostedVenue(controller, game)
    return await play_suite(settings, package=game, players=players, venue=venue, workspace=directory, **how)


async def requested(api: CoworldClient) -> list[dict[str, str] | None]:
    """The labels of all requests."""
    return [row.tags async for row in api.experience.list(mine=True)]


async def test_a_platform_plays_a_suite_and_goes_on_after_a_cut(tmp_path: Path) -> None:
    path, out = suite(tmp_path), tmp_path / "out"
    async with hosted(tmp_path) as (_, _, world, api):
        ended: list[str] = []
        with anyio.CancelScope() as cut:

            def stop(event: BaseEvent) -> None:
                if isinstance(event, BatchProgressed):
                    ended.append(event.key)
                    cut.cancel()

            await play(api, path, out, coworld=world.name, parallel=2, listeners=(stop,))
        so_far, _ = read_suite(out)
        assert (so_far.complete, len(ended)) == (False, 1)
        before = await requested(api)
        assert 1 <= len(before) <= 4

        async def whole(directory: Path, **more: Any) -> SuiteReport:
            return await play(api, path, directory, coworld=world.name, **more)

        report = await whole(out)
        # Four episodes of two seats, and one of four that a single policy has
        labels = await requested(api)
        assert len(labels) == 5
        assert {(tags or {})["suite"] for tags in labels} == {"strength"}
        assert {(tags or {})["cell"] for tags in labels} == {"pairs.duel.1", "table.four.1"}
        assert [(cell.entry, cell.names, cell.blocks, cell.stopped) for cell in report.cells] == [
            ("pairs", ("left:v1", "right:v1"), 2, "max_blocks"),
            ("table", ("left:v1",), 1, "max_blocks"),
        ]
        assert report.ok
        # A slot's score is its number plus the seed, so rotated policies score alike
        pairs = [*read_rows(out / "pairs.duel.1")]
        assert [row.scores for row in pairs] == [((row.seed or 0) + 0.0, (row.seed or 0) + 1.0) for row in pairs]
        assert len({row.seed for row in pairs}) == 2
        assert {tuple(seat.name for seat in row.slots) for row in pairs} == {
            ("left:v1", "right:v1"),
            ("right:v1", "left:v1"),
        }
        assert report.cells[0].entrants[0].mean_score == report.cells[0].entrants[1].mean_score
        assert read_suite(out)[0] == report
        assert "| pairs | duel | left:v1 |" in (out / "report.md").read_text()

        # From another directory, as from another machine, with its seed: the same episodes
        suite(tmp_path, f"seed = {report.seed}\n{TEXT}")
        elsewhere = await whole(tmp_path / "elsewhere", parallel=1)
        assert elsewhere.players == report.players
        ids = [{row.run_id for row in read_rows(place / "pairs.duel.1")} for place in (out, tmp_path / "elsewhere")]
        assert ids[0] == ids[1]
        # An incomplete line, as a killed process leaves it, is played again, which is the same request
        shutil.rmtree(tmp_path / "elsewhere" / "table.four.1")
        rows = tmp_path / "elsewhere" / "pairs.duel.1" / ROWS_NAME
        rows.write_bytes(rows.read_bytes()[:-5])
        (tmp_path / "elsewhere" / "suite.json").write_bytes(
            so_far.with_cells([cell.model_copy(update={"stopped": ""}) for cell in so_far.cells])
            .model_dump_json()
            .encode()
        )
        assert (await whole(tmp_path / "elsewhere")).players == report.players
        assert len(await requested(api)) == 5


async def test_what_is_wrong_is_said_before_anything_is_requested(tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with hosted(tmp_path, backend="none") as (_, _, world, api):

        async def attempt(**more: Any) -> None:
            text: str = more.pop("text", TEXT)
            await play(api, suite(tmp_path, text), out, **{"coworld": world.name, **more})

        with pytest.raises(NotFound, match="no policy 'stranger'"):
            await attempt(players=("left", "stranger"))
        with pytest.raises(NotFound, match="left:v9"):
            await attempt(players=("left:v9",))
        mistakes: tuple[tuple[dict[str, Any], str], ...] = (
            ({"text": TEXT.replace('"duel"', '"due"')}, "Entry 'pairs': .*due"),
            ({"text": TEXT.replace("linger = 0.0", "linked = 1")}, r"Entry 'table', line-up 1 \(left\): .*linked"),
            ({"text": TEXT.replace("linger = 0.0", "seed = 1")}, "Each block has a seed of its own"),
            ({"text": TEXT.replace('["{player}", "right"]', '["{player}", "right", "right:v1"]')}, "3 players"),
            ({"players": ()}, "no player is named"),
            ({"command": ("bot",)}, "is not an image"),
        )
        for wrong, words in mistakes:
            with pytest.raises(UsageError, match=words):
                await attempt(**wrong)
        assert not out.exists()
        out.mkdir()
        (out / "mine").touch()
        with pytest.raises(WorkspaceError, match="not empty"):
            await attempt()
        assert await requested(api) == []


async def test_faults_are_those_of_who_made_them(tmp_path: Path) -> None:
    text = """
episodes = 2

[[entry]]
name = "player"
config = { play_seconds = 1.0 }
lineups = [["well", "{player}"]]

[[entry]]
name = "game"
episodes = 1
config = { play_seconds = 0.1, behaviour = "wrong-schema" }
lineups = [["well"]]
"""
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=MISFITS, league=False)
        await platform.policy(ann, "well", "well", subject=MISFITS)
        await platform.policy(ann, "bad", "exits-3-midway", subject=MISFITS)
        async with CoworldClient(platform.url, token=ann.token) as api:
            report = await play(api, suite(tmp_path, text), tmp_path / "out", players=("bad",), coworld=world.id)
    player, game = report.cells
    (well, bad) = player.entrants
    assert (player.names, well.forfeits, bad.forfeits, player.blocks) == (("well:v1", "bad:v1"), 0, 2, 1)
    assert {(fault.party, fault.episodes) for fault in player.faults} == {("player", 2)}
    assert bad.first_forfeit is not None
    rows = [*read_rows(tmp_path / "out" / player.directory)]
    assert all([row.slots[fault.slot].name for fault in row.failed_players] == ["bad:v1"] for row in rows)
    assert (game.blocks, game.void, report.ok) == (0, 1, False)
    assert [(fault.party, fault.error_type) for fault in game.faults] == [("game", "results_malformed")]


async def test_a_used_up_budget_ends_it_and_keeps_what_there_is(tmp_path: Path) -> None:
    # Nothing is played, so the first request uses the budget up
    async with (
        hosted(tmp_path, backend="none", quotas=Quotas(episodes=1)) as (platform, ann, world, _),
        CoworldClient(platform.url, token=ann.token, max_retries=0) as api,
    ):
        with pytest.raises(TooManyRequests):
            await play(api, suite(tmp_path), tmp_path / "out", coworld=world.name, parallel=2)
        assert len(await requested(api)) == 1
    so_far, _ = read_suite(tmp_path / "out")
    assert "not over yet" in " ".join(so_far.contents().notes)


async def test_a_platforms_report_is_that_of_programs(tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / f"{name}.py").write_text(f"{(QUICK.directory / 'player.py').read_text()}\n# {name}\n")
    rules = EvaluationRules(variant="duel", seed=7, count_starved=True)
    async with hosted(tmp_path) as (_, _, world, api):
        controller = HostedController(api)
        game = await controller.game(world.name, ("left", "right"))
        there = await mix(
            game,
            {"left": 1, "right": 1},
            episodes=4,
            rules=rules,
            venue=HostedVenue(controller, game),
            workspace=tmp_path / "there",
        )
    players = {str(tmp_path / f"{name}.py"): 1 for name in ("left", "right")}
    here = await mix(QUICK.directory, players, episodes=4, rules=rules, backend="process", workspace=tmp_path / "here")

    def told(report: MixtureReport) -> Any:
        """What must not depend on where it was played."""
        whole = report.model_dump(mode="json", exclude={"durations"})
        for field in ("version", "manifest_sha256", "same_commands", "entrants"):
            del whole["plan"][field]
        for entrant in whole["entrants"]:
            del entrant["digest"]
        return whole

    assert told(there) == told(here)
    rows = [
        [(row.key, row.seed, row.scores, row.status) for row in read_rows(tmp_path / at)] for at in ("there", "here")
    ]
    assert sorted(rows[0]) == sorted(rows[1])
