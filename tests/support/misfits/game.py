"""A game server that misbehaves on request, and otherwise behaves well.

The config key `behaviour` selects one of `BEHAVIOURS` in this file. The game itself is trivial: it waits for its
players, sends each a few states, and gives every slot its number plus the seed as a score. `GET /go` makes it stop
waiting for players.

It uses only the standard library and starts quickly, because tests start hundreds of games, as local processes and in
containers. Each connection has its own thread; the episode runs in the main thread.
"""

from __future__ import annotations

import binascii
import contextlib
import hashlib
import itertools
import json
import os
import signal
import socket
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Functions import these where needed: they take as long to import as the interpreter to start.
    from pathlib import Path
    from typing import Any

_FIRST_PLAYER_SECONDS = 180
NOTHING_MORE = "and now nothing more"
"""The line that a program prints before it stops doing anything, so that tests need not wait to be sure."""

BEHAVIOURS = {
    "well": "plays to the end",
    # Faults before it is ready
    "never-listens": "opens no port",
    "fixed-port": "listens on a port of its own",
    "healthy-late": "answers /healthz with 503 for `delay` seconds",
    "exits-7-before-healthy": "ends with status 7 at once",
    # Faults during the game
    "hangs": "is never over",
    "ignores-term": "is never over and ignores TERM",
    "exits-5": "ends with status 5 in the middle, its connections with it",
    "exits-5-on-odd-seeds": "ends with status 5 in the middle when its seed is odd",
    "dies-slowly": "drops its players, and ends with status 1 only `delay` seconds later",
    "bails-out": "ends with status 0 in the middle, without results",
    "shuts-down-slowly": "stops listening, drops its players, and ends with status 0 only `delay` seconds later",
    "breaks-first-viewer": "breaks off the first viewer's connection, then plays on",
    "dies-when-watched": "stops listening at the first viewer, and ends with status 5 only `delay` seconds later",
    "runs-out-of-memory": "allocates `size` bytes in the middle",
    "storms": "opens and closes files beside its results without a pause, one of them with a name that is no text",
    "floods-log": "writes `size` bytes to standard output, then plays on",
    # Faults in its results
    "half-results-exits": "writes half a JSON object and ends with status 0",
    "nan-results": "has NaN for a score",
    "wrong-schema": "leaves out what its schema requires",
    "wrong-count": "has one score too many",
    "link-results": "makes its results a link to /etc/passwd",
    "huge-results": "writes `size` bytes of valid results",
    "swaps-results": "has its results be a file, and a link to /etc/passwd, by turns",
    "results-then-exits-5": "writes good results and ends with status 5",
    # Faults after its results, and in its replay
    "lingers": "goes on for `delay` seconds after results and replay are complete",
    "spoils-on-term": "goes on for `delay` seconds, and replaces results and replay with links when it is stopped",
    "no-replay": "writes no replay and ends",
    "no-replay-lingers": "writes no replay and goes on for `delay` seconds",
    "big-replay": "writes a replay of `size` bytes",
    "slow-replay": "takes `delay` seconds to write its replay after its results",
    "provisional-results": "writes valid results from the beginning, over and over",
    "rewrites-results": "has written results and replay, and writes valid results again and again for ever",
    "current-results": "has results and a whole replay from the beginning, and is never over",
    # Violations of the contract
    "accepts-any-token": "lets anyone in",
    "fails-on-bad-token": "answers a bad token with status 500",
    "no-pages": "has no /client pages",
    "refuses-players": "lets nobody in, whatever the token",
    "throws-players-out": "closes the connection of every player with code 1011 at once",
    "closes-on-players": "closes it with code 1000",
    "deaf-to-players": "is healthy, and breaks off all handshakes",
    "late-for-players": "is healthy, and breaks off the first `size` handshakes",
    "dies-of-binary": "ends with status 5 when a client sends a binary message",
    "admits-once": "admits nobody to a seat that was taken before, once the game has begun",
}


def place_of(uri: str) -> str:
    """The path of a file URI, or a bare path as it is."""
    if uri.startswith("file://") and "%" in uri:
        from urllib.parse import unquote

        uri = unquote(uri)
    return uri.removeprefix("file://")


def file_of(uri: str) -> Path:
    """The path of a file URI as a `Path`."""
    from pathlib import Path

    return Path(place_of(uri))


MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
GOING_AWAY = struct.pack(">H", 1001)
_CLOSE_SECONDS = 1.0


class Connection:
    """A client's connection, answered once or upgraded to a websocket."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._stream = peer.makefile("rb")
        self._writing = threading.Lock()
        self._left = False
        self.closed = threading.Event()
        self.path = ""
        self._headers: dict[str, str] = {}

    def read_request(self) -> None:
        """Read the request line and headers."""
        words = self._stream.readline().decode("latin-1").split(" ")
        self.path = words[1] if len(words) == 3 else ""
        while line := self._stream.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            self._headers[name.lower()] = value.strip()

    def respond(self, status: str, text: str) -> None:
        """Send a plain HTTP answer."""
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
        self._peer.sendall(f"{head}Connection: close\r\n\r\n{text}".encode())

    def upgrade(self) -> bool:
        """Upgrade to a websocket, if the client asks for one."""
        key = self._headers.get("sec-websocket-key")
        if key is None:
            self.respond("426 Upgrade Required", "a websocket\n")
            return False
        accept = binascii.b2a_base64(hashlib.sha1((key + MAGIC).encode()).digest(), newline=False).decode()
        head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self._peer.sendall(f"{head}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        return True

    def send(self, message: dict[str, Any]) -> None:
        """Send a message as JSON."""
        self.send_frame(TEXT, json.dumps(message).encode())

    def send_frame(self, kind: int, payload: bytes) -> None:
        """Send a frame."""
        with self._writing:
            self._send(kind, payload)

    def _send(self, kind: int, payload: bytes) -> None:
        length = len(payload)
        if length < 126:
            head = bytes((0x80 | kind, length))
        elif length < 1 << 16:
            head = bytes((0x80 | kind, 126)) + length.to_bytes(2, "big")
        else:
            head = bytes((0x80 | kind, 127)) + length.to_bytes(8, "big")
        self._peer.sendall(head + payload)

    def wait_closed(self, *, dies_of_binary: bool = False) -> None:
        """Read until the other side closes, answering pings."""
        while (frame := self._receive()) is not None:
            kind, payload = frame
            if kind == BINARY and dies_of_binary:
                os._exit(5)
            if kind == PING:
                self.send_frame(PONG, payload)
            if kind == CLOSE:
                self._say_goodbye(payload)
                return

    def _receive(self) -> tuple[int, bytes] | None:
        head = self._stream.read(2)
        if len(head) < 2:
            return None
        kind, length = head[0] & 0x0F, head[1] & 0x7F
        if length in (126, 127):
            length = int.from_bytes(self._stream.read(2 if length == 126 else 8), "big")
        masked = self._stream.read(4 + length)
        mask, data = masked[:4], masked[4:]
        return kind, bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))

    def _say_goodbye(self, payload: bytes) -> None:
        if self._writing.acquire(timeout=_CLOSE_SECONDS):
            try:
                if not self._left:
                    self._left = True
                    self._send(CLOSE, payload)
            finally:
                self._writing.release()

    def go_away(self) -> None:
        """Send a close frame, unless another message is being sent for too long."""
        with contextlib.suppress(OSError):
            self._say_goodbye(GOING_AWAY)

    def cut_off(self) -> None:
        """Shut the connection down without a close frame."""
        with contextlib.suppress(OSError):
            self._peer.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self.cut_off()
        self._stream.close()
        self._peer.close()
        self.closed.set()


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
        self.players: dict[int, Connection] = {}
        self.connections: set[Connection] = set()
        self.somebody_there = threading.Event()
        self.all_there = threading.Event()
        self.began = time.monotonic()
        self.listener: socket.socket | None = None
        self.viewers = 0
        self.started = False

    def is_(self, *behaviours: str) -> bool:
        """Whether the behaviour is one of these."""
        return self.behaviour in behaviours

    # ------------------------------------------------------------------ connections

    def serve(self, host: str, port: int) -> None:
        """Start to listen."""
        self.listener = socket.create_server((host, port), backlog=100)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._attend, args=(Connection(peer),), daemon=True).start()

    def stop_listening(self) -> None:
        """Stop accepting connections."""
        if self.listener is not None:
            # Unlike closing alone, this wakes the thread that waits for a connection.
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()

    def close(self) -> None:
        """Stop listening and close all connections, without insisting on answers."""
        self.stop_listening()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for connection in tuple(self.connections):
            connection.go_away()
        for connection in tuple(self.connections):
            connection.closed.wait(max(0.0, deadline - time.monotonic()))

    def _attend(self, connection: Connection) -> None:
        # The game ignores broken connections.
        with contextlib.suppress(OSError):
            connection.read_request()
            if not self.answer(connection) and connection.upgrade():
                self.connections.add(connection)
                self.socket(connection)
        self.connections.discard(connection)
        connection.close()

    def answer(self, connection: Connection) -> bool:
        """Answer plain HTTP, and refuse players with a wrong token; returns False to accept a websocket."""
        path = connection.path.partition("?")[0]
        if path == "/player" and (self.is_("deaf-to-players") or (self.is_("late-for-players") and self.size > 0)):
            self.size -= 1
            return True
        knows = path == "/player" and self._slot(connection.path) is not None
        if path == "/go":
            self.all_there.set()
            connection.respond("200 OK", "gone\n")
        elif path == "/healthz":
            late = self.is_("healthy-late") and time.monotonic() - self.began < self.delay
            connection.respond("503 Service Unavailable" if late else "200 OK", "so so\n")
        elif path in ("/client/player", "/client/global", "/client/replay") and not self.is_("no-pages"):
            connection.respond("200 OK", "<!doctype html><title>misfits</title>\n")
        elif path == "/player":
            if self.is_("admits-once") and self.started and self._slot(connection.path) in self.players:
                connection.respond("403 Forbidden", "once is enough\n")
                return True
            if not self.is_("refuses-players") and (knows or self.is_("accepts-any-token")):
                return False
            failing = self.is_("fails-on-bad-token")
            connection.respond("500 Internal Server Error" if failing else "403 Forbidden", "no\n")
        elif path in ("/global", "/replay"):
            return False
        else:
            connection.respond("404 Not Found", "nothing here\n")
        return True

    def _slot(self, path: str) -> int | None:
        query = {name: value for name, _, value in (pair.partition("=") for pair in path.partition("?")[2].split("&"))}
        try:
            slot, token = int(query["slot"]), query["token"]
        except (KeyError, ValueError):
            return None
        return slot if 0 <= slot < len(self.tokens) and token == self.tokens[slot] else None

    def socket(self, connection: Connection) -> None:
        """Serve one websocket to its end."""
        if connection.path.startswith("/player"):
            self._player(connection, self._slot(connection.path))
            return
        self.viewers += 1
        if self.is_("breaks-first-viewer", "dies-when-watched") and self.viewers == 1:
            self.break_off(connection)
            return
        connection.send({"type": "state", "tick": 0, "max_ticks": 3})
        connection.wait_closed(dies_of_binary=self.is_("dies-of-binary"))

    def break_off(self, connection: Connection) -> None:
        """Cut a connection off; for `dies-when-watched`, also end the game."""
        if self.is_("dies-when-watched"):
            self.stop_listening()
        connection.cut_off()
        if self.is_("dies-when-watched"):
            time.sleep(self.delay)
            os._exit(5)

    def _player(self, connection: Connection, slot: int | None) -> None:
        if self.is_("throws-players-out", "closes-on-players"):
            connection.send_frame(CLOSE, struct.pack(">H", 1011 if self.is_("throws-players-out") else 1000))
            return
        connection.send({"type": "observation", "slot": slot})
        if slot is not None:
            self.players[slot] = connection
            self.somebody_there.set()
            if len(self.players) == len(self.tokens):
                self.all_there.set()
        connection.wait_closed(dies_of_binary=self.is_("dies-of-binary"))

    def broadcast(self, message: dict[str, Any]) -> None:
        """Send a message to every player, ignoring broken connections."""
        for connection in tuple(self.players.values()):
            with contextlib.suppress(OSError):
                connection.send(message)

    # ------------------------------------------------------------------ the episode

    def play(self) -> int:
        """Play one episode; returns the exit status."""
        # The timeout starts with the first player, because the start of programs takes longer on some machines.
        if self.somebody_there.wait(_FIRST_PLAYER_SECONDS):
            self.all_there.wait(self.connect_timeout)
        self.started = True
        self.broadcast({"type": "observation", "tick": -1})
        if self.is_("provisional-results", "current-results"):
            self.write_results()
        if self.is_("current-results"):
            self.write_replay()
            time.sleep(self.delay)
            print(NOTHING_MORE, flush=True)
            for_ever()
        for tick in range(3):
            time.sleep(self.play_seconds / 3)
            self.broadcast({"type": "observation", "tick": tick})
            if tick == 1:
                self.middle()
            if self.is_("provisional-results"):
                self.write_results()
        return self.end()

    def middle(self) -> None:
        """Apply the faults in the middle of the game."""
        sys.stdout.flush()
        match self.behaviour:
            case "hangs" | "dies-when-watched":
                print(NOTHING_MORE, flush=True)
                for_ever()
            case "storms":
                threading.Thread(
                    target=storm, args=(file_of(os.environ["COGAME_RESULTS_URI"]).parent,), daemon=True
                ).start()
            case "ignores-term":
                signal.signal(signal.SIGTERM, refuse)
                print(NOTHING_MORE, flush=True)
                for_ever()
            case "exits-5":
                print("something is very wrong", file=sys.stderr, flush=True)
                os._exit(5)
            case "exits-5-on-odd-seeds" if self.seed % 2:
                os._exit(5)
            case "dies-slowly":
                self.drop_players()
                time.sleep(self.delay)
                raise RuntimeError("the game task failed")
            case "bails-out":
                os._exit(0)
            case "shuts-down-slowly":
                self.stop_listening()
                self.drop_players()
                time.sleep(self.delay)
                os._exit(0)
            case "runs-out-of-memory":
                hoard(self.size)
                for_ever()
            case "floods-log":
                flood(self.size)
            case _:
                pass

    def drop_players(self) -> None:
        """Cut off all players' connections without a close frame."""
        for connection in self.players.values():
            connection.cut_off()

    def end(self) -> int:
        """Write the outputs, tell the players, and return the exit status."""
        if self.is_("swaps-results"):
            self.swap_results()
        self.write_results()
        if self.is_("half-results-exits", "results-then-exits-5"):
            os._exit(5 if self.is_("results-then-exits-5") else 0)
        self.write_replay()
        if self.is_("rewrites-results"):
            for time_of_many in itertools.count():
                time.sleep(0.05)
                self.write_results()
                if time_of_many == 10:
                    print(NOTHING_MORE, flush=True)
        self.broadcast({"type": "final"})
        if self.is_("spoils-on-term"):
            signal.signal(signal.SIGTERM, spoil)
        if self.is_("lingers", "no-replay-lingers", "spoils-on-term"):
            time.sleep(self.delay)
        return 0

    def write_results(self) -> None:
        """Write results, with the chosen fault if there is one."""
        place = os.environ["COGAME_RESULTS_URI"]
        results: dict[str, Any] = {"scores": [self.seed + slot for slot in range(len(self.tokens))], "ticks": 3}
        if self.is_("link-results"):
            file_of(place).symlink_to("/etc/passwd")
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
        if self.is_("half-results-exits"):
            data = data[: len(data) // 2]
        if self.is_("rewrites-results"):
            # Whole at any moment, since it is killed in the middle of all this
            beside = file_of(place).with_name("rewritten")
            beside.write_bytes(data)
            beside.replace(file_of(place))
            return
        with open(place_of(place), "wb") as file:  # noqa: PTH123
            file.write(data)

    def swap_results(self) -> None:
        """Replace the results by a link and by a file, in turn, 200 times."""
        path = file_of(os.environ["COGAME_RESULTS_URI"])
        link, file = path.with_name("link"), path.with_name("file")
        for _ in range(200):
            link.symlink_to("/etc/passwd")
            link.replace(path)
            file.write_text(json.dumps({"scores": [0, 1], "ticks": 3}))
            file.replace(path)

    def write_replay(self) -> None:
        """Write a replay, with the chosen fault if there is one."""
        place = place_of(os.environ["COGAME_SAVE_REPLAY_URI"])
        if self.is_("no-replay", "no-replay-lingers"):
            return
        if self.is_("slow-replay"):
            with open(place, "w") as file:  # noqa: PTH123
                for piece in range(10):
                    file.write(f"piece {piece}\n")
                    file.flush()
                    time.sleep(self.delay / 10)
                file.write("the end\n")
            return
        if self.is_("big-replay"):
            fill(place, self.size)
        else:
            with open(place, "w") as file:  # noqa: PTH123
                file.write("the end\n")


def for_ever() -> None:
    """Wait forever; signals are still handled."""
    threading.Event().wait()


def spoil(number: int, frame: object) -> None:
    """Replace results and replay with links, and exit with 0."""
    for variable in ("COGAME_RESULTS_URI", "COGAME_SAVE_REPLAY_URI"):
        file_of(os.environ[variable]).unlink()
        file_of(os.environ[variable]).symlink_to("/etc/passwd")
    os._exit(0)


def leave(number: int, frame: object) -> None:
    """Exit at once with 128 plus the signal's number."""
    os._exit(128 + number)


def refuse(number: int, frame: object) -> None:
    """Ignore a signal."""
    print("not now", flush=True)


def hoard(size: int) -> None:
    """Allocate memory piece by piece, and write to it."""
    pieces: list[bytearray] = []
    while sum(map(len, pieces)) < size:
        pieces.append(bytearray(b"\1" * (4 << 20)))
    print("got it all", flush=True)


def fill(path: str | Path, size: int) -> None:
    """Write a file of a given size, in pieces."""
    piece = b"0123456789abcdef" * 65536
    with open(path, "wb") as file:  # noqa: PTH123
        for _ in range(size // len(piece)):
            file.write(piece)
        file.write(piece[: size % len(piece)])


def flood(size: int) -> None:
    """Write at least `size` bytes to standard output, in lines."""
    lines = ("all work and no play makes a dull log\n" * 1000).encode()
    for _ in range(size // len(lines) + 1):
        os.write(1, lines)


def storm(directory: Path) -> None:
    """Create more file system events in a directory than a watcher can handle."""
    os.mkdir(os.fsencode(directory) + b"/\xff\x1b[2J\n")  # noqa: PTH102
    while True:
        for number in range(100):
            os.close(os.open(directory / f"file-{number}", os.O_WRONLY | os.O_CREAT))


def main() -> int:
    """Run until the episode ends or a signal arrives."""
    replay = os.environ.get("COGAME_LOAD_REPLAY_URI")
    config: dict[str, Any] = {}
    if not replay:
        with open(place_of(os.environ["COGAME_CONFIG_URI"]), "rb") as file:  # noqa: PTH123
            config = json.load(file)
    game = Game(config)
    if game.is_("exits-7-before-healthy"):
        print("no, thank you", file=sys.stderr, flush=True)
        return 7
    signal.signal(signal.SIGTERM, leave)
    if game.is_("never-listens"):
        print(NOTHING_MORE, flush=True)
        for_ever()
    print(f"misfits: {game.behaviour}", flush=True)
    if game.is_("fixed-port"):
        game.serve("127.0.0.1", 0)
        print(NOTHING_MORE, flush=True)
        for_ever()
    game.serve(os.environ.get("COGAME_HOST", "0.0.0.0"), int(os.environ.get("COGAME_PORT", "8080")))
    try:
        if replay:
            for_ever()
        return game.play()
    finally:
        game.close()


if __name__ == "__main__":
    sys.exit(main())
