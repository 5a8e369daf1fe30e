"""Downloads and uploads of a worker: http(s) and file addresses, bare paths, and `data:` for reading.

Files are streamed. Transient failures are retried until time is up: a refused or broken connection, a timeout, a name
that does not resolve yet, and the statuses by which a server says "later". A pod that has just started often sees all
of these for a while.
"""

from __future__ import annotations

import io
import logging
import math
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import unquote_to_bytes

import anyio
import anyio.to_thread

from coworld_core.errors import RemoteError, TransferCode, TransferError, UsageError
from coworld_core.files.atomic import write_whole
from coworld_core.retries import Backoff, Tries, retry_after, says_later
from coworld_core.text.urls import shown_url

from .locations import fetch, read_location

if TYPE_CHECKING:
    from httpx2 import AsyncClient

__all__ = ["Method", "Transfers", "read_document"]

Method = Literal["PUT", "POST"]

_log = logging.getLogger("coworld.worker")

_CHUNK = 1 << 18
_READ_SECONDS = 30.0
"""Timeout for the next bytes of a download."""
_PUT_SECONDS = 60.0
"""Timeout for the next bytes of an upload, and for the response."""
_RETRY_TIMEOUT = 60.0
"""How long transient failures are retried by default."""
_BACKOFF = Backoff(longest_wait=math.inf)
_SHORTEST_PUT = 0.25
"""An upload is not retried with fewer seconds than this left."""
_THERE = frozenset({409, 412})
"""Statuses for an object that must not be replaced: this worker uploaded it before it was restarted."""


# --- reading ----------------------------------------------------------------------------------------------------


async def read_document(uri: str, *, what: str, limit: int, retry_timeout: float = _RETRY_TIMEOUT) -> bytes:
    """Read a small document into memory.

    Args:
        uri: An http(s), file or data address, or a path.
        what: A name for the document, for messages.
        limit: The most bytes it may have.
        retry_timeout: Seconds for which transient failures are retried.

    Raises:
        UsageError: The file cannot be read or is too large, or the address is invalid.
        RemoteError: The server refused, or could not be reached in that time.
    """
    if uri[:5].lower() == "data:":
        return _data(uri, what, limit)
    source = read_location(uri, what=what)
    if source.kind == "path":
        assert source.path is not None
        return await anyio.to_thread.run_sync(_read_file, source.path, what, limit)
    if source.kind != "http":
        raise UsageError(f"The {what} cannot be read from {shown_url(uri)}.", code="bad_scheme")
    target = io.BytesIO()
    await fetch(
        uri,
        target,
        what=what,
        limit=limit,
        timeout=_READ_SECONDS,
        retry_timeout=retry_timeout,
        on_retry=_warn_of_another_try,
    )
    return target.getvalue()


def _warn_of_another_try(error: RemoteError) -> None:
    _log.warning("%s; trying again", error.message.rstrip("."))


def _data(uri: str, what: str, limit: int) -> bytes:
    import base64
    import binascii

    head, comma, body = uri[5:].partition(",")
    data = unquote_to_bytes(body)
    if comma and head.lower().endswith(";base64"):
        try:
            data = base64.b64decode(data, validate=True)
        except binascii.Error:
            comma = ""
    if not comma:
        raise UsageError(f"The data: address of the {what} cannot be decoded.", code="bad_url")
    if len(data) > limit:
        raise UsageError(f"The {what} has more than the {limit} bytes it may have.", code="document_too_large")
    return data


def _read_file(path: Path, what: str, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"The {what} cannot be read from {path}: {error.strerror}.", code="path_unreadable") from error
    if len(data) > limit:
        raise UsageError(f"The {what} has more than the {limit} bytes it may have.", code="document_too_large")
    return data


# --- putting ----------------------------------------------------------------------------------------------------


class Transfers:
    """Uploads files and bytes. Use as an async context manager."""

    def __init__(self) -> None:
        self._client: AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def put(
        self,
        uri: str,
        content: Path | bytes,
        *,
        content_type: str,
        what: str,
        method: Method = "PUT",
        until: float | None = None,
    ) -> None:
        """Upload a file or bytes, retrying transient failures.

        Files are written atomically, and missing parent directories are created. An http(s) server gets a PUT with a
        Content-Length; 409 and 412 count as "already there". A POST is sent once: to repeat it might do harm.

        Args:
            uri: An http(s) or file address, or a path.
            content: A file, streamed from the disk, or bytes.
            content_type: Its media type.
            what: A name for the content, for messages.
            method: How it is sent to an http(s) server.
            until: The deadline, on the event loop's clock; None: a minute from now.

        Raises:
            TransferError: `upload_refused` when the server rejects it, `upload_failed` for any other failure.
            UsageError: The address is invalid.
        """
        until = anyio.current_time() + _RETRY_TIMEOUT if until is None else until
        source = read_location(uri, what=what)
        if source.kind == "path":
            assert source.path is not None
            await anyio.to_thread.run_sync(_write_file, source.path, content, what)
            return
        if source.kind != "http":
            raise UsageError(f"The {what} cannot be put to {shown_url(uri)}.", code="bad_scheme")
        tries = Tries(_BACKOFF, retry_timeout=until - anyio.current_time() - _SHORTEST_PUT, clock=anyio.current_time)
        said = "there was no time left for it"
        while anyio.current_time() < until:
            asked: float | None = None
            try:
                with anyio.fail_at(until):
                    status, asked = await self._send_once(method, uri, content, content_type)
            except _Passing as error:
                said = str(error)
            except TimeoutError:
                said = f"time was up ({said})" if tries.failures else "it took too long"
                break
            else:
                if 200 <= status < 300:
                    return
                if status in _THERE:
                    _log.info("%s is there already (%d)", what, status)
                    return
                said = f"{shown_url(uri)} answered {status}"
                if not says_later(status):
                    raise _failed(what, uri, said, "upload_refused", status=status)
            pause = tries.again(asked) if method == "PUT" else None
            if pause is None:
                break
            _log.warning("%s not uploaded yet: %s; trying again in %.1f s", what, said, pause)
            await anyio.sleep(pause)
        raise _failed(what, uri, said, "upload_failed")

    async def _send_once(
        self, method: Method, uri: str, content: Path | bytes, content_type: str
    ) -> tuple[int, float | None]:
        import httpx2

        if self._client is None:
            from .._version import __version__

            self._client = httpx2.AsyncClient(
                headers={"User-Agent": f"coworld-worker/{__version__}"},
                timeout=httpx2.Timeout(_PUT_SECONDS, pool=None),
            )
        size = len(content) if isinstance(content, bytes) else (await anyio.Path(content).stat()).st_size
        # Object stores reject a body of unknown length
        headers = {"Content-Type": content_type, "Content-Length": str(size)}
        try:
            body = content if isinstance(content, bytes) else _pieces(content, size)
            response = await self._client.request(method, uri, content=body, headers=headers)
        except httpx2.InvalidURL as error:
            raise UsageError(f"{shown_url(uri)} is not an address: {error}.", code="bad_url") from None
        except httpx2.RequestError as error:
            # The message may contain the whole address, with its signature
            reason = type(error).__name__ if "?" in str(error) or not str(error) else str(error)
            raise _Passing(f"{shown_url(uri)}: {reason}") from error
        return response.status_code, retry_after(response.headers)


class _Passing(Exception):
    """A transient failure."""


async def _pieces(path: Path, size: int) -> AsyncGenerator[bytes]:
    """Yield a file's first `size` bytes, to match Content-Length even if the file grows meanwhile."""
    async with await anyio.open_file(path, "rb") as file:
        left = size
        while left and (piece := await file.read(min(_CHUNK, left))):
            left -= len(piece)
            yield piece


def _write_file(path: Path, content: Path | bytes, what: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, sync=True)
    except OSError as error:
        raise TransferError(
            f"The {what} could not be written to {path}: {error.strerror}.",
            code="upload_failed",
            hint="Mount a volume with room, that the worker's user may write to.",
            context={"what": what, "path": str(path)},
        ) from error


def _failed(what: str, uri: str, reason: str, code: TransferCode, **context: Any) -> TransferError:
    hint = (
        "See whether the address is signed for PUT, for this content type, and still valid."
        if code == "upload_refused"
        else "See whether the address can be reached from the cluster."
    )
    return TransferError(
        f"The {what} could not be uploaded: {reason}.",
        code=code,
        hint=hint,
        context={"what": what, "url": shown_url(uri), **context},
    )
