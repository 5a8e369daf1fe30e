"""A server that ends while connections keep coming in: quietly, and soon."""

import signal
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

import anyio
import pytest
from support.fake_server import Ask, Say, serve_in_thread
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from paintarena.testing import Server, running, small_config

pytestmark = pytest.mark.slow

SLOW = {"max_ticks": 10_000, "tick_rate": 10, "player_connect_timeout_seconds": 0}

WAITING, PRESSING = 300, 850

dial = partial(connect, max_queue=None, close_timeout=1)


def upgrade(path: str) -> bytes:
    """What a browser sends to open a socket."""
    lines = [
        *(f"GET {path} HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade"),
        *("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==", "", ""),
    ]
    return "\r\n".join(lines).encode()


@contextmanager
def crowd(server: Server, *requests: bytes) -> Generator[None]:
    """Connections that have said what they want.

    The first are made while the server stands still, so that it has seen none of them when it goes on; others press
    after them all the while that it ends.
    """
    over = Event()
    with ExitStack() as stack:

        def connect(number: int) -> None:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
            client.sendall(requests[number % len(requests)])

        def press() -> None:
            with suppress(OSError):
                for number in range(PRESSING):
                    if over.is_set():
                        return
                    connect(number)

        for number in range(WAITING):
            connect(number)
        threads = [Thread(target=press) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()


def said_nothing_but(server: Server, *expected: str) -> None:
    errors = (server.directory / "stderr").read_text()
    assert [line for line in errors.splitlines() if not line.startswith("late ticks: ")] == list(expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_connections_arriving_with_the_signal_are_handled(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, config=small_config(**SLOW)) as server:
        async with dial(server.ws("/global")) as viewer:
            await viewer.recv()
            server.process.send_signal(signal.SIGSTOP)
            requests = [
                *(upgrade("/global"), upgrade(f"/player?{server.query(0)}"), upgrade("/player?slot=0&token=wrong")),
                *(b"GET /client/global HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /healthz HTTP/1.1\r\n", b""),
            ]
            with crowd(server, *requests):
                server.process.send_signal(number)
                server.process.send_signal(signal.SIGCONT)
                assert await anyio.to_thread.run_sync(server.wait) == 128 + number
    said_nothing_but(server, f"stopped by {number.name} before the end of the game")


async def test_connections_during_shutdown_do_not_disturb_the_end(tmp_path: Path) -> None:
    config = small_config(max_ticks=60, tick_rate=60, player_connect_timeout_seconds=0)
    with running(tmp_path, config=config) as server:
        over = anyio.Event()
        seen = 0

        async def come_and_go(path: str) -> None:
            nonlocal seen
            while not over.is_set():
                try:
                    async with dial(server.ws(path)) as client:
                        await client.recv()
                        seen += 1
                except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed):
                    with anyio.move_on_after(0.01):
                        await over.wait()

        async with anyio.create_task_group() as tasks:
            for path in ("/global", f"/player?{server.query(0)}", f"/player?{server.query(1)}") * 4:
                tasks.start_soon(come_and_go, path)
            assert await anyio.to_thread.run_sync(server.wait) == 0
            over.set()
        assert seen > 0
    said_nothing_but(server)


async def test_viewers_at_shutdown_of_a_replay_are_handled(tmp_path: Path) -> None:
    (tmp_path / "replay").write_text('{"config": {}, "player_names": [], "frames": [], "results": {}}')
    env = {"COGAME_LOAD_REPLAY_URI": (tmp_path / "replay").as_uri()}
    with running(tmp_path, env=env) as server:
        async with dial(server.ws("/replay")) as viewer:
            await viewer.recv()
            server.process.send_signal(signal.SIGSTOP)
            with crowd(server, upgrade("/replay")):
                server.process.send_signal(signal.SIGTERM)
                server.process.send_signal(signal.SIGCONT)
                assert await anyio.to_thread.run_sync(server.wait) == 0
    said_nothing_but(server)


@pytest.mark.parametrize("viewer", ["page", "socket"])
def test_a_viewer_whose_replay_does_not_come(tmp_path: Path, viewer: str) -> None:
    """Its request is still under way when the server is told to end; nobody waits for it, and nobody complains."""
    asked = Event()

    async def silent(_: Ask) -> Say:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    with serve_in_thread(silent) as store:
        query = f"uri={store.url}/replay"
        request = (
            upgrade(f"/replay?{query}")
            if viewer == "socket"
            else f"GET /client/replay?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        )
        with (
            running(tmp_path, env={"COGAME_REPLAY_SERVER": "1"}) as server,
            socket.create_connection(("127.0.0.1", server.port)) as client,
        ):
            client.sendall(request)
            assert asked.wait(20)
            server.process.terminate()
            assert server.wait() == 0
        said_nothing_but(server)
