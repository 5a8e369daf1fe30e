"""A platform with answers chosen by the test, on a real socket, for answers that a real platform would never give."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from .observatory import Observatory

__all__ = ["Answer", "Asked", "Platform", "observatory", "platform"]


@dataclass(frozen=True)
class Asked:
    """A received request."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    body: Any = None
    """Bytes are sent unchanged, an iterator of bytes is streamed (``headers`` must have ``Content-Length``), and any
    other value is sent as JSON."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Says = Callable[[Asked], Any]


class Platform:
    """Answers by method and path; any other request gets 404."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._says: dict[tuple[str, str], Says] = {}
        self.server = ""

    def on(self, method: str, path: str, says: Any) -> None:
        """Set the answer to a call: a value, an ``Answer``, or a function that returns one for a request."""
        self._says[method, path] = says if callable(says) else lambda _: says

    def answer(self, asked: Asked) -> Answer:
        """Record a request and return its answer."""
        self.asked.append(asked)
        says = self._says.get((asked.method, asked.path.removeprefix("/observatory")))
        said = says(asked) if says is not None else Answer({"detail": "Not Found"}, 404)
        return said if isinstance(said, Answer) else Answer(said)

    def calls(self, method: str, path: str) -> list[Asked]:
        """The received requests with a method and path."""
        return [asked for asked in self.asked if (asked.method, asked.path) == (method, f"/observatory{path}")]


@contextmanager
def platform() -> Generator[Platform]:
    """Serve a platform while the context is open."""
    told = Platform()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, parts.path, parse_qs(parts.query), headers, self.rfile.read(size))
            answer = told.answer(asked)
            body: Iterable[bytes]
            if isinstance(answer.body, Iterator):
                body = cast("Iterator[bytes]", answer.body)
            else:
                whole = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                body = [whole]
            self.send_response(answer.status)
            if isinstance(body, list):
                self.send_header("Content-Length", str(len(body[0])))
            if "content-type" not in {name.lower() for name in answer.headers}:
                self.send_header("Content-Type", "application/json")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            # The client may have disconnected.
            with suppress(BrokenPipeError, ConnectionResetError):
                for piece in body:
                    self.wfile.write(piece)
                    self.wfile.flush()

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 (names that the base class looks for)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    told.server = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def observatory(directory: Path, **options: Any) -> Generator[tuple[Observatory, Callable[[str], str]]]:
    """Run an Observatory for synchronous tests; yields it and a function that creates accounts and returns tokens."""
    from anyio.from_thread import start_blocking_portal

    from .observatory import running_observatory

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_observatory(directory, **options)) as served,
    ):
        yield served, lambda name: portal.call(served.add_user, name)
