"""The proxy that lets players reach named HTTPS hosts: what it takes for one of them, and what it answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from contextlib import ExitStack

import pytest

from coworld_runner.web.proxies.https_proxy import Proxy, is_named, is_public


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("api.example.com", True),
        ("API.example.com.", True),
        ("a.b.example.org", True),
        ("example.org", False),
        ("notexample.org", False),
        ("api.example.com.evil.example", False),
        ("", False),
    ],
)
def test_host_list_matches(host: str, named: bool) -> None:
    assert is_named(host, ["api.example.com", "*.example.org"]) is named


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        *((address, False) for address in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "198.18.0.1")),
        *(
            (address, False)
            for address in ("0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "fe80::1%eth0", "fc00::1")
        ),
        # Addresses that stand for private ones: mapped, translated, tunnelled
        *((address, False) for address in ("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1")),
    ],
)
def test_public_addresses_are_recognised(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.fixture
def proxy() -> Generator[int]:
    """The port of a proxy that lets nobody reach anything but one host."""
    with Proxy(("127.0.0.1", 0), ["api.coworld-test.example"]) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def _ask(port: int, request: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(f"{request}\r\n\r\n".encode("latin-1"))
        return b"".join(iter(lambda: connection.recv(1024), b"")).decode()


def test_connections_per_client_are_limited(proxy: int, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as held:
        for _ in range(32):
            held.enter_context(socket.create_connection(("127.0.0.1", proxy), timeout=10))
        # Accepted in turn, so this one is too many
        assert held.enter_context(socket.create_connection(("127.0.0.1", proxy), timeout=10)).recv(1) == b""
        with socket.create_connection(("127.0.0.1", proxy), timeout=10, source_address=("127.0.0.2", 0)) as another:
            another.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert another.recv(1024).startswith(b"HTTP/1.1 200 ")
    (told,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert told["refused"] == "more than 32 connections at a time"


def test_refused_hosts_are_reported_once_without_control_characters(
    proxy: int, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ("1.2.3.4:443", "api.coworld-test.example:80", "evil.example:443")
    for target in (*targets, *targets, "\x1b[2J.example:443"):
        answer = _ask(proxy, f"CONNECT {target} HTTP/1.1")
        assert answer.startswith("HTTP/1.1 403 ")
    assert "evil.example:443 is not one of the hosts" in _ask(proxy, "CONNECT evil.example:443 HTTP/1.1")
    assert "only HTTPS is allowed" in _ask(proxy, "GET http://api.coworld-test.example/ HTTP/1.1")
    assert _ask(proxy, "GET /healthz HTTP/1.1").startswith("HTTP/1.1 200 ")
    told = [json.loads(line)["refused"] for line in capsys.readouterr().out.splitlines()]
    assert told == [*targets, "?[2J.example:443", "http://api.coworld-test.example/"]
