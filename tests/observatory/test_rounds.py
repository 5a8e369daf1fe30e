"""A league that plays on: who meets whom, when a round begins and how it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa
from support.logs import logged
from support.observatory import until_committed
from support.observatory_kit import Platform, World, open_platform, seed

from coworld_core.errors import UsageError
from observatory.store.columns import new_id
from observatory.store.models import Division, EpisodeRequest, League, Round, RoundResult
from observatory.work.rounds import advance
from observatory.work.seasons import CONTINUOUS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def _on(platform: Platform, world: World, *, every: float, variant: str | None = None) -> None:
    async with platform.services.database.writing() as session:
        league = await session.get_one(League, world.league)
        league.commissioner_key, league.commissioner_config = CONTINUOUS, {"every_seconds": every}
        league.variant_id = variant


async def _rounds(platform: Platform) -> list[Round]:
    async with platform.services.database.reading() as session:
        return list((await session.scalars(sa.select(Round).order_by(Round.round_number))).unique())


async def test_a_round_begins_once_and_ends_with_its_episodes(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        database = platform.services.database
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        # a league that stands still is left alone, and so is one with a single champion
        versions = [await platform.policy(owner, owner.name) for owner in (ann, bob)]
        benched = await platform.policy(bob, "benched")
        await platform.join(world, versions[0])
        await platform.join(world, benched, champion=False)
        assert await advance(database, world.division) is None
        await platform.join(world, versions[1])
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(advance, database, world.division)
        [begun] = await _rounds(platform)
        assert await advance(database, world.division) is None
        async with database.writing() as session:
            # both in both seats, with the same chances
            rows = (await session.scalars(sa.select(EpisodeRequest).order_by(EpisodeRequest.index))).all()
            assert {(row.round_id, row.source, row.league_id) for row in rows} == {(begun.id, "round", world.league)}
            seated = [[seat.policy_version_id for seat in row.participants] for row in rows]
            assert seated in ([versions, versions[::-1]], [versions[::-1], versions])
            assert len({row.seed for row in rows}) == 1
            for row in rows:
                row.status = "failed"
        # over, and too early for the next
        assert await advance(database, world.division) is None
        [ended] = await _rounds(platform)
        assert (ended.status, ended.error) == ("failed", "No episode of the round was completed.")


async def test_config_that_no_longer_matches_the_game_is_reported(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        for owner in (ann, bob):
            await platform.join(world, await platform.policy(owner, owner.name))
        async with platform.services.database.writing() as session:
            (await session.get_one(League, world.league)).variant_id = "gone"
        with pytest.raises(UsageError, match="gone"):
            await advance(platform.services.database, world.division)
        assert await _rounds(platform) == []


async def test_failing_league_does_not_stop_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Terms that a later version has written, say, or a stranger's pairing with a defect."""

    def said() -> list[str]:
        return [record.message for record in caplog.records if "cannot play a round" in record.message]

    async with logged("cannot play a round") as told, open_platform(tmp_path, backend="none") as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        async with platform.services.database.writing() as session:
            first = await session.get_one(League, world.league)
            second = League(id=new_id("league"), name="Other", slug="other", game_id=first.game_id)
            session.add(second)
            await session.flush()
            division = Division(id=new_id("div"), name="Main", level=1, league_id=second.id)
            session.add(division)
        sound = replace(world, league=second.id, division=division.id)
        for owner in (ann, bob):
            for one in (world, sound):
                await platform.join(one, await platform.policy(owner, f"{owner.name}-{one.league}"))
        async with platform.services.database.writing() as session:
            for one, every in ((world, "often"), (sound, 0)):
                league = await session.get_one(League, one.league)
                league.commissioner_key, league.commissioner_config = CONTINUOUS, {"every_seconds": every}
        await until_committed(lambda: _rounds(platform), seconds=60)
        with anyio.fail_after(60):
            await told.wait()
        assert {row.division_id for row in await _rounds(platform)} == {sound.division}
    assert said() == [f"Division {world.division} cannot play a round: an unexpected ValidationError."]


async def test_a_league_plays_on_while_its_server_runs(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        for owner in (ann, bob):
            await platform.join(world, await platform.policy(owner, owner.name))
        await _on(platform, world, every=0)

        async def two_rounds() -> bool:
            return sum(row.status == "completed" for row in await _rounds(platform)) >= 2

        await until_committed(two_rounds, seconds=200)
        async with platform.client() as anybody:
            lines = (await anybody.get(f"/v2/divisions/{world.division}/leaderboard")).json()
        assert {line["player_name"] for line in lines} == {"ann", "bob"}
        async with platform.services.database.reading() as session:
            results = (await session.scalars(sa.select(RoundResult))).unique().all()
            seeds = await session.execute(sa.select(EpisodeRequest.round_id, EpisodeRequest.seed).distinct())
        # one program, in every seat in turn
        assert {row.rank for row in results} == {1}
        by_round = seeds.all()
        assert len({seed for _, seed in by_round}) == len(by_round), "each round has other chances"
