"""Who sees which episode, what of it, and where it stands: lists, artifacts, bundles, links and the feed."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import sqlalchemy as sa
from support.observatory_kit import MISFITS, Account, Platform, World, open_platform, roster, seed, until_over

from observatory.episodes.signed_links import LinkSigner
from observatory.store.models import League, PolicyVersion

NOTES = {"QUICK_SECRET": "x"}
"""Makes a player of the quick game leave an artifact."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class Scene:
    """Ann and Bob have played one episode in a public league, and Ann one of her own."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.accounts: dict[str, Account] = {}
        self.versions: dict[str, str] = {}

    async def set(self) -> None:
        platform = self.platform
        for name in ("ann", "bob", "eve"):
            self.accounts[name] = await platform.account(name)
        self.accounts["team"] = await platform.account("team", team=True)
        self.world: World = await seed(platform.services, self.accounts["ann"].id)
        for name in ("ann", "bob"):
            self.versions[name] = await platform.policy(self.accounts[name], f"{name}s", secrets=NOTES)
            await platform.join(self.world, self.versions[name])
        async with self.client("ann") as client:
            self.public = await self._play(client, {"target": {"league_id": self.world.league}}, "anns", "bobs")
            self.private = await self._play(client, {"coworld_id": self.world.id}, "anns", "anns")

    async def _play(self, client: httpx2.AsyncClient, what: dict[str, Any], *names: str) -> dict[str, Any]:
        body = {**what, "roster": roster(*names), "game_config_overrides": {"seed": 0}}
        made = await client.post("/v2/experience-requests", json=body)
        assert made.status_code == 200, made.text
        over = await until_over(client, made.json()["id"])
        assert over["status"] == "completed", over
        return over["episodes"][0]

    def client(self, name: str | None, **headers: str) -> httpx2.AsyncClient:
        return self.platform.client(self.accounts[name] if name else None, **headers)


async def test_episode_access_follows_ownership_and_visibility(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, database=database) as platform:
        scene = Scene(platform)
        await scene.set()
        await check_lists(scene)
        await check_artifacts(scene)
        await check_bundles(scene)
        await check_links(scene)
        await check_jobs(scene)
        await check_hidden_league(scene)


async def test_artifacts_on_s3_are_served(tmp_path: Path, bucket: str) -> None:
    """Played here, kept there: nothing of an episode stays on this disk, and all of it can be had."""
    async with open_platform(tmp_path, artifacts=f"{bucket}/{tmp_path.name}") as platform:
        scene = Scene(platform)
        await scene.set()
        await check_artifacts(scene)
        await check_bundles(scene)
        await check_links(scene)
        row = await platform.episode(scene.public["id"])
        for item in row.artifacts:
            assert await platform.services.artifacts.size(item.key) == item.size
        assert not (platform.settings.data / "artifacts").exists()
        assert not list((platform.settings.data / "work").iterdir())
        # What a lost lease leaves is thrown away there too
        await platform.services.artifacts.forget(f"episodes/{row.id}")
        for item in row.artifacts:
            with pytest.raises(FileNotFoundError):
                await platform.services.artifacts.size(item.key)


async def check_lists(scene: Scene) -> None:
    both, public = {scene.public["id"], scene.private["id"]}, {scene.public["id"]}
    for name, expected in (("ann", both), ("bob", public), ("eve", public), (None, public), ("team", public)):
        async with scene.client(name) as client:
            page = (await client.get("/v2/episode-requests")).json()
            assert {row["id"] for row in page["entries"]} == expected, name
            assert page["total_count"] == len(expected)
            status = (await client.get(f"/v2/episode-requests/{scene.private['id']}")).status_code
            assert status == (200 if name == "ann" else 404)
    async with scene.client("team", **{"X-Use-Elevated-Privileges": "true"}) as client:
        assert (await client.get("/v2/episode-requests")).json()["total_count"] == 2
    async with scene.client("ann") as client:

        async def found(path: str, **query: Any) -> set[str]:
            answer = await client.get(path, params=query)
            assert answer.status_code == 200, answer.text
            return {row["id"] for row in answer.json()["entries"]}

        listing = "/v2/episode-requests"
        assert await found(listing, division_id=scene.world.division) == public
        assert await found(listing, policy_version_id=scene.versions["bob"]) == public
        assert await found(listing, coworld_id=scene.world.id) == both
        assert await found(listing, mine="true") == both
        assert await found(listing, status="failed") == set()
        assert await found(listing, experience_request_id=scene.private["experience_request_id"]) == both - public
        assert await found(f"/v2/policy-versions/{scene.versions['bob']}/episode-requests") == public
        assert await found(f"/v2/coworlds/{scene.world.id}/episode-requests") == both
        assert await found(f"/v2/coworlds/{scene.world.id}/episode-requests", source="coworld_upload") == set()
        assert (await client.get("/v2/coworlds/cow_none/episode-requests")).status_code == 404
        short = (
            await client.get(listing, params={"ids": f"{scene.private['id']},ereq_none", "view": "results"})
        ).json()
        assert short["unavailable_ids"] == ["ereq_none"]
        (entry,) = short["entries"]
        assert (entry["status"], entry["evidence_state"], len(entry["scores"])) == ("completed", "sealed", 2)
        for bad in ("", "div_1", f"{scene.private['id']},xreq_1", ",".join(f"ereq_{n}" for n in range(51))):
            assert (await client.get(listing, params={"ids": bad})).status_code == 422
        stats = (await client.get(f"{listing}/{scene.public['id']}/episode-stats")).json()
        assert stats["steps"] == 1
        assert [seat["avg_reward"] for seat in stats["policy_stats"]] == [0, 1]
        assert stats["policy_stats"][1]["policy_version_id"] == scene.versions["bob"]


async def check_artifacts(scene: Scene) -> None:
    place = f"/v2/episode-requests/{scene.public['id']}"
    for name in ("ann", "bob", "eve", None):
        async with scene.client(name) as client:
            results = await client.get(f"{place}/artifacts/results")
            assert results.json() == {"scores": [0, 1], "steps": 1}
            assert (await client.get(f"{place}/artifacts/replay")).text == "quick replay of seed 0\n"
            assert (await client.get(f"{place}/artifacts/logs")).text == "quick: ready\n"
            assert (await client.get(f"{place}/artifacts/game-config")).json()["seed"] == 0
            spec = (await client.get(f"{place}/artifacts/spec")).json()
            assert [seat["policy_name"] for seat in spec["players"]] == ["anns", "bobs"]
            assert (await client.get(f"{place}/artifacts/error-info")).status_code == 404
            assert (await client.get(f"{place}/artifacts/secrets")).status_code == 404
            for slot, owner in enumerate(("ann", "bob")):
                log = await client.get(f"{place}/{scene.versions[owner]}/policy-logs/{slot}")
                notes = await client.get(f"{place}/{scene.versions[owner]}/policy-artifact/{slot}")
                expected = 200 if name == owner else 401 if name is None else 403
                assert (log.status_code, notes.status_code) == (expected, expected), (name, slot)
                if name == owner:
                    assert log.text == "secret: x\n"
                    assert zipfile.ZipFile(io.BytesIO(notes.content)).read("notes.txt") == b"seen"
                    other = await client.get(f"{place}/{scene.versions[owner]}/policy-logs/{1 - slot}")
                    assert other.status_code == 404
    async with scene.client("ann") as client:
        evidence = (await client.get(f"{place}/policy-artifacts")).json()
        assert [(row["position"], row["has_log"], row["has_artifact"]) for row in evidence] == [(0, True, True)]
        whole = await client.get(f"{place}/artifacts/results")
        etag = whole.headers["etag"]
        part = await client.get(f"{place}/artifacts/results", headers={"Range": "bytes=2-7"})
        assert (part.status_code, part.content) == (206, whole.content[2:8])
        assert part.headers["content-range"] == f"bytes 2-7/{len(whole.content)}"
        tail = await client.get(f"{place}/artifacts/results", headers={"Range": "bytes=-3", "If-Range": etag})
        assert tail.content == whole.content[-3:]
        changed = await client.get(f"{place}/artifacts/results", headers={"Range": "bytes=2-7", "If-Range": '"other"'})
        assert (changed.status_code, changed.content) == (200, whole.content)
        for headers, status in (
            ({"Range": "bytes=999-"}, 416),
            ({"If-Match": '"other"'}, 412),
            ({"If-Match": etag}, 200),
            ({"If-None-Match": etag}, 304),
        ):
            assert (await client.get(f"{place}/artifacts/results", headers=headers)).status_code == status
        head = await client.head(f"{place}/artifacts/results")
        assert (head.headers["content-length"], head.content) == (str(len(whole.content)), b"")


async def check_bundles(scene: Scene) -> None:
    place = f"/v2/episode-requests/{scene.public['id']}/bundle"
    shared = ["results", "replay", "game_logs"]
    for name, slot in (("ann", "0"), ("bob", "1"), ("eve", None), (None, None)):
        async with scene.client(name) as client:
            answer = await client.get(place)
            assert answer.status_code == 200
            with zipfile.ZipFile(io.BytesIO(answer.content)) as bundle:
                assert bundle.testzip() is None
                manifest = json.loads(bundle.read("manifest.json"))
                assert (manifest["ereq_id"], manifest["status"]) == (scene.public["id"], "success")
                seated = ["player_logs", "player_artifact"] if slot else []
                assert manifest["include"] == [*shared, *seated, "metadata"]
                players = json.loads(bundle.read(manifest["files"]["metadata"]))["players"]
                assert [seat["policy_name"] for seat in players] == ["anns:v1", "bobs:v1"]
                assert bundle.read(manifest["files"]["replay"]) == b"quick replay of seed 0\n"
                assert bundle.read(manifest["files"]["game_logs"]["combined"]) == b"quick: ready\n"
                if slot:
                    assert manifest["files"]["player_logs"] == {slot: f"logs/policy_agent_{slot}.log"}
                    assert bundle.read(f"artifacts/policy_artifact_{slot}.zip")[:2] == b"PK"
                assert len(bundle.namelist()) == len(set(bundle.namelist())) == (7 if slot else 5)
            some = await client.get(place, params={"include": "results,player_logs"})
            with zipfile.ZipFile(io.BytesIO(some.content)) as bundle:
                manifest = json.loads(bundle.read("manifest.json"))
                assert manifest["include"] == ["results", *(["player_logs"] if slot else [])]
            assert (await client.get(place, params={"include": "results,tokens"})).status_code == 422


async def check_links(scene: Scene) -> None:
    async with scene.client("ann") as client, httpx2.AsyncClient(timeout=300) as anybody:
        url = scene.private["replay_url"]
        assert url.startswith(f"{scene.platform.url}/observatory/files/")
        answer = await anybody.get(url)
        assert zlib.decompress(answer.content) == b"quick replay of seed 0\n"
        rest = await anybody.get(url, headers={"Range": "bytes=5-", "If-Match": answer.headers["etag"]})
        assert (rest.status_code, rest.content) == (206, answer.content[5:])
        assert (await anybody.get(url.replace("signature=", "signature=0"))).status_code == 403
        assert (await anybody.get(url.partition("?")[0])).status_code == 403
        expired = LinkSigner(scene.platform.services.runtime.links._key, scene.platform.url)
        artifact_id = url.partition("?")[0].split("/")[-2]
        old = expired._sign(artifact_id, 1000)
        late = await anybody.get(f"{url.partition('?')[0]}?expires=1000&signature={old}")
        assert (late.status_code, late.json()["type"]) == (403, "link_expired")
        page = (await client.get("/v2/episode-requests/download-manifest", params={"ids": scene.public["id"]})).json()
        entries = {(row["category"], row["position"]): row for row in page["entries"]}
        assert {key for key, row in entries.items() if row["state"] == "ready"} == {
            ("results", None),
            ("replay", None),
            ("game_logs", None),
            ("player_logs", 0),
            ("player_artifact", 0),
        }
        assert entries["error_info", None]["state"] == "not_produced"
        assert entries["results", None]["inline_json"]["scores"] == [0, 1]
        for row in entries.values():
            if row["state"] == "ready":
                got = await anybody.get(row["url"], headers={"If-Match": row["etag"]})
                assert (got.status_code, len(got.content)) == (200, row["size"])
        query = {"ids": scene.public["id"], "include": "replay,player_logs", "agent": "1"}
        some = (await client.get("/v2/episode-requests/download-manifest", params=query)).json()
        assert [row["category"] for row in some["entries"]] == ["replay"]


async def check_jobs(scene: Scene) -> None:
    job = scene.private["job_id"]
    async with scene.client("team") as team, scene.client("ann") as ann:
        assert (await ann.get(f"/jobs/{job}/episode-stats")).status_code == 403
        assert (await team.get(f"/jobs/{job}/episode-stats")).json()["steps"] == 1
        assert (await team.get(f"/jobs/{job}/artifacts/replay")).text == "quick replay of seed 0\n"
        assert (await team.get(f"/jobs/{job}/policy-logs")).json() == ["policy_agent_0.log", "policy_agent_1.log"]
        assert (await team.get(f"/jobs/{job}/policy-logs/1")).text == "secret: x\n"
        assert (await team.get(f"/jobs/{job}/policy-artifact")).json()[0] == "policy_artifact_0.zip"
        assert (await team.get(f"/jobs/{job}/policy-artifact/7")).status_code == 404
        assert (await team.get("/jobs/none/policy-logs")).status_code == 404


async def check_hidden_league(scene: Scene) -> None:
    async with scene.platform.services.database.writing() as session:
        await session.execute(sa.update(League).values(hidden=True))
    for name, status in (("ann", 200), ("bob", 200), ("eve", 404), (None, 404)):
        async with scene.client(name) as client:
            assert (await client.get(f"/v2/episode-requests/{scene.public['id']}")).status_code == status


async def test_unfinished_episode_has_no_results_yet(tmp_path: Path) -> None:
    async with open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id, subject=MISFITS)
        version = await platform.policy(ann, "a", subject=MISFITS)
        async with platform.client(ann) as client:
            body = {"coworld_id": world.id, "roster": roster("a", "a")}
            row = (await client.post("/v2/episode-requests", json=body)).json()
            place = f"/v2/episode-requests/{row['id']}"
            for path in (
                "/artifacts/results",
                "/artifacts/replay",
                "/bundle",
                "/episode-stats",
                f"/{version}/policy-logs/0",
            ):
                answer = await client.get(place + path)
                assert (answer.status_code, answer.headers["retry-after"]) == (409, "2"), path
            page = (await client.get("/v2/episode-requests/download-manifest", params={"ids": row["id"]})).json()
            assert {entry["state"] for entry in page["entries"]} == {"pending"}


async def test_episodes_are_filtered_by_player(tmp_path: Path) -> None:
    """By the id that leaderboards and rounds have for it: an account's own where it plays without a player."""
    async with open_platform(tmp_path, backend="none") as platform:
        ann, bob = await platform.account("ann"), await platform.account("bob")
        world = await seed(platform.services, ann.id)
        async with platform.client(bob) as client:
            player = (await client.post("/players", json={"name": "Robot"})).json()["id"]
        versions = {
            name: await platform.policy(owner, name) for name, owner in {"a": ann, "b": bob, "robot": bob}.items()
        }
        async with platform.services.database.writing() as session:
            (await session.get_one(PolicyVersion, versions["robot"])).player_id = player
        both = await platform.play_round(world, versions["a"], versions["b"])
        robots = await platform.play_round(world, versions["a"], versions["robot"])

        async def found(player_id: str, **more: Any) -> tuple[list[str], int]:
            async with platform.client() as anybody:
                answer = await anybody.get("/v2/episode-requests", params={"player_id": player_id, **more})
            assert answer.status_code == 200, answer.text
            page = answer.json()
            return sorted(entry["id"] for entry in page["entries"]), page["total_count"]

        assert await found(ann.id) == (sorted([both, robots]), 2)
        assert await found(bob.id) == ([both], 1), "what a player of its own played is not the account's"
        assert await found(player) == ([robots], 1)
        assert await found(ann.id, division_id=world.division) == (sorted([both, robots]), 2)
        assert await found(ann.id, division_id="div_other") == ([], 0)
        assert await found("ply_nobody") == ([], 0)
        [first], count = await found(ann.id, limit=1)
        assert (first, count) == (robots, 2), "the newest first"


async def test_change_feed_reports_each_change_once_in_order(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, database=database) as platform:
        ann, eve = await platform.account("ann"), await platform.account("eve")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        async with platform.client(ann) as client, platform.client(eve) as stranger:
            body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": 4}
            request = (await client.post("/v2/experience-requests", json=body)).json()["id"]
            feed = "/v2/episode-requests/changes"
            seen: list[tuple[int, str, str]] = []
            query: dict[str, Any] = {"ids": request, "limit": 3, "wait_seconds": 20}
            assert (await stranger.get(feed, params=query)).status_code == 404
            phases: list[str] = []
            with anyio.fail_after(300):
                while True:
                    answer = await client.get(feed, params=query)
                    assert answer.status_code == 200, answer.text
                    page = answer.json()
                    phases.append(page["phase"])
                    seen += [(row["revision"], row["id"], row["episode"]["status"]) for row in page["entries"]]
                    query["cursor"] = page["next_cursor"]
                    if page["batches"][0]["status"] == "completed" and not page["has_more"]:
                        break
            assert [row[0] for row in seen] == sorted({row[0] for row in seen})
            last = {episode: status for _, episode, status in seen}
            assert list(last.values()) == ["completed"] * 4
            assert phases[0] == "snapshot"
            assert phases == sorted(phases, reverse=True)
            # Nothing happens any more: the answer comes when the time is over, and is empty
            quiet = (await client.get(feed, params={**query, "wait_seconds": 0.2})).json()
            assert (quiet["entries"], quiet["phase"], quiet["has_more"]) == ([], "changes", False)
            for change, status in (
                ({"view": "results"}, 409),
                ({"cursor": "nonsense"}, 400),
                ({"wait_seconds": 26}, 422),
                ({"limit": 201}, 422),
            ):
                assert (await client.get(feed, params={**query, **change})).status_code == status, change
            one = (await client.get(feed, params={"ids": seen[0][1], "view": "results"})).json()
            assert len(one["entries"][0]["episode"]["scores"]) == 2
            # A database that was put back does not know what the reader has seen
            async with platform.services.database.writing() as session:
                await session.execute(sa.text("UPDATE counters SET value = 1 WHERE name = 'changes'"))
            assert (await client.get(feed, params=query)).status_code == 410


async def test_waiting_request_ends_when_the_server_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with anyio.create_task_group() as group, open_platform(tmp_path, backend="none") as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        answers: list[httpx2.Response] = []
        async with platform.client(ann) as client:
            body = {"coworld_id": world.id, "roster": roster("a", "a")}
            row = (await client.post("/v2/episode-requests", json=body)).json()["id"]
        first = platform.client(ann)
        page = (await first.get("/v2/episode-requests/changes", params={"ids": row})).json()

        async def wait() -> None:
            query = {"ids": row, "wait_seconds": 25, "cursor": page["next_cursor"]}
            answers.append(await first.get("/v2/episode-requests/changes", params=query))
            await first.aclose()

        changes = platform.services.runtime.changes
        beyond, waiting = changes.wait_beyond, anyio.Event()

        async def waited(revision: int, *, timeout: float) -> bool:
            waiting.set()
            return await beyond(revision, timeout=timeout)

        monkeypatch.setattr(changes, "wait_beyond", waited)
        group.start_soon(wait)
        with anyio.fail_after(20):
            await waiting.wait()
    assert [answer.json()["entries"] for answer in answers] == [[]]
