"""Calls to a Docker engine, made with the package `docker`: their errors, and that they can be ended."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.streams.tls
import pytest
from support.certificates import self_signed
from support.fake_server import serve_bytes, serve_streams

from coworld_client.uploads import docker_engine
from coworld_client.uploads.docker_engine import DockerEngine, connect_docker
from coworld_core.docker_address import Address, EngineGone, EngineRefused, resolve_address
from coworld_core.errors import BackendUnavailable, CoworldError, ImageError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a socket may be."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return tmp_path / "engine.sock"


def http(body: bytes | object, status: str = "200 OK") -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


VERSION = http({"ApiVersion": "1.99"})


@asynccontextmanager
async def stalling(place: Path, *pieces: bytes) -> AsyncGenerator[tuple[anyio.Event, anyio.Event]]:
    """Serve one request the beginning of an answer; yields when it was sent, and when the other side has gone."""
    sent, gone = anyio.Event(), anyio.Event()

    async def answer(stream: anyio.abc.ByteStream) -> None:
        await stream.receive()
        for piece in pieces:
            await stream.send(piece)
        sent.set()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        gone.set()

    async with serve_streams(answer, place):
        yield sent, gone


def engine_at(place: Path) -> DockerEngine:
    return DockerEngine(Address(url=f"unix://{place}"))


async def refusal(host: str) -> BackendUnavailable:
    with pytest.raises(BackendUnavailable) as caught:
        async with connect_docker(host):
            pytest.fail("it answered")
    assert "\n" not in caught.value.message
    return caught.value


# --- why it cannot be used ----------------------------------------------------------------------------------------


async def test_missing_socket_is_an_engine_that_does_not_run(place: Path) -> None:
    error = await refusal(f"unix://{place}")
    assert error.code == "docker_not_running"
    assert "no such socket" in error.message
    assert str(error.hint).endswith("Or set DOCKER_HOST to where one runs.")


async def test_abandoned_socket_and_closed_port_are_an_engine_that_does_not_run(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for host in (f"unix://{place}", f"tcp://127.0.0.1:{port}"):
        error = await refusal(host)
        assert error.code == "docker_not_running"
        assert "nobody listens" in error.message


async def test_silent_engine_is_given_up(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setattr(docker_engine, "_PROBE_SECONDS", 0.2)
    async with stalling(place) as (_, gone):
        assert (await refusal(f"unix://{place}")).code == "docker_silent"
        with anyio.fail_after(10):
            await gone.wait()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (http(b"hello"), "docker_host_invalid"),
        (http(b"[1]"), "docker_host_invalid"),
        (http(b"{}"), "docker_host_invalid"),
        (http(b"no", "404 Not Found"), "docker_host_invalid"),
        (http(b'{"error": "no"}', "500 Oops"), "docker_host_invalid"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "docker_host_invalid"),
        (b"", "docker_host_invalid"),
        (http({"ApiVersion": "1.24"}), "docker_too_old"),
    ],
)
async def test_other_server_is_not_taken_for_an_engine(place: Path, said: bytes, code: str) -> None:
    async with serve_bytes(place, said):
        assert (await refusal(f"unix://{place}")).code == code


async def test_newest_version_that_both_know_is_spoken(place: Path) -> None:
    missing = http({"message": "No such image: x"}, "404 Not Found")
    async with serve_bytes(place, VERSION, missing) as asked, connect_docker(f"unix://{place}") as engine:
        with pytest.raises(ImageError) as caught:
            await engine.inspect("x")
    assert caught.value.code == "image_missing"
    assert asked[1].startswith(b"GET /v1.48/images/x/json HTTP/1.1\r\n")


async def test_engine_behind_tls_is_reached_with_its_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    certificate, key = self_signed()
    both = tmp_path / "both.pem"
    both.write_bytes(certificate + key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(both)
    server.load_verify_locations(both)
    server.verify_mode = ssl.CERT_REQUIRED
    sockets = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    host = f"tcp://127.0.0.1:{sockets.extra(anyio.abc.SocketAttribute.local_port)}"
    for name, content in (("ca", certificate), ("cert", certificate), ("key", key)):
        (tmp_path / f"{name}.pem").write_bytes(content)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    # A proxy of this machine is not for its engine
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    listener = anyio.streams.tls.TLSListener(sockets, server, standard_compatible=False)
    async with serve_bytes(listener, VERSION) as asked:
        async with connect_docker(host):
            assert asked[0].startswith(b"GET /version ")
        (tmp_path / "ca.pem").write_bytes(self_signed()[0])
        assert "do not trust each other" in (await refusal(host)).message
        (tmp_path / "key.pem").unlink()
        assert (await refusal(host)).code == "docker_tls"


def test_missing_package_is_named(tmp_path: Path) -> None:
    code = (
        "import sys, anyio\n"
        "sys.modules['docker'] = None\n"
        "from coworld_client.uploads.docker_engine import connect_docker\n"
        "from coworld_core.errors import EnvironmentFault\n"
        "async def main():\n"
        "    try:\n"
        "        async with connect_docker('unix:///nowhere'): pass\n"
        "    except EnvironmentFault as error:\n"
        "        print(error.code, error.hint)\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith("not_installed ")
    assert "coworld-client[docker]" in done.stdout


# --- calls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\n",
        http(b"no JSON"),
    ],
)
async def test_broken_answer_is_an_engine_that_is_gone(place: Path, answer: bytes) -> None:
    async with serve_bytes(place, answer):
        with pytest.raises(EngineGone):
            await engine_at(place).inspect("x")


async def test_words_of_the_engine_are_kept(place: Path) -> None:
    async with serve_bytes(place, http({"message": "no room"}, "507 Full")):
        with pytest.raises(EngineRefused) as caught:
            await engine_at(place).tag("x", "y")
    assert (caught.value.status, caught.value.server_message) == (507, "no room")


async def test_answer_that_is_no_image_is_an_error_of_its_own(place: Path) -> None:
    async with serve_bytes(place, http({"Id": "sha256:1"})):
        with pytest.raises(CoworldError) as caught:
            await engine_at(place).inspect("x")
    assert caught.value.code == "engine_nonsense"


async def test_export_cut_short_is_not_a_damaged_image(place: Path) -> None:
    async with serve_bytes(place, b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + bytes(600)):
        with pytest.raises(EngineGone):
            await engine_at(place).save("x", lambda pieces: b"".join(pieces))


async def test_error_of_a_reader_stays_what_it_is(place: Path) -> None:
    def read(pieces: Iterator[bytes]) -> None:
        next(pieces)
        raise ValueError("mine")

    async with stalling(place, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n") as (_, gone):
        with pytest.raises(ValueError, match="mine"):
            await engine_at(place).save("x", read)
        with anyio.fail_after(10):
            await gone.wait()


async def test_refused_pull_names_the_reason_and_sends_no_stored_login(tmp_path: Path, place: Path) -> None:
    (tmp_path / "docker").mkdir()
    kept = {"auths": {"registry.example": {"auth": "bWU6c2VjcmV0"}}}
    (tmp_path / "docker/config.json").write_text(json.dumps(kept))
    lines = b'{"status": "Pulling"}\r\n{"error": "toomanyrequests: wait."}\r\n'
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(lines), lines)
    async with serve_bytes(place, answer) as asked:
        with pytest.raises(ImageError) as caught:
            await engine_at(place).pull("registry.example/a:1")
    assert (caught.value.code, "toomanyrequests: wait" in caught.value.message) == ("image_unreachable", True)
    assert b"POST /v1.41/images/create?tag=1&fromImage=registry.example%2Fa " in asked[0]
    assert b"X-Registry-Auth: e30=\r\n" in asked[0]


@pytest.mark.parametrize("begun", [False, True])
async def test_cancelled_export_ends_its_thread_and_connection(place: Path, begun: bool) -> None:
    """Before the answer begins, when the package itself has no hold on the connection, and amid it."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    got: list[bytes] = []
    reading = anyio.Event()

    def read(pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            got.append(piece)
            anyio.from_thread.run_sync(reading.set)

    async with stalling(place, *([head] if begun else [])) as (sent, gone), anyio.create_task_group() as tasks:
        with anyio.fail_after(10):
            tasks.start_soon(engine_at(place).save, "x", read)
            await (reading if begun else sent).wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await gone.wait()
    assert got == ([b"abc"] if begun else [])


async def test_stream_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setattr(docker_engine, "_SILENCE", 0.2)
    head = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n{"status": "Pulling"}\r\n'
    async with stalling(place, head) as (_, gone):
        with pytest.raises(EngineGone) as caught:
            await engine_at(place).pull("x")
        with anyio.fail_after(10):
            await gone.wait()
    assert "nothing came for 0.2 s" in caught.value.message


async def test_address_of_the_docker_command_is_used(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place}")
    async with serve_bytes(place, VERSION) as asked, connect_docker():
        assert len(asked) == 1
    assert resolve_address().socket == str(place)
