"""The quickest possible game: it ends once its players are connected, and uses little of the standard library.

It is for tests that play hundreds of episodes. A slot's score is its number plus the seed.
"""

# ruff: noqa: PTH123 - pathlib takes longer to import than the game to play

from __future__ import annotations

import _json
import binascii
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from hashlib import sha1
    from typing import Any
else:
    # The public modules import much more, such as enum, re and a library of ciphers.
    import _socket as socket
    from _sha1 import sha1

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
EXPECTED = {"/client/player", "/client/global", "/global", "a stranger"}
PATIENCE = 5.0
PAGE = b"<!doctype html><title>Quick</title><p id=quick>Quick</p><script src=quick.js></script>"
SCRIPT = b"""document.getElementById("quick").dataset.ready = "yes";
const socket = new WebSocket(location.href.replace(/^http/, "ws").replace("/client/", "/"));
socket.onmessage = (message) => { document.getElementById("quick").textContent = message.data; };
"""


def file_of(name: str) -> str:
    """The path of the file that an environment variable names."""
    return os.environ[name].removeprefix("file://")


class Reading:
    """Options for the JSON scanner."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int
    memo: dict[str, str] = {}  # noqa: RUF012 - there is one document


def read_config() -> dict[str, Any]:
    """Read the config."""
    with open(file_of("COGAME_CONFIG_URI")) as file:
        text = file.read()
    scanner: Any = _json.make_scanner
    return scanner(Reading)(text, text.index("{"))[0]


def answer(connection: socket.socket, status: str, body: bytes, kind: str = "text/html") -> None:
    """Send an HTTP answer and close the connection."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)
    connection.close()


def upgrade(connection: socket.socket, key: str) -> None:
    """Upgrade a connection to a websocket, and send the state."""
    accept = binascii.b2a_base64(sha1((key + MAGIC).encode()).digest(), newline=False).decode()
    head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += f"Sec-WebSocket-Accept: {accept}"
    text = b'{"type":"state","game":"quick"}'
    connection.sendall(head.encode() + b"\r\n\r\n" + bytes((0x81, len(text))) + text)


def is_over(all_there: bool, met: set[str], since: float, linger: float) -> bool:
    """Whether the game may end: the players have connected, and the runner has made its usual requests."""
    if not all_there:
        return False
    gone = time.monotonic() - since
    return gone >= linger and (met >= EXPECTED or gone >= linger + PATIENCE)


def main() -> None:
    """Serve until all players are connected; serve forever when showing a replay."""
    replay = "COGAME_LOAD_REPLAY_URI" in os.environ
    config: dict[str, Any] = {"tokens": []} if replay else read_config()
    tokens, seed = config["tokens"], config.get("seed", 0)
    server: Any = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((os.environ["COGAME_HOST"], int(os.environ["COGAME_PORT"])))
    server.listen(64)
    print("quick: ready", flush=True)
    players: dict[str, socket.socket] = {}
    viewers: list[socket.socket] = []
    met: set[str] = set()
    all_there = 0.0
    while replay or not is_over(len(players) == len(tokens), met, all_there, config.get("linger", 0)):
        if not select.select([server], [], [], None if replay or not all_there else 0.05)[0]:
            continue
        connection = socket.socket(fileno=server._accept()[0])
        connection.settimeout(30)
        head = b""
        try:
            while b"\r\n\r\n" not in head:
                piece = connection.recv(4096)
                if not piece:
                    break
                head += piece
            lines = head.decode("latin-1").split("\r\n")
            target = lines[0].split(" ")[1]
            headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
            path, _, query = target.partition("?")
            key = headers.get("sec-websocket-key", "")
            if path == "/healthz":
                answer(connection, "200 OK", b"ok")
            elif path.endswith("quick.js"):
                answer(connection, "200 OK", SCRIPT, "text/javascript")
            elif path in ("/client/player", "/client/global", "/client/replay"):
                met.add(path)
                answer(connection, "200 OK", PAGE)
            elif path in ("/global", "/replay") and key:
                met.add(path)
                upgrade(connection, key)
                viewers.append(connection)
            elif path == "/player" and key:
                given = dict(part.split("=", 1) for part in query.split("&") if "=" in part)
                slot, token = given.get("slot", ""), given.get("token", "")
                if slot.isdigit() and int(slot) < len(tokens) and tokens[int(slot)] == token:
                    upgrade(connection, key)
                    players[slot] = connection
                    if len(players) == len(tokens):
                        all_there = time.monotonic()
                else:
                    met.add("a stranger")
                    answer(connection, "403 Forbidden", b"no")
            else:
                answer(connection, "404 Not Found", b"nothing here")
        except (OSError, IndexError, ValueError):
            connection.close()
    with open(file_of("COGAME_SAVE_REPLAY_URI"), "w") as file:
        file.write(f"quick replay of seed {seed}\n")
    with open(file_of("COGAME_RESULTS_URI"), "w") as file:
        file.write(f'{{"scores": {[slot + seed for slot in range(len(tokens))]}, "steps": 1}}')
    for connection in (*players.values(), *viewers):
        connection.close()


if __name__ == "__main__":
    main()
