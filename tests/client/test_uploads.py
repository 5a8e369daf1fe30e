"""Uploads, from the Docker engine of this machine to a real Observatory, and back."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
import pytest_asyncio
from support.archives import tar_of
from support.docker_subject import engine_call
from support.fake_server import Ask, Reset, Say, serve
from support.images import BASE_IMAGE
from support.observatory import Observatory, running_observatory
from support.uploads import manifest_for

from coworld_client import CoworldClient
from coworld_client.errors import Conflict, Forbidden, NotFound, Unprocessable
from coworld_client.uploads import Certified, ImageProgress, Uncertified, image_name
from coworld_client.uploads._hash_cache import HashCache
from coworld_client.uploads.docker_engine import connect_docker
from coworld_client.uploads.docker_images import client_hash
from coworld_core.docker_address import resolve_address
from coworld_core.errors import BackendUnavailable, CoworldError, ImageError, ManifestError, UsageError
from coworld_core.manifest.manifest_file import load_manifest, manifest_sha256
from coworld_runner.backends.docker._engine import Engine

pytestmark = pytest.mark.slow

TRUSTED = Uncertified(reason="a test of uploads")
IMAGE_ID = "img_00000000-0000-4000-8000-000000000001"


# --- images of this machine


def image_tar(name: str, architecture: str = "amd64", content: bytes = b"hello") -> bytes:
    """An image with two layers, as `docker load` takes it."""
    layers = [layer_of("a", content), layer_of("b", b"b" * 5000)]
    digests = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]
    described = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Cmd": ["/a"], "Labels": {"coworld.test": "image"}},
            "rootfs": {"type": "layers", "diff_ids": digests},
        }
    ).encode()
    files = {"config.json": described, "1/layer.tar": layers[0], "2/layer.tar": layers[1]}
    listing = [{"Config": "config.json", "RepoTags": [name], "Layers": ["1/layer.tar", "2/layer.tar"]}]
    files["manifest.json"] = json.dumps(listing).encode()
    return tar_of(files)


def layer_of(name: str, content: bytes) -> bytes:
    return tar_of({name: content})


@asynccontextmanager
async def loaded_image(name: str, data: bytes) -> AsyncGenerator[str]:
    async with Engine.connect(resolve_address()) as engine:
        async with engine.stream("POST", "/images/load", content=data) as answer:
            assert [data async for data in answer]
        try:
            yield name
        finally:
            await engine.call("DELETE", f"/images/{quote(name, safe='')}", query={"force": True})


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "coworld" / "image_client_hashes.json"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def observatory(quick_commands: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Observatory]:
    """One for all tests here: each has a user of its own."""
    async with running_observatory(tmp_path_factory.mktemp("observatory")) as observatory:
        yield observatory


@pytest.fixture
async def api(observatory: Observatory, request: pytest.FixtureRequest) -> AsyncGenerator[CoworldClient]:
    token = await observatory.add_user(request.node.name)
    async with CoworldClient(observatory.server, token=token) as api:
        yield api


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def spool_left() -> list[str]:
    from tempfile import gettempdir

    return [path.name for path in Path(gettempdir()).glob("coworld-transfer-*")]


@pytest.mark.docker
async def test_an_image_goes_up_once_and_comes_back(api: CoworldClient, own_cache: Path) -> None:
    seen: list[ImageProgress] = []
    name = f"coworld-test-upload-{os.getpid()}:one"
    async with loaded_image(name, image_tar(name)):
        first = await api.images.upload(name, on_progress=seen.append)
        assert (first.already, first.image.status.is_ready) == (False, True)
        assert first.image.name == f"coworld-test-upload-{os.getpid()}"
        assert first.sent > 0
        assert {one.stage for one in seen} == {"reading", "packing", "pushing"}
        assert seen[-1].done == seen[-1].total
        # Known by what is in it, and asked before anything is read from the engine again
        assert [one.id async for one in api.images.list()] == [first.image.id]
        assert first.image.client_hash in json.loads(await anyio.Path(own_cache).read_text()).values()
        again = await api.images.upload(name, on_progress=lambda _: pytest.fail("it was read again"))
        assert (again.already, again.sent, again.image.id) == (True, 0, first.image.id)
        await anyio.Path(own_cache).unlink()
        once_more = await api.images.upload(name)
        assert (once_more.already, once_more.image.id) == (True, first.image.id)
        # Another name for the same content is no other image
        other = f"coworld-test-upload-{os.getpid()}:two"
        async with loaded_image(other, image_tar(other)):
            assert (await api.images.upload(other)).already
        # The engine takes it back from there, as its owner
        uri = first.image.image_uri
        assert uri is not None
        token = api.connection.identity.token
        assert token is not None
        async with connect_docker() as engine:
            with pytest.raises(ImageError):
                await engine.pull(uri)
            await engine.pull(uri, login=("coworld", token.reveal()))
            pulled = await engine.inspect(uri)
        try:
            assert pulled.id == (await engine_call("GET", f"/images/{quote(name, safe='')}/json"))["Id"]
        finally:
            await engine_call("DELETE", f"/images/{quote(uri, safe='')}")
    assert spool_left() == []


@pytest.mark.docker
async def test_exported_image_matches_its_hash(tmp_path: Path) -> None:
    """The base image as this engine saves it, read whole in memory by other means."""
    from coworld_client.uploads.docker_images import export_image

    (tmp_path / "spool").mkdir()
    async with connect_docker() as engine:
        data = tmp_path / "saved.tar"
        with data.open("wb") as file:
            await engine.save(BASE_IMAGE, file.writelines)
        exported = await export_image(engine, BASE_IMAGE, tmp_path / "spool")
    with tarfile.open(data) as archive:

        def digest(member: str) -> str:
            source = archive.extractfile(member)
            assert source is not None
            return f"sha256:{hashlib.sha256(source.read()).hexdigest()}"

        listing = archive.extractfile("manifest.json")
        assert listing is not None
        entry = json.load(listing)[0]
        assert exported.client_hash == client_hash(digest(entry["Config"]), [digest(one) for one in entry["Layers"]])


@pytest.mark.docker
async def test_images_that_cannot_be_uploaded(tmp_path: Path) -> None:
    name = f"coworld-test-upload-{os.getpid()}:arm"

    async def never(_: Ask) -> Say:
        raise AssertionError("the platform should not have been asked")

    async with serve(never) as server, CoworldClient(server.url, token="x") as api:
        async with loaded_image(name, image_tar(name, "arm64")):
            with pytest.raises(ImageError) as caught:
                await api.images.upload(name)
            assert caught.value.code == "image_platform"
        with pytest.raises(ImageError) as caught:
            await api.images.upload(f"coworld-test-absent-{os.getpid()}")
        assert caught.value.code == "image_missing"
        for wrong in ("", "UPPER", "--help", IMAGE_ID, "{{GAME_IMAGE}}"):
            with pytest.raises(ImageError):
                await api.images.upload(wrong)


async def test_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    with pytest.raises(BackendUnavailable) as caught:
        async with connect_docker():
            raise AssertionError
    assert caught.value.code == "docker_not_running"

    async def other(_: Ask) -> Say:
        return Say(200, b"hello")

    async with serve(other) as server:
        monkeypatch.setenv("DOCKER_HOST", server.url.replace("http", "tcp"))
        with pytest.raises(BackendUnavailable) as caught:
            async with connect_docker():
                raise AssertionError
        assert caught.value.code == "docker_host_invalid"


@pytest.mark.parametrize(
    ("reference", "name"),
    [("ghcr.io/me/game:1.0", "game"), ("game", "game"), ("localhost:5000/a/b@sha256:" + "0" * 64, "b")],
)
def test_image_name_is_derived_from_the_reference(reference: str, name: str) -> None:
    assert image_name(reference) == name


# --- policies


@pytest.mark.docker
async def test_a_policy_goes_up_in_versions(api: CoworldClient, observatory: Observatory) -> None:
    name = f"coworld-test-policy-{os.getpid()}:one"
    async with loaded_image(name, image_tar(name)):
        secret = {"API_KEY": "s3cret-value"}
        labels = {"a": "b"}
        first = await api.policies.upload(name, name="painter", secret_env=secret, labels=labels, run=["/a", "--go"])
        second = await api.policies.upload(name, name="painter")
        assert (first.label, second.label) == ("painter:v1", "painter:v2")
        assert (await api.policies.lookup("painter")).id == second.id
        # By the id of its image no engine is needed, and a repetition makes nothing new
        image = (await api.images.list())[0]
        third = await api.policies.upload(image.id, name="painter", idempotency_key="k1", secret_env=secret)
        assert await api.policies.upload(image.id, name="painter", idempotency_key="k1", secret_env=secret) == third
        assert third.version == 3
    assert "s3cret-value" not in await anyio.Path(observatory.log).read_text()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"name": ""}, "bad_policy"),
        ({"name": "a:v1"}, "bad_policy"),
        ({"name": "p", "run": ["python -m x"]}, "bad_run"),
        ({"name": "p", "secret_env": {"A B": "x"}}, "bad_env_name"),
        ({"name": "p", "secret_env": {"COWORLD_PLAYER_WS_URL": "x"}}, "reserved_env_name"),
        ({"name": "p", "secret_env": {"A": "x\0"}}, "bad_env_name"),
    ],
)
async def test_invalid_policy_is_refused(options: dict[str, Any], code: str) -> None:
    async with CoworldClient("http://127.0.0.1:9", token="x") as api:
        with pytest.raises(UsageError) as caught:
            await api.policies.upload(IMAGE_ID, **options)
    assert caught.value.code == code


@pytest.mark.parametrize(("status", "dropped"), [(403, True), (409, True), (500, True), (None, False)])
async def test_unused_secrets_are_deleted_after_a_failed_upload(status: int | None, dropped: bool) -> None:
    async def handler(ask: Ask) -> Say:
        if ask.path.endswith("/policy-secret-envs"):
            return Say(200, b'{"id": "env-1"}')
        if status is None:
            # The version may have been made, with these secrets
            raise Reset
        return Say(204) if ask.method == "DELETE" else Say(status, b'{"detail": "no"}')

    async with serve(handler) as server, CoworldClient(server.url, token="x", max_retries=0) as api:
        with pytest.raises(CoworldError):
            await api.policies.upload(IMAGE_ID, name="p", secret_env={"A": "s3cret"})
        deleted = [ask.path for ask in server.asked if ask.method == "DELETE"]
        # With a key of the caller's there will be a repetition, which needs them
        with pytest.raises(CoworldError) as caught:
            await api.policies.upload(IMAGE_ID, name="p", secret_env={"A": "s3cret"}, idempotency_key="mine")
        assert len([ask for ask in server.asked if ask.method == "DELETE"]) == len(deleted)
    assert (deleted == ["/observatory/stats/policy-secret-envs/env-1"]) == dropped
    assert caught.value.context["idempotency_key"] == "mine"
    assert "s3cret" not in str(caught.value.to_dict())


# --- Coworlds


@pytest.mark.docker
async def test_coworld_is_uploaded_updated_and_downloaded(
    tmp_path: Path, api: CoworldClient, observatory: Observatory
) -> None:
    game, player = (f"coworld-test-{what}-{os.getpid()}:1" for what in ("game", "player"))
    async with (
        loaded_image(game, image_tar(game)),
        loaded_image(player, image_tar(player, content=b"player")),
    ):
        manifest = manifest_for(game)
        for entry in manifest["player"]:
            entry["image"] = player
        loaded = load_manifest(manifest, mode="strict")
        passed = Certified(manifest_sha256=manifest_sha256(loaded.manifest), summary={"verdict": "Executable"})
        made = await api.coworlds.upload(manifest, certification=passed)
        assert not made.already
        assert [one.reference for one in made.images] == sorted([game, player])
        assert made.coworld.canonical
        stored = await api.coworlds.get(made.coworld.id)
        assert (stored.model_extra or {})["certification"]["status"] == "passed"

        again = await api.coworlds.upload(loaded, certification=TRUSTED)
        assert (again.already, again.coworld.id) == (True, made.coworld.id)
        assert all(one.already for one in again.images)
        changed = copy.deepcopy(manifest)
        changed["game"]["description"] = "Another game."
        with pytest.raises(Conflict):
            await api.coworlds.upload(changed, certification=TRUSTED)
        with pytest.raises(UsageError) as caught:
            await api.coworlds.upload(changed, certification=passed)
        assert caught.value.code == "certified_other"

        # A part of it, from what the platform has: nothing else is needed here
        name = made.coworld.name
        assert await api.coworlds.next_version(name) == "1.0.1"
        first = manifest["player"][0]["id"]
        updated = await api.coworlds.update(
            name,
            certification=Uncertified(reason="only words"),
            patch={"game": {"description": "Better words."}, "players_per_user": None},
            images={f"player.{first}": game},
        )
        assert (updated.coworld.version, updated.already) == ("1.0.1", False)
        assert updated.coworld.manifest["game"]["description"] == "Better words."
        images = [entry["image"] for entry in updated.coworld.manifest["player"]]
        assert images[0] == updated.coworld.manifest["game"]["runnable"]["image"] != images[1]
        assert images[1] == stored.manifest["player"][1]["image"]
        said = (await api.coworlds.get(updated.coworld.id)).model_extra or {}
        assert said["certification"] == {"status": "skipped", "reason": "only words"}

        # Down again, by anybody
        async with CoworldClient.anonymous(observatory.server) as anyone:
            got = await anyone.coworlds.download(updated.coworld.id, tmp_path / "coworld")
        assert (got.cached, got.pulled, got.directory) == (False, False, tmp_path / "coworld" / updated.coworld.id)
        assert names(got.directory) == ["AGENTS.md", "coworld_images.json", "coworld_manifest.json"]
        assert load_manifest(got.manifest).manifest.game.version == "1.0.1"
        again_here = await api.coworlds.download(name, tmp_path / "coworld")
        assert (again_here.cached, again_here.images) == (True, got.images)

        pulled = await api.coworlds.download(name, tmp_path / "coworld", pull=True)
        local = {image.local_image for image in pulled.images}
        try:
            assert all(one.startswith(f"coworld/{got.id}/") and one.endswith(":downloaded") for one in local)
            assert set(load_manifest(pulled.manifest).manifest.images()) == local
            async with connect_docker() as engine:
                assert {(await engine.inspect(one)).platform.hosted for one in local} == {True}
            assert (await api.coworlds.download(name, tmp_path / "coworld", pull=True)).cached
        finally:
            for image in pulled.images:
                for one in (image.local_image, image.public_image_uri):
                    await engine_call("DELETE", f"/images/{quote(one, safe='')}")

        status = await api.coworlds.status(updated.coworld.id)
        assert (status.verdict, len(status.episodes)) == ("pending", 1)
        waited = await api.coworlds.wait_for_smoke(updated.coworld.id, wait_timeout=0.05)
        assert not waited.decided
    assert spool_left() == []


async def test_invalid_coworlds_are_refused_before_upload(tmp_path: Path) -> None:
    async def never(_: Ask) -> Say:
        raise AssertionError("the platform should not have been asked")

    async with serve(never) as server, CoworldClient(server.url, token="x") as api:
        with pytest.raises(ManifestError):
            await api.coworlds.upload({"game": {}}, certification=TRUSTED)
        with pytest.raises(UsageError) as caught:
            await api.coworlds.upload(manifest_for("ghcr.io/me/game:latest"), certification=TRUSTED)
        assert caught.value.code == "mutable_image"
        with pytest.raises((ManifestError, ImageError)):
            await api.coworlds.upload(manifest_for("{{GAME_IMAGE}}"), certification=TRUSTED)
        with pytest.raises(UsageError) as caught:
            await api.coworlds.update("x", certification=TRUSTED)
        assert caught.value.code == "nothing_to_change"
        with pytest.raises(TypeError):
            await api.coworlds.upload(manifest_for(IMAGE_ID))  # pyright: ignore[reportCallIssue]


def test_certification_record_is_required() -> None:
    record = {"verdict": "Executable", "status": "completed", "manifest_sha256": "ab", "run_id": "r", "steps": [1]}
    certified = Certified.from_record(record)
    assert certified.manifest_sha256 == "ab"
    assert certified.summary == {"verdict": "Executable", "run_id": "r"}
    for wrong in ({"verdict": None}, {"status": "failed"}, {"manifest_sha256": ""}):
        with pytest.raises(UsageError) as caught:
            Certified.from_record({**record, **wrong})
        assert caught.value.code == "not_certified"
    for nothing in ("", "  "):
        with pytest.raises(UsageError):
            Uncertified(reason=nothing)


async def test_platform_refusal_is_raised_as_it_is(tmp_path: Path, api: CoworldClient) -> None:
    with pytest.raises(Unprocessable) as caught:
        await api.coworlds.upload(manifest_for(IMAGE_ID, name="another"), certification=TRUSTED)
    assert IMAGE_ID in caught.value.message
    with pytest.raises(NotFound):
        await api.coworlds.update("nobody", certification=TRUSTED, version="2")
    with pytest.raises(NotFound):
        await api.coworlds.next_version("nobody")
    with pytest.raises(NotFound):
        await api.coworlds.download("cow_00000000-0000-4000-8000-000000000000", tmp_path / "coworld")
    with pytest.raises(CoworldError):
        await api.coworlds.patch_commissioner("nobody", IMAGE_ID)
    with pytest.raises((NotFound, Forbidden)):
        await api.policies.upload(IMAGE_ID, name="p")
    assert names(tmp_path) == []


async def test_response_for_another_coworld_is_refused(tmp_path: Path) -> None:
    asked = "cow_00000000-0000-4000-8000-000000000000"
    given = ["../../evil", "cow_11111111-0000-4000-8000-000000000000", "", "/etc"]

    async def handler(_: Ask) -> Say:
        row = {"id": given[0], "name": "x", "version": "1", "manifest": manifest_for(IMAGE_ID)}
        return Say(200, json.dumps(row).encode(), {"Content-Type": "application/json"})

    async with serve(handler) as server, CoworldClient(server.url) as api:
        while given:
            with pytest.raises(CoworldError):
                await api.coworlds.download(asked, tmp_path / "here" / "coworld")
            given.pop(0)
    assert names(tmp_path) == []


def test_the_cache_belongs_to_the_test(own_cache: Path) -> None:
    assert HashCache.from_environment().path == own_cache
