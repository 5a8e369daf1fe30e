"""Who listens on a port and who is connected to it, as the kernel tells it."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from coworld_runner import _connections
from coworld_runner._connections import Connections, listening_sockets


def inode(listener: socket.socket) -> int:
    return os.fstat(listener.fileno()).st_ino


@pytest.fixture(params=["asked", "read"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is asked, or its tables are read because that is not allowed."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError("a sandbox")

    if request.param == "read":
        monkeypatch.setattr(_connections, "_asked_for", refuse)
    else:
        monkeypatch.setattr(_connections, "_read", refuse)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_connected_processes_are_found(host: str) -> None:
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=six) as server:
        port = server.getsockname()[1]
        connections = Connections(port)
        assert not connections.of([os.getpid()])
        with socket.create_connection((host, port)):
            assert connections.of([os.getpid(), os.getppid()]) == {os.getpid()}
        # what has turned out to be something else is not looked for again
        with socket.create_connection((host, port)):
            elsewhere = Connections(port + 1)
            assert not any(elsewhere.of([os.getpid()]) for _ in range(10))


@pytest.mark.usefixtures("told")
def test_listeners_on_loopback_are_found() -> None:
    with ExitStack() as stack:

        def listen(host: str, port: int = 0) -> socket.socket:
            listener = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            if ":" in host:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((host, port))
            listener.listen()
            return listener

        for host in ("127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "::"):
            listener = listen(host)
            port = listener.getsockname()[1]
            assert listening_sockets(port) == {inode(listener)}, host
            # whoever is connected to it listens to nobody
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert listening_sockets(peer.getsockname()[1]) == set()
        for _ in range(20):
            elsewhere = listen("127.0.0.2")
            port = elsewhere.getsockname()[1]
            with suppress(OSError):
                # free on one address is not free on another
                here = listen("127.0.0.1", port)
                break
        assert listening_sockets(port) == {inode(here)}
        here.close()
        assert listening_sockets(port) == set()
