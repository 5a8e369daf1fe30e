"""Images and policies: uploaded once, versioned, their secrets kept."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import anyio
import sqlalchemy as sa
from support.observatory import inside
from support.uploads import image_parts, push, upload_image, upload_policy

from coworld_core import api
from observatory.store.models import Idempotent, Image, PolicySecretEnv, PolicyVersion


async def test_image_upload_is_begun_and_completed(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        parts = image_parts()
        body = {"name": "My_Game", "client_hash": "sha256:one"}
        begun = await platform.post("/v2/container_images/upload", ann, body)
        assert api.ImageUpload.read(begun).odd == ()
        image, grant = begun["image"], begun["pre_signed_info"]
        assert (image["status"], image["version"], image["image_digest"]) == ("pending", 1, None)
        assert grant["kind"] == "ecr"
        assert grant["endpoint_url"] == "http://127.0.0.1:8787"
        assert grant["image_uri"] == f"{grant['registry']}/{grant['repository']}:{grant['tag']}"
        assert base64.b64decode(grant["authorization_token"]).decode().count(":") == 1
        complete = {"id": image["id"]}
        await platform.ask("POST", "/v2/container_images/upload/complete", ann, json=complete, expect=409)
        # Who was interrupted asks again and gets leave again, for the same image
        again = await platform.post("/v2/container_images/upload", ann, body)
        assert again["image"]["id"] == image["id"]
        await push(platform, again["pre_signed_info"], parts)
        await platform.ask("POST", "/v2/container_images/upload/complete", bob, json=complete, expect=404)
        ready = await platform.post("/v2/container_images/upload/complete", ann, complete)
        assert (ready["status"], ready["image_digest"]) == ("ready", parts[2].digest)
        assert await platform.post("/v2/container_images/upload/complete", ann, complete) == ready
        # The same content is there already, other content is the next version
        assert (await platform.post("/v2/container_images/upload", ann, body))["pre_signed_info"] is None
        second = await upload_image(platform, ann, "My_Game")
        assert second["version"] == 2
        assert [row["id"] for row in await platform.get("/v2/container_images", ann)] == [second["id"], image["id"]]
        assert await platform.get("/v2/container_images", bob) == []
        await platform.ask("GET", f"/v2/container_images/{image['id']}", bob, expect=404)
        assert await platform.get(f"/v2/container_images/{image['id']}", ann) == ready


async def test_lists_are_paged_by_offset_and_cursor(tmp_path: Path, database: str | None) -> None:
    """By offset and by cursor, in a header; newcomers shift no cursor."""
    async with inside(tmp_path, database=database) as platform:
        ann = await platform.add_user("ann")
        for number in range(5):
            body = {"name": f"i{number}", "client_hash": str(number)}
            await platform.post("/v2/container_images/upload", ann, body)

        async def names(**params: object) -> tuple[list[str], str | None]:
            answer = await platform.ask("GET", "/v2/container_images", ann, params=params)
            assert answer.headers["X-Total-Count"] >= "5"
            return [row["name"] for row in answer.json()], answer.headers.get("X-Next-Cursor")

        first, cursor = await names(limit=2)
        assert first == ["i4", "i3"]
        assert cursor
        await platform.post("/v2/container_images/upload", ann, {"name": "new", "client_hash": "new"})
        second, cursor = await names(limit=2, cursor=cursor)
        assert second == ["i2", "i1"]
        third, end = await names(limit=2, cursor=cursor)
        assert (third, end) == (["i0"], None)
        assert (await names(limit=2, offset=1))[0] == ["i4", "i3"]
        for wrong in ("x", "e30", "%00", base64.b64encode(b'["2026",1]').decode(), "AAAA" * 30):
            await platform.ask("GET", "/v2/container_images", ann, params={"cursor": wrong}, expect=400)
        for params in ({"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": "x"}):
            await platform.ask("GET", "/v2/container_images", ann, params=params, expect=422)


async def test_policy_versions_are_created_and_listed(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        first = await upload_policy(platform, ann, run=["python", "-m", "racer"], tags={"kind": "test"})
        assert (first["name"], first["version"]) == ("racer", 1)
        assert api.PolicyVersionCreated.read(first).odd == ()
        second = await upload_policy(platform, ann)
        assert second["version"] == 2
        assert (await upload_policy(platform, bob))["version"] == 1
        params = {"mine": "true", "name_exact": "racer", "limit": 100}
        found = await platform.get("/stats/policy-versions", ann, **params)
        assert [row["id"] for row in found["entries"]] == [second["id"], first["id"]]
        assert found["total_count"] == 2
        assert api.PolicyVersionRow.read(found["entries"][0]).label == "racer:v2"
        found = await platform.get("/stats/policy-versions", ann, **params, version=1)
        assert [row["id"] for row in found["entries"]] == [first["id"]]
        image = await upload_image(platform, ann)
        wrong = {"name": "a:b", "container_image_id": image["id"]}
        await platform.ask("POST", "/stats/policies/docker-img/complete", ann, json=wrong, expect=422)
        stolen = {"name": "mine", "container_image_id": image["id"]}
        await platform.ask("POST", "/stats/policies/docker-img/complete", bob, json=stolen, expect=404)
        access = f"/v2/policies/{found['entries'][0]['policy_id']}/selection-access"
        assert (await platform.get(access, ann))["selection_scope"] == "any_request"
        body = {"selection_scope": "owner_visible"}
        await platform.ask("PUT", access, bob, json=body, expect=403)
        await platform.ask("PUT", access, ann, json=body)
        assert (await platform.get(access, ann)) == body


async def test_policy_secrets_are_stored_and_deleted(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        body = {"policy_secret_env": {"API_KEY": "hunter2"}}
        made = await platform.ask("POST", "/stats/policy-secret-envs", ann, json=body)
        assert "hunter2" not in made.text
        version = await upload_policy(platform, ann, policy_secret_env_id=made.json()["id"])
        async with platform.services.database.reading() as db:
            row = await db.get(PolicyVersion, version["id"])
            kept = (await db.scalars(sa.select(PolicySecretEnv))).one()
            assert await platform.services.vault.policy_env(db, kept.id) == {"API_KEY": "hunter2"}
        assert row is not None
        assert (row.secret_env_id, kept.names) == (made.json()["id"], ["API_KEY"])
        assert _files_with(tmp_path, b"hunter2") == []
        for wrong in ({}, {"COWORLD_PLAYER_WS_URL": "x"}, {"A=B": "x"}, {"A": 1}, {"A": "\0"}):
            refused = {"policy_secret_env": wrong}
            await platform.ask("POST", "/stats/policy-secret-envs", ann, json=refused, expect=422)
        image = await upload_image(platform, bob)
        theft = {"name": "x", "container_image_id": image["id"], "policy_secret_env_id": kept.id}
        await platform.ask("POST", "/stats/policies/docker-img/complete", bob, json=theft, expect=404)


async def test_unused_policy_secrets_can_be_deleted(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        body = {"policy_secret_env": {"API_KEY": "hunter2"}}
        used, unused = [(await platform.post("/stats/policy-secret-envs", ann, body))["id"] for _ in range(2)]
        await upload_policy(platform, ann, policy_secret_env_id=used)
        place = "/stats/policy-secret-envs"
        await platform.ask("DELETE", f"{place}/{unused}", bob, expect=404)
        await platform.ask("DELETE", f"{place}/{unused}", expect=401)
        refused = await platform.ask("DELETE", f"{place}/{used}", ann, expect=409)
        assert refused.json()["type"] == "in_use"
        assert (await platform.ask("DELETE", f"{place}/{unused}", ann)).json() == {"id": unused}
        await platform.ask("DELETE", f"{place}/{unused}", ann, expect=404)
        async with platform.services.database.reading() as db:
            assert [row.id for row in await db.scalars(sa.select(PolicySecretEnv))] == [used]
            assert await platform.services.vault.policy_env(db, used) == {"API_KEY": "hunter2"}


async def test_repeated_idempotency_key_returns_the_stored_response(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        image = await upload_image(platform, ann)
        body = {"name": "racer", "container_image_id": image["id"]}
        key = {"Idempotency-Key": "one"}
        path = "/stats/policies/docker-img/complete"
        first = await platform.ask("POST", path, ann, json=body, headers=key)
        again = await platform.ask("POST", path, ann, json=body, headers=key)
        assert again.json() == first.json()
        assert (again.headers.get("Idempotent-Replayed"), first.headers.get("Idempotent-Replayed")) == ("true", None)
        assert (await platform.ask("POST", path, ann, json=body)).json()["version"] == 2
        other = await platform.ask("POST", path, ann, json={**body, "name": "other"}, headers=key, expect=422)
        assert other.json()["type"] == "idempotency_key_reused"
        # One's key is nobody else's
        player = await platform.ask("POST", "/players", bob, json={"name": "x"}, headers=key)
        assert player.json()["name"] == "x"
        # What was refused is not remembered: mended, it goes through
        late = {"Idempotency-Key": "late"}
        pending = await platform.post("/v2/container_images/upload", ann, {"name": "i", "client_hash": "i"})
        complete = ("POST", "/v2/container_images/upload/complete", ann)
        await platform.ask(*complete, json={"id": pending["image"]["id"]}, headers=late, expect=409)
        await push(platform, pending["pre_signed_info"], image_parts())
        await platform.ask(*complete, json={"id": pending["image"]["id"]}, headers=late)


async def test_response_with_a_token_is_not_stored_for_its_key(tmp_path: Path) -> None:
    """Answers that hold a token are made anew under the same key, not remembered."""
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        player = await platform.post("/players", ann, {"name": "x"})
        key = {"Idempotency-Key": "one"}
        path = f"/players/{player['id']}/login"
        texts = {(await platform.ask("POST", path, ann, headers=key)).json()["token"] for _ in range(2)}
        assert len(texts) == 2
        body = {"name": "i", "client_hash": "i"}
        made = [
            (await platform.ask("POST", "/v2/container_images/upload", ann, json=body, headers=key)).json()
            for _ in range(2)
        ]
        assert made[0]["image"] == made[1]["image"]
        texts |= {answer["pre_signed_info"]["authorization_token"] for answer in made}
        assert len(texts) == 4
        async with platform.services.database.reading() as db:
            assert (await db.scalars(sa.select(Idempotent))).all() == []


async def test_concurrent_requests_with_one_key_run_once(tmp_path: Path, database: str | None) -> None:
    """Twenty of the same POST race, and one of them does it."""
    async with inside(tmp_path, database=database) as platform:
        ann = await platform.add_user("ann")
        image = await upload_image(platform, ann)
        body = {"name": "racer", "container_image_id": image["id"]}
        answers: list[str] = []

        async def ask() -> None:
            answer = await platform.ask(
                "POST", "/stats/policies/docker-img/complete", ann, json=body, headers={"Idempotency-Key": "one"}
            )
            answers.append(answer.text)

        async with anyio.create_task_group() as racing:
            for _ in range(20):
                racing.start_soon(ask)
        assert len(answers) == 20
        assert len(set(answers)) == 1
        assert json.loads(answers[0])["version"] == 1


async def test_uploads_at_once(tmp_path: Path, database: str | None) -> None:
    """Without a key each of several at once is its own version, and none fails but by a plain 409."""
    async with inside(tmp_path, database=database) as platform:
        ann = await platform.add_user("ann")
        image = await upload_image(platform, ann)
        versions: list[int] = []

        async def ask() -> None:
            body = {"name": "racer", "container_image_id": image["id"]}
            answer = await platform.ask("POST", "/stats/policies/docker-img/complete", ann, json=body, expect=None)
            if answer.status_code == 409:
                assert answer.json()["type"] == "concurrent_change"
            else:
                versions.append(answer.json()["version"])

        async with anyio.create_task_group() as racing:
            for _ in range(12):
                racing.start_soon(ask)
        assert sorted(versions) == list(range(1, len(versions) + 1))
        assert versions


async def test_player_session_lists_only_its_own_versions(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        sessions = []
        for name in ("one", "two"):
            player = await platform.post("/players", ann, {"name": name})
            sessions.append((await platform.post(f"/players/{player['id']}/login", ann))["token"])
        await upload_policy(platform, sessions[0], "hers")
        await upload_policy(platform, ann, "shared")

        async def mine(token: str) -> set[str]:
            found = await platform.get("/stats/policy-versions", token, mine="true")
            return {row["name"] for row in found["entries"]}

        assert [await mine(token) for token in (ann, *sessions)] == [{"hers", "shared"}, {"hers", "shared"}, {"shared"}]
        async with platform.services.database.reading() as db:
            assert await db.scalar(sa.select(sa.func.count()).select_from(Image)) == 2


def _files_with(directory: Path, content: bytes) -> list[tuple[str, int]]:
    """Directory and permissions of every file that holds some bytes."""
    found = [path for path in directory.rglob("*") if path.is_file() and content in path.read_bytes()]
    return [(path.parent.name, path.stat().st_mode & 0o777) for path in found]
