"""Large things at flat memory, measured in a process of their own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from support.fake_server import Ask, Say, serve
from support.push_registry import LOGIN, PushRegistry, serve_push_registry

MiB = 1 << 20
SIZE = 96 * MiB
ALLOWED = 40 * MiB
"""Room for buffers, worker threads and what is imported late; a fraction of what goes through."""

_MEASURE = """
import json, resource, sys
import anyio, httpx2

def resident(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

def measured(work):
    before = resident("VmRSS:")
    said = anyio.run(work)
    print(json.dumps({"grown": resident("VmHWM:") - before, "said": said}))
"""

_DOWNLOAD = (
    _MEASURE
    + """
from pathlib import Path
from coworld_client.transport._connection import Connection
from coworld_client.transfers.files import download

async def work():
    async with Connection(sys.argv[1]) as connection:
        got = await download(connection, "/v2/x", Path(sys.argv[2]), unpack=True, sha256=sys.argv[3])
        return got.size

measured(work)
"""
)

_PUSH = (
    _MEASURE
    + """
import anyio.to_thread, hashlib, io, random, tarfile
from pathlib import Path
from coworld_client.uploads.docker_images import read_export
from coworld_client.uploads.image_packing import pack_image
from coworld_client.uploads.registry import RegistryTarget, push_image

MIB = 1 << 20

def header(name, size):
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf()

def pieces(megabytes):
    random.seed(1)
    piece = random.randbytes(MIB // 2) + bytes(MIB // 2)
    for number in range(megabytes):
        yield number.to_bytes(8, "big") + piece[8:]

async def work():
    size = int(sys.argv[2])
    hashed = hashlib.sha256()
    for piece in pieces(size // MIB):
        hashed.update(piece)
    config = json.dumps({
        "os": "linux", "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashed.hexdigest()]},
    }).encode()
    listing = json.dumps([{"Config": "c.json", "Layers": ["1/layer.tar"]}]).encode()

    def tar():
        yield header("1/layer.tar", size)
        for piece in pieces(size // MIB):
            yield piece
        for name, data in (("c.json", config), ("manifest.json", listing)):
            yield header(name, len(data)) + data + bytes(-len(data) % 512)
        yield bytes(1024)

    directory = Path(sys.argv[3])
    exported = await anyio.to_thread.run_sync(lambda: read_export(tar(), directory, name="big"))
    image = await pack_image(exported, directory)
    target = RegistryTarget(base=sys.argv[1], repository="big", tag="v1", authorization="Basic " + sys.argv[4])
    return (await push_image(target, image, chunk=8 * MIB)).sent

measured(work)
"""
)


async def run(code: str, *arguments: str) -> dict[str, int]:
    done = await anyio.run_process([sys.executable, "-c", code, *arguments], check=False, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.slow
async def test_a_large_download(tmp_path: Path) -> None:
    import zlib

    packer = zlib.compressobj(0)
    packed = tmp_path / "packed"
    plain = hashlib.sha256()
    digest = hashlib.sha256()
    with packed.open("wb") as file:
        for number in range(SIZE // MiB):
            piece = number.to_bytes(8, "big") * (MiB // 8)
            plain.update(piece)
            data = packer.compress(piece)
            digest.update(data)
            file.write(data)
        data = packer.flush()
        digest.update(data)
        file.write(data)

    async def body() -> AsyncIterator[bytes]:
        async with await anyio.open_file(packed, "rb") as file:
            while piece := await file.read(MiB):
                yield piece

    async def handler(_: Ask) -> Say:
        size = (await anyio.Path(packed).stat()).st_size
        return Say(200, body(), {"Content-Length": str(size), "ETag": '"1"'})

    target = tmp_path / "target"
    async with serve(handler) as server:
        measured = await run(_DOWNLOAD, server.url, str(target), digest.hexdigest())
    assert measured["said"] == SIZE
    with target.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == plain.hexdigest()
    assert measured["grown"] < ALLOWED


@pytest.mark.slow
async def test_a_large_layer(tmp_path: Path) -> None:
    registry = PushRegistry(tmp_path / "registry")
    await anyio.Path(registry.directory).mkdir()
    await anyio.Path(tmp_path / "spool").mkdir()
    async with serve_push_registry(registry):
        measured = await run(_PUSH, registry.url, str(SIZE), str(tmp_path / "spool"), LOGIN)
    layer = registry.image("v1")["layers"][0]
    assert layer["size"] > SIZE // 2
    assert measured["said"] == registry.received > SIZE // 2
    assert measured["grown"] < ALLOWED
