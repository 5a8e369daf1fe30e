"""A stand-in for a language model's server, in a thread of the test's process."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

__all__ = ["Chat", "chat_server"]


@dataclass
class Chat:
    """The server's address, and the requests that it received."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list[str | None])


@contextmanager
def chat_server(answer: Callable[[str], str]) -> Generator[Chat]:
    """Serve answers to `/v1/chat/completions`.

    Args:
        answer: Returns the answer to the user's last message; ``HTTP 503``, say, sends that status.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            chat.asked.append(asked)
            chat.keys.append(self.headers.get("Authorization"))
            said = answer(asked["messages"][-1]["content"])
            failed = said.startswith("HTTP ")
            body = {
                "choices": [{"message": {"role": "assistant", "content": said}}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10},
            }
            content = json.dumps(body).encode()
            self.send_response(int(said[5:]) if failed else 200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        chat = Chat(f"http://127.0.0.1:{server.server_address[1]}/v1")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield chat
        finally:
            server.shutdown()
            thread.join()
