"""Reads answers within limits, and turns refusals and failures into the client's errors."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import anyio
import httpx2
from pydantic_core import from_json

from coworld_core.api import Problem, Wire, read_entries
from coworld_core.errors import RemoteError
from coworld_core.retries import retry_after
from coworld_core.text.urls import shown_url

from ..errors import ApiConnectionError, ApiShapeError, ApiStatusError, ApiTimeoutError, detail_text, error_for_status
from ..tls import tls_problem
from ._auth import Origin
from ._redact import redact, redact_json

__all__ = ["Reply", "close", "late", "read", "read_body", "read_list", "refusal", "unreachable"]

_T = TypeVar("_T", bound=Wire)

_MAX_PROBLEM = 256 * 1024
_PROBLEM_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
"""Errors raised before a request leaves this machine."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A complete answer."""

    status: int
    """The HTTP status."""
    headers: httpx2.Headers
    """The headers."""
    content: bytes = field(repr=False)
    """The body."""
    what: str
    """The call, for messages: `GET /v2/leagues`."""

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 are replaced."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ApiShapeError: The body is not JSON (`not_json`).
        """
        try:
            return from_json(self.content, allow_inf_nan=True)
        except ValueError as error:
            kind = self.headers.get("content-type", "").split(";")[0].strip()
            said = f"is {kind}" if kind and "json" not in kind else f"is not JSON ({error})"
            raise ApiShapeError(
                f"The answer to {self.what} {said}.",
                code="not_json",
                hint="Is the server's address right? It must be the API's, not that of the web pages.",
            ) from None


async def read_body(response: httpx2.Response, limit: int, what: str, origin: Origin) -> bytes:
    """Read a whole body.

    Args:
        response: The open answer.
        limit: Largest body in bytes, decoded.
        what: The call, for messages.
        origin: The server, for messages.

    Raises:
        ApiShapeError: The body exceeds the limit (`too_large`).
        ApiConnectionError: The connection breaks off, or the body does not match its declared encoding.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > limit:
                raise ApiShapeError(f"The answer to {what} is larger than {limit:,} bytes.", code="too_large")
            parts.append(chunk)
    except (httpx2.TransportError, httpx2.DecodingError) as error:
        raise unreachable(error, what, origin) from error
    return b"".join(parts)


async def close(response: httpx2.Response) -> None:
    """Close an answer, even during cancellation."""
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
        await response.aclose()


async def refusal(response: httpx2.Response, what: str, server: str, secrets: Iterable[str]) -> ApiStatusError:
    """The error for an answer that refuses a call, with the server's own words.

    Args:
        response: The open answer.
        what: The call, for messages.
        server: The server's address.
        secrets: Strings to redact from what the server says.
    """
    status, headers = response.status_code, response.headers
    problem = await _problem(response)
    detail = redact_json(problem.detail, secrets)
    words = detail_text(detail) or response.reason_phrase or "no reason given"
    hint = None
    if 300 <= status < 400:
        words = f"a redirect to {shown_url(headers.get('location', ''), query=True)}"
        hint = "Redirects are followed only when reading. Is the server's address right?"
    return error_for_status(status)(
        f"The server answered {status} to {what}: {words}",
        status=status,
        detail=detail,
        request_id=headers.get("x-request-id"),
        type=problem.type,
        documentation_url=redact(problem.documentation_url, secrets) if problem.documentation_url else None,
        retry_after=retry_after(headers),
        rejected=headers.get("x-ratelimit-outcome", "").strip().lower() == "rejected",
        hint=hint,
        context={"server": server},
    )


async def _problem(response: httpx2.Response) -> Problem:
    """Read the problem in the body. A broken, endless or non-JSON body must not hide the status."""
    body = bytearray()
    with anyio.move_on_after(_PROBLEM_SECONDS):
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) >= _MAX_PROBLEM:
                    break
        except (httpx2.TransportError, httpx2.DecodingError):
            pass
    try:
        value = from_json(bytes(body[:_MAX_PROBLEM]))
    except ValueError:
        kind = response.headers.get("content-type", "")
        text = bytes(body[:2000]).decode("utf-8", "replace").strip()
        # A proxy's HTML page adds nothing to the status
        return Problem(detail=None if "html" in kind or text.startswith("<") else text or None)
    try:
        problem = Problem.read(value)
    except RemoteError:
        return Problem(detail=value)
    return problem if problem.detail is not None else Problem(detail=value or None)


def late(what: str, seconds: float, origin: Origin) -> ApiTimeoutError:
    """The error for a call that exceeded its total time."""
    return ApiTimeoutError(
        f"{origin[1]} did not complete its answer to {what} within {seconds:g} s.",
        hint="Try again, or allow more time.",
        context={"host": origin[1]},
    )


def unreachable(error: Exception, what: str, origin: Origin) -> ApiConnectionError:
    """The error for a failure of the HTTP library, with a one-line message that names the host.

    Args:
        error: The failure.
        what: The call, for messages.
        origin: The server.
    """
    scheme, host, port = origin
    where = f"{host}:{port}"
    context = {"host": host, "port": port}
    sent = not isinstance(error, _UNSENT)
    if isinstance(error, httpx2.TimeoutException):
        did = "did not answer" if sent else "could not be reached"
        return ApiTimeoutError(f"{where} {did} in time ({what}).", sent=sent, context=context)
    causes = list(_causes(error))
    if failed := next((found for cause in causes if (found := tls_problem(cause)) is not None), None):
        why, hint = failed
        return ApiConnectionError(
            f"No trusted connection to {where}: {why}.",
            code="tls_failed",
            hint=hint,
            context=context,
            sent=False,
        )
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return ApiConnectionError(
            f"There is no host named {host}.",
            code="unknown_host",
            hint="Check the server's address and your network.",
            context=context,
            sent=False,
        )
    reasons = [cause for cause in causes if isinstance(cause, OSError) and cause.errno]
    said = (reasons[-1].strerror or "") if reasons else ""
    if not sent:
        hint = f"Is a server running there, and is it {scheme}?"
        return ApiConnectionError(
            f"{where} cannot be reached: {said or str(error) or 'no connection'}.",
            hint=hint,
            context=context,
            sent=False,
        )
    return ApiConnectionError(
        f"The connection to {where} broke off during {what}: {said or str(error) or 'closed by the server'}.",
        code="api_cut_off",
        context=context,
    )


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


def read(model: type[_T], reply: Reply) -> _T:
    """Parse an answer as a resource.

    Raises:
        ApiShapeError: It is not a JSON object.
    """
    value = reply.json()
    try:
        return model.read(value)
    except RemoteError as error:
        raise ApiShapeError(f"{error.message} ({reply.what})", code=error.code) from None


def read_list(model: type[_T], reply: Reply) -> tuple[_T, ...]:
    """Parse an answer that is a complete list, an object with `entries`, or `null` for an empty list.

    Raises:
        ApiShapeError: It is something else (`not_a_list`).
    """
    value = reply.json()
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("entries")
    elif value is None:
        return ()
    if not isinstance(value, list):
        raise ApiShapeError(f"The answer to {reply.what} is not a list.", code="not_a_list")
    return read_entries(model, cast("list[Any]", value))[0]
