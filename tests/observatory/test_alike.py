"""What is said of a Coworld reads alike for everybody who sees it, and what is somebody's says by name whose it is."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from support.observatory import inside
from support.observatory_kit import open_platform, roster, seed
from support.uploads import upload_coworld

from observatory.store.models import EpisodeRequest, Round, RoundResult


async def test_certification_state_is_the_same_for_everyone(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        made = await upload_coworld(platform, ann)
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(EpisodeRequest).values(status="completed"))

        async def said(token: str | None) -> tuple[str, list[str]]:
            path = f"/v2/coworlds/{made['id']}"
            state = (await platform.get(f"{path}/certification", token))["state"]
            rows = await platform.get(f"{path}/episode-requests", token, source="coworld_upload")
            return state, [row["status"] for row in rows["entries"]]

        assert [await said(token) for token in (ann, bob, None)] == [("certified", ["completed"])] * 3
        await platform.post(f"/v2/coworlds/{made['name']}/visibility", ann, {"visibility": "private"})
        async with platform.services.database.reading() as session:
            episode = await session.scalar(sa.select(EpisodeRequest.id))
        await platform.ask("GET", f"/v2/episode-requests/{episode}", bob, expect=404)
        await platform.ask("GET", f"/v2/episode-requests/{episode}", ann)


async def test_account_without_a_player_is_named_everywhere(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        owner, ann, bob = [await platform.account(name) for name in ("owner", "ann", "bob")]
        world = await seed(platform.services, owner.id)
        versions = [await platform.policy(account, "sweeper") for account in (ann, bob)]
        await platform.join(world, versions[1])
        await platform.play_round(world, *versions)
        async with platform.services.database.writing() as session:
            arranged = (await session.scalars(sa.select(Round.id))).one()
            session.add(RoundResult(round_id=arranged, policy_version_id=versions[1], rank=1, score=1.0))
        subject = {"id": ann.id, "name": "ann", "avatar_url": None}
        async with platform.client(ann) as client:
            body = {"league_id": world.league, "policy_version_id": versions[0]}
            made = (await client.post("/v2/league-submissions", json=body)).json()
            assert made["player"] == subject
            for path in ("/v2/league-policy-memberships", "/v2/league-submissions", "/v2/competition-events"):
                rows = (await client.get(path, params={"player_id": ann.id})).json()
                assert {row["player"]["name"] for row in rows} == {"ann"}, path
                assert rows[0]["player"] == subject
            results = (await client.get(f"/v2/rounds/{arranged}")).json()["results"]
            assert [row["player"]["name"] for row in results] == ["bob"]
            me = (await client.get("/whoami")).json()
            assert (me["owner_user_id"], me["owner_name"]) == (ann.id, "ann")
            ordered = {"coworld_id": world.id, "roster": roster(*versions)}
            [asked] = (await client.post("/v2/experience-requests", json=ordered)).json()["episodes"]
            assert [seat["player_name"] for seat in asked["participants"]] == ["ann", "bob"]
            # the pages say the same
            same = {"Sec-Fetch-Site": "same-origin"}
            await client.post(f"{platform.url}/sign-in", data={"token": ann.token}, headers=same)
            for path in (
                f"/leagues/{world.league}/rounds/{arranged}",
                f"/episodes/{asked['id']}",
                f"/policies/versions/{versions[1]}",
            ):
                assert "bob" in (await client.get(f"{platform.url}{path}")).text, path
        async with platform.client(owner) as client:
            kept = await client.put(f"/v2/coworlds/secrets/{world.name}/key", content=b"hush")
            assert (kept.json()["owner_user_id"], kept.json()["owner_name"]) == (owner.id, "owner")
