"""A game server that misbehaves as it is told, and is a well-behaved game when it is not told anything.

The config key ``behaviour`` says how; ``BEHAVIOURS`` in this file lists what there is. The game itself is nothing: it
waits for its players, sends each a few states, and gives every slot its number plus the seed as a score. ``GET /go``
tells it to wait for no more players.

It needs the standard library and ``websockets``; it runs as a local process and in a container alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

_FIRST_PLAYER_SECONDS = 180
NOTHING_MORE = "and now nothing more"
"""Said by whoever will do nothing from then on, so that nobody need wait to be sure of it."""

BEHAVIOURS = {
    "well": "plays to the end",
    # before it is ready
    "never-listens": "opens no port",
    "unhealthy": "answers /healthz with 503 for ever",
    "healthy-late": "answers /healthz with 503 for `delay` seconds",
    "exits-7-before-healthy": "ends with status 7 at once",
    "exits-0-before-healthy": "ends with status 0 at once",
    # while it plays
    "hangs": "is never over",
    "ignores-term": "is never over and ignores TERM",
    "exits-5": "ends with status 5 in the middle, its connections with it",
    "exits-5-on-odd-seeds": "ends with status 5 in the middle when its seed is odd",
    "exits-137": "ends with status 137 in the middle",
    "kills-itself": "sends itself KILL in the middle",
    "dies-slowly": "drops its players, and ends with status 1 only `delay` seconds later",
    "bails-out": "ends with status 0 in the middle, without results",
    "shuts-down-slowly": "stops listening, drops its players, and ends with status 0 only `delay` seconds later",
    "breaks-first-viewer": "breaks off the first viewer's connection, then plays on",
    "dies-when-watched": "stops listening at the first viewer, and ends with status 5 only `delay` seconds later",
    "runs-out-of-memory": "allocates `size` bytes in the middle",
    "fills-disk": "writes `size` bytes beside its results",
    "floods-log": "writes `size` bytes to standard output, then plays on",
    "daemonises": "leaves a grandchild in a session of its own, then plays on",
    # its results
    "half-results-exits": "writes half a JSON object and ends with status 0",
    "half-results-hangs": "writes half a JSON object and never ends",
    "nan-results": "has NaN for a score",
    "wrong-schema": "leaves out what its schema requires",
    "wrong-count": "has one score too many",
    "not-utf8": "writes results that are not UTF-8",
    "link-results": "makes its results a link to /etc/passwd",
    "huge-results": "writes `size` bytes of valid results",
    "results-then-exits-5": "writes good results and ends with status 5",
    # what comes after
    "lingers": "goes on for `delay` seconds after results and replay are complete",
    "no-replay": "writes no replay and ends",
    "no-replay-lingers": "writes no replay and goes on for `delay` seconds",
    "big-replay": "writes a replay of `size` bytes",
    "slow-replay": "takes `delay` seconds to write its replay after its results",
    "piecewise-replay": "opens and closes its replay for every piece, through all of the play and `delay` seconds more",
    "provisional-results": "writes valid results from the beginning, over and over",
    "rewrites-results": "has written results and replay, and writes valid results again and again for ever",
    "rewrites-replay": "has written results and replay, and writes its replay again and again for ever",
    # its contract
    "accepts-any-token": "lets anyone in",
    "fails-on-bad-token": "answers a bad token with status 500",
    "no-pages": "has no /client pages",
    "older-pages": "has its pages under /clients, as the first generations do",
    "silent-viewer": "sends viewers nothing",
    "big-viewer": "sends viewers 2 MiB at once",
}


def file_of(uri: str) -> Path:
    """The path of a file URI, or of a bare path."""
    return Path(unquote(urlsplit(uri).path)) if uri.startswith("file:") else Path(uri)


class Game:
    """One episode, or one replay."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.behaviour: str = config.get("behaviour", "well")
        if self.behaviour not in BEHAVIOURS:
            raise SystemExit(f"unknown behaviour {self.behaviour!r}")
        self.tokens: list[str] = config.get("tokens", [])
        self.play_seconds: float = config.get("play_seconds", 0.15)
        self.connect_timeout: float = config.get("connect_timeout", 180)
        self.delay: float = config.get("delay", 1.0)
        self.size: int = config.get("size", 1 << 20)
        self.seed: int = config.get("seed", 0)
        self.players: dict[int, ServerConnection] = {}
        self.somebody_there = asyncio.Event()
        self.all_there = asyncio.Event()
        self.over = asyncio.Event()
        self.began = time.monotonic()
        self.server: Server | None = None
        self.viewers = 0
        self.asked = 0

    def is_(self, *behaviours: str) -> bool:
        """Whether this is how to behave."""
        return self.behaviour in behaviours

    # ------------------------------------------------------------------ what others see

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer plain HTTP, and refuse players with a wrong token; None lets a websocket in."""
        url = urlsplit(request.path)
        prefix = "clients" if self.is_("older-pages") else "client"
        pages = {f"/{prefix}/player", f"/{prefix}/global", f"/{prefix}/replay"}
        if url.path == "/go":
            self.all_there.set()
            return connection.respond(http.HTTPStatus.OK, "gone\n")
        if url.path == "/healthz":
            late = self.is_("healthy-late") and time.monotonic() - self.began < self.delay
            bad = self.is_("unhealthy") or late
            self.asked += 1
            if self.is_("unhealthy") and self.asked == 2:
                # the first answer has arrived
                print(NOTHING_MORE, flush=True)
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE if bad else http.HTTPStatus.OK, "so so\n")
        if url.path in pages and not self.is_("no-pages"):
            return connection.respond(http.HTTPStatus.OK, "<!doctype html><title>misfits</title>\n")
        if url.path == "/player":
            if self._slot(request.path) is None and not self.is_("accepts-any-token"):
                failing = self.is_("fails-on-bad-token")
                bad = http.HTTPStatus.INTERNAL_SERVER_ERROR if failing else http.HTTPStatus.FORBIDDEN
                return connection.respond(bad, "no\n")
            return None
        if url.path in ("/global", "/replay"):
            return None
        return connection.respond(http.HTTPStatus.NOT_FOUND, "nothing here\n")

    def _slot(self, path: str) -> int | None:
        query = parse_qs(urlsplit(path).query)
        try:
            slot, token = int(query["slot"][0]), query["token"][0]
        except (KeyError, ValueError):
            return None
        return slot if 0 <= slot < len(self.tokens) and token == self.tokens[slot] else None

    async def socket(self, connection: ServerConnection) -> None:
        """Serve one websocket to its end."""
        assert connection.request is not None
        path = connection.request.path
        with contextlib.suppress(ConnectionClosed):
            if path.startswith("/player"):
                await self._player(connection, self._slot(path))
                return
            self.viewers += 1
            if self.is_("breaks-first-viewer", "dies-when-watched") and self.viewers == 1:
                await self.break_off(connection)
                return
            if self.is_("big-viewer"):
                await connection.send(json.dumps({"type": "state", "padding": "x" * (2 << 20)}))
            elif not self.is_("silent-viewer"):
                await connection.send(json.dumps({"type": "state", "tick": 0, "max_ticks": 3}))
            await connection.wait_closed()

    async def break_off(self, connection: ServerConnection) -> None:
        """End a connection without a word, and sometimes everything."""
        if self.is_("dies-when-watched"):
            assert self.server is not None
            self.server.close(close_connections=False)
        connection.transport.abort()
        if self.is_("dies-when-watched"):
            await asyncio.sleep(self.delay)
            os._exit(5)

    async def _player(self, connection: ServerConnection, slot: int | None) -> None:
        await connection.send(json.dumps({"type": "observation", "slot": slot}))
        if slot is None:
            await connection.wait_closed()
            return
        self.players[slot] = connection
        self.somebody_there.set()
        if len(self.players) == len(self.tokens):
            self.all_there.set()
        await connection.wait_closed()

    async def broadcast(self, message: dict[str, Any]) -> None:
        """Send every player something, whether or not it still listens."""
        for connection in tuple(self.players.values()):
            with contextlib.suppress(ConnectionClosed):
                await connection.send(json.dumps(message))

    # ------------------------------------------------------------------ the episode

    async def play(self) -> int:
        """Play one episode; returns the exit status."""
        with contextlib.suppress(TimeoutError):
            # counted from the first on: how long programs take to start depends on the machine
            async with asyncio.timeout(_FIRST_PLAYER_SECONDS):
                await self.somebody_there.wait()
            async with asyncio.timeout(self.connect_timeout):
                await self.all_there.wait()
        await self.broadcast({"type": "observation", "tick": -1})
        if self.is_("provisional-results"):
            self.write_results()
        for tick in range(3):
            await asyncio.sleep(self.play_seconds / 3)
            await self.broadcast({"type": "observation", "tick": tick})
            if tick == 1:
                await self.middle()
            if self.is_("provisional-results"):
                self.write_results()
            if self.is_("piecewise-replay"):
                self.append_replay(f"tick {tick}\n")
        return await self.end()

    async def middle(self) -> None:
        """What goes wrong half-way."""
        sys.stdout.flush()
        match self.behaviour:
            case "hangs" | "dies-when-watched":
                print(NOTHING_MORE, flush=True)
                await asyncio.Event().wait()
            case "ignores-term":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: print("not now", flush=True))
                print(NOTHING_MORE, flush=True)
                await asyncio.Event().wait()
            case "exits-5":
                print("something is very wrong", file=sys.stderr, flush=True)
                os._exit(5)
            case "exits-5-on-odd-seeds" if self.seed % 2:
                os._exit(5)
            case "exits-137":
                os._exit(137)
            case "kills-itself":
                os.kill(os.getpid(), signal.SIGKILL)
            case "dies-slowly":
                self.drop_players()
                await asyncio.sleep(self.delay)
                raise RuntimeError("the game task failed")
            case "bails-out":
                os._exit(0)
            case "shuts-down-slowly":
                assert self.server is not None
                self.server.close(close_connections=False)
                self.drop_players()
                await asyncio.sleep(self.delay)
                os._exit(0)
            case "runs-out-of-memory":
                hoard(self.size)
                await asyncio.Event().wait()
            case "fills-disk":
                fill(file_of(os.environ["COGAME_RESULTS_URI"]).with_name("filler"), self.size)
                await asyncio.Event().wait()
            case "floods-log":
                flood(self.size)
            case "daemonises":
                daemonise()
            case _:
                pass

    def drop_players(self) -> None:
        """Cut every player's connection off without a goodbye."""
        for connection in self.players.values():
            connection.transport.abort()

    async def end(self) -> int:
        """Write what is to be left, say goodbye, and go."""
        self.write_results()
        if self.is_("half-results-exits", "results-then-exits-5"):
            os._exit(5 if self.is_("results-then-exits-5") else 0)
        if self.is_("half-results-hangs"):
            print(NOTHING_MORE, flush=True)
            await asyncio.Event().wait()
        await self.write_replay()
        if self.is_("rewrites-results", "rewrites-replay"):
            for time_of_many in itertools.count():
                await asyncio.sleep(0.05)
                self.write_results() if self.is_("rewrites-results") else await self.write_replay()
                if time_of_many == 10:
                    print(NOTHING_MORE, flush=True)
        await self.broadcast({"type": "final"})
        if self.is_("lingers", "no-replay-lingers"):
            await asyncio.sleep(self.delay)
        return 0

    def write_results(self) -> None:
        """Write results, as well or as badly as told."""
        path = file_of(os.environ["COGAME_RESULTS_URI"])
        results: dict[str, Any] = {"scores": [self.seed + slot for slot in range(len(self.tokens))], "ticks": 3}
        if self.is_("link-results"):
            path.symlink_to("/etc/passwd")
            return
        if self.is_("wrong-schema"):
            del results["ticks"]
        if self.is_("wrong-count"):
            results["scores"].append(1)
        if self.is_("nan-results"):
            results["scores"][0] = float("nan")
        if self.is_("huge-results"):
            results["padding"] = "x" * self.size
        data = json.dumps(results).encode()
        if self.is_("half-results-exits", "half-results-hangs"):
            data = data[: len(data) // 2]
        if self.is_("not-utf8"):
            data = data[:-1] + b', "name": "\xff\xfe"}'
        path.write_bytes(data)

    async def write_replay(self) -> None:
        """Write a replay, as well or as badly as told."""
        path = file_of(os.environ["COGAME_SAVE_REPLAY_URI"])
        if self.is_("no-replay", "no-replay-lingers"):
            return
        if self.is_("slow-replay"):
            with path.open("w") as file:
                for piece in range(10):
                    file.write(f"piece {piece}\n")
                    file.flush()
                    await asyncio.sleep(self.delay / 10)
                file.write("the end\n")
            return
        if self.is_("piecewise-replay"):
            for piece in range(10):
                self.append_replay(f"piece {piece}\n")
                await asyncio.sleep(self.delay / 10)
            self.append_replay("the end\n")
            return
        if self.is_("big-replay"):
            fill(path, self.size)
        else:
            path.write_text("the end\n")

    def append_replay(self, text: str) -> None:
        """Add a piece to the replay, and close it again."""
        with file_of(os.environ["COGAME_SAVE_REPLAY_URI"]).open("a") as file:
            file.write(text)


def hoard(size: int) -> None:
    """Take memory piece by piece, and touch it."""
    pieces: list[bytearray] = []
    while sum(map(len, pieces)) < size:
        pieces.append(bytearray(b"\1" * (4 << 20)))
    print("got it all", flush=True)


def fill(path: Path, size: int) -> None:
    """Write that many bytes, in pieces."""
    piece = b"0123456789abcdef" * 65536
    with path.open("wb") as file:
        for _ in range(size // len(piece)):
            file.write(piece)
        file.write(piece[: size % len(piece)])


def flood(size: int) -> None:
    """Write that many bytes to standard output, in lines."""
    lines = ("all work and no play makes a dull log\n" * 1000).encode()
    for _ in range(size // len(lines) + 1):
        os.write(1, lines)


def daemonise() -> None:
    """Leave a process behind that has left its parent, its session and its group."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print("a daemon is born", flush=True)
            for descriptor in (0, 1, 2):
                os.close(descriptor)
            time.sleep(600)
        os._exit(0)


async def main() -> int:
    """Run until the episode, or whoever runs this, says that it is over."""
    replay = os.environ.get("COGAME_LOAD_REPLAY_URI")
    config: dict[str, Any] = {} if replay else json.loads(file_of(os.environ["COGAME_CONFIG_URI"]).read_bytes())
    game = Game(config)
    if game.is_("exits-7-before-healthy", "exits-0-before-healthy"):
        print("no, thank you", file=sys.stderr, flush=True)
        return 7 if game.is_("exits-7-before-healthy") else 0
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: os._exit(143))
    if game.is_("never-listens"):
        await asyncio.Event().wait()
    print(f"misfits: {game.behaviour}", flush=True)
    host, port = os.environ.get("COGAME_HOST", "0.0.0.0"), int(os.environ.get("COGAME_PORT", "8080"))
    async with serve(
        game.socket, host, port, process_request=game.answer, ping_interval=None, close_timeout=1, max_size=None
    ) as server:
        if replay:
            await server.serve_forever()
        game.server = server
        return await game.play()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
