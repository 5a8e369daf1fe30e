"""Sources of manifests and replays: tells paths from addresses, and downloads from addresses."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread

from coworld_core.errors import EnvironmentFault, RemoteError, UsageError
from coworld_core.hints import Hint
from coworld_core.loopback import is_loopback
from coworld_core.retries import Backoff, Tries, retry_after, says_later
from coworld_core.text.phrases import closest, listed
from coworld_core.text.size_text import shown_size
from coworld_core.text.urls import shown_url

if TYPE_CHECKING:
    from httpx2 import URL, AsyncClient, Response

__all__ = [
    "FETCH_SECONDS",
    "Fetched",
    "Location",
    "expand",
    "fetch",
    "missing",
    "read_location",
    "s3_address",
]

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://")
"""At least two characters, so that a drive letter (`C:/game`) is not taken for a scheme."""

FETCH_SECONDS = 60.0
"""Default timeout for a connection, or for the next bytes."""
_MAX_REDIRECTS = 10
_TRIES = 3
_BACKOFF = Backoff()
_CHUNK = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Location:
    """The path or address that an argument names."""

    kind: Literal["path", "http", "s3"]
    path: Path | None = None
    """Absolute path, for the kind `path`."""
    url: str = ""
    """The address as given, for the other kinds."""


def read_location(argument: str | os.PathLike[str], *, what: str) -> Location:
    """Tell a path from an address.

    Args:
        argument: A path (`~` is expanded), or an address with the scheme file, http, https or s3.
        what: The kind of document, for messages: "manifest", "replay".

    Raises:
        UsageError: The argument is empty, not a valid path, or an address with another scheme.
    """
    if isinstance(argument, os.PathLike):
        return Location(kind="path", path=expand(os.fspath(argument)))
    text = argument.strip()
    if not text or "\0" in text:
        raise UsageError(f"The {what} argument is empty." if not text else f"{text!r} is not a path.", code="bad_path")
    if text[:5].lower() == "file:":
        return Location(kind="path", path=_file_path(text, what))
    match = _SCHEME.match(text)
    if match is None:
        return Location(kind="path", path=expand(text))
    scheme = match["scheme"].lower()
    if scheme in {"http", "https"}:
        return Location(kind="http", url=text)
    if scheme == "s3":
        return Location(kind="s3", url=text)
    raise UsageError(
        f"{shown_url(text)} has the scheme {scheme!r}, which cannot be read.",
        code="bad_scheme",
        hint=f"Give the {what} as a path, or with file://, http:// or https://.",
    )


def expand(text: str) -> Path:
    """Return an absolute path; `~` is replaced by the home directory, if there is one."""
    path = Path(text)
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    return path.absolute()


def _file_path(text: str, what: str) -> Path:
    rest = text[5:]
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host.lower() not in {"", "localhost", "127.0.0.1"}:
            raise UsageError(
                f"{text} names a file on {host!r}, not on this machine.",
                code="bad_path",
                hint=f"Write file:///path for a {what} on this machine.",
            )
        rest = slash + tail
    decoded = unquote(rest)
    if not decoded or "\0" in decoded:
        raise UsageError(f"{text!r} names no file.", code="bad_path", hint="Write file:///path.")
    if re.match(r"/[A-Za-z]:(/|$)", decoded) and os.name == "nt":
        decoded = decoded[1:]
    return expand(decoded)


def missing(path: Path, *, what: str) -> UsageError:
    """Return the error for a path that does not exist, with the most similar name that does."""
    parent = path.parent
    while not parent.is_dir() and parent != parent.parent:
        parent = parent.parent
    wanted = path.relative_to(parent).parts[0] if path != parent else path.name
    try:
        # The missing part of the path has parts below it, so only directories match
        names = sorted(entry.name for entry in parent.iterdir() if parent == path.parent or entry.is_dir())
    except OSError:
        names = []
    near = closest(wanted, names)
    if near is not None and near != wanted:
        hint = f"Did you mean {parent / near}?"
    elif wanted == "examples" and parent != path.parent:
        hint = Hint("copy_example", "The examples are in a clone of the repository of coworld.")
    elif parent != path.parent:
        hint = f"The directory {parent} has no {wanted!r}."
    else:
        visible = [name for name in names if not name.startswith(".")]
        hint = f"In {parent} there is: {listed(visible, limit=8)}." if visible else f"{parent} is empty."
    return UsageError(f"There is no {what} at {path}.", code="path_missing", hint=hint, context={"path": str(path)})


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """The result of a download."""

    url: str
    """The address that responded, after redirects; its query may contain secrets."""
    size: int
    """Size of the body in bytes, as transferred."""
    encoding: str
    """The body's Content-Encoding in lower case; empty for none. The body has not been decoded."""


async def fetch(
    url: str,
    target: IO[bytes],
    *,
    what: str,
    limit: int,
    timeout: float = FETCH_SECONDS,
    total_timeout: float | None = None,
    token: str | None = None,
    retry_timeout: float | None = None,
    on_retry: Callable[[RemoteError], object] | None = None,
) -> Fetched:
    """Download an address into an open file.

    Redirects to http and https are followed. Transient failures (no connection, a broken connection, 429, most 5xx) are
    retried; a `Retry-After` of up to a minute is respected.

    Args:
        url: An http(s) address.
        target: The file for the body; emptied first.
        what: The kind of document, for messages.
        limit: The most bytes the body may have.
        timeout: Seconds to wait for a connection, or for the next bytes.
        total_timeout: Seconds for everything, retries included; None: no limit.
        token: Bearer token; sent to this address's own origin only, never along a redirect to another.
        retry_timeout: Seconds for which failures are retried; None: three tries in all.
        on_retry: Called with the error before each retry.

    Raises:
        UsageError: The address is invalid, or a token would be sent to another machine over plain http.
        RemoteError: The host cannot be reached, refused, or sent more than `limit` bytes; the message names it.
        EnvironmentFault: There is no disk space left for the body.
    """
    from httpx2 import AsyncClient, InvalidURL, Timeout

    from .._version import __version__

    try:
        start = _checked(url)
    except InvalidURL as error:
        raise UsageError(f"{shown_url(url)} is not an address: {error}.", code="bad_url") from None
    if token and start.scheme == "http" and not is_loopback(start.host):
        raise UsageError(
            f"Your token is not sent to {start.host} without encryption.",
            code="insecure_token",
            hint="Use an https address.",
        )
    headers = {"User-Agent": f"coworld-runner/{__version__}", "Accept-Encoding": "identity"}
    with _past(total_timeout, what, start.host):
        async with AsyncClient(headers=headers, timeout=Timeout(timeout), follow_redirects=False) as client:
            most = _TRIES if retry_timeout is None else None
            # Do not wait for a Retry-After beyond the deadline
            tries = Tries(
                _BACKOFF,
                most=most,
                retry_timeout=total_timeout if retry_timeout is None else retry_timeout,
                clock=anyio.current_time,
            )
            while True:
                try:
                    return await _attempt(client, start, target, what=what, limit=limit, token=token)
                except _Retry as retry:
                    pause = tries.again(retry.after)
                    if pause is None:
                        raise retry.error from retry.__cause__
                    if on_retry is not None:
                        on_retry(retry.error)
                await anyio.sleep(pause)


@contextlib.contextmanager
def _past(total_timeout: float | None, what: str, host: str) -> Generator[None]:
    try:
        with anyio.fail_after(total_timeout):
            yield
    except TimeoutError:
        raise RemoteError(
            f"{host} did not send the {what} within {total_timeout:g} s.",
            code="remote_timeout",
            hint="Try again, or allow more time.",
            context={"host": host},
        ) from None


class _Retry(Exception):
    """A transient failure."""

    def __init__(self, error: RemoteError, after: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.after = after


def _checked(url: str) -> URL:
    from httpx2 import URL, InvalidURL

    parsed = URL(url)
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise InvalidURL("it has no host" if not parsed.host else f"its scheme is {parsed.scheme!r}")
    return parsed


def _origin(url: URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]


async def _attempt(
    client: AsyncClient, start: URL, target: IO[bytes], *, what: str, limit: int, token: str | None
) -> Fetched:
    import httpx2

    url = start
    try:
        for _ in range(_MAX_REDIRECTS + 1):
            headers = {"Authorization": f"Bearer {token}"} if token and _origin(url) == _origin(start) else {}
            request = client.build_request("GET", url, headers=headers)
            response = await client.send(request, stream=True)
            try:
                if not response.has_redirect_location:
                    return await _receive(response, target, what=what, limit=limit, given=start)
                url = _redirected(response, url)
            finally:
                await response.aclose()
    except httpx2.TimeoutException as error:
        message = f"{url.host} did not answer in time while the {what} was fetched."
        raise _Retry(_remote(message, "remote_timeout", url, hint="Try again later.")) from error
    except httpx2.ConnectError as error:
        message = f"{url.host} cannot be reached for the {what}: {error or 'no connection'}."
        hint = "Check the address and your connection."
        raise _Retry(_remote(message, "remote_unreachable", url, hint=hint)) from error
    except httpx2.RequestError as error:
        message = f"The connection to {url.host} broke while the {what} was fetched: {error or type(error).__name__}."
        raise _Retry(_remote(message, "remote_broken", url, hint="Try again.")) from error
    message = f"{start.host} redirects more than {_MAX_REDIRECTS} times, so the {what} was not fetched."
    raise _remote(message, "remote_redirect", start)


def _remote(message: str, code: str, url: URL, *, hint: str | None = None, status: int | None = None) -> RemoteError:
    context: dict[str, object] = {"host": url.host, "url": shown_url(str(url))}
    if status is not None:
        context["status"] = status
    return RemoteError(message, code=code, hint=hint, context=context)


def _redirected(response: Response, url: URL) -> URL:
    from httpx2 import InvalidURL

    location = response.headers["location"]
    try:
        return _checked(str(url.join(location)))
    except InvalidURL as error:
        raise _remote(
            f"{url.host} redirects to {shown_url(location)!r}, which is not followed: {error}.", "remote_redirect", url
        ) from None


_STATUS_HINTS = {
    401: "Sign in first, or give a token.",
    403: "Ask its owner for access, or sign in as somebody who has it.",
    404: "Check the address.",
    410: "It is gone; ask its owner.",
}


async def _receive(response: Response, target: IO[bytes], *, what: str, limit: int, given: URL) -> Fetched:
    url = response.url
    if not response.is_success:
        words = f"{response.status_code} {response.reason_phrase}".strip()
        via = f" (redirected from {given.host})" if given.host != url.host else ""
        error = _remote(
            f"{url.host} answered {words} when asked for the {what} at {shown_url(str(url))}{via}.",
            "remote_status",
            url,
            hint=_STATUS_HINTS.get(response.status_code),
            status=response.status_code,
        )
        if says_later(response.status_code):
            raise _Retry(error, retry_after(response.headers))
        raise error
    announced = response.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > limit:
        raise _oversize(url, what, limit)
    size = 0
    try:
        target.seek(0)
        target.truncate()
        async for chunk in response.aiter_raw(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise _oversize(url, what, limit)
            await anyio.to_thread.run_sync(target.write, chunk)
        target.flush()
    except OSError as error:
        raise EnvironmentFault(
            f"The {what} from {url.host} could not be stored: {error.strerror}.",
            code="disk_full",
            hint="Free some room, or set TMPDIR to a directory with more.",
        ) from error
    encoding = response.headers.get("content-encoding", "").strip().lower()
    return Fetched(url=str(url), size=size, encoding="" if encoding == "identity" else encoding)


def _oversize(url: URL, what: str, limit: int) -> RemoteError:
    return _remote(
        f"{url.host} sent more than the {shown_size(limit)} that a {what} may have.",
        "remote_too_large",
        url,
        hint=f"Check that the address is that of a {what}.",
    )


def s3_address(url: str, endpoint: str | None) -> str:
    """Return the public http(s) address of `s3://bucket/key`.

    Args:
        url: The s3 address; the key is taken literally, not percent-decoded.
        endpoint: Address of an S3 service, or None for Amazon's.

    Raises:
        UsageError: There is no key, the bucket's name is missing or invalid, or the endpoint is not an http(s) address.
    """
    from urllib.parse import quote

    bucket, _, key = url[len("s3://") :].partition("/")
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", bucket) or ".." in bucket:
        raise UsageError(
            f"{url[:200]!r} has no bucket name: 3 to 63 lower-case letters, digits, dots and hyphens.",
            code="bad_url",
            hint="Write s3://bucket/key.",
        )
    if not key:
        raise UsageError(f"{url!r} names a bucket but nothing in it.", code="bad_url", hint="Write s3://bucket/key.")
    quoted = quote(key, safe="/~")
    if endpoint:
        if urlsplit(endpoint).scheme not in {"http", "https"}:
            raise UsageError(f"The S3 endpoint {shown_url(endpoint)!r} is not an http(s) address.", code="bad_url")
        return f"{endpoint.rstrip('/')}/{bucket}/{quoted}"
    if "." in bucket:
        # The certificate of *.s3.amazonaws.com covers one label only
        return f"https://s3.amazonaws.com/{bucket}/{quoted}"
    return f"https://{bucket}.s3.amazonaws.com/{quoted}"
