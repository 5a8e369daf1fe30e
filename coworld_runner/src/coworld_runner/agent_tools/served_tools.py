"""Serving the tools: over standard input and output, or by HTTP on this machine to whoever has the token."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio

from coworld_core.lazy import load_library

from ..errors import unwrapped
from ..runs.scratch import open_scratch
from ..web.http_server import listen
from .folder_limit import FolderLimit

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["HttpTools", "open_http_tools", "open_tools", "serve_tools"]

INSTALL: Final = "pip install 'coworld-runner[mcp]'"
_HOST: Final = "127.0.0.1"


@asynccontextmanager
async def open_tools(
    root: str | os.PathLike[str], *, pages: Mapping[str, str] | None = None, allow: bool = False
) -> AsyncGenerator[MCPServer[Any]]:
    """Open a server whose tools work in a folder.

    Args:
        root: The folder. Nothing else is read or written for its user, but games and players of the folder that are
            played are programs, and may do what any program of yours may.
        pages: The documentation: Markdown by name.
        allow: Whether there are tools that remove something, too.

    Raises:
        UsageError: There is no such folder (`no_such_place`).
        EnvironmentFault: The library `mcp` is not installed (`not_installed`).
    """
    load_library("mcp", INSTALL)
    from .folder_tools import FolderTools

    limit = FolderLimit(root)
    async with open_scratch() as scratch:
        # The user's own index knows runs of other folders
        yield FolderTools(limit, index=scratch.path / "runs.sqlite3", pages=pages or {}).server(allow=allow)


async def serve_tools(
    root: str | os.PathLike[str], *, pages: Mapping[str, str] | None = None, allow: bool = False
) -> None:
    """Serve the tools of `open_tools` over standard input and output, until the input ends."""
    with unwrapped():
        async with open_tools(root, pages=pages, allow=allow) as server:
            await server.run_stdio_async()


@dataclass(frozen=True, kw_only=True)
class HttpTools:
    """A server of tools on this machine.

    Attributes:
        address: Its address.
        token: What a request must bring, as `Authorization: Bearer TOKEN`.
    """

    address: str
    token: str


@asynccontextmanager
async def open_http_tools(
    root: str | os.PathLike[str], *, port: int = 0, pages: Mapping[str, str] | None = None, allow: bool = False
) -> AsyncGenerator[HttpTools]:
    """Serve the tools of `open_tools` by HTTP until the block ends, on this machine only.

    A request needs a token, made anew each time, and this server's own name in `Host`. One with an `Origin` is refused:
    it comes from a page in a browser.

    Args:
        root: The folder.
        port: The port; 0: any.
        pages: The documentation: Markdown by name.
        allow: Whether there are tools that remove something, too.

    Raises:
        UsageError: There is no such folder, or the port is taken (`port_taken`).
        EnvironmentFault: The library `mcp` is not installed (`not_installed`).
    """
    async with open_tools(root, pages=pages, allow=allow) as server:
        import uvicorn
        from mcp.server.transport_security import TransportSecuritySettings

        class Server(uvicorn.Server):
            @contextmanager
            def capture_signals(self) -> Generator[None]:
                """Leave signals to whoever runs us."""
                yield

        with listen(_HOST, port) as listener:
            port = listener.getsockname()[1]
            token = secrets.token_urlsafe(32)
            security = TransportSecuritySettings(allowed_hosts=[f"{_HOST}:{port}", f"localhost:{port}"])
            app = _with_token(server.streamable_http_app(host=_HOST, transport_security=security), token)
            config = uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1)
            async with anyio.create_task_group() as tasks:
                serving = Server(config)
                tasks.start_soon(serving.serve, [listener])
                try:
                    yield HttpTools(address=f"http://{_HOST}:{port}/mcp", token=token)
                finally:
                    serving.should_exit = True


def _with_token(app: Any, token: str) -> Any:
    """An ASGI application that lets in only who brings the token."""
    right = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers: dict[bytes, bytes] = dict(scope.get("headers") or ())
        given = headers.get(b"authorization", b"")
        if scope["type"] == "lifespan" or hmac.compare_digest(given, right):
            await app(scope, receive, send)
            return
        about = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": about})
        await send({"type": "http.response.body", "body": b"The token is missing or wrong."})

    return guarded
