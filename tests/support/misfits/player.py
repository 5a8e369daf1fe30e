"""A player that misbehaves as its first argument says, and behaves well without one.

`BEHAVIOURS` in this file lists the behaviours. The well-behaved player is as simple as most: it ends with status 0
when the game sends `final` or closes the connection cleanly, and with a traceback when the connection breaks.

It uses only the standard library and starts quickly, because tests start hundreds of players, as local processes and
in containers.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Functions import these where needed: they take as long to import as the interpreter to start.
    from pathlib import Path
    from typing import BinaryIO

BEHAVIOURS = {
    "well": "plays to the end",
    "exits-3": "ends with status 3 at once",
    "exits-3-midway": "ends with status 3 after some states",
    "exits-0": "ends with status 0 after ARG seconds, without a word to the game",
    "says-nothing": "opens a connection to the game, says nothing for a second, and ends with status 0",
    "never-shakes-hands": "opens a connection to the game, and waits for ever",
    "exits-0-midway": "ends with status 0 after some states",
    "exits-9-after": "ends with status 9 once the game is over",
    "never-connects": "waits for ever",
    "hangs-after": "waits for ever once the game is over",
    "ignores-term": "waits for ever once the game is over, and ignores TERM",
    "forks-away": "forks ARG processes that sleep, each in a session of its own, then plays on",
    "steals": "looks for the tokens of others and says what it found, then plays on",
    "tells": "prints its environment, then plays on",
    "artifact": "leaves a good artifact of ARG bytes",
    "artifact-link": "leaves a link to /etc/passwd for an artifact",
}


def artifact() -> Path:
    """The path for the artifact."""
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(os.environ["COWORLD_PLAYER_ARTIFACT_UPLOAD_URL"]).path))


CONTINUATION, CLOSE, PING, PONG = 0, 8, 9, 10
NORMAL = struct.pack(">H", 1000)
GOOD_ENDS = (1000, 1001)


def game_url() -> tuple[str, str]:
    """The host and port of the game, and the request target."""
    url = os.environ.get("COWORLD_PLAYER_WS_URL") or os.environ["COGAMES_ENGINE_WS_URL"]
    place, _, target = url.partition("://")[2].partition("/")
    return place, f"/{target}"


def connected(place: str) -> socket.socket:
    """Connect to a host and port."""
    host, _, port = place.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)))


def play(until: int | None = None) -> None:
    """Play to the end, or until `until` messages have been received."""
    place, target = game_url()
    with connected(place) as game, game.makefile("rb") as stream:
        game.settimeout(10)
        upgrade(game, stream, place, target)
        game.settimeout(None)
        count = 0
        while True:
            kind, payload = receive(stream)
            if kind == PING:
                send(game, PONG, payload)
            elif kind == CLOSE:
                send(game, CLOSE, payload[:2])
                if int.from_bytes(payload[:2], "big") not in GOOD_ENDS:
                    raise ConnectionError(f"the game closed the connection with {payload!r}")
                return
            elif kind != PONG:
                count += 1
                if payload.startswith(b'{"type": "final"') or count == until:
                    goodbye(game, stream)
                    return


def upgrade(game: socket.socket, stream: BinaryIO, host: str, target: str) -> None:
    """Upgrade a connection to a websocket."""
    key = binascii.b2a_base64(os.urandom(16), newline=False).decode()
    head = (f"GET {target} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade")
    lines = (*head, f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", "")
    game.sendall("\r\n".join(lines).encode())
    status = stream.readline()
    if b" 101 " not in status:
        raise ConnectionError(f"the game did not let us in: {status!r}")
    while stream.readline().strip():
        pass


def receive(stream: BinaryIO) -> tuple[int, bytes]:
    """Receive the next frame: its opcode and payload. Fragmented messages are not supported."""
    first, length = exactly(stream, 2)
    if not first & 0x80 or first & 0x0F == CONTINUATION:
        raise ConnectionError("a message in pieces")
    if length in (126, 127):
        length = int.from_bytes(exactly(stream, 2 if length == 126 else 8), "big")
    return first & 0x0F, exactly(stream, length)


def exactly(stream: BinaryIO, count: int) -> bytes:
    """Read exactly `count` bytes."""
    data = stream.read(count)
    if len(data) < count:
        raise ConnectionError("the connection broke")
    return data


def send(game: socket.socket, kind: int, payload: bytes) -> None:
    """Send a short frame with a mask of zeros."""
    game.sendall(bytes((0x80 | kind, 0x80 | len(payload), 0, 0, 0, 0)) + payload)


def goodbye(game: socket.socket, stream: BinaryIO) -> None:
    """Close the connection cleanly, without insisting on an answer."""
    with contextlib.suppress(OSError):
        send(game, CLOSE, NORMAL)
        game.settimeout(1)
        while receive(stream)[0] != CLOSE:
            pass


def for_ever() -> None:
    """Do nothing any more; signals are still handled."""
    while True:
        signal.pause()


def fork_away(count: int) -> None:
    """Fork processes that sleep for 10 minutes, each in a session of its own."""
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            with contextlib.suppress(BaseException):
                time.sleep(600)
            os._exit(0)


def steal() -> None:
    """Search all places where another player's token might be, and print anything that looks like one."""
    from pathlib import Path

    mine = os.environ["COWORLD_PLAYER_WS_URL"]
    places = [Path("/coworld"), Path("/coworld-artifact"), artifact().parent, artifact().parent.parent, Path("/proc")]
    patterns = ("*.json", "*/*.json", "*/environ", "*/cmdline")
    for place in places:
        for path in (path for pattern in patterns for path in place.glob(pattern)):
            try:
                data = path.read_bytes()
            except OSError:
                continue
            for word in data.replace(b"\0", b"\n").split(b"\n"):
                text = word.decode(errors="replace")
                if ("token" in text and mine not in text and "--" not in text) or '"tokens"' in text:
                    print(f"STOLEN {path}: {text[:200]}", flush=True)
    with contextlib.suppress(OSError):
        Path("/coworld/results.json").write_text("mine")
        print("WRITTEN", flush=True)
    print("LOOKED", flush=True)


def zipped(size: int) -> bytes:
    """A valid zip with one file of `size` bytes."""
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("notes.txt", b"x" * size)
    return buffer.getvalue()


def main(behaviour: str = "well", *arguments: str) -> int:
    """Run a behaviour, and return the exit status."""
    number = int(arguments[0]) if arguments else 0
    if behaviour not in BEHAVIOURS:
        raise SystemExit(f"unknown behaviour {behaviour!r}")
    print(f"player: {behaviour}", flush=True)
    match behaviour:
        case "exits-3":
            print("I will not play", file=sys.stderr, flush=True)
            return 3
        case "exits-0":
            time.sleep(number)
            return 0
        case "says-nothing":
            with connected(game_url()[0]):
                time.sleep(1)
            return 0
        case "never-connects":
            for_ever()
        case "never-shakes-hands":
            with connected(game_url()[0]):
                for_ever()
        case "exits-3-midway":
            play(until=2)
            return 3
        case "exits-0-midway":
            play(until=2)
            return 0
        case "forks-away":
            fork_away(number)
        case "steals":
            steal()
        case "tells":
            for name, value in sorted(os.environ.items()):
                print(f"{name}={value}", flush=True)
        case "artifact":
            artifact().write_bytes(zipped(number))
        case "artifact-link":
            artifact().symlink_to("/etc/passwd")
        case _:
            pass
    play()
    match behaviour:
        case "exits-9-after":
            return 9
        case "hangs-after":
            print("and now nothing more", flush=True)
            for_ever()
        case "ignores-term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("and now nothing more", flush=True)
            for_ever()
        case _:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
