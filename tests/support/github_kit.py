"""A small GitHub on this machine: its contents API over a few repositories, on a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["FILES", "SHA", "GitHub", "serving"]

SHA = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "me/game": {
        "": [
            ("Dockerfile.dockerignore", "file"),
            ("README.md", "file"),
            ("src", "dir"),
            ("docker", "dir"),
            ("empty", "dir"),
        ],
        "src": [("server.py", "file"), ("Dockerfile.game", "file"), ("deep", "dir")],
        "src/deep": [("er", "dir")],
        "src/deep/er": [("a file.py", "file")],
        "src/deep/er/a file.py": 120,
        "src/deep/er/nothing.py": 0,
        "docker": [("Dockerfile", "dir")],
        "empty": [],
    },
    "me/rooted": {"": [("Dockerfile", "file"), ("app", "dir")], "app": [("x.py", "file")]},
}


class GitHub:
    """The contents API over ``FILES``; ``fail`` may return another answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        self.fail: Callable[[str, int], tuple[int, dict[str, str], bytes] | None] = lambda path, nth: None
        self.lock = threading.Lock()
        self.url = ""

    def answer(self, target: str, token: str | None) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        with self.lock:
            self.asked.append(target)
            self.tokens.append(token)
            nth = sum(other == target for other in self.asked)
        failure = self.fail(target, nth)
        if failure is not None:
            return failure
        _, _, owner, repo, _, *rest = unquote(parts.path).split("/")
        found: Any = FILES.get(f"{owner}/{repo}", {}).get("/".join(rest).strip("/"))
        if found is None or parse_qs(parts.query)["ref"] != [SHA]:
            return 404, {}, b'{"message": "Not Found"}'
        if isinstance(found, int):
            return 200, {}, json.dumps({"type": "file", "size": found}).encode()
        return 200, {}, json.dumps([{"name": name, "type": kind} for name, kind in found]).encode()


@contextmanager
def serving(github: GitHub) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = github.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
