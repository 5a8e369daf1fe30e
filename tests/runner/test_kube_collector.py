"""The helper in each pod, run here beside a directory, and what talks to it; connections that break included."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from support.clock import skip
from support.fake_server import serve_streams

from coworld_core.errors import TransferError
from coworld_core.retries import Tries
from coworld_runner.backends.collector import collector_start
from coworld_runner.backends.kubernetes import _collector_client as _kube_collector
from coworld_runner.backends.kubernetes import _pod_objects as kube
from coworld_runner.backends.kubernetes._cluster import ClusterGone
from coworld_runner.backends.kubernetes._collector_client import Collector, CollectorGone

TOKEN = "the pod's own"


class Cut(anyio.abc.ByteStream):
    """A connection that breaks after so many bytes."""

    def __init__(self, inner: anyio.abc.ByteStream, left: int) -> None:
        self.inner = inner
        self.left = left

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self.left <= 0:
            raise anyio.BrokenResourceError
        data = await self.inner.receive(min(max_bytes, self.left))
        self.left -= len(data)
        return data

    async def send(self, item: bytes) -> None:
        await self.inner.send(item)

    async def send_eof(self) -> None:
        pass

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass
class Near:
    """Stands for the way through a cluster: straight to the port, as reliable as told."""

    cuts: list[int] = field(default_factory=list[int])
    """After how many bytes the next connections break."""
    gone: bool = False
    connections: int = 0

    async def forward(self, _pod: str, port: int) -> anyio.abc.ByteStream:
        if self.gone:
            raise ClusterGone("connect", "nowhere", "it is away")
        self.connections += 1
        stream = await anyio.connect_tcp("127.0.0.1", port)
        return Cut(stream, self.cuts.pop(0)) if self.cuts else stream


@dataclass
class Pod:
    """A collector that runs."""

    client: Collector
    near: Near
    directory: Path
    inputs: Path
    port: int
    process: subprocess.Popen[bytes]

    def awaits(self) -> subprocess.Popen[bytes]:
        """What the pod starts to know when the unit may begin."""
        return subprocess.Popen(
            [sys.executable, "-m", "coworld_runner.backends.collector.start_permit", str(self.port)]
        )


@asynccontextmanager
async def pod(tmp_path: Path, **more: Any) -> AsyncGenerator[Pod]:
    """A collector that answers."""
    async with started(tmp_path, **more) as it:
        await it.client.call("GET", "/hello")
        yield it


@asynccontextmanager
async def started(tmp_path: Path, *, hold: bool = False, given: dict[str, bytes] | None = None) -> AsyncGenerator[Pod]:
    directory, inputs, brought = tmp_path / "unit", tmp_path / "inputs", tmp_path / "given"
    directory.mkdir()
    inputs.mkdir()
    for name, content in (given or {}).items():
        (brought / name).parent.mkdir(parents=True, exist_ok=True)
        (brought / name).write_bytes(content)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    places = {"DIRECTORY": directory, "INPUTS": inputs, "GIVEN": brought}
    settings = {"PORT": port, **places, "HOLD": 120 * hold, "TOKEN": TOKEN}
    environment = {**os.environ, **{f"COWORLD_COLLECTOR_{name}": str(value) for name, value in settings.items()}}
    program = [sys.executable, "-c", "from coworld_runner.backends.collector.collector_start import main; main()"]
    near = Near()
    with subprocess.Popen(program, env=environment) as process:  # noqa: ASYNC220
        client = Collector(near, "pod", port, TOKEN)  # type: ignore[arg-type]
        try:
            yield Pod(client, near, directory, inputs, port, process)
        finally:
            process.terminate()


async def test_a_unit_that_may_start_can_be_asked_about_at_once(tmp_path: Path) -> None:
    """What serves requests is loaded later than what the unit waits for; who asks meanwhile is not sent away."""
    async with started(tmp_path) as it:
        with it.awaits() as waiting:
            assert await anyio.to_thread.run_sync(waiting.wait, 30) == 0
        async with await anyio.connect_tcp("127.0.0.1", it.port) as stream:
            await stream.send(f"GET /hello HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")


async def test_the_directory_and_the_inputs_are_filled_before_the_unit_may_start(tmp_path: Path) -> None:
    given = {"files/config.json": b"{}", "inputs/plain": b"1", "inputs/deep/deeper/a b": b"2"}
    async with pod(tmp_path, given=given) as it:
        with it.awaits() as waiting:
            assert await anyio.to_thread.run_sync(waiting.wait, 30) == 0
        assert (it.directory / "config.json").read_bytes() == b"{}"
        assert (it.directory / "config.json").stat().st_mode & 0o666 == 0o666
        assert (it.inputs / "plain").read_bytes() == b"1"
        deep = it.inputs / "deep" / "deeper" / "a b"
        assert deep.read_bytes() == b"2"
        assert (deep.stat().st_mode & 0o777, deep.parent.stat().st_mode & 0o777) == (0o644, 0o755)
        assert sorted(path.name for path in it.directory.iterdir()) == ["config.json", "logs"]
        assert (it.directory / "logs").stat().st_mode & 0o777 == 0o777


@pytest.mark.slow
async def test_uploads_are_complete_before_the_unit_starts(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(3_000_000))
    async with pod(tmp_path, hold=True) as it:
        with socket.create_connection(("127.0.0.1", it.port)) as broken:
            head = f"PUT /files/half HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\nhalf"
            broken.sendall(head.encode())
            broken.shutdown(socket.SHUT_WR)
            assert broken.recv(400) == b""
        assert not [*it.directory.glob("half*")]
        with it.awaits() as waiting:
            it.near.cuts = [0]
            await it.client.put("files/replay", large)
            await it.client.put("inputs/deep/a b", large)
            assert waiting.poll() is None
            await it.client.call("POST", "/go")
            assert await anyio.to_thread.run_sync(waiting.wait, 30) == 0
        assert (it.directory / "replay").read_bytes() == large.read_bytes()
        assert (it.inputs / "deep" / "a b").read_bytes() == large.read_bytes()
        with pytest.raises(CollectorGone):
            await it.client.put("files/late", large)


async def test_nothing_is_brought_to_anywhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kube_collector, "_TRIES", 1)
    small = tmp_path / "small"
    small.write_text("1")
    async with pod(tmp_path, hold=True) as it:
        for name in ("files/deep/a", "files/../a", "inputs/../a", "inputs//a", "given/a", "inputs/", "files", ""):
            with pytest.raises(CollectorGone):
                await it.client.put(name, small)
        assert not [path for path in (*it.directory.rglob("*"), *it.inputs.rglob("*")) if path.is_file()]


async def test_request_without_the_token_is_refused(tmp_path: Path) -> None:
    async with pod(tmp_path) as it:
        (it.directory / "results.json").write_text("{}")
        stranger = Collector(it.near, "pod", it.port, "guessed")  # type: ignore[arg-type]
        with pytest.raises(CollectorGone) as caught:
            await stranger.call("GET", "/hello", retry_timeout=0)
        assert caught.value.context["status"] == 401
        with pytest.raises(TransferError):
            await stranger.fetch("results.json", tmp_path / "stolen", limit=None)
        assert not (tmp_path / "stolen").exists()


async def test_a_file_comes_whole_however_often_the_connection_breaks(tmp_path: Path) -> None:
    content = os.urandom(2_000_000)
    async with pod(tmp_path) as it:
        (it.directory / "replay").write_bytes(content)
        it.near.cuts = [300_000, 700_000, 100, 500_000]
        before = it.near.connections
        assert await it.client.fetch("replay", tmp_path / "got", limit=None) == len(content)
        assert (tmp_path / "got").read_bytes() == content
        assert it.near.connections - before == 6  # Four that broke, one to the end, one for the digest
        assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []  # noqa: PTH208


async def test_a_file_that_changes_meanwhile_is_never_a_mixture(tmp_path: Path) -> None:
    old, new = b"a" * 1_500_000, b"b" * 1_500_000
    async with pod(tmp_path) as it:
        file = it.directory / "results.json"
        file.write_bytes(old)
        it.near.cuts = [200_000]

        class Changing(Near):
            async def forward(self, name: str, port: int) -> anyio.abc.ByteStream:
                if self.connections == 1:
                    file.write_bytes(new)
                return await super().forward(name, port)

        client = Collector(Changing(cuts=[200_000]), "pod", it.port, TOKEN)  # type: ignore[arg-type]
        await client.fetch("results.json", tmp_path / "got", limit=None)
        assert (tmp_path / "got").read_bytes() == new


async def test_remaining_files_are_listed_and_logs_served(tmp_path: Path) -> None:
    async with pod(tmp_path) as it:
        (it.directory / "events.json").write_text("[]")
        (it.directory / "logs" / "moves.log").write_text("e2e4")
        assert await it.client.left() == ("events.json", "logs/moves.log")
        assert await it.client.fetch("logs/moves.log", tmp_path / "got", limit=None) == 4
        (it.directory / "logs").rename(it.directory / "away")
        (it.directory / "logs").symlink_to(tmp_path, target_is_directory=True)
        assert await it.client.left() == ("events.json",)
        with pytest.raises(TransferError):
            await it.client.fetch("logs/got", tmp_path / "other", limit=None)


@pytest.mark.parametrize("name", ["link", "pipe", "directory", "../secret", "/etc/passwd"])
async def test_only_regular_files_are_handed_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("not yours")
    async with pod(tmp_path) as it:
        (it.directory / "link").symlink_to(tmp_path / "secret")
        os.mkfifo(it.directory / "pipe")
        (it.directory / "directory").mkdir()
        with pytest.raises(TransferError):
            await it.client.fetch(name, tmp_path / "got", limit=None)
        assert not (tmp_path / "got").exists()


async def test_limits_and_missing_files(tmp_path: Path) -> None:
    async with pod(tmp_path) as it:
        (it.directory / "big").write_bytes(bytes(100_000))
        assert await it.client.fetch("big", tmp_path / "got", limit=100_000) == 100_000
        with pytest.raises(TransferError) as caught:
            await it.client.fetch("big", tmp_path / "other", limit=99_999)
        assert caught.value.code == "file_too_large"
        with pytest.raises(FileNotFoundError):
            await it.client.fetch("none", tmp_path / "other", limit=None)
        with pytest.raises(TransferError) as refused:
            await it.client.fetch("big", tmp_path / "no such directory" / "got", limit=None)
        assert refused.value.code == "not_writable"
        assert await it.client.size("big") == 100_000
        assert await it.client.size("none") is None


async def test_lost_collector_is_distinguished(tmp_path: Path) -> None:
    async with pod(tmp_path) as it:
        (it.directory / "results.json").write_text("{}")
        it.near.gone = True
        with pytest.raises(CollectorGone) as caught:
            await it.client.call("GET", "/hello", retry_timeout=0.2)
        assert caught.value.code == "transfer_lost"
        assert await it.client.size("results.json") is None


async def test_files_are_reported_when_closed(tmp_path: Path) -> None:
    async with pod(tmp_path, given={"files/config.json": b"{}"}) as it:
        told: list[str] = []
        renamed = anyio.Event()

        def tell(name: str) -> None:
            told.append(name)
            if name == "renamed":
                renamed.set()

        half = (it.directory / "replay").open("wb", buffering=0)
        half.write(b"half of it")
        # The first stream breaks: what was told is not told again, and what was not is
        it.near.cuts = [400]

        async with anyio.create_task_group() as group:
            group.start_soon(it.client.follow_written, tell)
            for number in range(12):
                (it.directory / f"file-{number}").write_text("whole")
            (it.directory / ".part").write_text("whole")
            (it.directory / ".part").rename(it.directory / "renamed")
            (it.directory / "linked").symlink_to("renamed")
            with anyio.fail_after(30):
                await renamed.wait()
            assert "replay" not in told
            half.close()
            await it.client.call("POST", "/ended")
        assert told.count("config.json") == 1
        assert [name for name in told if name.startswith("file-")] == [f"file-{number}" for number in range(12)]
        assert told[-1] == "replay"
        assert "linked" not in told


async def test_a_unit_that_wrote_nothing_for_long_is_followed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    retry_timeout = 0.5
    monkeypatch.setattr(_kube_collector, "_TIMEOUT", retry_timeout)
    monkeypatch.setattr(_kube_collector, "Tries", partial(Tries, clock=anyio.current_time))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    served = 0
    followed = anyio.Event()

    def chunk(line: bytes) -> bytes:
        return b"%x\r\n%b\n\r\n" % (len(line) + 1, line)

    async def serve(stream: anyio.abc.SocketStream) -> None:
        nonlocal served
        served += 1
        await stream.receive()
        await stream.send(head)
        if served == 1:
            await stream.send(chunk(b'{"number": 1, "name": "first"}'))
            await followed.wait()
            # Longer than anybody may be out of reach; then it tells that it is there, and the way breaks
            skip(2 * retry_timeout)
            await stream.send(chunk(b""))
            return
        await stream.send(chunk(b'{"end": true}') + b"0\r\n\r\n")

    async with serve_streams(serve) as address:
        client = Collector(Near(), "pod", int(address.rpartition(":")[2]), TOKEN)  # type: ignore[arg-type]
        with anyio.fail_after(30):
            await client.follow_written(lambda _: followed.set())
    assert served == 2


async def test_readiness_is_streamed(tmp_path: Path) -> None:
    seen: list[str] = []
    tell, told = anyio.create_memory_object_stream[str](math.inf)
    healthy = False

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            status = b"200 Fine" if healthy else b"503 Not yet"
            await stream.send(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async with pod(tmp_path) as it:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])

        async def host(address: str) -> None:
            async with await anyio.create_tcp_listener(local_host=address, local_port=port) as listener:
                await listener.serve(serve)

        async def until(text: str) -> None:
            with anyio.fail_after(30):
                # Outside of a pod others listen, too
                while not (await told.receive()).startswith(text):
                    pass

        def see(text: str) -> None:
            seen.append(text)
            tell.send_nowait(text)

        async with tell, told, anyio.create_task_group() as group:

            def note(text: str, reached: bool) -> None:
                assert reached, text
                see(text)

            async def ready() -> None:
                await it.client.until_ready(port, "/healthz", 0.02, note)
                see("ready")

            group.start_soon(ready)
            await until("connection refused")
            # Who asks from within is answered, as the players of a game are not
            async with anyio.create_task_group() as within:
                within.start_soon(host, "127.0.0.1")
                await until(f"status 503; it listens on 127.0.0.1:{port} only")
                healthy = True
                await until(f"status 200; it listens on 127.0.0.1:{port} only")
                assert "ready" not in seen
                within.cancel_scope.cancel()
            group.start_soon(host, "0.0.0.0")
            await until("ready")
            group.cancel_scope.cancel()


def test_the_program_needs_nothing_but_python(tmp_path: Path) -> None:
    """It is brought to any image with Python: nothing of ours, nothing installed, and it fits into a Secret."""
    sources = kube.program()
    assert {"__init__.py", "collector_start.py", "start_permit.py", "collector_server.py"} <= set(sources)
    assert sum(map(len, sources.values())) < 64_000
    package = tmp_path / "collector"
    package.mkdir()
    for name, source in sources.items():
        (package / name).write_bytes(source)

    def loaded(*names: str) -> set[str]:
        modules = ", ".join(f"collector.{name}" for name in names)
        program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {modules}; print(*sys.modules)"
        command = [sys.executable, "-I", "-S", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    assert "http.server" in loaded(*(name.removesuffix(".py") for name in sources if name != "__init__.py"))
    # Every start of a pod waits for these: on a node that starts many, what serves requests would be most of the wait
    assert {"http", "json", "collector.collector_server"}.isdisjoint(loaded("collector_start", "start_permit"))


def test_nothing_is_signalled_outside_of_a_pod(tmp_path: Path) -> None:
    settings: Any = type(
        "Settings",
        (),
        {"directory": str(tmp_path), "signals": False, "disk": None, "hold": False, "inputs": "", "source": ""},
    )
    assert collector_start.Collector(settings).signal("KILL") == 0
