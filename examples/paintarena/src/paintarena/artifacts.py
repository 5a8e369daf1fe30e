"""Reading and writing what URIs name: config in, results and replay out, replays in again.

`file://` URIs, bare paths and `http(s)` URIs are understood. Messages never show the query of a URI: presigned
addresses carry their permission there.
"""

import contextlib
import errno
import json
import os
import time
import zlib
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Final, Literal, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from paintarena.config import Json

Method = Literal["PUT", "POST"]

READ_TIMEOUT: Final = 30.0
"""Seconds for one read over HTTP."""

WRITE_TIMEOUT: Final = 60.0
"""Seconds for one write over HTTP."""

MAX_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of a file that is read, packed or unpacked: about five times the largest possible replay."""

# Some content networks refuse the default agent of Python's library.
USER_AGENT: Final = "paintarena/0.1"
PUT_ATTEMPTS: Final = 3


class ArtifactError(Exception):
    """A file could not be read, understood or written; the message says which and why."""


def redacted(uri: str) -> str:
    """Return `uri` without its query, fragment and credentials, fit for a log."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "an address that makes no sense"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def local_path(uri: str) -> Path | None:
    """Return the path that a `file://` URI or a bare path names, or None for an HTTP address.

    Raises:
        ArtifactError: The URI is of another scheme, or names another host.
    """
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise ArtifactError(f"not an address: {error}") from None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ArtifactError(f"{redacted(uri)}: a file:// URI must not name a host (write file:///path)")
        return Path(unquote(parts.path))
    if parts.scheme in ("http", "https"):
        return None
    if "://" in uri:
        raise ArtifactError(f"{redacted(uri)}: only file://, http:// and https:// URIs are understood")
    return Path(uri)


def parse_method(value: str | None, *, variable: str) -> Method:
    """Return the HTTP method that an environment variable asks for, `PUT` when it is unset.

    Raises:
        ArtifactError: It is neither PUT nor POST.
    """
    match (value or "PUT").upper():
        case "PUT":
            return "PUT"
        case "POST":
            return "POST"
        case _:
            raise ArtifactError(f"{variable} must be PUT or POST, got {value!r}")


def read_bytes(uri: str, *, limit: int = MAX_BYTES) -> bytes:
    """Read what `uri` names.

    Raises:
        ArtifactError: It cannot be read, or holds more than `limit` bytes.
    """
    path = local_path(uri)
    try:
        if path is not None:
            with path.open("rb") as file:
                data = file.read(limit + 1)
        else:
            data = _request(uri, "GET", seconds=READ_TIMEOUT, limit=limit + 1)
    except (OSError, ValueError, HTTPException) as error:
        raise ArtifactError(f"cannot read {redacted(uri)}: {_reason(error)}") from error
    if len(data) > limit:
        raise ArtifactError(f"cannot read {redacted(uri)}: it holds more than {limit} bytes")
    return data


def write_bytes(uri: str, chunks: Iterable[bytes], *, method: Method = "PUT") -> None:
    """Write JSON bytes to `uri`, so that a reader sees all of them or none.

    A file is written beside its place and renamed into it; missing directories are made. Over HTTP the bytes are
    sent as one request; a PUT is tried up to three times when the connection fails or the server is at fault.

    Raises:
        ArtifactError: It cannot be written.
    """
    path = local_path(uri)
    try:
        if path is not None:
            _write_file(path, chunks)
        else:
            _send(uri, b"".join(chunks), method=method)
    except (OSError, ValueError, HTTPException) as error:
        raise ArtifactError(f"cannot write {redacted(uri)}: {_reason(error)}") from error


def post_text(uri: str, text: str, *, seconds: float) -> None:
    """POST `text` as `text/plain`; the way log lines leave.

    Raises:
        OSError: It could not be sent within `seconds`, or was refused.
    """
    _request(uri, "POST", data=text.encode(), kind="text/plain; charset=utf-8", seconds=seconds)


def unpack(data: bytes, *, name: str, limit: int = MAX_BYTES) -> bytes:
    """Return the plain bytes of a replay that may be packed with gzip or zlib.

    The bytes themselves decide; the suffix of `name` (`.gz`, `.z`) decides where they are not plain about it.

    Raises:
        ArtifactError: It does not unpack, is cut short, or unpacks to more than `limit` bytes.
    """
    path = urlsplit(name).path
    if data[:2] == b"\x1f\x8b":
        mode = zlib.MAX_WBITS | 16
    elif data[:1] in (b"{", b"[") or data[:1].isspace():
        return data
    elif path.endswith(".z") or (len(data) > 1 and data[0] & 0x0F == 8 and (data[0] * 256 + data[1]) % 31 == 0):
        mode = zlib.MAX_WBITS
    else:
        return data
    unpacker = zlib.decompressobj(mode)
    try:
        plain = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise ArtifactError(f"{redacted(name)} does not unpack: {error}") from None
    if len(plain) > limit:
        raise ArtifactError(f"{redacted(name)} unpacks to more than {limit} bytes")
    if not unpacker.eof:
        raise ArtifactError(f"{redacted(name)} is cut short: its compressed data has no end")
    return plain


def load_replay(uri: str) -> bytes:
    """Read a replay and return the message that viewers are given: `{"type": "replay", …}` as JSON.

    Tokens that older games wrote into the config of a replay are left out.

    Raises:
        ArtifactError: It cannot be read, or is not a Paint Arena replay.
    """
    data = unpack(read_bytes(uri), name=uri)
    try:
        raw: Json = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{redacted(uri)} is not JSON: {error}") from None
    if not isinstance(raw, dict) or not isinstance(frames := raw.get("frames"), list):
        raise ArtifactError(f"{redacted(uri)} is not a Paint Arena replay: it has no frames")
    for index, frame in enumerate(frames):
        if not _is_frame(frame):
            raise ArtifactError(f"{redacted(uri)} is not a Paint Arena replay: frame {index} is not a board")
    config = raw.get("config")
    public = {key: value for key, value in config.items() if key != "tokens"} if isinstance(config, dict) else {}
    message = {
        "type": "replay",
        "config": public,
        "player_names": raw.get("player_names") or [],
        "frames": frames,
        "results": raw.get("results") or {},
    }
    return json.dumps(message, separators=(",", ":")).encode()


def _is_frame(frame: Json) -> bool:
    if not isinstance(frame, dict):
        return False
    width, height, owners = frame.get("width"), frame.get("height"), frame.get("tile_owners")
    return (
        isinstance(width, int)
        and isinstance(height, int)
        and isinstance(owners, list)
        and len(owners) == width * height
        and isinstance(frame.get("positions"), list)
        and isinstance(frame.get("scores"), list)
    )


def _write_file(path: Path, chunks: Iterable[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Opened, not made by `tempfile`: that would be readable by this user only, and the runner may be another one.
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with beside.open("wb") as file:
            file.writelines(chunks)
        try:
            beside.replace(path)
        except OSError as error:
            # A single file mounted into a container cannot be replaced, only filled.
            if error.errno != errno.EBUSY:
                raise
            path.write_bytes(beside.read_bytes())
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _send(uri: str, data: bytes, *, method: Method) -> None:
    # A POST is not known to be harmless when repeated.
    attempts = PUT_ATTEMPTS if method == "PUT" else 1
    for attempt in range(1, attempts + 1):
        try:
            _request(uri, method, data=data, kind="application/json", seconds=WRITE_TIMEOUT)
            return
        except OSError as error:
            refused = isinstance(error, _Refusal) and error.status < 500 and error.status != 429
            if refused or attempt == attempts:
                raise
            time.sleep(0.5 * attempt)


class _Refusal(OSError):
    """An HTTP answer other than success."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status} {reason}")
        self.status = status


def _request(
    uri: str, method: str, *, seconds: float, data: bytes | None = None, kind: str | None = None, limit: int = 0
) -> bytes:
    """Send one HTTP request and return at most `limit` bytes of the answer."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"User-Agent": USER_AGENT} | ({"Content-Type": kind} if kind else {})
    request = Request(uri, data=data, headers=headers, method=method)  # noqa: S310 - callers admit http(s) only
    try:
        with urlopen(request, timeout=seconds) as response:  # noqa: S310
            return cast("bytes", response.read(limit))
    except HTTPError as error:
        # It is the answer as well as the error, and holds the connection.
        with error:
            raise _Refusal(error.code, error.reason) from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
