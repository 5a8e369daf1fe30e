"""Finding the engine, and saying plainly why it cannot be used. Most of this needs no engine."""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import socket
import ssl
import tarfile
from pathlib import Path

import anyio
import anyio.abc
import anyio.streams.tls
import pytest
from support.certificates import self_signed
from support.elsewhere import as_user
from support.fake_server import serve_bytes

from coworld_core.docker_address import Address, EngineGone, EngineRefused, resolve_address
from coworld_core.errors import BackendUnavailable, TransferError, UsageError
from coworld_runner.backends import DockerBackend
from coworld_runner.backends.docker import _engine
from coworld_runner.backends.docker._container_files import fetch_archived
from coworld_runner.backends.docker._engine import Engine, json_objects

_NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a socket may be; its path must be short."""
    return tmp_path / "engine.sock"


def ping(version: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nApi-Version: {version}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nOK".encode()


def info(**said: object) -> bytes:
    body = json.dumps({"ServerVersion": "99.1", "OSType": "linux", "Architecture": "aarch64", **said}).encode()
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


# --- where it is ------------------------------------------------------------------------------------------------


def test_engine_address_precedence(tmp_path: Path) -> None:
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
    ("environ", "url"),
    [
        ({"DOCKER_HOST": "tcp://127.0.0.1:2375"}, "http://127.0.0.1:2375"),
        ({"DOCKER_HOST": "tcp://builder", "DOCKER_TLS_VERIFY": "1"}, "https://builder:2376"),
        ({"DOCKER_HOST": "tcp://[::1]"}, "http://[::1]:2375"),
    ],
)
def test_an_engine_may_listen_on_a_port(environ: dict[str, str], url: str) -> None:
    assert resolve_address(None, environ).url == url


@pytest.mark.parametrize(
    ("url", "shared", "alone"),
    [
        ("ssh://build@farm", "docker_remote", "docker_host_invalid"),
        ("tcp://192.0.2.7:2375", "docker_remote", ""),
        ("/var/run/docker.sock", "docker_host_invalid", "docker_host_invalid"),
        ("unix://docker.sock", "docker_host_invalid", "docker_host_invalid"),
        ("tcp://", "docker_host_invalid", "docker_host_invalid"),
        ("tcp://127.0.0.1:many", "docker_host_invalid", "docker_host_invalid"),
        ("npipe:////./pipe/docker_engine", "docker_host_invalid", "docker_host_invalid"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(url: str, shared: str, alone: str) -> None:
    """By who shares directories with its containers, and by who does not and can go to another machine."""
    with pytest.raises(BackendUnavailable) as caught:
        resolve_address(None, {"DOCKER_HOST": url}, shares_files=True)
    assert caught.value.code == shared
    assert url in caught.value.message
    assert "DOCKER_HOST" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint
    if not alone:
        assert resolve_address(None, {"DOCKER_HOST": url}).url == url.replace("tcp", "http")
        return
    with pytest.raises(BackendUnavailable) as caught:
        resolve_address(None, {"DOCKER_HOST": url})
    assert caught.value.code == alone


def test_a_context_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="'gone'"):
        resolve_address(None, {"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "gone"})


# --- why it cannot be used --------------------------------------------------------------------------------------


async def refusal(address: Address) -> BackendUnavailable:
    with pytest.raises(BackendUnavailable) as caught:
        async with Engine.connect(address, otherwise="{} Or go without.".format):
            pytest.fail("it answered")
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert caught.value.hint.endswith(" Or go without.")
    return caught.value


async def test_missing_docker_is_reported(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("PATH", str(place.parent))
    error = await refusal(Address(url=f"unix://{place}"))
    assert error.code == "docker_not_installed"


async def test_stopped_docker_is_reported(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    (place.parent / "docker").write_text("#!/bin/sh\n")
    (place.parent / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(place.parent))
    error = await refusal(Address(url=f"unix://{place}"))
    assert error.code == "docker_not_running"
    assert "no such socket" in error.message


async def test_stale_socket_is_reported(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    error = await refusal(resolve_address(f"unix://{place}"))
    assert error.code == "docker_not_running"
    assert "nobody listens" in error.message


async def test_closed_port_is_reported() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = await refusal(resolve_address(f"tcp://127.0.0.1:{port}"))
    assert error.code == "docker_not_running"
    assert str(port) in error.message


def test_missing_socket_permission_is_reported(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(place))
        engine.listen()
        place.chmod(0o000)
        for directory in (place.parent, place.parent.parent):
            directory.chmod(0o755)

        async def connect() -> str:
            try:
                async with Engine.connect(resolve_address(f"unix://{place}")):
                    return "connected"
            except BackendUnavailable as error:
                return f"{error.code}: {error.hint}"

        said = as_user(_NOBODY, _NOBODY, connect) if os.getuid() == 0 else anyio.run(connect)
    assert said.startswith("docker_not_permitted: ")
    assert "usermod -aG docker" in said


@pytest.mark.docker
def test_missing_permission_at_the_real_socket_is_reported() -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to become nobody")
    if resolve_address(None).socket is None:
        pytest.skip("needs an engine at a socket")

    async def check() -> str:
        return " ".join(issue.code for issue in await DockerBackend().check())

    assert as_user(_NOBODY, _NOBODY, check) == "docker_not_permitted"


async def test_unresponsive_engine_is_reported(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setattr(_engine, "_PROBE_SECONDS", 0.2)
    async with serve_bytes(place):
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
async def test_server_that_is_not_docker_is_reported(place: Path, said: bytes, code: str) -> None:
    async with serve_bytes(place, said):
        assert (await refusal(resolve_address(f"unix://{place}"))).code == code


async def test_the_version_spoken_is_one_both_know(place: Path) -> None:
    address, older = (resolve_address(f"unix://{place}{end}") for end in ("", "2"))
    async with serve_bytes(place, ping("1.99"), info()) as asked, Engine.connect(address) as engine:
        assert engine.api == "1.48"
        assert (engine.version, engine.platform) == ("99.1", "linux/arm64")
        assert asked[1].startswith(b"GET /v1.48/info HTTP/1.1\r\n")
    async with serve_bytes(Path(f"{place}2"), ping("1.41"), info()), Engine.connect(older) as engine:
        assert engine.api == "1.41"


async def test_an_engine_behind_tls_is_known_by_the_files_of_its_context(tmp_path: Path) -> None:
    certificate, key = self_signed()
    both = tmp_path / "both.pem"
    both.write_bytes(certificate + key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(both)
    server.load_verify_locations(both)
    server.verify_mode = ssl.CERT_REQUIRED
    sockets = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = sockets.extra(anyio.abc.SocketAttribute.local_port)
    identity = hashlib.sha256(b"farm").hexdigest()
    meta, tls = tmp_path / "contexts/meta" / identity, tmp_path / "contexts/tls" / identity / "docker"
    for directory in (meta, tls):
        directory.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": f"tcp://127.0.0.1:{port}"}}}))
    for name, content in (("ca", certificate), ("cert", certificate), ("key", key)):
        (tls / f"{name}.pem").write_bytes(content)
    address = resolve_address(None, {"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "farm"}, shares_files=True)
    assert address.url == f"https://127.0.0.1:{port}"
    listener = anyio.streams.tls.TLSListener(sockets, server, standard_compatible=False)
    async with serve_bytes(listener, ping("1.41"), info()):
        async with Engine.connect(address) as engine:
            assert engine.version == "99.1"
        # Somebody else's, and none
        (tls / "ca.pem").write_bytes(self_signed()[0])
        assert "do not trust each other" in (await refusal(address)).message
        (tls / "cert.pem").write_text("no certificate")
        assert (await refusal(address)).code == "docker_tls"


async def test_windows_containers_are_refused(place: Path) -> None:
    async with serve_bytes(place, ping("1.41"), info(OSType="windows")):
        with pytest.raises(BackendUnavailable) as caught:
            async with DockerBackend(host=f"unix://{place}"):
                pytest.fail("entered")
        assert caught.value.code == "docker_wrong_system"


async def test_unsupported_limits_are_not_capabilities(place: Path) -> None:
    weak = info(
        MemoryLimit=False, PidsLimit=False, CpuCfsQuota=False, SecurityOptions=["name=seccomp", "name=rootless"]
    )
    async with serve_bytes(place, ping("1.41"), weak, ping("1.41"), weak):
        issues = await DockerBackend(host=f"unix://{place}").check()
        assert [issue.severity for issue in issues] == ["info", "warning", "warning", "warning"]
        assert "rootless" in issues[0].message
        async with DockerBackend(host=f"unix://{place}") as backend:
            can = backend.capabilities
            assert (can.memory_limit, can.pids_limit, can.cpu_limit) == (False, False, False)
            assert can.network_isolation


async def test_services_reachable_by_games_are_reported(place: Path) -> None:
    with socket.create_server(("", 0)) as service, socket.create_server(("127.0.0.1", 0)) as own:
        reached, kept = (f"{each.getsockname()[1]}" for each in (service, own))
        async with serve_bytes(place, ping("1.41"), info(Name=socket.gethostname()), ping("1.41"), info(Name="other")):
            here, there = [await DockerBackend(host=f"unix://{place}").check() for _ in range(2)]
    (told,) = [issue.message for issue in here if issue.code == "services_in_reach"]
    assert reached in told
    assert kept not in told
    assert "services_in_reach" not in {issue.code for issue in there}


async def test_check_reports_errors_of_entering(place: Path) -> None:
    (issue,) = await DockerBackend(host=f"unix://{place}").check()
    assert (issue.code, issue.severity) == ("docker_not_running", "error")
    assert str(place) in issue.message


async def test_backend_must_be_entered_before_use() -> None:
    with pytest.raises(UsageError):
        await DockerBackend().find()


# --- calls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\n",
    ],
)
async def test_truncated_response_is_an_error(place: Path, answer: bytes) -> None:
    async with serve_bytes(place, answer), Engine(resolve_address(f"unix://{place}"), api="1.41") as engine:
        with pytest.raises(EngineGone):
            await engine.call("GET", "/info")


async def test_engine_error_message_is_kept(place: Path) -> None:
    body = b'{"message":"no room"}'
    said = b"HTTP/1.1 507 Full\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with serve_bytes(place, said), Engine(resolve_address(f"unix://{place}"), api="1.41") as engine:
        with pytest.raises(EngineRefused) as caught:
            await engine.call("POST", "/x", body={"a": 1})
    assert (caught.value.status, caught.value.server_message) == (507, "no room")


async def test_path_that_is_not_unicode_reaches_the_engine(place: Path) -> None:
    said = b"HTTP/1.1 204 No Content\r\n\r\n"
    async with serve_bytes(place, said) as asked, Engine(resolve_address(f"unix://{place}"), api="1.41") as engine:
        await engine.call("POST", "/x", body={"a": "/\udcff"})
    assert asked[0].endswith(b'\r\n\r\n{"a": "/\\udcff"}')


async def test_name_that_is_too_long_is_refused(place: Path) -> None:
    async with Engine(resolve_address(f"unix://{place}"), api="1.41") as engine:
        with pytest.raises(EngineRefused, match="too long"):
            await engine.call("GET", f"/images/{'a' * 70_000}/json")


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
async def test_copy_failure_of_the_machine_is_not_blamed_on_the_unit(
    place: Path, tmp_path: Path, kept: int | None, target: str, room: int | None, code: str
) -> None:
    address = resolve_address(f"unix://{place}")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with serve_bytes(place, archived(50_000)[:kept]), Engine(address, api="1.41") as engine:
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
    async with (
        serve_bytes(place) as asked,
        Engine(resolve_address(f"unix://{place}"), api="1.41") as engine,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(engine.call, "POST", "/containers/create")
        with anyio.fail_after(10):
            await asked.first.wait()
            tasks.cancel_scope.cancel()
    assert asked


async def test_progress_is_read_by_the_line_however_it_is_cut(place: Path) -> None:
    said = b'{"a": 1}\r\n\r\nwhat is this\n[2]\n{"b": "\xc3\xa4"}'
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer += b"".join(b"1\r\n%c\r\n" % byte for byte in said) + b"0\r\n\r\n"
    async with (
        serve_bytes(place, answer),
        Engine(resolve_address(f"unix://{place}"), api="1.41") as engine,
        engine.stream("POST", "/images/create") as got,
    ):
        assert [item async for item in json_objects(got)] == [{"a": 1}, {"b": "ä"}]
