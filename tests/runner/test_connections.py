"""Who listens on a port and who is connected to it, as the kernel tells it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from coworld_runner.backends import _kernel_connections
from coworld_runner.backends._kernel_connections import Connections, listening_sockets


def inode(listener: socket.socket) -> int:
    return os.fstat(listener.fileno()).st_ino


@pytest.fixture
def opened() -> Generator[Callable[[Any], Any]]:
    """Closes what is passed to it at the end."""
    with ExitStack() as stack:
        yield lambda thing: stack.enter_context(closing(thing))


@pytest.fixture(params=["asked", "read"])
def connection_source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is asked, or its tables are read because that is not allowed."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError("a sandbox")

    if request.param == "read":
        monkeypatch.setattr(_kernel_connections, "_asked_for", refuse)
    else:
        monkeypatch.setattr(_kernel_connections, "_read", refuse)


@pytest.mark.usefixtures("connection_source")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_connected_processes_are_found(host: str, opened: Callable[[Any], Any]) -> None:
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=six) as server:
        port = server.getsockname()[1]
        connections = opened(Connections(port))
        assert not connections.of([os.getpid()])
        with socket.create_connection((host, port)) as asking:
            asking.sendall(b"GET /player HTTP/1.1")
            assert connections.of([os.getpid(), os.getppid()]) == {os.getpid()}
            # The other side has closed it
            with server.accept()[0] as asked:
                assert asked.recv(100)
            assert opened(Connections(port)).of([os.getpid()]) == {os.getpid()}
        # What has turned out to be something else is not looked for again
        with socket.create_connection((host, port)):
            elsewhere = opened(Connections(port + 1))
            assert not any(elsewhere.of([os.getpid()]) for _ in range(10))


def test_connections_on_which_nothing_is_said_do_not_count(opened: Callable[[Any], Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as silent:
            assert not opened(Connections(port)).of([os.getpid()])
            silent.sendall(b"GET")
            assert opened(Connections(port)).of([os.getpid()]) == {os.getpid()}


def test_connections_of_others_hide_nothing(opened: Callable[[Any], Any]) -> None:
    def say_once(server: socket.socket) -> None:
        with socket.create_connection(server.getsockname()) as asking, server.accept()[0] as asked:
            asking.sendall(b"GET")
            asked.recv(3)

    with socket.create_server(("127.0.0.1", 0)) as game, socket.create_server(("127.0.0.1", 0)) as busy:
        network = str(Path("/proc/self/ns/net").readlink())
        connections = opened(Connections(game.getsockname()[1]))
        for _ in range(1000):
            say_once(busy)
        assert not connections.may_have_been_one(network)
        say_once(game)
        # The kernel tells of it in its own time
        deadline = time.monotonic() + 10
        while not connections.may_have_been_one(network) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert connections.may_have_been_one(network)


@pytest.mark.parametrize("refused", ["_take_only", "bind"])
def test_where_the_kernel_does_not_tell_there_may_have_been_one(
    refused: str, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Any], Any]
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError("a sandbox")

    if refused == "bind":
        sandboxed = type("Sandboxed", (socket.socket,), {"bind": refuse})
        monkeypatch.setattr(_kernel_connections.socket, "socket", sandboxed)
    else:
        monkeypatch.setattr(_kernel_connections, refused, refuse)
    assert opened(Connections(1)).may_have_been_one(str(Path("/proc/self/ns/net").readlink()))


@pytest.mark.usefixtures("connection_source")
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
            # Whoever is connected to it listens to nobody
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert listening_sockets(peer.getsockname()[1]) == set()
        for _ in range(20):
            elsewhere = listen("127.0.0.2")
            port = elsewhere.getsockname()[1]
            with suppress(OSError):
                # Free on one address is not free on another
                here = listen("127.0.0.1", port)
                break
        assert listening_sockets(port) == {inode(here)}
        here.close()
        assert listening_sockets(port) == set()
