"""Experience requests: what may be asked for, who is seated where, and how a request is cancelled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.observatory_kit import QUICK, add_policy, open_platform, roster, seed

from observatory.store.models import Policy, PolicyVersion

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


async def post(client: httpx2.AsyncClient, body: dict[str, Any]) -> httpx2.Response:
    return await client.post("/v2/experience-requests", json=body)


def seats(answer: httpx2.Response) -> list[tuple[str, ...]]:
    """Who sits where, an episode a row."""
    assert answer.status_code == 200, answer.text
    return [
        tuple(f"{seat['policy_name']}:v{seat['version']}" for seat in episode["participants"])
        for episode in answer.json()["episodes"]
    ]


async def test_roster_entries_are_resolved_and_seated(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        mine = [await platform.policy(ann, name) for name in ("a", "b", "b")]
        theirs = [await platform.policy(bob, name) for name in ("x", "y", "private")]
        for version in (mine[0], *theirs[:2]):
            await platform.join(world, version)
        await platform.join(world, theirs[2])
        async with platform.services.database.writing() as session:
            row = await session.get_one(PolicyVersion, theirs[2])
            (await session.get_one(Policy, row.policy_id)).selection_scope = "owner_visible"
        target = {"league_id": world.league}
        async with platform.client(ann) as client:
            # Names mean one's own, the newest; a live member of the target can be named, too
            body: dict[str, Any] = {"target": target, "roster": roster("b", "x"), "num_episodes": 4}
            assert seats(await post(client, body)) == [("b:v2", "x:v1"), ("x:v1", "b:v2")] * 2
            # A pinned seat stays, the others take turns
            body["roster"] = [
                {"player": {"policy_ref": "a"}, "slot": 1},
                {"player": {"policy_ref": mine[1]}, "slot": -1},
                {"player": {"policy_ref": "b:2"}},
            ]
            drawn = seats(await post(client, body))
            assert drawn == [("b:v1", "a:v1", "b:v2"), ("b:v2", "a:v1", "b:v1")] * 2
            # The best N in turn, each as often as the others
            body["roster"] = [{"player": {"policy_ref": "a"}, "slot": 0}, {"player": {"top_n": 3}}]
            body["num_episodes"] = 9
            assert Counter(row[1] for row in seats(await post(client, body))) == {"a:v1": 3, "x:v1": 3, "y:v1": 3}
            # At random, with replacement, from those who let themselves be chosen
            body["roster"] = [{"player": {"random": True}}, {"player": {"random": True}}]
            body["num_episodes"] = 100
            drawn = seats(await post(client, body))
            assert {name for row in drawn for name in row} == {"a:v1", "x:v1", "y:v1"}
            assert any(row[0] == row[1] for row in drawn)
            # By the division's name, and directly
            named = {"target": {"division_name": "Main", "league_name": "Quick League"}, "roster": roster("a", "b")}
            made = (await post(client, named)).json()
            assert (made["division_id"], made["league_id"]) == (world.division, world.league)
            direct = (await post(client, {"coworld_id": world.id, "roster": roster("a", "a")})).json()
            assert (direct["division_id"], direct["variant_id"]) == (None, "duel")
            single = await client.post(
                "/v2/episode-requests", json={"coworld_id": world.id, "roster": roster("a", "b")}
            )
            assert (single.status_code, single.json()["status"]) == (200, "pending")
            assert single.json()["experience_request_id"] is None


async def test_seeds_and_configs(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        body: dict[str, Any] = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": 3}
        async with platform.client(ann) as client:

            async def seeds(**changes: Any) -> list[int | None]:
                answer = await post(client, body | changes)
                assert answer.status_code == 200, answer.text
                return [episode["seed"] for episode in answer.json()["episodes"]]

            # Nobody can know them in advance, and none tells anything about another
            drawn = {seed or 0 for seed in [*await seeds(), *await seeds()]}
            assert len(drawn) == 6
            assert max(drawn) > 1000
            assert await seeds(variant_id="four", roster=roster("a", "a", "a", "a")) == [100, 101, 102]
            assert await seeds(game_config_overrides={"seed": 7}) == [7, 7, 7]
            made = (await post(client, body | {"game_config_overrides": {"linger": 0.5}})).json()
            assert made["episodes"][0]["game_config"] == {
                "players": [{"name": "a:v1"}, {"name": "a:v1 (2)"}],
                "linger": 0.5,
                "seed": made["episodes"][0]["seed"],
            }


async def test_invalid_experience_request_is_refused(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        foreign = await platform.policy(bob, "secret")
        good: dict[str, Any] = {"coworld_id": world.id, "roster": roster("a", "a")}
        top = [{"player": {"policy_ref": "a"}}, {"player": {"top_n": 2}}]
        refused: list[tuple[dict[str, Any], int, str]] = [
            ({"num_episodes": 101}, 422, "num_episodes"),
            ({"num_episodes": 0}, 422, "num_episodes"),
            ({"state": "head"}, 422, "state"),
            ({"game_config_overlay_secret": "hidden"}, 422, "overlay"),
            ({"roster": []}, 422, "roster"),
            ({"roster": [{"player": {"policy_ref": "a", "top_n": 1}}]}, 422, "exactly one"),
            ({"requester": {}, "opponents": [], "rotate_seats": True}, 422, "rotate_seats"),
            ({"target": {"league_id": world.league}}, 422, "either"),
            ({"roster": roster("a", "nobody")}, 404, "nobody"),
            ({"roster": roster("a", foreign)}, 404, foreign),
            ({"roster": roster("a", "a:v9")}, 404, "a:v9"),
            ({"roster": roster("a", "a:zero")}, 400, "not a version"),
            ({"roster": roster("a")}, 400, "2 to 4"),
            ({"roster": roster(*"aaaaa")}, 400, "2 to 4"),
            ({"roster": roster("a", "a", "a"), "variant_id": "none"}, 400, "duel"),
            ({"roster": top}, 400, "champions"),
            ({"roster": [{"player": {"policy_ref": "a"}, "slot": 5}, *roster("a")]}, 400, "no seat 5"),
            ({"roster": [{"player": {"policy_ref": "a"}, "slot": 0}] * 2}, 400, "two entries"),
            ({"game_config_overrides": {"spice": 1}}, 400, "spice"),
            ({"game_config_overrides": {"linger": -1}}, 400, "/linger"),
            ({"game_config_overrides": {"tokens": ["a", "b"]}}, 400, "tokens"),
            ({"coworld_id": "cow_00000000-0000-0000-0000-000000000000"}, 404, "cow_0000"),
            ({"coworld_id": None, "target": {"league_name": "none"}}, 404, "none"),
            ({"coworld_id": None, "target": {"league_id": world.league}, "roster": top}, 400, "champions"),
        ]
        async with platform.client(ann) as client:
            for changes, status, said in refused:
                answer = await post(client, good | changes)
                assert answer.status_code == status, (changes, answer.text)
                assert said in answer.text, (changes, answer.text)
                assert answer.headers["x-request-id"]
            assert (await client.get("/v2/experience-requests")).json()["total_count"] == 0
        async with platform.client() as client:
            assert (await post(client, good)).status_code == 401


async def test_cancelled_request_lets_running_episodes_finish(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        await add_policy(platform.services, ann.id, "a", subject=QUICK)
        body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": 3}
        async with platform.client(ann) as client, platform.client(bob) as stranger:
            key = {"Idempotency-Key": "once"}
            first = await client.post("/v2/experience-requests", json=body, headers=key)
            again = await client.post("/v2/experience-requests", json=body, headers=key)
            assert again.json()["id"] == first.json()["id"]
            place = f"/v2/experience-requests/{first.json()['id']}"
            assert (await stranger.get(place)).status_code == 404
            assert (await stranger.post(f"{place}/cancel")).status_code == 404
            for _ in range(2):
                answer = await client.post(f"{place}/cancel")
                assert answer.status_code == 200, answer.text
                assert answer.json()["status"] == "cancelled"
                assert {episode["status"] for episode in answer.json()["episodes"]} == {"cancelled"}
            listed = (await client.get("/v2/experience-requests", params={"mine": "true"})).json()
            assert [row["status"] for row in listed["entries"]] == ["cancelled"]
            children = (await client.get(f"{place}/episodes")).json()
            assert [row["seed"] for row in children] == [row["seed"] for row in first.json()["episodes"]]
            page = (await client.get(f"{place}/episode-requests", params={"limit": 2})).json()
            assert len(page["entries"]) == 2
            rest = await client.get(f"{place}/episode-requests", params={"limit": 2, "cursor": page["next_cursor"]})
            assert len(rest.json()["entries"]) == 1


async def test_a_request_that_is_over_cannot_be_cancelled(tmp_path: Path) -> None:
    async with open_platform(tmp_path) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        async with platform.client(ann) as client:
            made = (await post(client, {"coworld_id": world.id, "roster": roster("a", "a")})).json()
            from support.observatory_kit import until_over

            await until_over(client, made["id"])
            answer = await client.post(f"/v2/experience-requests/{made['id']}/cancel")
            assert (answer.status_code, answer.json()["type"]) == (409, "already_finished")
