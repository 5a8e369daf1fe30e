"""A league that plays on: who meets whom, when a round begins and how it ends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa
from support.observatory_kit import Platform, World, open_platform, seed

from coworld_core.errors import UsageError
from observatory.store.models import EpisodeRequest, League, Round, RoundResult
from observatory.work.rounds import CONTINUOUS, MOST_EPISODES, advance, lineups
from observatory.work.scheduling import Candidate

pytestmark = pytest.mark.timeout(300)


def _candidates(count: int) -> list[Candidate]:
    return [
        Candidate(policy_version_id=f"v{n}", policy_id=f"p{n}", name=f"bot{n}", version=1, owner_user_id=f"u{n}")
        for n in range(count)
    ]


@pytest.mark.parametrize(("count", "seats", "episodes"), [(2, 2, 1), (3, 2, 3), (4, 3, 4), (1, 2, 1), (2, 5, 1)])
def test_few_candidates_all_meet(count: int, seats: int, episodes: int) -> None:
    drawn = lineups(_candidates(count), seats=seats, number=1)
    assert [len(lineup) for lineup in drawn] == [seats] * episodes
    met = {frozenset(seat.name for seat in lineup) for lineup in drawn}
    assert len(met) == episodes
    assert {seat.name for lineup in drawn for seat in lineup} == {f"bot{n}" for n in range(count)}


def test_many_candidates_are_drawn_and_nobody_sits_where_it_pays() -> None:
    many = _candidates(40)
    assert len(lineups(many, seats=4, number=1)) == MOST_EPISODES
    assert lineups(many, seats=4, number=1) == lineups(many, seats=4, number=1) != lineups(many, seats=4, number=2)
    for lineup in lineups(many, seats=4, number=7):
        assert len({seat.name for seat in lineup}) == 4
    first = Counter(lineups(_candidates(2), seats=2, number=number)[0][0].name for number in range(1, 11))
    assert first == {"bot0": 5, "bot1": 5}


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
            [episode] = (await session.scalars(sa.select(EpisodeRequest))).all()
            assert (episode.round_id, episode.source, episode.league_id) == (begun.id, "round", world.league)
            assert {seat.policy_version_id for seat in episode.participants} == set(versions)
            episode.status = "failed"
        # over, and too early for the next
        assert await advance(database, world.division) is None
        [ended] = await _rounds(platform)
        assert (ended.status, ended.error) == ("failed", "None of its episodes was completed.")


async def test_a_config_that_fits_no_more_is_said(tmp_path: Path) -> None:
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


async def test_a_league_plays_on_while_its_server_runs(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        for owner in (ann, bob):
            await platform.join(world, await platform.policy(owner, owner.name))
        await _on(platform, world, every=0)
        with anyio.fail_after(200):
            while sum(row.status == "completed" for row in await _rounds(platform)) < 2:  # noqa: ASYNC110 - bounded
                await anyio.sleep(0.1)
        async with platform.client() as anybody:
            lines = (await anybody.get(f"/v2/divisions/{world.division}/leaderboard")).json()
        assert {line["player_name"] for line in lines} == {"ann", "bob"}
        async with platform.services.database.reading() as session:
            results = (await session.scalars(sa.select(RoundResult))).unique().all()
            seeds = (await session.scalars(sa.select(EpisodeRequest.seed).order_by(EpisodeRequest.created_at))).all()
        assert {row.rank for row in results} == {1, 2}
        assert len(set(seeds)) == len(seeds), "each round has other chances"
