"""What is private is seen by whom it belongs to, and lists that anybody may read do not give it away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.observatory import inside
from support.observatory_kit import Account, Platform, open_platform, seed
from support.uploads import manifest_for, upload_image, upload_policy

from observatory.api.leagues import create_league
from observatory.names import NameRefused
from observatory.store.models import Division, League, Membership, Round

pytestmark = pytest.mark.slow

ELEVATED = {"X-Use-Elevated-Privileges": "true"}


async def test_private_league_episodes_are_visible_to_members(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, bob, cat, eve = [await platform.account(name) for name in ("ann", "bob", "cat", "eve")]
        world = await seed(platform.services, ann.id)
        versions = [await platform.policy(owner, owner.name) for owner in (ann, bob, cat)]
        for version in versions:
            await platform.join(world, version)
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(League).values(public=False))
        played = await platform.play_round(world, versions[0], versions[1])

        async def seen(account: Account | None) -> bool:
            async with platform.client(account) as client:
                listed = (await client.get("/v2/episode-requests", params={"league_id": world.league})).json()
                one = await client.get(f"/v2/episode-requests/{played}")
                assert [row["id"] for row in listed["entries"]] == ([played] if one.status_code == 200 else [])
                assert (await client.get(f"{platform.url}/episodes/{played}")).status_code in (200, 404)
                return one.status_code == 200

        # Cat has no seat in it, and is a member; eve is not
        assert [await seen(account) for account in (ann, bob, cat, eve, None)] == [True, True, True, False, False]
        assert not await round_seen(platform, None)
        async with platform.client(cat) as client:
            # The log of another's player is no more hers than before
            logs = await client.get(f"/v2/episode-requests/{played}/{versions[0]}/policy-logs/0")
            assert logs.status_code in (403, 404)
        async with platform.services.database.writing() as session:
            ended = sa.update(Membership).where(Membership.user_id == cat.id).values(end_time=sa.func.now())
            await session.execute(ended)
        assert not await seen(cat)
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(Division).values(hidden=True))
        assert not await round_seen(platform, bob)


async def round_seen(platform: Platform, account: Account | None) -> bool:
    """Whether somebody learns of the round."""
    async with platform.services.database.reading() as session:
        round_id = (await session.scalars(sa.select(Round.id))).one()
    async with platform.client(account) as client:
        statuses = {
            (await client.get(path)).status_code
            for path in (f"/v2/rounds/{round_id}", f"/v2/rounds/{round_id}/episode-requests")
        }
        listed = (await client.get("/v2/rounds")).json()["entries"]
    assert statuses == ({200} if listed else {404})
    return bool(listed)


async def test_games_of_private_coworlds_are_not_listed(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, eve = await platform.add_user("ann"), await platform.add_user("eve")
        admin = await platform.add_user("admin", team=True)
        image = (await upload_image(platform, ann))["id"]
        for name, visibility in (("open-game", "public"), ("secret-game", "private")):
            body = {"manifest": manifest_for(image, name=name), "visibility": visibility}
            await platform.post("/v2/coworlds/upload", ann, body)

        async def games(token: str | None, **headers: str) -> list[str]:
            answer = await platform.ask("GET", "/v2/games", token, headers=headers)
            return [game["coworld_name"] for game in answer.json()]

        assert await games(None) == await games(eve) == await games(admin) == ["open-game"]
        assert await games(ann) == await games(admin, **ELEVATED) == ["open-game", "secret-game"]
        # A league for those with an account shows them its game
        async with platform.services.database.writing() as session:
            await create_league(session, "ours", coworld="secret-game", public=False)
        assert await games(None) == ["open-game"]
        assert await games(eve) == ["open-game", "secret-game"]


async def test_policy_versions_are_listed_to_their_owner_only(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, eve = await platform.add_user("ann"), await platform.add_user("eve")
        admin = await platform.add_user("admin", team=True)
        mine, theirs = [await upload_policy(platform, token, "secret-plan") for token in (ann, eve)]

        async def listed(token: str, headers: dict[str, str] | None = None, **query: Any) -> set[str]:
            answer = await platform.ask("GET", "/stats/policy-versions", token, headers=headers, params=query)
            return {row["id"] for row in answer.json()["entries"]}

        for query in ({}, {"mine": "false"}, {"name_exact": "secret-plan"}):
            assert await listed(ann, **query) == {mine["id"]}
            assert await listed(admin, **query) == set()
        assert await listed(admin, ELEVATED) == {mine["id"], theirs["id"]}


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x1b[2Jb", "\u202eevil", "a\u200bb", "x" * 65, "\t"])
async def test_player_name_must_be_printable(name: str, tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        await platform.ask("POST", "/players", ann, json={"name": name}, expect=422)
        assert await platform.get("/players", ann) == []


async def test_a_players_name_is_trimmed(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        long = "Åsa the sprinter " + "x" * 47
        assert (await platform.post("/players", ann, {"name": f"  {long} "}))["name"] == long
        # With other blanks around it, it is the same name
        await platform.ask("POST", "/players", ann, json={"name": f"{long}\n"}, expect=409)


async def test_a_players_name_may_not_look_like_somebody_elses(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, eve = await platform.add_user("ann"), await platform.add_user("eve")
        await platform.post("/players", ann, {"name": "sprinter"})
        for name in ("sprinter", "spr1nter", "Ann"):
            body = {"name": name}
            refused = (await platform.ask("POST", "/players", eve, json=body, expect=409)).json()
            assert refused["type"] == "name_taken", name
            assert "can be taken for" in refused["detail"]
        for name in ("printer", "спринтер", "Eve"):
            await platform.post("/players", eve, {"name": name})
        # One's own may be alike
        await platform.post("/players", ann, {"name": "Sprinter"})
        await platform.post("/players", ann, {"name": "ann"})
        for name in ("Ann", "a-n-n"):
            with pytest.raises(NameRefused) as taken:
                await platform.add_user(name)
            assert taken.value.code == "name_taken"
