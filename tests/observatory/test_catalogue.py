"""Coworlds, their versions, and the secrets kept for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support.manifests import leaves, lost
from support.observatory import inside
from support.uploads import manifest_for, upload_coworld, upload_image

from coworld_core import api
from observatory.store.models import CoworldSecret, EpisodeRequest

GENERATIONS = Path(__file__).parents[1] / "core" / "generations"
ELEVATED = {"X-Use-Elevated-Privileges": "true"}


async def test_coworld_is_uploaded_and_downloaded(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann = await platform.add_user("ann")
        image = await upload_image(platform, ann)
        body = {"manifest": manifest_for(image["id"]), "certification": {"passed": True}}
        made = await platform.post("/v2/coworlds/upload", ann, body)
        assert (made["name"], made["version"], made["canonical"]) == ("paint_arena", "1.0.0", True)
        # Anybody reads it, and its images are ones that anybody can pull
        seen = await platform.get(f"/v2/coworlds/{made['id']}")
        assert api.Coworld.read(seen).odd == ()
        public = f"127.0.0.1:8787/{_repository(image)}@{image['image_digest']}"
        assert {entry["image"] for entry in (seen["manifest"]["game"]["runnable"], *seen["manifest"]["player"])} == {
            public
        }
        pulled = await platform.http.get(f"/v2/{_repository(image)}/manifests/{image['image_digest']}")
        assert pulled.status_code == 200
        # Once more is no error, and nothing new
        assert (await platform.post("/v2/coworlds/upload", ann, body))["id"] == made["id"]
        assert [row["id"] for row in await platform.get("/v2/coworlds")] == [made["id"]]
        summary = (await platform.get("/v2/coworlds/summaries"))[0]
        assert summary["manifest_summary"]["role_counts"]["player"] == 2
        games = await platform.get("/v2/games")
        assert [game["coworld_id"] for game in games] == [made["id"]]


def _repository(image: dict[str, str]) -> str:
    return image["image_uri"].partition("/")[2].rpartition(":")[0]


@pytest.mark.parametrize("generation", ["0.1.26", "0.1.64", "v1"])
async def test_upload_keeps_all_manifest_fields(tmp_path: Path, generation: str) -> None:
    newest = generation == "v1"
    manifest = json.loads((GENERATIONS / f"{'0.1.64' if newest else generation}.json").read_text())
    if newest:
        manifest |= {"apiVersion": "coworld.softmax.com/v1", "tags": ["board", "team", "quick"]}
        manifest["episode_timeout_minutes"] = 30
        manifest["game"] |= {
            "promo": {"video_url": "https://example.org/film"},
            "achievements": [{"id": "first", "name": "First", "description": "Wins.", "points": 5}],
            "log": {"objective": "paint", "panels": [{"title": "Paint", "kinds": ["painted"]}]},
        }
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        image = (await upload_image(platform, ann))["id"]
        for place, value in leaves(manifest):
            if place[-1] in ("image", "image_uri") and value is not None:
                _put(manifest, place, image)
        made = await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest})
        kept = (await platform.get(f"/v2/coworlds/{made['id']}"))["manifest"]
        assert [row["manifest"] for row in await platform.get("/v2/coworlds")] == [kept]
    # Images are the public ones now
    assert {place for place in lost(manifest, kept) if place[-1] not in ("image", "image_uri")} == set()


def _put(value: Any, place: tuple[str | int, ...], to: object) -> None:
    for part in place[:-1]:
        value = value[part]
    value[place[-1]] = to


async def test_highest_version_becomes_canonical(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        first = await upload_coworld(platform, ann)
        image = await upload_image(platform, ann)

        async def upload(token: str, expect: int = 200, **changes: str) -> dict[str, object]:
            body = {"manifest": manifest_for(image["id"], **changes)}
            answer = await platform.ask("POST", "/v2/coworlds/upload", token, json=body, expect=expect)
            return dict(answer.json())

        # The same version with another image is another thing
        assert (await upload(ann, 409))["type"] == "version_taken"
        newer = await upload(ann, version="1.10.0")
        between = await upload(ann, version="1.9.0")
        assert (newer["canonical"], between["canonical"]) == (True, False)
        versions = await platform.get("/v2/coworlds", name="paint-arena")
        assert [(row["version"], row["canonical"]) for row in versions] == [
            ("1.9.0", False),
            ("1.10.0", True),
            ("1.0.0", False),
        ]
        assert [row["id"] for row in await platform.get("/v2/coworlds", name="PAINT-ARENA", canonical="true")] == [
            newer["id"]
        ]
        # The name belongs to who came first, in any spelling
        other = await upload_image(platform, bob)
        body = {"manifest": manifest_for(other["id"], name="Paint-Arena", version="9.0.0")}
        refused = await platform.ask("POST", "/v2/coworlds/upload", bob, json=body, expect=403)
        assert refused.json()["type"] == "name_taken"
        assert (await platform.get(f"/v2/coworlds/{first['id']}"))["canonical"] is False


async def test_invalid_manifest_is_refused(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        image = await upload_image(platform, ann)
        pending = await platform.post("/v2/container_images/upload", ann, {"name": "x", "client_hash": "x"})

        async def refused(token: str, manifest: object, status: int = 422) -> list[dict[str, object]]:
            answer = await platform.ask(
                "POST", "/v2/coworlds/upload", token, json={"manifest": manifest}, expect=status
            )
            return list(answer.json()["detail"])

        broken = manifest_for(image["id"])
        del broken["variants"]
        broken["game"]["version"] = "one"
        issues = await refused(ann, broken)
        said = {(str(issue["type"]), ".".join(map(str, issue["loc"]))) for issue in issues}  # type: ignore[arg-type, call-overload]
        assert said >= {("missing_field", "body.manifest"), ("bad_version", "body.manifest.game.version")}
        assert (await refused(bob, manifest_for(image["id"])))[0]["type"] == "image_unknown"
        assert (await refused(ann, manifest_for(pending["image"]["id"])))[0]["type"] == "image_pending"
        for mutable in ("ghcr.io/ann/game:latest", "paintarena:1"):
            assert (await refused(ann, manifest_for(mutable)))[0]["type"] == "mutable_image"
        await platform.ask("POST", "/v2/coworlds/upload", json={"manifest": manifest_for("paintarena:1")}, expect=401)
        assert await refused(ann, [])


async def test_private_coworld_is_visible_to_its_owner_only(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        admin = await platform.add_user("admin", team=True)
        image = await upload_image(platform, ann)
        body = {"manifest": manifest_for(image["id"]), "visibility": "private"}
        made = await platform.post("/v2/coworlds/upload", ann, body)
        path = f"/v2/coworlds/{made['id']}"
        assert (await platform.get(path, ann))["visibility"] == "private"
        for token in (bob, admin, None):
            await platform.ask("GET", path, token, expect=404)
            assert await platform.get("/v2/coworlds", token) == []
        await platform.ask("GET", path, admin, headers=ELEVATED)
        digest = f"/v2/{_repository(image)}/manifests/{image['image_digest']}"
        assert (await platform.http.get(digest)).status_code == 401
        await platform.ask(
            "POST", "/v2/coworlds/paint-arena/visibility", bob, json={"visibility": "public"}, expect=403
        )
        await platform.post("/v2/coworlds/paint-arena/visibility", ann, {"visibility": "public"})
        assert (await platform.get(path))["visibility"] == "public"
        assert (await platform.http.get(digest)).status_code == 200
        await platform.post("/v2/coworlds/paint-arena/visibility", ann, {"visibility": "private"})
        assert (await platform.http.get(digest)).status_code == 401


async def test_hosted_certification_is_requested(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        made = await upload_coworld(platform, ann)
        path = f"/v2/coworlds/{made['id']}/certification"
        state = await platform.get(path)
        assert (state["state"], state["certified"]) == ("queued", False)
        await platform.ask("POST", f"{path}/retry", ann, expect=409)
        async with platform.services.database.writing() as db:
            failed = {"status": "failed", "error_type": "game_unhealthy", "error": "It fell over."}
            await db.execute(sa.update(EpisodeRequest).values(**failed))
        state = await platform.get(path)
        assert (state["state"], state["failure"]["kind"]) == ("failed", "game_unhealthy")
        assert api.CertificationState.read(state).odd == ()
        await platform.ask("POST", f"{path}/retry", bob, expect=403)
        assert (await platform.post(f"{path}/retry", ann))["state"] == "queued"
        async with platform.services.database.reading() as db:
            orders = (await db.scalars(sa.select(EpisodeRequest).order_by(EpisodeRequest.index))).all()
        assert [(row.source, row.index, row.status) for row in orders] == [
            ("coworld_upload", 0, "failed"),
            ("coworld_upload", 1, "pending"),
        ]
        assert [seat.bundled_player for seat in orders[1].participants]
        assert orders[1].revision > orders[0].revision


async def test_commissioner_image_is_patched(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        image, other = [await upload_image(platform, ann, name) for name in ("game", "commissioner")]
        manifest = manifest_for(image["id"])
        entry = {**manifest["player"][0], "id": "steward", "type": "commissioner"}
        manifest["commissioner"] = [entry]
        await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest})
        body = {"coworld_name": "paint-arena", "container_image_id": other["id"]}
        made = await platform.post("/v2/coworlds/patch-commissioner", ann, body)
        assert (made["version"], made["canonical"]) == ("1.0.1", True)
        assert made["manifest"]["commissioner"][0]["image"].endswith(other["image_digest"])
        assert made["manifest"]["game"]["runnable"]["image"].endswith(image["image_digest"])
        body["runnable_id"] = "nobody"
        await platform.ask("POST", "/v2/coworlds/patch-commissioner", ann, json=body, expect=422)
        body = {"coworld_name": "nothing", "container_image_id": other["id"]}
        await platform.ask("POST", "/v2/coworlds/patch-commissioner", ann, json=body, expect=404)


async def test_coworld_secrets_are_put_listed_and_deleted(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        made = await upload_coworld(platform, ann)
        path = "/v2/coworlds/secrets/paint%2Darena"
        value = b"\x00hunter2\xff"
        put = await platform.ask("PUT", f"{path}/api_key", ann, content=value)
        assert put.json()["size_bytes"] == len(value)
        assert value not in put.content
        await platform.ask("PUT", f"{path}/api_key", ann, content=value * 2)
        listed = await platform.get(path, ann)
        assert [(row["secret_name"], row["size_bytes"], row["coworld_id"]) for row in listed] == [
            ("api_key", 2 * len(value), made["id"])
        ]
        assert await platform.get(f"/v2/coworlds/secrets/{made['id']}", ann) == listed, "an id names the Coworld too"
        async with platform.services.database.reading() as db:
            [sealed] = await db.scalars(sa.select(CoworldSecret.sealed))
            assert platform.services.vault.unseal(sealed) == value * 2
        by_id = f"/v2/coworlds/secrets/{made['id']}"
        for method, where in (("GET", path), ("GET", by_id), ("PUT", f"{path}/api_key"), ("DELETE", f"{path}/api_key")):
            await platform.ask(method, where, bob, expect=403)
        await platform.ask("PUT", f"{path}/..%2Fx", ann, content=b"x", expect=None)
        await platform.ask("PUT", f"{path}/a b", ann, content=b"x", expect=400)
        await platform.ask("PUT", f"{path}/big", ann, content=b"x" * 1_048_577, expect=413)
        assert (await platform.ask("DELETE", f"{path}/api_key", ann)).json()["secret_name"] == "api_key"
        await platform.ask("DELETE", f"{path}/api_key", ann, expect=404)
        async with platform.services.database.reading() as db:
            assert await db.scalar(sa.select(CoworldSecret.id)) is None
        await platform.ask("GET", "/v2/coworlds/secrets/nothing", ann, expect=404)
