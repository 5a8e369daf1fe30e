"""Images to a registry: taken apart on disk, told by digest, sent once, and gone on with when the connection breaks."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.archives import tar_of
from support.fake_server import Say
from support.push_registry import LOGIN, Fault, PushRegistry, serve_push_registry

from coworld_client import Backoff
from coworld_client.errors import ApiConnectionError
from coworld_client.uploads._hash_cache import HashCache
from coworld_client.uploads.docker_images import ExportedImage, client_hash, read_export
from coworld_client.uploads.packed_image import PackedImage, pack_image
from coworld_client.uploads.registry import RegistryError, RegistryTarget, push_image
from coworld_core.errors import ImageError

NOISE = random.Random(5)


def layer(size: int, name: str = "noise") -> bytes:
    return tar_of({name: NOISE.randbytes(size)})


LAYERS = [layer(300_000, "a"), layer(150_000, "b")]


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def config(layers: list[bytes], **more: str) -> bytes:
    described = {"os": "linux", "architecture": "amd64", "config": {"Env": ["A=1"]}, **more}
    return json.dumps({**described, "rootfs": {"type": "layers", "diff_ids": [digest(one) for one in layers]}}).encode()


def listing(config_name: str, names: list[str], count: int = 1) -> bytes:
    return json.dumps([{"Config": config_name, "RepoTags": ["x:1"], "Layers": names}] * count).encode()


def legacy(layers: list[bytes] = LAYERS, described: bytes | None = None) -> dict[str, bytes | str]:
    """As engines up to 24 write it."""
    described = described or config(layers)
    names = [f"{number:064x}/layer.tar" for number in range(len(layers))]
    files: dict[str, bytes | str] = {f"{hashlib.sha256(described).hexdigest()}.json": described}
    for name, data in zip(names, layers, strict=True):
        files |= {name.replace("layer.tar", "VERSION"): b"1.0", name.replace("layer.tar", "json"): b"{}", name: data}
    files |= {"manifest.json": listing(next(iter(files)), names), "repositories": b"{}"}
    return files


def oci(layers: list[bytes] = LAYERS, described: bytes | None = None) -> dict[str, bytes | str]:
    """As engines from 25 on write it."""
    described = described or config([gzip.decompress(one) if one[:2] == b"\x1f\x8b" else one for one in layers])

    def blob(data: bytes) -> str:
        return f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"

    extra = b'{"schemaVersion": 2}'
    files: dict[str, bytes | str] = {blob(data): data for data in (*layers, described, extra)}
    files |= {"index.json": b"{}", "oci-layout": b"{}", "repositories": b"{}"}
    files["manifest.json"] = listing(blob(described), [blob(data) for data in layers])
    return files


async def exported(data: bytes, directory: Path) -> ExportedImage:
    pieces = [data[start : start + 50_000] for start in range(0, len(data), 50_000)]
    return await anyio.to_thread.run_sync(lambda: read_export(pieces, directory, name="x:1"))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def packed(directory: Path, layers: list[bytes] = LAYERS, *, compress: bool = True) -> PackedImage:
    await anyio.Path(directory).mkdir(exist_ok=True)
    image = await exported(tar_of(legacy(layers)), directory)
    return await pack_image(image, directory, compress=compress)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PushRegistry:
    """A registry whose clients try again at once."""
    monkeypatch.setattr("coworld_client.uploads.registry._BACKOFF", Backoff(base=0.0, cap=0.0))
    (tmp_path / "registry").mkdir()
    return PushRegistry(tmp_path / "registry")


def target(registry: PushRegistry, tag: str = "v1") -> RegistryTarget:
    return RegistryTarget(base=registry.url, repository="team/noise", tag=tag, authorization=f"Basic {LOGIN}")


# --- what the engine writes


@pytest.mark.parametrize("layout", [legacy, oci])
async def test_docker_and_oci_exports_are_read(tmp_path: Path, layout: Any) -> None:
    image = await exported(tar_of(layout()), tmp_path)
    assert [one.digest for one in image.layers] == [digest(one) for one in LAYERS]
    assert [one.path.read_bytes() for one in image.layers] == LAYERS
    assert image.config.path.read_bytes() == config(LAYERS)
    assert str(image.platform) == "linux/amd64"
    # Nothing but what is needed stays on disk
    assert len(names(tmp_path)) == 3


def test_client_hash_matches_the_published_one() -> None:
    expected = '{"config":"sha256:c","layers":["sha256:a","sha256:b"]}'
    assert client_hash("sha256:c", ["sha256:a", "sha256:b"]) == digest(expected.encode())


async def test_the_same_layer_twice_is_one_file(tmp_path: Path) -> None:
    files = legacy([LAYERS[0], LAYERS[0]])
    names = [name for name in files if name.endswith("layer.tar")]
    files[names[1]] = f"../{names[0]}"
    image = await exported(tar_of(files), tmp_path)
    assert len(image.layers) == 2
    assert len(image.blobs) == 2
    done = await pack_image(image, tmp_path)
    assert len(json.loads(done.manifest)["layers"]) == 2
    assert len(done.blobs) == 2


async def test_compressed_layers_are_kept_as_they_are(tmp_path: Path) -> None:
    zipped = gzip.compress(LAYERS[0], mtime=5)
    image = await exported(tar_of(oci([zipped, LAYERS[1]])), tmp_path)
    entries = json.loads((await pack_image(image, tmp_path)).manifest)["layers"]
    assert entries[0]["digest"] == digest(zipped)
    assert [entry["mediaType"] for entry in entries] == ["application/vnd.oci.image.layer.v1.tar+gzip"] * 2
    assert entries[1]["digest"] != digest(LAYERS[1])


async def test_packing_gives_the_same_bytes_every_time(tmp_path: Path) -> None:
    first, second = await packed(tmp_path / "a"), await packed(tmp_path / "b")
    assert first.manifest == second.manifest
    assert first.digest == digest(first.manifest)
    plain = await packed(tmp_path / "c", compress=False)
    assert [entry["digest"] for entry in json.loads(plain.manifest)["layers"]] == [digest(one) for one in LAYERS]


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "no tar": b"x" * 5000,
    "cut short": tar_of(legacy())[:200_000],
    "no manifest": tar_of({name: data for name, data in legacy().items() if name != "manifest.json"}),
    "two images": tar_of({**legacy(), "manifest.json": listing("c", [], 2)}),
    "manifest is no list": tar_of({**legacy(), "manifest.json": b"{}"}),
    "manifest is no JSON": tar_of({**legacy(), "manifest.json": b"["}),
    "manifest of nulls": tar_of({**legacy(), "manifest.json": b'[{"Config": null, "Layers": null}]'}),
    "a layer that is not there": tar_of(
        {name: data for name, data in legacy().items() if name != f"{0:064x}/layer.tar"}
    ),
    "a layer outside": tar_of({**legacy(), f"{0:064x}/layer.tar": "../../../../etc/passwd"}),
    "a link to itself": tar_of({**legacy(), f"{0:064x}/layer.tar": "layer.tar"}),
    "another layer than the config says": tar_of({**legacy(), f"{0:064x}/layer.tar": LAYERS[1]}),
    "too few layers": tar_of(legacy(described=config(LAYERS[:1]))),
    "a blob that is not its name": tar_of(
        {name: LAYERS[1] if name == f"blobs/sha256/{digest(LAYERS[0])[7:]}" else data for name, data in oci().items()}
    ),
    "a config that is a list": tar_of(legacy(described=b"[]")),
    "a config without a platform": tar_of(
        legacy(described=json.dumps({"rootfs": {"diff_ids": [digest(one) for one in LAYERS]}}).encode())
    ),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_malformed_image_export_is_refused(tmp_path: Path, case: str) -> None:
    with pytest.raises(ImageError) as caught:
        await exported(BROKEN[case], tmp_path)
    assert caught.value.code == "image_export"
    assert "x:1" in caught.value.message


async def test_another_platform_is_refused(tmp_path: Path) -> None:
    data = tar_of(legacy(described=config(LAYERS, architecture="arm64")))
    with pytest.raises(ImageError) as caught:
        await exported(data, tmp_path)
    assert caught.value.code == "image_platform"
    assert "--platform linux/amd64" in str(caught.value.hint)


async def test_names_in_the_archive_are_not_used_as_paths(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    files = {"../escape.json": b"{}", "/tmp-escape.json": b"{}", **legacy()}
    await exported(tar_of(files), inner)
    assert names(tmp_path) == ["inner"]


# --- where to


def test_upload_target_is_read_from_the_response() -> None:
    info = {"registry": "1.dkr.ecr.eu.amazonaws.com", "repository": "a/b", "tag": "t1", "authorization_token": LOGIN}
    there = RegistryTarget.from_pre_signed(info)
    assert (there.base, there.repository, there.tag) == ("https://1.dkr.ecr.eu.amazonaws.com", "a/b", "t1")
    assert LOGIN not in repr(there)
    prefixed = {**info, "registry": "127.0.0.1:5000/proxy/x/", "endpoint_url": "http://127.0.0.1:5000"}
    here = RegistryTarget.from_pre_signed(prefixed)
    assert (here.base, here.repository) == ("http://127.0.0.1:5000", "proxy/x/a/b")
    secure = RegistryTarget.from_pre_signed({**prefixed, "endpoint_url": "https://127.0.0.1:5000"})
    assert secure.base.startswith("https://")


@pytest.mark.parametrize(
    "wrong",
    [
        {"registry": ""},
        {"registry": "user@host"},
        {"registry": "host:port"},
        {"repository": "../../v2/other"},
        {"repository": "UPPER"},
        {"tag": "a/b"},
        {"tag": ""},
        {"authorization_token": "a\r\nX-Evil: 1"},
        {"authorization_token": None},
    ],
)
def test_invalid_upload_target_is_refused(wrong: dict[str, Any]) -> None:
    info = {"registry": "host.example", "repository": "a/b", "tag": "t1", "authorization_token": LOGIN}
    with pytest.raises(RegistryError) as caught:
        RegistryTarget.from_pre_signed({**info, **wrong})
    assert caught.value.code == "registry_unknown"


# --- pushing


@pytest.mark.parametrize(("relative", "chunk"), [(False, 100_000), (True, 100_000), (False, None)])
async def test_image_is_pushed(tmp_path: Path, registry: PushRegistry, relative: bool, chunk: int | None) -> None:
    registry.relative = relative
    image = await packed(tmp_path / "image")
    seen: list[tuple[int, int]] = []
    async with serve_push_registry(registry):
        pushed = await push_image(
            target(registry), image, chunk=chunk, on_progress=lambda done, total: seen.append((done, total))
        )
    assert registry.pieces == (len(image.blobs) if chunk is None else 7)
    manifest = registry.image("v1")
    assert pushed.digest == digest(registry.manifests["v1"])
    assert pushed.size == pushed.sent == image.size == registry.received
    assert seen[-1] == (image.size, image.size)
    layers = [gzip.decompress(registry.blobs[entry["digest"]].read_bytes()) for entry in manifest["layers"]]
    assert layers == LAYERS
    # What a manifest names is there before it
    assert registry.requests[-1] == ("PUT", "/v2/team/noise/manifests/v1")


async def test_existing_layers_are_not_sent_again(tmp_path: Path, registry: PushRegistry) -> None:
    image = await packed(tmp_path / "image")
    more = await packed(tmp_path / "more", [LAYERS[0], layer(1000, "c")])
    async with serve_push_registry(registry):
        await push_image(target(registry), image)
        received = registry.received
        again = await push_image(target(registry, "v2"), image)
        assert (again.sent, registry.received) == (0, received)
        other = await push_image(target(registry, "v3"), more)
    assert other.sent < 10_000
    assert registry.image("v3")["layers"][0] == registry.image("v1")["layers"][0]


@pytest.mark.parametrize("chunk", [100_000, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "faults",
    [
        [Fault("PATCH", times=2, after=30_000)],
        [Fault("PATCH", times=1, after=0)],
        [Fault("PATCH", times=2, late=True)],
        [Fault("POST", times=3, say=Say(503, headers={"Retry-After": "0"}))],
        [Fault("POST", times=1, late=True)],
        [Fault("PUT", times=2, late=True)],
        [Fault("PUT", times=1, say=Say(500))],
        [Fault("HEAD", times=2, say=Say(429, headers={"Retry-After": "0"}))],
        [Fault("PATCH", times=1, after=30_000), Fault("GET", times=1, say=Say(502))],
    ],
    ids=lambda faults: "+".join(f"{fault.method}-{fault.say.status if fault.say else fault.after}" for fault in faults),
)
async def test_interrupted_push_resumes(
    tmp_path: Path, registry: PushRegistry, faults: list[Fault], chunk: int | None
) -> None:
    registry.faults = [replace(fault) for fault in faults]
    image = await packed(tmp_path / "image")
    async with serve_push_registry(registry):
        await push_image(target(registry), image, chunk=chunk)
    assert not [fault for fault in registry.faults if fault.times]
    registry.image("v1")
    # It went on where it was: nothing was sent twice
    assert registry.received == image.size


async def test_push_without_reported_offset_restarts(tmp_path: Path, registry: PushRegistry) -> None:
    registry.status = False
    registry.faults = [Fault("PATCH", times=1, after=30_000)]
    image = await packed(tmp_path / "image")
    async with serve_push_registry(registry):
        await push_image(target(registry), image, concurrency=1)
    registry.image("v1")
    assert registry.received == image.size + 30_000


async def test_registry_refusal_is_raised(tmp_path: Path, registry: PushRegistry) -> None:
    image = await packed(tmp_path / "image")
    async with serve_push_registry(registry):
        there = RegistryTarget(base=registry.url, repository="team/noise", tag="v1", authorization="Basic eHh4")
        with pytest.raises(RegistryError) as caught:
            await push_image(there, image)
    assert caught.value.context["status"] == 401
    assert "401" in caught.value.message
    assert "eHh4" not in str(caught.value.to_dict())


async def test_registry_error_message_is_passed_on(tmp_path: Path, registry: PushRegistry) -> None:
    said = b'{"errors": [{"code": "DENIED", "message": "the repository is\\u001b[31m full"}]}'
    registry.faults = [Fault("POST", times=99, say=Say(403, said))]
    image = await packed(tmp_path / "image")
    async with serve_push_registry(registry):
        with pytest.raises(RegistryError) as caught:
            await push_image(target(registry), image)
    assert "the repository is [31m full" in caught.value.message
    assert "may have ended" in str(caught.value.hint)


@pytest.mark.parametrize(
    "location", ["https://elsewhere.example/v2/x", "http://127.0.0.1:1/x", "file:///x", "http://["]
)
async def test_registry_redirect_to_another_host_is_refused(
    tmp_path: Path, registry: PushRegistry, location: str
) -> None:
    registry.faults = [Fault("POST", times=99, say=Say(202, headers={"Location": location}))]
    image = await packed(tmp_path / "image")
    async with serve_push_registry(registry):
        with pytest.raises(RegistryError) as caught:
            await push_image(target(registry), image)
    assert caught.value.code == "registry_location"


async def test_pushed_digest_mismatch_is_detected(tmp_path: Path, registry: PushRegistry) -> None:
    wrong = Say(201, headers={"Docker-Content-Digest": digest(b"other")})
    registry.faults = [Fault("PUT", times=99, say=wrong)]
    image = await packed(tmp_path / "image")
    async with serve_push_registry(registry):
        with pytest.raises(RegistryError) as caught:
            await push_image(target(registry), image)
    assert caught.value.code == "registry_digest"


async def test_unreachable_registry_is_reported(
    tmp_path: Path, registry: PushRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each upload is tried as often as each of its requests
    monkeypatch.setattr("coworld_client.uploads.registry._TRIES", 2)
    image = await packed(tmp_path / "image")
    registry.faults = [Fault("PATCH", times=999, after=0)]
    async with serve_push_registry(registry):
        with pytest.raises(ApiConnectionError):
            await push_image(target(registry), image)
    with pytest.raises(ApiConnectionError) as caught:
        await push_image(target(registry), image)
    assert "127.0.0.1" in caught.value.message


# --- hashes known from before


def test_hash_cache_format_matches_the_published_one(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "HOME": "/nowhere"}
    cache = HashCache.from_environment(environ)
    assert cache.path == tmp_path / "coworld" / "image_client_hashes.json"
    assert cache.get("sha256:1") is None
    cache.put("sha256:1", "sha256:a")
    cache.put("sha256:2", "sha256:b")
    assert json.loads(cache.path.read_text()) == {"sha256:1": "sha256:a", "sha256:2": "sha256:b"}
    assert HashCache.from_environment({"HOME": "/home/x"}).path.as_posix().startswith("/home/x/.cache/coworld/")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"sha256:1": 5}', b'{"sha256:1": "evil"}'])
def test_broken_hash_cache_is_ignored(tmp_path: Path, content: bytes) -> None:
    cache = HashCache(tmp_path / "c.json")
    cache.path.write_bytes(content)
    assert cache.get("sha256:1") is None
    cache.put("sha256:1", "sha256:a")
    assert cache.get("sha256:1") == "sha256:a"
    HashCache(tmp_path / "c.json" / "below").put("sha256:1", "sha256:a")
