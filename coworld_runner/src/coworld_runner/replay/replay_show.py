"""Shows the replays of a directory one after the other, on one page: for the screen of a hall."""

from __future__ import annotations

import http
import json
import os
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from coworld_core.errors import CoworldError, UsageError

from ..runs.workspace import replays_of
from ..web.http_server import address_of, content_response, listen, open_server, page_response
from ..web.page_documents import document
from .replay_session import ReplayOptions
from .shown_replay import replay_page

__all__ = ["ReplayShow", "open_show", "shown_replays"]

_POLICY: Final = "sandbox allow-scripts; frame-ancestors 'self'"
"""Beside the policy in each page; it keeps the pages apart from the one that shows them."""
_MOST: Final = 10_000
"""Replays of a directory that are looked at."""
_KEPT: Final = 4
"""Pages that are kept."""


@dataclass(frozen=True, kw_only=True)
class ReplayShow:
    """A show that goes on until its block ends."""

    link: str
    """The page to open."""
    count: int
    """How many replays there are at the beginning."""


class _Entry(NamedTuple):
    """A replay, in the order of the show: the oldest first."""

    changed: int
    name: str
    path: Path


def shown_replays(directory: Path, *, loose: bool = False) -> list[_Entry]:
    """Find the replays of a directory: of episodes in it, up to two directories below. Blocks.

    Args:
        directory: The directory.
        loose: Whether other files in it are replays, too, such as those that were downloaded.
    """
    places = [place for depth in ("*/", "*/*/") for place in directory.glob(depth) if not place.is_symlink()]
    # Of a run of many, `replays_of` finds those of its episodes
    found = {path for place in (directory, *places[:_MOST]) for path in replays_of(place)}
    if loose:
        found |= {path for path in directory.glob("*") if path.suffix != ".json" and path.is_file()}
    entries: list[_Entry] = []
    for path in sorted(found)[:_MOST]:
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            continue
        entries.append(_Entry(changed, os.fspath(path.relative_to(directory)), path))
    return sorted(entries)


class _Show:
    """Makes the page of each replay when it is its turn.

    Args:
        directory: The directory.
        package: The game; empty: each episode says which game played it.
        backend: Where games run.
        options: How games are started.
        tell: Told the name of a replay that cannot be shown, and why.
    """

    def __init__(
        self,
        directory: Path,
        package: str,
        backend: str,
        options: ReplayOptions | None,
        tell: Callable[[str, str], None],
    ) -> None:
        self.directory = directory
        self.package = package
        self._backend = backend
        self._options = options
        self._tell = tell
        self._pages: dict[str, str] = {}
        self._bad: set[tuple[int, str]] = set()
        """Those that cannot be shown, as long as they do not change."""
        self._making = anyio.Lock()

    def entries(self) -> list[_Entry]:
        """The replays that there are now. Blocks."""
        return shown_replays(self.directory, loose=bool(self.package))

    def page(self, number: str) -> str | None:
        """A page that was made."""
        return self._pages.get(number)

    async def after(self, name: str) -> dict[str, object] | None:
        """Make the page of the first replay after one, or of the first of all; None if none can be shown."""
        async with self._making:
            entries = await anyio.to_thread.run_sync(self.entries)
            at = next((place + 1 for place, entry in enumerate(entries) if entry.name == name), 0)
            for entry in [*entries[at:], *entries[:at]]:
                if entry[:2] not in self._bad and (number := await self._make(entry)):
                    shown = entries.index(entry) + 1
                    return {"name": entry.name, "page": f"page/{number}", "number": shown, "count": len(entries)}
            return None

    async def _make(self, entry: _Entry) -> str:
        place = entry.path.parent if entry.path.name == "replay" else entry.path
        try:
            if self.package:
                page = await replay_page(self.package, entry.path, backend=self._backend, options=self._options)
            else:
                page = await replay_page(place, backend=self._backend, options=self._options)
        except CoworldError as error:
            self._bad.add(entry[:2])
            self._tell(entry.name, error.message)
            return ""
        number = secrets.token_urlsafe(8)
        self._pages[number] = page.html
        while len(self._pages) > _KEPT:
            del self._pages[next(iter(self._pages))]
        return number


@asynccontextmanager
async def open_show(
    directory: str | os.PathLike[str],
    package: str = "",
    *,
    backend: str = "auto",
    options: ReplayOptions | None = None,
    port: int = 0,
    tell: Callable[[str, str], None] = lambda name, why: None,
) -> AsyncGenerator[ReplayShow]:
    """Serve a page on the loopback interface that shows the replays of a directory one after the other, and again.

    Replays that arrive take part, and those that cannot be shown are left out. Each is a page of its own
    (`replay_page`), kept apart from the others in a sandbox.

    Args:
        directory: A directory with workspaces of episodes or of runs, such as the results of a package.
        package: The game, as `open_replay` reads it. Empty: that of each episode's record; then only episodes count,
            and no files beside them.
        backend: The name of the backend on which games run.
        options: How games are started.
        port: The port to listen on; 0: any free one.
        tell: Told the name of a replay that cannot be shown, and why.

    Raises:
        UsageError: It is no directory, or the port is taken.
    """
    place = Path(directory)
    if not await anyio.Path(place).is_dir():
        raise UsageError(f"{place} is not a directory.", code="bad_path", hint="Name one that holds replays.")
    show = _Show(place, package, backend, options, tell)
    text = {
        name: (files("coworld_runner.replay") / f"show.{name}").read_text("utf-8") for name in ("html", "css", "js")
    }
    page = document(text["html"], style=text["css"], script=text["js"], frames="'self'")
    with listen("127.0.0.1", port) as listener:
        port = listener.getsockname()[1]
        names = {f"{host}:{port}" for host in ("127.0.0.1", "localhost")}

        async def route(connection: ServerConnection, request: Request) -> Response | None:
            url = address_of(request)
            # Refuse foreign pages that reach this machine under a name of their own (DNS rebinding)
            if request.headers.get("Host") not in names:
                return connection.respond(http.HTTPStatus.FORBIDDEN, "not by that name\n")
            if url.path == "/":
                return page_response(page)
            if url.path == "/next":
                found = await show.after(parse_qs(url.query).get("after", [""])[0])
                return content_response(json.dumps(found).encode(), kind="application/json", policy=_POLICY)
            made = show.page(url.path.removeprefix("/page/"))
            if made is None:
                return connection.respond(http.HTTPStatus.NOT_FOUND, "there is none\n")
            return content_response(made.encode(), kind="text/html; charset=utf-8", policy=_POLICY)

        async def refuse(connection: ServerConnection) -> None:
            await connection.close()

        count = len(await anyio.to_thread.run_sync(show.entries))
        async with open_server(refuse, route, listener):
            yield ReplayShow(link=f"http://127.0.0.1:{port}/", count=count)
