"""The image registry: pushed in pieces, verified, pulled by who may, and by a real engine."""

from __future__ import annotations

import base64
import bz2
import datetime as dt
import gzip
import hashlib
import json
import lzma
import os
import subprocess
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import sqlalchemy as sa
from support.observatory import Inside, inside, running_observatory
from support.registry import image_archive
from support.uploads import MANIFEST_TYPE, image_parts, manifest_for, push, upload_image

from coworld_runner.backends.docker.docker_backend import DockerBackend
from observatory.identity.worker_login import worker_login
from observatory.operations.unused_images import remove_from_engine, remove_unused
from observatory.quotas import Quotas
from observatory.store import blobs
from observatory.store.artifacts import artifact_store
from observatory.store.blobs import BlobStore
from observatory.store.columns import now
from observatory.store.models import Image, ImageChain, RegistryTag, Token, User
from observatory.store.unpacked_size import zstd
from observatory.store.usage import stored_bytes

KIND = {"Content-Type": MANIFEST_TYPE}
MEBIBYTE = 1024 * 1024


class Push:
    """Leave to push one image, and requests made with it."""

    def __init__(self, platform: Inside, image: dict[str, Any], grant: dict[str, Any]) -> None:
        self.platform = platform
        self.image = image
        self.grant = grant
        self.headers = {"Authorization": f"Basic {grant['authorization_token']}"}
        self.base = f"/v2/{grant['repository']}"

    async def __call__(self, method: str, path: str, expect: int, **more: Any) -> httpx2.Response:
        headers = {**self.headers, **more.pop("headers", {})}
        url = path if path.startswith("/v2/") else f"{self.base}{path}"
        answer = await self.platform.http.request(method, url, headers=headers, **more)
        assert answer.status_code == expect, (method, path, answer.status_code, answer.text)
        if expect >= 400 and method != "HEAD":
            assert answer.json()["errors"][0]["code"]
        return answer

    async def blob(self, content: bytes) -> str:
        """Push a blob in one go."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        await self("POST", "/blobs/uploads/", 201, params={"digest": digest}, content=content)
        return digest


async def _begin(platform: Inside, token: str, name: str = "game") -> Push:
    made = await platform.post("/v2/container_images/upload", token, {"name": name, "client_hash": os.urandom(8).hex()})
    return Push(platform, made["image"], made["pre_signed_info"])


async def test_blob_is_uploaded_in_chunks(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        push = await _begin(platform, await platform.add_user("ann"))
        content = os.urandom(300_000)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        await push("HEAD", f"/blobs/{digest}", 404)
        begun = await push("POST", "/blobs/uploads/", 202)
        where = begun.headers["location"]
        assert begun.headers["range"] == "0-0"
        first = await push("PATCH", where, 202, content=content[:100_000], headers={"Content-Range": "0-99999"})
        assert first.headers["range"] == "0-99999"
        # A piece that does not follow is refused, and told what would
        gap = await push("PATCH", where, 416, content=b"x", headers={"Content-Range": "100001-100001"})
        assert gap.headers["range"] == "0-99999"
        await push("PATCH", where, 416, content=b"x", headers={"Content-Range": "0-0"})
        assert (await push("GET", where, 204)).headers["range"] == "0-99999"
        await push("PATCH", where, 202, content=content[100_000:200_000])
        done = await push("PUT", where, 201, params={"digest": digest}, content=content[200_000:])
        assert done.headers["docker-content-digest"] == digest
        await push("GET", where, 404)
        assert (await push("HEAD", f"/blobs/{digest}", 200)).headers["content-length"] == "300000"
        assert (await push("GET", f"/blobs/{digest}", 200)).content == content
        part = await push("GET", f"/blobs/{digest}", 206, headers={"Range": "bytes=100000-100009"})
        assert part.content == content[100_000:100_010]
        assert part.headers["content-range"] == "bytes 100000-100009/300000"


async def test_upload_resumes_after_a_server_restart(tmp_path: Path) -> None:
    content = os.urandom(50_000)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    async with inside(tmp_path) as platform:
        push = await _begin(platform, await platform.add_user("ann"))
        where = (await push("POST", "/blobs/uploads/", 202)).headers["location"]
        await push("PATCH", where, 202, content=content[:20_000])
    async with inside(tmp_path) as platform:
        push.platform = platform
        assert (await push("GET", where, 204)).headers["range"] == "0-19999"
        await push("PUT", where, 201, params={"digest": digest}, content=content[20_000:])
        assert (await push("GET", f"/blobs/{digest}", 200)).content == content


async def test_layers_count_once_on_top_of_the_same_layers(tmp_path: Path, database: str | None) -> None:
    async with inside(tmp_path, database=database, quotas=Quotas(stored=250_000)) as platform:
        ann = await platform.add_user("ann")
        below, other, large, config = b"a" * 1000, b"b" * 1000, os.urandom(60_000), b"{}"

        async def upload(*layers: bytes) -> tuple[dict[str, Any], int]:
            push = await _begin(platform, ann, "image")
            described = [{"digest": await push.blob(content), "size": len(content)} for content in (config, *layers)]
            manifest = {"schemaVersion": 2, "config": described[0], "layers": described[1:], "a": os.urandom(8).hex()}
            await push("PUT", f"/manifests/{push.grant['tag']}", 201, content=json.dumps(manifest), headers=KIND)
            body = {"id": push.image["id"]}
            done = await platform.ask("POST", "/v2/container_images/upload/complete", ann, json=body, expect=None)
            async with platform.services.database.reading() as session:
                (user,) = await session.scalars(sa.select(User.id).where(User.name == "ann"))
                return {"status": done.status_code, **done.json()}, await stored_bytes(session, user)

        _, first = await upload(below, large)
        assert 61_000 < first < 62_000
        # The same again, and what is above it, share what is there
        _, same = await upload(below, large)
        assert same - first < 1000
        _, above = await upload(below, large, other)
        assert 1000 < above - same < 2000
        # On top of another layer, an engine unpacks the same one anew
        made, anew = await upload(other, large)
        assert 61_000 < anew - above < 62_000
        await upload(large)
        refused, full = await upload(large, large, large)
        assert (refused["status"], refused["type"], full < 250_000) == (413, "quota_exceeded", True)
        # What has gone counts no longer
        then = now() - dt.timedelta(days=8)
        async with platform.services.database.writing() as session:
            await session.execute(sa.update(Image).where(Image.id == made["id"]).values(created_at=then))
            await session.execute(sa.update(RegistryTag).values(updated_at=then))
            await session.execute(sa.update(Token).where(Token.kind == "registry").values(expires_at=then))
        assert (await remove_unused(platform.services))["images"] == 1
        async with platform.services.database.reading() as session:
            (user,) = await session.scalars(sa.select(User.id).where(User.name == "ann"))
            assert 60_000 < full - await stored_bytes(session, user) < 63_000


async def test_unfinished_uploads_are_bounded_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "MAX_UNFINISHED", 2)
    async with inside(tmp_path, quotas=Quotas(stored=100_000)) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        push, other = await _begin(platform, ann), await _begin(platform, bob)
        kept = (await other("POST", "/blobs/uploads/", 202)).headers["location"]
        first, *rest = [(await push("POST", "/blobs/uploads/", 202)).headers["location"] for _ in range(3)]
        # The oldest makes way for the newest, of the same account
        await push("GET", first, 404)
        for upload in rest:
            await push("PATCH", upload, 202, content=b"x" * 50_000)
        await other("GET", kept, 204)
        assert len(list(platform.services.settings.uploads.iterdir())) == 3
        # They count before anything else is begun
        body = {"name": "next", "client_hash": "sha256:next"}
        refused = await platform.ask("POST", "/v2/container_images/upload", ann, json=body, expect=413)
        assert refused.json()["type"] == "quota_exceeded"
        # None makes way that is being received
        async with AsyncExitStack() as receiving:
            for upload in rest:
                found = platform.services.blobs.find(upload.rpartition("/")[2], push.grant["repository"])
                assert found is not None
                await receiving.enter_async_context(found.lock)
            refused = await push("POST", "/blobs/uploads/", 429)
            assert refused.headers["Retry-After"] == "10"
        await push("POST", "/blobs/uploads/", 202)


async def test_blob_with_wrong_digest_is_refused(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        push = await _begin(platform, await platform.add_user("ann"))
        wrong = "sha256:" + "0" * 64
        where = (await push("POST", "/blobs/uploads/", 202)).headers["location"]
        await push("PUT", where, 400, params={"digest": wrong}, content=b"content")
        await push("GET", where, 404)
        await push("HEAD", f"/blobs/{wrong}", 404)
        for digest in ("", "sha256:x", "md5:0", "sha256:" + "0" * 63 + "/", "../../x"):
            where = (await push("POST", "/blobs/uploads/", 202)).headers["location"]
            await push("PUT", where, 400, params={"digest": digest}, content=b"content")
        left = await push("DELETE", where, 204)
        assert left.content == b""
        assert _blobs(tmp_path) == []
        layer, config, manifest = image_parts()
        kind = {"Content-Type": MANIFEST_TYPE}
        # A manifest comes after its parts
        answer = await push("PUT", "/manifests/v1", 400, content=manifest.content, headers=kind)
        assert answer.json()["errors"][0]["code"] == "MANIFEST_BLOB_UNKNOWN"
        await push.blob(layer.content)
        await push.blob(config.content)
        await push("PUT", f"/manifests/{wrong}", 400, content=manifest.content, headers=kind)
        for content in (
            b"",
            b"[]",
            b"{}",
            b'{"layers": 1}',
            b'{"config": {}}',
            b"\xff",
            b'{"layers": [{"digest": 1}]}',
        ):
            await push("PUT", "/manifests/v1", 400, content=content, headers=kind)
        await push("PUT", "/manifests/-x", 400, content=manifest.content, headers=kind)
        await push("PUT", "/manifests/v1", 201, content=manifest.content, headers=kind)
        seen = await push("GET", "/manifests/v1", 200)
        assert (seen.content, seen.headers["content-type"]) == (manifest.content, MANIFEST_TYPE)
        assert seen.headers["docker-content-digest"] == manifest.digest
        head = await push("HEAD", f"/manifests/{manifest.digest}", 200)
        assert head.headers["content-length"] == str(len(manifest.content))
        assert (await push("GET", "/tags/list", 200)).json()["tags"] == ["v1"]


async def test_upload_token_is_limited_to_one_repository(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        hers, his = await _begin(platform, ann), await _begin(platform, bob)
        assert hers.base != his.base
        content = os.urandom(100)
        digest = await his.blob(content)
        await hers("POST", f"{his.base}/blobs/uploads/", 403)
        await hers("GET", f"{his.base}/blobs/{digest}", 403)
        # The blob is on the disk, and not in her repository: she has to bring it
        await hers("HEAD", f"/blobs/{digest}", 404)
        mount = {"mount": digest, "from": his.base.removeprefix("/v2/")}
        await hers("POST", "/blobs/uploads/", 202, params=mount)
        where = (await his("POST", "/blobs/uploads/", 202)).headers["location"]
        await hers("PATCH", where.replace(his.base, hers.base), 404, content=b"x")
        # The token of a person does not push, and that of an upload opens nothing but the registry
        for token in (ann, bob):
            await hers("POST", "/blobs/uploads/", 403, headers={"Authorization": f"Bearer {token}"})
        text = base64.b64decode(hers.grant["authorization_token"]).decode().partition(":")[2]
        await platform.ask("GET", "/players", text, expect=401)
        for wrong in ("Basic eHg=", "Basic !", "Bearer x", f"Bearer {text}x", "Digest x"):
            answer = await hers("POST", "/blobs/uploads/", 401, headers={"Authorization": wrong})
            assert answer.headers["www-authenticate"].startswith('Bearer realm="http://127.0.0.1:8787/v2/token"')
        # Between one's own repositories nothing needs to be sent twice
        other = await _begin(platform, ann, "other")
        own = await hers.blob(b"shared")
        mount = {"mount": own, "from": hers.base.removeprefix("/v2/")}
        await other("POST", "/blobs/uploads/", 201, params=mount)
        assert (await other("GET", f"/blobs/{own}", 200)).content == b"shared"


async def test_private_image_is_pulled_by_its_owner_only(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann, bob = await platform.add_user("ann"), await platform.add_user("bob")
        image = await upload_image(platform, ann, "game")
        private = await upload_image(platform, ann, "game")
        base = "/v2/" + image["image_uri"].partition("/")[2].rpartition(":")[0]

        async def status(reference: str, token: str | None = None) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return (await platform.http.get(f"{base}/{reference}", headers=headers)).status_code

        assert [await status("manifests/v1", token) for token in (None, bob, ann)] == [401, 403, 200]
        assert [await status("manifests/absent", token) for token in (None, bob, ann)] == [401, 404, 404]
        await platform.post("/v2/coworlds/upload", ann, {"manifest": manifest_for(image["id"])})
        assert [await status(f"manifests/{image['image_digest']}", token) for token in (None, bob)] == [200, 200]
        assert [await status("manifests/v1", token) for token in (None, bob)] == [200, 200]
        # What is beside it in the repository is still its owner's
        assert private["image_uri"].endswith(":v2")
        assert [await status("manifests/v2", token) for token in (None, bob, ann)] == [401, 403, 200]
        assert [await status("tags/list", token) for token in (None, bob, ann)] == [401, 403, 200]
        layers = (await platform.http.get(f"{base}/manifests/v1")).json()["layers"]
        assert await status(f"blobs/{layers[0]['digest']}") == 200
        # The way of engines: asked to sign in, they fetch a token, for nobody too
        ping = await platform.http.get("/v2/")
        assert ping.status_code == 401
        token = (await platform.http.get("/v2/token", params={"scope": "repository:x:pull"})).json()["token"]
        assert await status("manifests/v1", token) == 200
        assert await status("manifests/v2", token) == 401
        mine = await platform.http.get("/v2/token", auth=("ann", ann))
        assert await status("manifests/v2", mine.json()["token"]) == 200
        assert (await platform.http.get("/v2/", auth=("ann", ann))).status_code == 200
        assert (await platform.http.get("/v2/token", auth=("ann", "wrong"))).status_code == 401


async def test_complete_image_cannot_be_changed(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        first = await _begin(platform, ann)
        await push(platform, first.grant, image_parts())
        await platform.post("/v2/container_images/upload/complete", ann, {"id": first.image["id"]})
        layer, config, manifest = image_parts()
        for blob in (layer, config):
            await first.blob(blob.content)
        kind = {"Content-Type": MANIFEST_TYPE}
        await first("PUT", "/manifests/v1", 403, content=manifest.content, headers=kind)
        await first("PUT", "/manifests/v2", 201, content=manifest.content, headers=kind)


async def test_malformed_repository_names_are_refused(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        ann = await platform.add_user("ann")
        for name in ("UPPER", "a//b", "a%2F..%2F..%2Fetc", "a/", "%00", "a" * 300, "é"):
            for path in (f"/v2/{name}/manifests/v1", f"/v2/{name}/blobs/sha256:{'0' * 64}", f"/v2/{name}/tags/list"):
                answer = await platform.http.get(path, headers={"Authorization": f"Bearer {ann}"})
                assert answer.status_code == 404, (path, answer.text)
        for reference in ("sha256:x", "%00", "..%2F..", "a%00b"):
            answer = await platform.http.get(f"/v2/a/blobs/{reference}", headers={"Authorization": f"Bearer {ann}"})
            assert answer.status_code in (400, 404), (reference, answer.text)
        assert (await platform.http.delete("/v2/a/manifests/v1")).status_code == 405


def _bomb(pack: Callable[[bytes], bytes], mebibytes: int) -> bytes:
    """Zeros, compressed in several parts, as any archiver may do."""
    return pack(bytes(MEBIBYTE)) * mebibytes


PACKERS = {"gzip": gzip.compress, "zstd": zstd.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("way", ["at once", "in pieces", "over a restart"])
async def test_layers_that_unpack_to_too_much_are_refused(tmp_path: Path, way: str) -> None:
    quotas = Quotas(image=9 * MEBIBYTE)
    bombs = [_bomb(pack, 12) for pack in PACKERS.values()]
    async with inside(tmp_path, quotas=quotas) as platform:
        push = await _begin(platform, await platform.add_user("ann"))
        places = [(await push("POST", "/blobs/uploads/", 202)).headers["location"] for _ in bombs]
        if way != "at once":
            for bomb, where in zip(bombs, places, strict=True):
                await push("PATCH", where, 202, content=bomb[: len(bomb) // 2])
        if way != "over a restart":
            refused = [await _refused(push, way, *upload) for upload in zip(bombs, places, strict=True)]
    if way == "over a restart":
        async with inside(tmp_path, quotas=quotas) as platform:
            push.platform = platform
            refused = [await _refused(push, way, *upload) for upload in zip(bombs, places, strict=True)]
    assert all("9437184 bytes once it is unpacked" in said for said in refused)
    assert _blobs(tmp_path) == []


async def _refused(push: Push, way: str, bomb: bytes, where: str) -> str:
    """The registry's words when it is sent all of a layer, or the rest of it."""
    if way == "in pieces":
        # As soon as it is too much, long before its end
        refused = await push("PATCH", where, 413, content=bomb[len(bomb) // 2 : -100])
    else:
        digest = f"sha256:{hashlib.sha256(bomb).hexdigest()}"
        rest = bomb if way == "at once" else bomb[len(bomb) // 2 :]
        refused = await push("PUT", where, 413, params={"digest": digest}, content=rest)
    return refused.json()["errors"][0]["message"]


async def test_unpacked_bytes_count_as_stored(tmp_path: Path) -> None:
    """Whatever the parts of a bomb are, and in how many images, they are counted as what they are on an engine."""
    layer = gzip.compress(bytes(8 * MEBIBYTE))
    async with inside(tmp_path, quotas=Quotas(stored=20 * MEBIBYTE, image=30 * MEBIBYTE)) as platform:
        ann = await platform.add_user("ann")
        await upload_image(platform, ann, "one", image_parts(layer))
        async with platform.services.database.reading() as session:
            (user,) = await session.scalars(sa.select(User.id))
            assert 8 * MEBIBYTE < await stored_bytes(session, user) < 8 * MEBIBYTE + 2000
        push = await _begin(platform, ann, "two")
        where = (await push("POST", "/blobs/uploads/", 202)).headers["location"]
        refused = await push("PATCH", where, 413, content=_bomb(gzip.compress, 13))
        assert "your quota is 20971520" in refused.json()["errors"][0]["message"]
        # Sent once and named again and again, a layer is unpacked as often
        packed, config, manifest = image_parts(layer)
        for blob in (packed, config):
            await push.blob(blob.content)
        many = json.loads(manifest.content)
        many["layers"] *= 4
        refused = await push("PUT", "/manifests/v1", 413, content=json.dumps(many), headers=KIND)
        assert "31457280 bytes once it is unpacked" in refused.json()["errors"][0]["message"]


@pytest.mark.parametrize("part", ["layers", "config", "manifests"])
async def test_manifest_with_a_wrong_size_is_refused(tmp_path: Path, part: str) -> None:
    async with inside(tmp_path) as platform:
        push = await _begin(platform, await platform.add_user("ann"))
        layer, config, manifest = image_parts()
        for blob in (layer, config):
            await push.blob(blob.content)
        wrong = json.loads(manifest.content)
        if part == "manifests":
            await push("PUT", f"/manifests/{manifest.digest}", 201, content=manifest.content, headers=KIND)
            wrong = {"manifests": [{"digest": manifest.digest}]}
        described = wrong["config"] if part == "config" else wrong[part][0]
        for size in (-5, 0, 99, 101, 100.0, True, "100", None):
            described["size"] = size
            refused = await push("PUT", "/manifests/v1", 400, content=json.dumps(wrong), headers=KIND)
            assert "the manifest says otherwise" in refused.json()["errors"][0]["message"], size
        await push("GET", "/manifests/v1", 404)


async def test_manifest_with_too_many_layers_is_refused(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        push = await _begin(platform, await platform.add_user("ann"))
        layer, config, manifest = image_parts()
        for blob in (layer, config):
            await push.blob(blob.content)
        for many, status in ((127, 201), (128, 400), (20_000, 400)):
            document = json.loads(manifest.content)
            document["layers"] *= many
            answer = await push("PUT", "/manifests/v1", status, content=json.dumps(document), headers=KIND)
        assert "20000 layers, and 127 are the most" in answer.json()["errors"][0]["message"]


async def test_stale_uploads_are_removed(tmp_path: Path) -> None:
    store = BlobStore(artifact_store(f"file://{tmp_path / 'artifacts'}"), tmp_path / "uploads", "0" * 16)
    fresh, stale = await store.start("a"), await store.start("a")
    os.utime(stale.data, (1, 1))
    assert store.sweep() == 1
    assert store.find(fresh.id, "a") is fresh
    assert store.find(stale.id, "a") is None
    assert store.find("../" + fresh.id, "a") is None


def _blobs(directory: Path) -> list[Path]:
    return [path for path in (directory / "observatory" / "artifacts" / "registry").rglob("*") if path.is_file()]


@pytest.mark.docker
async def test_a_real_engine_pushes_and_pulls(tmp_path: Path) -> None:
    async with running_observatory(tmp_path) as platform, httpx2.AsyncClient(base_url=platform.server) as http:
        ann = await platform.add_user("ann")
        headers = {"Authorization": f"Bearer {ann}"}
        body = {"name": "noise", "client_hash": "noise"}
        begun = (await http.post("/observatory/v2/container_images/upload", json=body, headers=headers)).json()
        grant = begun["pre_signed_info"]
        user, _, password = base64.b64decode(grant["authorization_token"]).decode().partition(":")
        uri = grant["image_uri"]
        config = tmp_path / "docker"
        config.mkdir()
        auth = {"auths": {grant["registry"]: {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}}}
        (config / "config.json").write_text(json.dumps(auth))
        strangers = tmp_path / "nobody"
        strangers.mkdir()

        async def docker(*arguments: str, config: Path = config, check: bool = True, **more: Any) -> str:
            command = ["docker", "--config", str(config), *arguments]
            done = await anyio.run_process(command, check=False, stderr=subprocess.STDOUT, **more)
            said = done.stdout.decode()
            assert not check or done.returncode == 0, said
            return said

        local = f"observatory-test-{os.getpid()}:1"
        await docker("load", input=image_archive(local, "amd64"))
        try:
            await docker("tag", local, uri)
            await docker("push", uri)
            complete = {"id": begun["image"]["id"]}
            done = await http.post("/observatory/v2/container_images/upload/complete", json=complete, headers=headers)
            digest = done.json()["image_digest"]
            assert digest.startswith("sha256:")
            await docker("rmi", uri, local)
            pinned = f"{uri.rpartition(':')[0]}@{digest}"
            assert "unauthorized" in await docker("pull", pinned, config=strangers, check=False)
            await docker("pull", pinned)
            assert digest in await docker("inspect", "--format", "{{.RepoDigests}}", pinned)
            await docker("rmi", pinned)
            # Our own worker pulls it too, with a login that is in no file of the engine's
            async with platform.services() as services:
                login = worker_login(services.vault)
            async with DockerBackend(logins={grant["registry"]: login}) as backend:
                await backend.ensure_image(pinned)
                # There it stays as long as it is here
                async with platform.services() as services:
                    assert await remove_from_engine(services, backend, grant["registry"]) == 0
                    assert pinned in await backend.images_of(grant["registry"])
                    async with services.database.writing() as session:
                        await session.execute(sa.delete(ImageChain))
                        await session.execute(sa.delete(Image))
                    held = (await docker("create", pinned, "nothing")).split()[-1]
                    assert await remove_from_engine(services, backend, grant["registry"]) == 0
                    await docker("rm", held)
                    assert await remove_from_engine(services, backend, grant["registry"]) == 1
                    assert await backend.images_of(grant["registry"]) == ()
            answer = await http.post(f"/v2/{grant['repository']}/blobs/uploads/", auth=login)
            assert answer.status_code == 403
            assert (await http.get("/v2/", auth=("worker", login[1] + "x"))).status_code == 401
        finally:
            await docker("rmi", "-f", local, uri, check=False)
            await docker("image", "rm", "-f", f"{uri.rpartition(':')[0]}@{digest}", check=False)
