"""Seeds of a league: nobody knows them before a round, and everybody can check them after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from support.league_play import contestants, league_of, play, strengths_of
from support.observatory_kit import Account, Platform, World, open_platform, seed

from coworld_core import api
from coworld_core.secret_seeds import verify_seed
from observatory.store.models import Division, EpisodeRequest, League, Round
from observatory.work.rounds import advance

TEAM = {"X-Use-Elevated-Privileges": "true"}


async def _begun(platform: Platform, members: int = 2, **terms: Any) -> tuple[World, dict[str, float], str]:
    """A league with a round that has begun; returns also the strengths of its policies, and the round's id."""
    world = await seed(platform.services, (await platform.account("owner")).id)
    versions = await contestants(platform, world, members)
    await league_of(platform, world, **terms)
    number = await advance(platform.services.database, world.division)
    assert number is not None
    return world, strengths_of(versions), number


async def _round(platform: Platform, id: str) -> api.RoundDetail:
    async with platform.client() as anybody:
        answer = (await anybody.get(f"/v2/rounds/{id}")).json()
    found = api.RoundDetail.read(answer)
    assert found.odd == ()
    return found


async def _episodes(platform: Platform) -> list[EpisodeRequest]:
    async with platform.services.database.reading() as session:
        return list(await session.scalars(sa.select(EpisodeRequest).order_by(EpisodeRequest.created_at)))


async def test_seeds_are_fixed_before_a_round_and_revealed_after_it(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        world, strengths, first = await _begun(platform, 3, blocks=2)
        drawn = {row.seed for row in await _episodes(platform)}
        before = await _round(platform, first)
        assert before.seeds
        assert all(one.key is None and one.seed is None for one in before.seeds)
        assert len(drawn) == len(before.seeds), "one seed for all lineups of a block"
        assert before.round_config["seeds"]["commitments"] == {str(one.block): one.commitment for one in before.seeds}
        page = f"{platform.url}/leagues/{world.league}/rounds/{first}"
        async with platform.client() as anybody:
            text = (await anybody.get(page)).text
            assert before.seeds[0].commitment in text
            assert not any(str(one) in text for one in drawn)
            await play(platform, strengths)
            assert await advance(platform.services.database, world.division) is not None
            after = await _round(platform, first)
            text = (await anybody.get(page)).text
        assert after.seeds
        assert {one.seed for one in after.seeds} == drawn
        for one, known in zip(after.seeds, before.seeds, strict=True):
            assert one.seed is not None
            assert one.key is not None
            limits: dict[str, int] = {"least": known.least, "most": known.most}
            assert verify_seed(one.seed, key=one.key, commitment=known.commitment, **limits)
            assert not verify_seed(one.seed + 1, key=one.key, commitment=known.commitment, **limits)
            assert not verify_seed(one.seed, key="00" * 32, commitment=known.commitment, **limits)
            assert one.key in text
            assert str(one.seed) in text
        # What is known of one round says nothing about the next, nor do its numbers
        [*_, last] = await _episodes(platform)
        assert last.seed not in drawn
        assert not {row.seed for row in await _episodes(platform)} & set(range(1_000_000))


async def test_two_leagues_and_two_divisions_share_no_seed(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        world, strengths, _ = await _begun(platform)
        database = platform.services.database
        await play(platform, strengths)
        async with database.writing() as session:
            upper = Division(name="Upper", level=2, league_id=world.league)
            session.add(upper)
            await session.flush()
            other = World(world.id, world.name, world.league, upper.id)
        for name in ("x", "y"):
            await platform.join(other, await platform.policy(await platform.account(name), name))
        assert await advance(database, upper.id) is not None
        seeds = {row.round_id: row.seed for row in await _episodes(platform)}
        assert len(seeds) == 2
        assert len(set(seeds.values())) == 2, "both play the first block of the first season"


async def test_config_and_seed_of_unfinished_episodes_are_for_operators(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        _, strengths, number = await _begun(platform)
        boss = await platform.account("boss", team=True)
        [row, *_] = await _episodes(platform)

        async def seen(account: Account | None, **headers: str) -> list[Any]:
            async with platform.client(account, **headers) as client:
                one = (await client.get(f"/v2/episode-requests/{row.id}")).json()
                rows = (await client.get("/v2/episode-requests", params={"round_id": number})).json()["entries"]
                of_round = (await client.get(f"/v2/rounds/{number}/episode-requests")).json()["entries"]
                spec = (await client.get(f"/v2/episode-requests/{row.id}/artifacts/spec")).json()
                config = await client.get(f"/v2/episode-requests/{row.id}/artifacts/game-config")
                page = (await client.get(f"{platform.url}/episodes/{row.id}")).text
            [listed] = [found for found in rows if found["id"] == row.id]
            [played] = [found for found in of_round if found["id"] == row.id]
            return [
                one["seed"],
                (one["game_config"] or {}).get("seed"),
                listed["seed"],
                (listed["game_config"] or {}).get("seed"),
                played["seed"],
                (spec["game_config"] or {}).get("seed"),
                config.json()["seed"] if config.status_code == 200 else None,
                row.seed if f"<dd>{row.seed}</dd>" in page else None,
            ]

        assert row.seed is not None
        for account in (None, boss):
            assert await seen(account) == [None] * 8
        assert (await seen(boss, **TEAM))[:7] == [row.seed] * 7
        await play(platform, strengths)
        assert await seen(None) == [row.seed] * 8


async def test_secret_is_in_no_answer_and_old_leagues_get_one_with_their_next_round(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        world, strengths, first = await _begun(platform)
        database = platform.services.database
        async with database.reading() as session:
            secret = await session.scalar(sa.select(League.seed_secret)) or ""
        assert len(bytes.fromhex(secret)) == 32
        boss = await platform.account("boss", team=True)
        async with platform.client(boss, **TEAM) as client:
            for path in ("/v2/leagues", f"/v2/leagues/{world.league}", f"/v2/rounds/{first}", "/v2/divisions"):
                assert secret not in (await client.get(path)).text
        # As after an upgrade: a round that was begun with seeds that count up
        async with database.writing() as session:
            await session.execute(sa.update(League).values(seed_secret=None))
            row = await session.get_one(Round, first)
            row.round_config = {key: value for key, value in row.round_config.items() if key != "seeds"}
        assert (await _round(platform, first)).seeds == ()
        await play(platform, strengths)
        later = await advance(database, world.division)
        assert (await _round(platform, first)).seeds == ()
        assert later is not None
        assert (await _round(platform, later)).seeds
