"""Entries: how many champions an account may have in a league, what they are rated by, and who plays the same image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.league_play import contestants, league_of, play, play_rounds, strengths_of
from support.observatory import Inside, inside
from support.observatory_kit import Account, Platform, World, open_platform, seed
from support.uploads import Blob, image_parts, upload_coworld, upload_image

from coworld_core import api
from observatory.api.leagues import LeagueError, change_league_settings, create_league
from observatory.identity.accounts import AccountError, keep_quotas
from observatory.quotas import Quotas
from observatory.work.rounds import advance
from observatory.work.seasons import change_league


async def _player(platform: Inside, token: str, name: str, image: str, league: str) -> dict[str, Any]:
    """Make a player of an account and submit an image as it; returns the submission."""
    player = await platform.post("/players", token, {"name": name})
    session = (await platform.post(f"/players/{player['id']}/login", token))["token"]
    version = await platform.post(
        "/stats/policies/docker-img/complete", session, {"name": name, "container_image_id": image}
    )
    body = {"league_id": league, "policy_version_id": version["id"]}
    return dict(await platform.post("/v2/league-submissions", session, body))


async def _champions(platform: Inside, league: str) -> list[str]:
    rows = await platform.get("/v2/league-policy-memberships", league_id=league, champions_only="true")
    return sorted(row["policy_version"]["policy"]["name"] for row in rows)


async def test_an_account_has_one_champion_however_many_players_it_makes(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        await upload_coworld(platform, ann)
        async with platform.services.database.writing() as session:
            league = (await create_league(session, "open", coworld="paint-arena")).id
        image, other = [(await upload_image(platform, token, "bot"))["id"] for token in (ann, bob)]
        assert (await _player(platform, ann, "a0", image, league))["notes"] is None
        for number in range(1, 6):
            made = await _player(platform, ann, f"a{number}", image, league)
            assert made["status"] == "placed"
            assert (
                f"It takes the place of a{number - 1}:v1 of a{number - 1}: one account may have 1 entry"
                in made["notes"]
            )
        await _player(platform, bob, "b", other, league)
        assert await _champions(platform, league) == ["a5", "b"]
        row = api.League.read(await platform.get(f"/v2/leagues/{league}"))
        assert (row.entries_per_user, row.odd) == (1, ())


async def test_as_many_entries_as_the_league_says(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann = await platform.add_user("ann")
        await upload_coworld(platform, ann)
        async with platform.services.database.writing() as session:
            two, any_number = [
                (await create_league(session, name, coworld="paint-arena", terms={"entries_per_user": most})).id
                for name, most in (("two", 2), ("any number", None))
            ]
        image = (await upload_image(platform, ann, "bot"))["id"]
        for league, prefix in ((two, "t"), (any_number, "n")):
            for number in range(3):
                await _player(platform, ann, f"{prefix}{number}", image, league)
        assert await _champions(platform, two) == ["t1", "t2"]
        assert await _champions(platform, any_number) == ["n0", "n1", "n2"]
        # An operator may lower it: those that joined last stay
        async with platform.services.database.writing() as session:
            await change_league_settings(session, "any number", terms={"entries_per_user": 1})
        assert await _champions(platform, any_number) == ["n2"]
        rows = await platform.get("/v2/league-policy-memberships", ann, league_id=any_number)
        first = next(row for row in rows if row["policy_version"]["policy"]["name"] == "n0")
        await platform.post(f"/v2/league-policy-memberships/{first['id']}/champion", ann)
        assert await _champions(platform, any_number) == ["n0"]


async def test_the_same_image_is_said(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        await upload_coworld(platform, ann)
        async with platform.services.database.writing() as session:
            league = (await create_league(session, "open", coworld="paint-arena")).id
        parts = image_parts()
        hers, his = [(await upload_image(platform, token, "bot", parts))["id"] for token in (ann, bob)]
        own = (await upload_image(platform, bob, "another"))["id"]
        await _player(platform, ann, "original", hers, league)
        assert (await _player(platform, bob, "different", own, league))["notes"] is None
        copied = await _player(platform, bob, "copy", his, league)
        assert "Its image is the same as that of original:v1 of original in this league." in copied["notes"]
        page = (await platform.http.get(f"/leagues/{league}")).text
        assert page.count("same image as") == 2
        assert "same image as original:v1" in page
        assert "same image as copy:v1" in page
        assert "Entries of one account: 1." in page
        # Another label makes no other image, and neither does a layer on top
        layer, config, manifest = parts
        labelled = Blob(manifest.content.replace(b'"schemaVersion"', b'"annotations": {"a": "b"}, "schemaVersion"'))
        document = json.loads(manifest.content)
        document["layers"].append({**document["layers"][0], "digest": config.digest, "size": len(config.content)})
        on_top = Blob(json.dumps(document).encode())
        for name, changed in (("labelled", labelled), ("on-top", on_top)):
            image = (await upload_image(platform, bob, name, (layer, config, changed)))["id"]
            notes = (await _player(platform, bob, name, image, league))["notes"]
            assert "Its image is the same as that of original:v1 of original" in notes, name
        page = (await platform.http.get(f"/leagues/{league}")).text
        assert page.count("same image as") == 4


async def test_players_of_an_account_are_bounded(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database, quotas=Quotas(players=2)) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        for name in ("one", "two"):
            await platform.post("/players", ann, {"name": name})
        refused = await platform.ask("POST", "/players", ann, json={"name": "three"}, expect=409)
        assert refused.json()["type"] == "quota_exceeded"
        words = refused.json()["detail"]
        assert "Your account has 2 players, and its quota is 2." in words
        assert "ask an operator" in words
        assert "Retry-After" not in refused.headers
        assert len(await platform.get("/players", ann)) == 2
        await platform.post("/players", bob, {"name": "bobs"})
        async with platform.services.database.writing() as session:
            await keep_quotas(session, "ann", ["players=3"])
        await platform.post("/players", ann, {"name": "three"})
    assert Quotas().players == 10


async def _board(client: httpx2.AsyncClient, division: str) -> dict[str, dict[str, Any]]:
    [view] = (await client.get(f"/v2/divisions/{division}/leaderboards")).json()["views"]
    return {row["subject_name"]: row for row in view["rows"]}


async def _submit_as_new_player(platform: Platform, world: World, owner: Account, name: str, version: str) -> None:
    async with platform.client(owner) as client:
        player = (await client.post("/players", json={"name": name})).json()
        body = {"league_id": world.league, "policy_version_id": version, "player_id": player["id"]}
        made = (await client.post("/v2/league-submissions", json=body)).json()
        assert made["status"] == "placed", made


async def test_a_new_player_goes_on_from_its_owners_rating(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        world = await seed(platform.services, (await platform.account("owner")).id)
        versions = await contestants(platform, world, 2)
        ann = await platform.account("ann")
        old = await platform.policy(ann, "old")
        await platform.join(world, old)
        await league_of(platform, world)
        strengths = {**strengths_of(versions), old: -9.0}
        await play_rounds(platform, world.division, strengths, 2)
        assert await advance(platform.services.database, world.division) is not None
        async with platform.client() as anybody:
            before = (await _board(anybody, world.division))["ann"]
            new = await platform.policy(ann, "new")
            await _submit_as_new_player(platform, world, ann, "fresh", new)
            strengths[new] = -9.0
            await play(platform, strengths)
            assert await advance(platform.services.database, world.division) is not None
            await play(platform, strengths)
            await advance(platform.services.database, world.division)
            board = await _board(anybody, world.division)
            page = (await anybody.get(f"{platform.url}/leagues/{world.league}")).text
        assert sorted(board) == ["bot0", "bot1", "fresh"], "the account has one line, under the name that plays"
        after = board["fresh"]
        assert after["policy_version_ids"] == sorted([old, new])
        assert after["values"]["played"] > before["values"]["played"] > 0
        assert after["values"]["rounds"] > before["values"]["rounds"]
        assert after["values"]["episodes"] > before["values"]["episodes"]
        assert after["values"]["rating"] < before["values"]["rating"] < 0, "it goes on losing from where it was"
        assert "fresh" in page


async def test_submissions_open_and_close_and_the_final_season_is_frozen(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann = await platform.add_user("ann")
        await upload_coworld(platform, ann)
        image = (await upload_image(platform, ann, "bot"))["id"]
        versions = [
            await platform.post("/stats/policies/docker-img/complete", ann, {"name": name, "container_image_id": image})
            for name in ("one", "two")
        ]
        async with platform.services.database.writing() as session:
            league = (await create_league(session, "open", coworld="paint-arena", every=60)).id

        async def settle(**terms: Any) -> None:
            async with platform.services.database.writing() as session:
                await change_league_settings(session, league, terms=terms)

        async def submit(number: int, expect: int = 200) -> dict[str, Any]:
            body = {"league_id": league, "policy_version_id": versions[number]["id"]}
            answer = await platform.ask("POST", "/v2/league-submissions", ann, json=body, expect=expect)
            page = (await platform.http.get(f"/leagues/{league}")).text
            assert expect == 200 or (answer.json()["type"], answer.json()["detail"] in page) == (
                "submissions_closed",
                True,
            )
            return dict(answer.json())

        await settle(opens_at="2999-01-01T00:00:00+00:00")
        assert "open on 2999-01-01 at 00:00 UTC" in (await submit(0, 409))["detail"]
        await settle(opens_at="2001-01-01T00:00:00+00:00", closes_at="2999-01-01T00:00:00+00:00")
        first = await submit(0)
        await submit(1)
        await settle(closes_at="2002-01-01T00:00:00+00:00")
        assert "closed on 2002-01-01 at 00:00 UTC" in (await submit(0, 409))["detail"]
        nominate = f"/v2/league-policy-memberships/{first['league_policy_membership_id']}/champion"
        # Those who are in it choose among their policies until the final season
        await platform.post(nominate, ann)
        assert await _champions(platform, league) == ["one"]
        await settle(closes_at=None, final_season=1)
        assert "the final season" in (await submit(1, 409))["detail"]
        await platform.ask("POST", nominate, ann, expect=409)
        async with platform.services.database.writing() as session:
            assert (await change_league(session, league, "season"))["state"] == "over"
        assert (await submit(1, 409))["detail"] == "The league is over."
        async with platform.services.database.writing() as session:
            with pytest.raises(AccountError, match="is over"):
                await change_league(session, league, "resume")
            with pytest.raises(LeagueError, match="is past season 1"):
                await change_league_settings(session, league, terms={"final_season": 1})
        await settle(final_season=2)
        async with platform.services.database.writing() as session:
            assert (await change_league(session, league, "resume"))["state"] == "plays"
