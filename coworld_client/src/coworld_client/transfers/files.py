"""Download files from a platform: streamed, checked, resumable, and put in place only when complete.

A download is written to a hidden file beside its target. If the connection drops, it resumes from there, in the same
call or in a later one, as long as the server still has the same content. Then size and digest are checked, compressed
content is unpacked up to a limit, and the file is renamed. On any failure the target keeps its previous content.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.from_thread
import anyio.to_thread

from coworld_core.errors import CoworldError, unwrapped
from coworld_core.files.compression import Unpacker, detect_compression
from coworld_core.retries import Tries
from coworld_core.text.size_text import shown_size

from ..errors import ApiConnectionError, ApiError, ApiStatusError, ApiTimeoutError
from ..transport._bodies import body_pieces, whole_number
from ._parts import Part, open_part, storage
from ._write_behind import write_behind

if TYPE_CHECKING:
    from httpx2 import URL, Response

    from ..transport._connection import Connection, Params

__all__ = [
    "DEFAULT_LIMIT",
    "Downloaded",
    "OnProgress",
    "TransferRefused",
    "download",
    "each",
]

DEFAULT_LIMIT = 8 << 30
"""Default limit on the bytes of a download, both fetched and unpacked."""

OnProgress = Callable[[int, int | None], object]
"""Called with the bytes so far and the total, which is None while unknown."""

_T = TypeVar("_T")
_R = TypeVar("_R")

_CHUNK = 1 << 20
_TRIES = 5
"""Consecutive failures without any progress."""
_TIMEOUTS = 3
_FAR = 16 << 20
"""Bytes of progress after which the count of timeouts starts again."""
_MOST_TRIES = 200
"""Total attempts, so that a server that sends one byte at a time cannot hold a download forever."""
_SLOWEST = 128
"""Bytes per second, averaged over one timeout, below which a connection counts as stalled."""


class TransferRefused(ApiError):
    """The content is not as promised, or exceeds the limit. None of it is kept."""

    default_code = "transfer_refused"


@dataclass(frozen=True, kw_only=True)
class Downloaded:
    """A completed download."""

    path: Path
    size: int
    """Bytes of the file on disk, after unpacking."""
    received: int
    """Bytes that this call fetched over the wire."""
    resumed: bool
    """Whether the download continued from an earlier call."""
    media_type: str
    """Media type that the server sent, without parameters; empty if it sent none."""


async def download(
    connection: Connection,
    source: str | URL,
    target: Path,
    *,
    params: Params | None = None,
    headers: Mapping[str, str] | None = None,
    size: int | None = None,
    sha256: str | None = None,
    limit: int | None = None,
    unpack: bool = False,
    what: str = "download",
    timeout: float | None = None,
    on_progress: OnProgress | None = None,
) -> Downloaded:
    """Download a file.

    Args:
        connection: The platform. Its token is sent only to its own origin, even after a redirect.
        source: A path of the API, or an http or https URL it gave. Presigned URLs are fetched without a token.
        target: The file. An existing one is replaced once the new one is complete. Missing directories are created.
        params: Query parameters.
        headers: More headers.
        size: The expected number of bytes, if known.
        sha256: The expected hexadecimal digest, if known.
        limit: Maximum bytes, both fetched and unpacked; None means `DEFAULT_LIMIT`.
        unpack: Decompress zlib or gzip, detected from the first bytes. `size` and `sha256` apply before that.
        what: A noun for messages and codes, such as "replay".
        timeout: Seconds without data before the connection counts as lost; None means the client's timeout.
        on_progress: Called as the download advances.

    Returns:
        The completed download.

    Raises:
        ApiStatusError: The server refused.
        ApiConnectionError: The server cannot be reached, or the connection failed repeatedly. If the server supports
            it, the received part is kept and the next call resumes.
        TransferRefused: The file is too large, damaged, truncated, or does not match `size` or `sha256`.
        EnvironmentFault: The file cannot be stored.
    """
    most = DEFAULT_LIMIT if limit is None else limit
    url = connection.url(source)
    key = f"{_stable(str(url), own=not str(source).startswith(('http:', 'https:')))} {sorted((params or {}).items())}"
    fetch = _Fetch(
        connection=connection,
        url=url,
        target=target,
        params=params,
        headers=headers or {},
        size=size,
        sha256=sha256.lower().removeprefix("sha256:") if sha256 else None,
        limit=most,
        what=what,
        timeout=connection.timeout if timeout is None else timeout,
        on_progress=on_progress,
    )
    with open_part(target, key) as part:
        found = part.size > 0
        try:
            await fetch.run(part)
            whole = await anyio.to_thread.run_sync(fetch.finish, part, unpack)
        except TransferRefused:
            part.validator = ""
            raise
        except ApiStatusError as error:
            if error.status in (404, 410):
                part.validator = ""
            raise
    return Downloaded(
        path=target,
        size=whole,
        received=fetch.received,
        resumed=found and not fetch.restarted,
        media_type=fetch.media_type,
    )


def _stable(url: str, *, own: bool) -> str:
    """Return a URL without its query and fragment unless it is our own: presigned URLs differ each time."""
    parts = urlsplit(url)
    return url if own else urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


@dataclass(kw_only=True)
class _Fetch:
    connection: Connection
    url: URL
    target: Path
    params: Params | None
    headers: Mapping[str, str]
    size: int | None
    sha256: str | None
    limit: int
    what: str
    timeout: float
    on_progress: OnProgress | None
    encoding: str = ""
    started: bool = False
    received: int = 0
    restarted: bool = False
    media_type: str = ""

    # --- fetching

    async def run(self, part: Part) -> None:
        tries = Tries(self.connection.backoff, most=_TRIES + 1)
        timeouts, far = 0, part.size
        for _ in range(_MOST_TRIES):
            at = part.size
            self.started = False
            try:
                if await self._attempt(part):
                    return
            except ApiConnectionError as error:
                if part.size > at and part.validator:
                    tries.got_further()
                pause = tries.again()
                if part.size - far > _FAR:
                    timeouts, far = 0, part.size
                timeouts += isinstance(error, ApiTimeoutError)
                # Opening a connection has retries of its own
                if pause is None or timeouts >= _TIMEOUTS or not (self.started or self.received):
                    raise self._broken(error, part) from error
                if not part.validator:
                    # Without a validator, the rest may belong to other content
                    self._restart(part)
                await anyio.sleep(pause)
        raise self._refused("breaks off again and again", "broken")

    async def _attempt(self, part: Part) -> bool:
        """Make one request and return whether the download is complete."""
        headers = {**self.headers, "Accept": "*/*", "Accept-Encoding": "identity"}
        if part.size:
            headers |= {"Range": f"bytes={part.size}-", "If-Range": part.validator}
        try:
            async with self.connection.open(
                "GET", self.url, params=self.params, headers=headers, timeout=self.timeout, elsewhere=True
            ) as response:
                self._begin(part, response)
                return await self._receive(part, response)
        except ApiStatusError as error:
            if error.status != 416 or not part.size:
                raise
            # Nothing follows the received part: it is complete, or belongs to other content
            if part.size in (self.size, part.total):
                return True
            self._restart(part)
            return False

    def _begin(self, part: Part, response: Response) -> None:
        self.started = True
        head = response.headers
        self.encoding = head.get("content-encoding", "").strip().lower().replace("identity", "")
        self.media_type = head.get("content-type", "").split(";")[0].strip().lower()
        length = whole_number(head.get("content-length"))
        if response.status_code == 206:
            match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", head.get("content-range", "").strip())
            if match is None or int(match[1]) != part.size:
                self._restart(part)
                raise self._refused("was answered with a different range than requested", "range")
            total = whole_number(match[3])
        else:
            if part.size:
                self._restart(part)
            total = length
        part.note(_validator(head), total)
        self._check_size(total)

    def _restart(self, part: Part) -> None:
        self.restarted = True
        with storage(self.target):
            part.restart()

    def _check_size(self, size: int | None) -> None:
        if size is None:
            return
        if size > self.limit:
            raise self._too_large()
        if self.size is not None and size != self.size and not self.encoding:
            raise self._refused(f"has {size} bytes, and should have {self.size}", "size")

    async def _receive(self, part: Part, response: Response) -> bool:
        arrived = part.size
        window, inside = anyio.current_time(), 0

        async def store(pieces: list[bytes]) -> None:
            await self._store(part, pieces)

        async with write_behind(store) as behind, body_pieces(response) as body:
            async for piece in body:
                arrived += len(piece)
                inside += len(piece)
                if arrived > self.limit:
                    raise self._too_large()
                await behind.put(piece)
                if inside >= _SLOWEST * self.timeout:
                    window, inside = anyio.current_time(), 0
                elif anyio.current_time() - window > self.timeout:
                    raise ApiTimeoutError(
                        f"The {self.what} arrives at less than {_SLOWEST} bytes a second.",
                        code="transfer_stalled",
                        hint="Try again later; the received part is kept if the server can resume from it.",
                    )
        if part.total is not None and part.size < part.total:
            raise ApiConnectionError(
                f"The connection ended after {part.size} of {part.total} bytes of the {self.what}.",
                code="transfer_truncated",
            )
        return True

    async def _store(self, part: Part, pieces: list[bytes]) -> None:
        size = sum(map(len, pieces))
        with storage(self.target):
            await anyio.to_thread.run_sync(part.write, pieces)
        part.size += size
        self.received += size
        if self.on_progress is not None:
            self.on_progress(part.size, part.total if part.total is not None else self.size)

    # --- finishing, in a worker thread

    def finish(self, part: Part, unpack: bool) -> int:
        """Check, unpack and rename the file; return its size."""
        made: list[Path] = []
        try:
            with storage(self.target):
                final = part.path
                if self.encoding:
                    final = self._decoded(final, made)
                self._check(final)
                if unpack:
                    name = urlsplit(str(self.url)).path.rpartition("/")[2]
                    final = self._unpacked(final, name, made)
                size = final.stat().st_size
                # A partial file is private to its owner; the finished one gets the usual permissions
                final.chmod(0o666 & ~_umask())
                final.replace(self.target)
                part.finished = final == part.path
        finally:
            for path in made:
                path.unlink(missing_ok=True)
        # The compressed part is no longer needed
        part.validator = ""
        return size

    def _check(self, final: Path) -> None:
        size = final.stat().st_size
        if self.size is not None and size != self.size:
            raise self._refused(f"has {size} bytes, and should have {self.size}", "size")
        if self.sha256 is None:
            return
        hashed = hashlib.sha256()
        with final.open("rb") as file:
            while piece := file.read(_CHUNK):
                anyio.from_thread.check_cancelled()
                hashed.update(piece)
        if (digest := hashed.hexdigest()) != self.sha256:
            raise self._refused(f"has the digest {digest}, and should have {self.sha256}", "digest")

    def _decoded(self, path: Path, made: list[Path]) -> Path:
        if self.encoding not in {"gzip", "x-gzip", "deflate"}:
            raise self._refused(f"has the encoding {self.encoding[:40]!r}, which was not requested", "encoding")
        # Some servers announce an encoding for files stored compressed, and some for files that are not
        return self._unpacked(path, ".z", made)

    def _unpacked(self, path: Path, name: str, made: list[Path]) -> Path:
        with path.open("rb") as packed:
            compression = detect_compression(packed, name=name)
            if compression == "none":
                return path
            packed.seek(0)
            plain = path.with_name(f"{path.name}.plain")
            made.append(plain)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            unpacker = Unpacker(
                compression, limit=self.limit, what=self.what, source=self._shown(), error=TransferRefused
            )
            with os.fdopen(os.open(plain, flags, 0o600), "wb") as sink:
                unpacker.run(packed.read, sink.write, pause=anyio.from_thread.check_cancelled)
        return plain

    # --- errors

    def _shown(self) -> str:
        from coworld_core.text.urls import shown_url

        return shown_url(str(self.url), query=True)

    def _refused(self, why: str, code: str) -> TransferRefused:
        return TransferRefused(
            f"The {self.what} {self._shown()} {why}.",
            code=f"{self.what}_{code}",
            hint="Try again; if it persists, tell whoever runs the server.",
            context={"url": self._shown(), "target": str(self.target)},
        )

    def _too_large(self) -> TransferRefused:
        return TransferRefused(
            f"The {self.what} {self._shown()} is larger than the limit of {shown_size(self.limit)}.",
            code=f"{self.what}_too_large",
            hint="Raise the limit if you trust the source.",
            context={"url": self._shown(), "limit": self.limit},
        )

    def _broken(self, error: ApiConnectionError, part: Part) -> ApiConnectionError:
        kind = ApiTimeoutError if isinstance(error, ApiTimeoutError) else ApiConnectionError
        kept = f"; {shown_size(part.size)} are kept, and the next call resumes from there" if part.resumable else ""
        return kind(
            error.message,
            code=error.code,
            hint=f"Check your connection and try again{kept}.",
            context={**error.context, "target": str(self.target), "received": part.size},
        )


def _validator(head: Mapping[str, str]) -> str:
    """Return a validator strong enough to resume with; empty if there is none."""
    if head.get("accept-ranges", "").strip().lower() == "none":
        return ""
    etag = head.get("etag", "").strip()
    if etag and not etag.startswith("W/"):
        return etag if len(etag) < 1024 and etag.isprintable() else ""
    modified = head.get("last-modified", "").strip()
    # Last-Modified has a resolution of one second, so it is unambiguous only if it differs from Date
    return modified if modified and modified != head.get("date", "").strip() and len(modified) < 64 else ""


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


async def each(
    items: Iterable[_T], work: Callable[[_T], Awaitable[_R]], *, concurrency: int = 8
) -> tuple[_R | CoworldError, ...]:
    """Run a function for each item, several at a time; a failure does not affect the other items.

    Args:
        items: The items, consumed one by one.
        work: The function to await for each item.
        concurrency: Number of items at a time.

    Returns:
        For each item, in order, its result or its `CoworldError`. Other exceptions are raised.
    """
    results: dict[int, _R | CoworldError] = {}
    remaining = enumerate(items)

    async def worker() -> None:
        for number, item in remaining:
            try:
                results[number] = await work(item)
            except CoworldError as error:
                results[number] = error

    with unwrapped():
        async with anyio.create_task_group() as group:
            for _ in range(max(1, concurrency)):
                group.start_soon(worker)
    return tuple(results[number] for number in sorted(results))
