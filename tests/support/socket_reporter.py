"""A reporter that serves the socket `/reporter`, with nothing but Python: it runs in any image.

Its first argument says what it does wrong, if anything: `crashes`, `hangs`, or `writes-nothing`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

WRONG = sys.argv[1] if len(sys.argv) > 1 else ""
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def can_write(path: Path) -> bool:
    try:
        path.write_text("")
    except OSError:
        return False
    return True


class Reporter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path != "/reporter":
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        key = self.headers["Sec-WebSocket-Key"].encode()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade")):
            self.send_header(name, value)
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode())
        self.end_headers()
        self.converse()
        self.close_connection = True

    def converse(self) -> None:
        self.say(type="reporter_ready", protocol_version="coworld-reporter/v1")
        request = self.hear()
        about = {"request_id": request["request_id"]}
        episodes = request["episodes"]
        self.say(type="report_started", episode_count=len(episodes), **about)
        self.say(type="report_progress", stage="reading", completed=1, total=len(episodes), **about)
        if WRONG == "crashes":
            os._exit(3)
        if WRONG == "hangs":
            time.sleep(600)
        results = path_of(episodes[0]["artifacts"]["results"]["uri"])
        ticks = json.loads(results.read_text())["ticks"]
        if WRONG != "writes-nothing":
            with zipfile.ZipFile(path_of(request["report_uri"]), "w") as report:
                report.writestr("manifest.json", json.dumps({"reporter_id": "socket", "trace": "seen.json"}))
                report.writestr("seen.json", json.dumps({"ticks": ticks, "inputs_writable": can_write(results)}))
        self.say(type="report_finished", report_uri=request["report_uri"], episode_count=1, players=2, **about)

    def say(self, **message: Any) -> None:
        data = json.dumps(message).encode()
        head = bytes([0x81, len(data)]) if len(data) < 126 else bytes([0x81, 126]) + len(data).to_bytes(2, "big")
        self.wfile.write(head + data)

    def hear(self) -> Any:
        length = self.rfile.read(2)[1] & 0x7F
        if length > 125:
            length = int.from_bytes(self.rfile.read(2 if length == 126 else 8), "big")
        mask = self.rfile.read(4)
        return json.loads(bytes(byte ^ mask[place % 4] for place, byte in enumerate(self.rfile.read(length))))


if __name__ == "__main__":
    ThreadingHTTPServer((os.environ["COGAME_HOST"], int(os.environ["COGAME_PORT"])), Reporter).serve_forever()
