"""Who listens on a port, as the kernel tells it."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from coworld_runner import _connections
from coworld_runner._connections import listening_sockets


def inode(listener: socket.socket) -> int:
    return os.fstat(listener.fileno()).st_ino


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "read"])
def test_whoever_answers_on_loopback_is_found(monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    def refuse(*_: Any) -> Any:
        raise PermissionError("a sandbox")

    if not asked:
        monkeypatch.setattr(_connections, "_asked_for", refuse)
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
