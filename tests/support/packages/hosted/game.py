"""A game that runs its players itself, from files; each prints a number, which is its score.

`COGAME_VICE` selects a fault: with `half` the game writes half of its results and pauses before the rest; with
`silent` it does not pass on the players' logs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_KEY = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def file_of(variable: str) -> Path:
    return path_of(os.environ[variable])


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


class Handler(BaseHTTPRequestHandler):
    """Serves pages, and sends viewers one word."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path in ("/global", "/replay") and "Sec-WebSocket-Key" in self.headers:
            self.show()
            return
        found = path in ("/healthz", "/client/global", "/client/replay")
        if path == "/healthz":
            ready.set()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", "5" if found else "0")
        self.end_headers()
        self.wfile.write(b"fine\n" if found else b"")

    def show(self) -> None:
        key = self.headers["Sec-WebSocket-Key"] + _KEY
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        word = b'{"kind": "numbers"}'
        self.wfile.write(bytes([0x81, len(word)]) + word)
        self.close_connection = True
        while len(head := self.rfile.read(2)) == 2:
            kind, size = head[0] & 0xF, head[1] & 0x7F
            (size,) = struct.unpack("!H", self.rfile.read(2)) if size == 126 else (size,)
            mask = self.rfile.read(4)
            said = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self.rfile.read(size)))
            if kind in (8, 9):
                self.wfile.write(bytes([0x88 if kind == 8 else 0x8A, len(said)]) + said)
            if kind == 8:
                return


def play() -> None:
    vice = os.environ.get("COGAME_VICE")
    told = json.loads(file_of("COGAME_PLAYER_SEATS_URI").read_text())
    scores: list[float] = []
    seeds = json.loads(os.environ.get("COWORLD_PLAYER_SEEDS", "{}"))
    for seat in told["seats"]:
        ran = subprocess.run(
            [sys.executable, str(path_of(seat["file_uri"])), str(seat["slot"])],
            env={**os.environ, **({"COWORLD_PLAYER_SEED": str(seeds[seat["slot"]])} if seeds else {})},
            capture_output=True,
            check=False,
        )
        if vice != "silent":
            path_of(seat["log_uri"]).write_bytes(ran.stdout + ran.stderr)
        path_of(seat["artifact_uri"]).write_bytes(b"PK\x05\x06" + bytes(18))
        scores.append(float(ran.stdout or 0))
    players = [{"slot": slot, "state": "exited", "exit_code": 0} for slot in range(len(scores))]
    path_of(told["player_status_uri"]).write_text(json.dumps({"schema_version": "1", "players": players}))
    file_of("COGAME_SAVE_REPLAY_URI").write_text(json.dumps(scores))
    results = json.dumps({"scores": scores})
    if vice == "half":
        file_of("COGAME_RESULTS_URI").write_text(results[: len(results) // 2])
        time.sleep(1.5)
    file_of("COGAME_RESULTS_URI").write_text(results)


ready = threading.Event()
server = ThreadingHTTPServer((os.environ["COGAME_HOST"], int(os.environ["COGAME_PORT"])), Handler)
server.daemon_threads = True
if "COGAME_LOAD_REPLAY_URI" in os.environ:
    server.serve_forever()
threading.Thread(target=server.serve_forever, daemon=True).start()
# A game that ended before it was seen to be ready would have failed; after that, leave viewers a moment.
ready.wait()
time.sleep(0.7)
play()
