"""Finding the engine, and saying plainly why it cannot be used. Most of this needs no engine."""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import socket
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from support.docker import as_user, require_docker

from coworld_core.errors import BackendUnavailable, TransferError, UsageError
from coworld_runner._http import NotHttpError, exchange
from coworld_runner.backends import DockerBackend, _docker_engine
from coworld_runner.backends._docker_engine import Address, Engine, EngineGone, EngineRefused, resolve_address
from coworld_runner.backends._docker_files import fetch_archived

_NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a socket may be; its path must be short."""
    return tmp_path / "engine.sock"


@asynccontextmanager
async def answering(path: Path, *answers: bytes) -> AsyncGenerator[list[bytes], None]:
    """A server that answers each connection with the next of these bytes, or never when there are none."""
    asked: list[bytes] = []
    left = list(answers)

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            data = await stream.receive()
            while b"chunked" in data and not data.endswith(b"0\r\n\r\n"):
                data += await stream.receive()
            asked.append(data)
            if not left:
                await anyio.sleep_forever()
            await stream.send(left.pop(0))

    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield asked
        tasks.cancel_scope.cancel()


def ping(version: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nApi-Version: {version}\r\nContent-Length: 2\r\n\r\nOK".encode()


def info(**said: object) -> bytes:
    body = json.dumps({"ServerVersion": "99.1", "OSType": "linux", "Architecture": "aarch64", **said}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


# --- where it is ------------------------------------------------------------------------------------------------


def test_the_callers_word_goes_before_the_environment_and_that_before_the_context(tmp_path: Path) -> None:
    meta = tmp_path / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": "unix:///run/mine.sock"}}}))
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "mine"}))
    environ = {"DOCKER_CONFIG": str(tmp_path), "DOCKER_HOST": "unix:///run/env.sock"}
    assert resolve_address("unix:///run/given.sock", environ).socket == "/run/given.sock"
    assert resolve_address(None, environ).socket == "/run/env.sock"
    del environ["DOCKER_HOST"]
    assert resolve_address(None, environ) == Address(url="unix:///run/mine.sock", source="the docker context 'mine'")
    assert resolve_address(None, {**environ, "DOCKER_CONTEXT": "default"}).socket == "/var/run/docker.sock"
    (tmp_path / "config.json").write_text("not JSON")
    assert resolve_address(None, environ) == Address(url="unix:///var/run/docker.sock")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ssh://build@farm", "docker_remote"),
        ("tcp://192.0.2.7:2375", "docker_remote"),
        ("/var/run/docker.sock", "docker_host_invalid"),
        ("unix://docker.sock", "docker_host_invalid"),
        ("tcp://127.0.0.1", "docker_host_invalid"),
        ("tcp://127.0.0.1:many", "docker_host_invalid"),
        ("npipe:////./pipe/docker_engine", "docker_host_invalid"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(url: str, code: str) -> None:
    with pytest.raises(BackendUnavailable) as caught:
        resolve_address(None, {"DOCKER_HOST": url})
    assert caught.value.code == code
    assert url in caught.value.message
    assert "DOCKER_HOST" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_context_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="'gone'"):
        resolve_address(None, {"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "gone"})


# --- why it cannot be used --------------------------------------------------------------------------------------


async def refusal(address: Address) -> BackendUnavailable:
    with pytest.raises(BackendUnavailable) as caught:
        await Engine.connect(address)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


async def test_not_installed(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("PATH", str(place.parent))
    error = await refusal(Address(url=f"unix://{place}"))
    assert error.code == "docker_not_installed"
    assert error.hint is not None
    assert "--backend process" in error.hint


async def test_installed_but_not_running(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    (place.parent / "docker").write_text("#!/bin/sh\n")
    (place.parent / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(place.parent))
    error = await refusal(Address(url=f"unix://{place}"))
    assert error.code == "docker_not_running"
    assert "no such socket" in error.message


async def test_a_socket_that_nobody_serves_any_more(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    error = await refusal(resolve_address(f"unix://{place}"))
    assert error.code == "docker_not_running"
    assert "nobody listens" in error.message


async def test_a_port_that_nobody_serves() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = await refusal(resolve_address(f"tcp://127.0.0.1:{port}"))
    assert error.code == "docker_not_running"
    assert str(port) in error.message


def test_no_permission(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(place))
        engine.listen()
        place.chmod(0o000)
        for directory in (place.parent, place.parent.parent):
            directory.chmod(0o755)

        async def connect() -> str:
            try:
                await Engine.connect(resolve_address(f"unix://{place}"))
            except BackendUnavailable as error:
                return f"{error.code}: {error.hint}"
            return "connected"

        said = as_user(_NOBODY, _NOBODY, connect) if os.getuid() == 0 else anyio.run(connect)
    assert said.startswith("docker_not_permitted: ")
    assert "usermod -aG docker" in said


@pytest.mark.docker
def test_no_permission_at_the_real_socket() -> None:
    require_docker()
    if os.getuid() != 0:
        pytest.skip("needs root, to become nobody")
    if resolve_address(None).socket is None:
        pytest.skip("needs an engine at a socket")

    async def check() -> str:
        return " ".join(issue.code for issue in await DockerBackend().check())

    assert as_user(_NOBODY, _NOBODY, check) == "docker_not_permitted"


async def test_silence(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setattr(_docker_engine, "_KNOCK_SECONDS", 0.2)
    async with answering(place):
        assert (await refusal(resolve_address(f"unix://{place}"))).code == "docker_silent"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "docker_host_invalid"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "docker_host_invalid"),
        (b"", "docker_host_invalid"),
        (ping("1.24"), "docker_too_old"),
    ],
)
async def test_something_else_answers(place: Path, said: bytes, code: str) -> None:
    async with answering(place, said):
        assert (await refusal(resolve_address(f"unix://{place}"))).code == code


async def test_the_version_spoken_is_one_both_know(place: Path) -> None:
    async with answering(place, ping("1.99"), info()) as asked:
        engine = await Engine.connect(resolve_address(f"unix://{place}"))
        assert engine.api == "1.48"
        assert (engine.version, engine.platform) == ("99.1", "linux/arm64")
        assert asked[1].startswith(b"GET /v1.48/info HTTP/1.1\r\n")
    async with answering(place.with_name("older"), ping("1.41"), info()):
        assert (await Engine.connect(resolve_address(f"unix://{place.with_name('older')}"))).api == "1.41"


async def test_windows_containers_are_no_use(place: Path) -> None:
    async with answering(place, ping("1.41"), info(OSType="windows")):
        with pytest.raises(BackendUnavailable) as caught:
            async with DockerBackend(host=f"unix://{place}"):
                pytest.fail("entered")
        assert caught.value.code == "docker_wrong_system"


async def test_what_the_engine_cannot_hold_is_no_capability(place: Path) -> None:
    weak = info(
        MemoryLimit=False, PidsLimit=False, CpuCfsQuota=False, SecurityOptions=["name=seccomp", "name=rootless"]
    )
    async with answering(place, ping("1.41"), weak, ping("1.41"), weak):
        issues = await DockerBackend(host=f"unix://{place}").check()
        assert [issue.severity for issue in issues] == ["info", "warning", "warning", "warning"]
        assert "rootless" in issues[0].message
        async with DockerBackend(host=f"unix://{place}") as backend:
            can = backend.capabilities
            assert (can.memory_limit, can.pids_limit, can.cpu_limit) == (False, False, False)
            assert can.network_isolation


async def test_check_tells_what_entering_would_raise(place: Path) -> None:
    (issue,) = await DockerBackend(host=f"unix://{place}").check()
    assert (issue.code, issue.severity) == ("docker_not_running", "error")
    assert str(place) in issue.message


async def test_it_must_be_entered() -> None:
    with pytest.raises(UsageError):
        await DockerBackend().find()


# --- calls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more", b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
async def test_an_answer_is_read_to_its_end(place: Path, answer: bytes, body: bytes) -> None:
    async with answering(place, answer), exchange(lambda: anyio.connect_unix(place), "GET", "/") as got:
        assert await got.read() == body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\n",
    ],
)
async def test_an_answer_that_breaks_off_is_an_error(place: Path, answer: bytes) -> None:
    async with answering(place, answer):
        engine = Engine(resolve_address(f"unix://{place}"))
        engine.api = "1.41"
        with pytest.raises(EngineGone):
            await engine.call("GET", "/info")


async def test_a_body_can_be_sent_as_it_comes(place: Path) -> None:
    async def parts() -> AsyncGenerator[bytes, None]:
        for part in (b"one", b"", b"two"):
            yield part

    async with (
        answering(place, ping("1.41")) as asked,
        exchange(lambda: anyio.connect_unix(place), "POST", "/build", content=parts()) as answer,
    ):
        assert answer.status == 200
    assert asked[0].endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


async def test_what_is_no_http_is_told(place: Path) -> None:
    async with answering(place, b"+OK POP3\r\n\r\n"):
        with pytest.raises(NotHttpError):
            async with exchange(lambda: anyio.connect_unix(place), "GET", "/"):
                pytest.fail("that was no answer")


async def test_the_engines_words_are_kept(place: Path) -> None:
    body = b'{"message":"no room"}'
    async with answering(place, b"HTTP/1.1 507 Full\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)):
        engine = Engine(resolve_address(f"unix://{place}"))
        engine.api = "1.41"
        with pytest.raises(EngineRefused) as caught:
            await engine.call("POST", "/x", body={"a": 1})
    assert (caught.value.status, caught.value.words) == (507, "no room")


def archived(size: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("results.json")
        entry.size = size
        archive.addfile(entry, io.BytesIO(bytes(size)))
    body = file.getvalue()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    ("kept", "target", "room", "code"),
    [
        (2000, "got", None, "transfer_lost"),
        (None, "no such directory/got", None, "not_writable"),
        (None, "got", 4096, "not_writable"),
    ],
)
async def test_a_copy_that_fails_by_the_machine_is_not_the_writers_doing(
    place: Path, tmp_path: Path, kept: int | None, target: str, room: int | None, code: str
) -> None:
    engine = Engine(resolve_address(f"unix://{place}"))
    engine.api = "1.41"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with answering(place, archived(50_000)[:kept]):
        try:
            if room is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
            with pytest.raises(TransferError) as caught:
                await fetch_archived(engine, "c", "/mnt", "results.json", tmp_path / target, limit=None)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (caught.value.code, caught.value.party) == (code, "platform")
    assert os.listdir(tmp_path) == [place.name]  # noqa: PTH208


async def test_a_call_that_hangs_can_be_cancelled(place: Path) -> None:
    async with answering(place) as asked:
        engine = Engine(resolve_address(f"unix://{place}"))
        engine.api = "1.41"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.call, "POST", "/containers/create")
            with anyio.fail_after(10):
                while not asked:  # noqa: ASYNC110 - the server tells nobody
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
    assert asked
