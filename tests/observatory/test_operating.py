"""Who looks after a platform: closes accounts and policies, sees what goes on, and finds it written down."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from support.observatory_kit import Account, Platform, World, open_platform, roster, seed

from observatory.operations import overview
from observatory.operations.moderation import (
    PolicyError,
    disable_policy,
    disable_user,
    enable_policy,
    enable_user,
    find_policy,
)
from observatory.operations.retention import PRUNED, prune
from observatory.quotas import Quotas
from observatory.settings import Retention
from observatory.store.audit import Actor, acting, audit, audit_lines
from observatory.store.columns import now
from observatory.store.models import AuditEntry, EpisodeRequest
from observatory.work.queue import Queue

pytestmark = pytest.mark.slow

OPERATOR = Actor(kind="operator", origin="root@here")


async def ask(platform: Platform, account: Account, world: World, *policies: str, many: int = 1) -> str:
    """Ask for episodes; returns the request's id."""
    body = {"coworld_id": world.id, "roster": roster(*policies), "num_episodes": many}
    async with platform.client(account) as client:
        answer = await client.post("/v2/experience-requests", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])


async def test_disabled_account_is_refused_and_its_episodes_are_cancelled(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        for account in (ann, bob):
            await platform.policy(account, "a")
        xreq = await ask(platform, bob, world, "a", "a", many=3)
        await ask(platform, ann, world, "a", "a")
        async with platform.services.database.writing() as session:
            _, cancelled = await disable_user(session, "bob", reason="It mines coins.")
        assert cancelled == 3
        async with platform.client(bob) as client:
            for path in ("/whoami", "/v2/leagues", f"/v2/experience-requests/{xreq}"):
                refused = await client.get(path)
                assert (refused.status_code, refused.json()) == (
                    403,
                    {
                        "detail": "The account bob was disabled by an operator: It mines coins.",
                        "type": "account_disabled",
                    },
                )
            # A token that only looks like his learns nothing
            wrong = {"Authorization": f"Bearer {bob.token[:-4]}AAAA"}
            assert (await client.get("/players", headers=wrong)).status_code == 401
            async with platform.services.database.writing() as session:
                await enable_user(session, "bob")
            request = (await client.get(f"/v2/experience-requests/{xreq}")).json()
            assert (request["status"], request["cancelled_count"]) == ("failed", 3)
            assert "disabled by an operator" in request["episodes"][0]["error"]
        queue = Queue(platform.services.database, owner="one")
        claim = await queue.claim()
        assert claim is not None
        assert (await platform.episode(claim.episode_id)).user_id == ann.id
        assert await queue.claim() is None


async def test_a_disabled_policy_is_not_scheduled_and_its_owner_sees_why(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        theirs = await platform.policy(bob, "racer")
        await platform.policy(bob, "walker")
        await platform.policy(ann, "racer")
        await platform.join(world, theirs)
        # In the queue of somebody else, too
        await ask(platform, ann, world, theirs, "racer")
        await ask(platform, bob, world, "walker", "walker")
        async with platform.services.database.writing() as session:
            with pytest.raises(PolicyError, match="Several accounts"):
                await find_policy(session, "racer")
            with pytest.raises(PolicyError, match="There is no policy"):
                await find_policy(session, "racer:v2", owner="bob")
            row = await find_policy(session, "racer:v1", owner="bob")
            assert row.id == theirs
            assert await disable_policy(session, row, reason="It cheats.") == 1
        place = "/v2/experience-requests"
        async with platform.client(bob) as client, platform.client(ann) as other:
            body = {"coworld_id": world.id, "roster": roster("racer", "walker")}
            refused = await client.post(place, json=body)
            assert (refused.status_code, refused.json()["type"]) == (403, "policy_disabled")
            assert "racer:v1 (It cheats.)" in refused.json()["detail"]
            submitted = {"league_id": world.league, "policy_version_id": theirs}
            assert (await client.post("/v2/league-submissions", json=submitted)).json()["type"] == "policy_disabled"
            [listed] = (await client.get("/stats/policy-versions", params={"name_exact": "racer"})).json()["entries"]
            assert listed["disabled_reason"] == "It cheats."
            # Nobody draws it, and nobody else hears why
            drawn = {"coworld_id": world.id, "roster": [{"player": {"random": True}}] * 2}
            assert (await other.post(place, json=drawn)).json()["type"] == "no_members"
            named = await other.post(place, json={"coworld_id": world.id, "roster": roster(theirs, "racer")})
            assert named.status_code == 404
            async with platform.services.database.writing() as session:
                enable_policy(session, await find_policy(session, theirs))
            assert (await client.post(place, json=body)).status_code == 200
            # All versions of it, also those to come
            async with platform.services.database.writing() as session:
                assert await disable_policy(session, await find_policy(session, "walker")) == 2
            await platform.policy(bob, "walker")
            body = {"coworld_id": world.id, "roster": roster("racer", "walker")}
            assert (await client.post(place, json=body)).json()["type"] == "policy_disabled"


async def test_operator_commands_show_queue_workers_and_disk(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, parallel=1, database=database) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        version = await platform.policy(ann, "a")
        await platform.join(world, version)
        played = await platform.until_played(await platform.play_round(world, version, version))
        assert played.status == "completed"
        async with platform.services.database.reading() as session:
            [worker] = await overview.workers(session)
            stored = await overview.disk(session, platform.services.settings.data)
            [account] = await overview.accounts(session)
            assert await overview.queue(session) == []
            [policy] = await overview.policies(session, owner="ann")
        assert (worker["state"], worker["backend"], worker["parallel"]) == ("working", "process", 1)
        sizes = {row["kind"]: row["bytes"] for row in stored["items"]}
        assert {"replay", "game_logs", "player_logs", "results", "coworlds"} <= sizes.keys()
        # As they are on the disk
        assert sizes["replay"] == sum(item.size for item in played.artifacts if item.kind == "replay") > 0
        assert stored["bytes"] == sum(sizes.values()) == account["stored"]
        assert (policy["id"], policy["disabled"]) == (version, None)
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        # It has stopped in good order; one that is killed is seen by what it holds
        async with platform.services.database.reading() as session:
            assert await overview.workers(session) == []
        await platform.play_round(world, version)
        async with platform.services.database.reading() as session:
            [row] = await overview.queue(session)
        assert (row["user"], row["waiting"], row["running"]) == ("ann", 1, 0)
        claim = await Queue(platform.services.database, owner="lost").claim()
        assert claim is not None
        async with platform.services.database.reading() as session:
            [worker] = await overview.workers(session)
        assert (worker["name"], worker["state"], worker["episodes"]) == ("lost", "gone", [claim.episode_id])


async def test_audit_log_names_actors_and_contains_no_secret(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none", quotas=Quotas(episodes=1)) as platform:
        services = platform.services
        with acting(OPERATOR):
            ann, boss = await platform.account("ann"), await platform.account("boss", team=True)
        world = await seed(services, ann.id)
        await platform.policy(ann, "a")
        async with platform.client(ann) as client, platform.client(boss, **{"X-Use-Elevated-Privileges": "1"}) as team:
            player = (await client.post("/players", json={"name": "one"})).json()["id"]
            session_token = (await client.post(f"/players/{player}/login")).json()["token"]
            await client.put(f"/v2/coworlds/secrets/{world.name}/key", content=b"hush-hush")
            await client.post("/stats/policy-secret-envs", json={"policy_secret_env": {"A": "hush-hush"}})
            body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": 2}
            for _ in range(3):
                assert (await client.post("/v2/experience-requests", json=body)).status_code == 429
            place = f"{platform.url}/sign-in"
            web = await client.post(place, data={"token": ann.token}, headers={"Sec-Fetch-Site": "same-origin"})
            await team.post(f"/v2/coworlds/{world.name}/visibility", json={"visibility": "private"})
        async with services.database.reading() as session:
            lines = await audit_lines(session)
            mine = await audit_lines(session, user="boss")
            assert await audit_lines(session, user="ann", limit=1) == [lines[-1]]
        told = [(line["by"] or line["actor"], line["action"], line["user"]) for line in lines]
        assert told == [
            ("operator", "account.made", "ann"),
            ("operator", "token.made", "ann"),
            ("operator", "account.made", "boss"),
            ("operator", "token.made", "boss"),
            ("ann", "token.made", "ann"),
            ("ann", "secret.kept", "ann"),
            ("ann", "secret.kept", "ann"),
            # Once a minute
            ("server", "quota.refused", "ann"),
            ("ann", "session.opened", "ann"),
            ("boss", "team.acted", None),
            ("boss", "coworld.shown", "ann"),
        ]
        assert {line["origin"] for line in lines if line["by"]} == {"127.0.0.1"}
        assert [line["action"] for line in mine][-2:] == ["team.acted", "coworld.shown"]
        text = json.dumps(lines)
        for secret in (ann.token, session_token, web.cookies["observatory_session"]):
            assert secret[-20:] not in text
        assert "hush" not in text


async def test_audit_log_cannot_be_changed(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        async with platform.services.database.writing() as session:
            audit(session, "league.made", subject="x")
        for statement in (sa.delete(AuditEntry), sa.update(AuditEntry).values(action="nothing")):
            with pytest.raises(DBAPIError, match="only grows"):
                async with platform.services.database.writing() as session:
                    await session.execute(statement)
        async with platform.services.database.reading() as session:
            assert [line["action"] for line in await audit_lines(session)] == ["league.made"]


async def test_retention_removes_files_and_keeps_scores(tmp_path: Path) -> None:
    async with open_platform(tmp_path, parallel=1) as platform:
        services = platform.services
        ann = await platform.account("ann")
        world = await seed(services, ann.id)
        version = await platform.policy(ann, "a")
        await platform.join(world, version)
        old, new = [await platform.until_played(await platform.play_round(world, version, version)) for _ in range(2)]
        async with platform.client(ann) as client:
            place = f"/v2/divisions/{world.division}/leaderboard"
            before = (await client.get(place)).json()
            assert set((await replays(client)).values()) == {True}
            assert await prune(services, Retention(days=1)) == {"episodes": 0, "files": 0, "bytes": 0}
            going = [item for item in old.artifacts if item.kind in PRUNED]
            told = {"episodes": 1, "files": len(going), "bytes": sum(item.size for item in going)}
            assert await prune(services, Retention(episodes=1), dry_run=True) == told
            assert [path for item in going if (path := files(platform) / item.key).is_file()] != []
            assert await prune(services, Retention(episodes=1)) == told
            assert [path for item in going if (path := files(platform) / item.key).exists()] == []
            # Also in a list that was shown before.
            assert await replays(client) == {old.id: False, new.id: True}
            gone = await client.get(f"/v2/episode-requests/{old.id}/artifacts/replay")
            assert (gone.status_code, gone.json()["type"]) == (410, "not_kept")
            for episode, kind in ((old.id, "results"), (new.id, "replay")):
                assert (await client.get(f"/v2/episode-requests/{episode}/artifacts/{kind}")).status_code == 200
            listed = (await client.get("/v2/episode-requests/download-manifest", params={"ids": old.id})).json()
            states = {entry["category"]: entry["state"] for entry in listed["entries"]}
            assert (states["replay"], states["results"]) == ("unavailable", "ready")
            assert (await client.get(place)).json() == before
        # By age, too; and once is enough
        async with services.database.writing() as session:
            await session.execute(sa.update(EpisodeRequest).values(completed_at=now() - dt.timedelta(days=3)))
        assert (await prune(services, Retention(days=2)))["episodes"] == 1
        assert (await prune(services, Retention(days=2, episodes=0)))["episodes"] == 0


async def replays(client: httpx2.AsyncClient) -> dict[str, bool]:
    """Whether each episode has a replay, as the list shows it."""
    listed = (await client.get("/v2/episode-requests")).json()["entries"]
    return {row["id"]: row["replay_url"] is not None for row in listed}


def files(platform: Platform) -> Path:
    """Where artifacts are."""
    return platform.settings.data / "artifacts"
