"""The errors of calls to a platform.

::

    RemoteError
    └── ApiError               whatever goes wrong between this machine and a platform
        ├── ApiConnectionError     the server cannot be reached (name, TLS, refused, cut off); there is no answer
        │   └── ApiTimeoutError        ... in time (also a `TimeoutError`)
        ├── ApiShapeError          the answer is invalid
        ├── ApiStatusError         the server refused; one class per common status
        │   ├── LinkExpired            storage refuses a link, and there is no fresh one that works
        │   ├── BadRequest             400
        │   ├── NotAuthenticated       401
        │   ├── Forbidden              403
        │   ├── NotFound               404
        │   ├── Conflict               409
        │   ├── Gone                   410
        │   ├── Unprocessable          422
        │   ├── TooManyRequests        429
        │   ├── NotOffered             405, 501
        │   └── ServerError            5xx
        └── NotLoggedIn            there is no token for the server

A mistake of the caller's is a `UsageError`, and a file that cannot be read or written here an `EnvironmentFault`.

Messages contain the server's own words, but never a token or the query of a presigned URL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from coworld_core.errors import RemoteError
from coworld_core.hints import Hint

__all__ = [
    "ApiConnectionError",
    "ApiError",
    "ApiShapeError",
    "ApiStatusError",
    "ApiTimeoutError",
    "BadRequest",
    "Conflict",
    "Forbidden",
    "Gone",
    "LinkExpired",
    "NotAuthenticated",
    "NotFound",
    "NotLoggedIn",
    "NotOffered",
    "ServerError",
    "TooManyRequests",
    "Unprocessable",
    "detail_text",
    "error_for_status",
]

_MAX_DETAIL = 2000
"""Most characters of a server's text in a message; `detail` has all of it."""


class ApiError(RemoteError):
    """A platform cannot be reached, refused a request, or gave an invalid answer; the root of all such errors.

    Attributes:
        retry_after: Seconds the server asks to wait, if it does.
    """

    default_code = "api_error"
    retry_after: float | None = None


class ApiShapeError(ApiError):
    """The answer is not JSON, has the wrong shape, is too large, or repeats itself endlessly."""

    default_code = "api_shape"


class ApiConnectionError(ApiError):
    """The server cannot be reached: unknown host, TLS failure, connection refused or cut off. It has no status.

    Attributes:
        sent: Whether the request may have reached the server; False when it certainly did not.
    """

    kind = "environment"
    default_code = "api_unreachable"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        context: Mapping[str, object] | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message, code=code, hint=hint, context=context)
        self.sent = sent


class ApiTimeoutError(ApiConnectionError, TimeoutError):
    """The server did not answer in time."""

    default_code = "api_timeout"


class NotLoggedIn(ApiError):
    """There is no token for the server."""

    kind = "environment"
    default_code = "not_logged_in"


class ApiStatusError(ApiError):
    """The server answered with an error status.

    Attributes:
        status: The HTTP status.
        detail: The server's explanation: text, an object, a list, or None.
        request_id: The id of the request, from the server or the client; quote it to the server's operator.
        type: The server's name for the kind of error, if any.
        documentation_url: Where the server documents the error, if it says.
        rejected: Whether the server says that it did not start on the request.
    """

    default_code = "api_status"
    default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        status: int,
        detail: Any = None,
        request_id: str | None = None,
        type: str | None = None,
        documentation_url: str | None = None,
        retry_after: float | None = None,
        rejected: bool = False,
        hint: str | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        more: dict[str, object] = {"status": status, "request_id": request_id, "type": type}
        super().__init__(
            message,
            hint=hint or (f"See {documentation_url}." if documentation_url else self.default_hint),
            context={**{key: value for key, value in more.items() if value is not None}, **(context or {})},
        )
        self.status = status
        self.detail = detail
        self.request_id = request_id
        self.type = type
        self.documentation_url = documentation_url
        self.retry_after = retry_after
        self.rejected = rejected


class LinkExpired(ApiStatusError):
    """A link to a file has expired, and there is no fresh one that works."""

    default_code = "link_expired"
    default_hint = "Try again later; if it persists, whoever runs the server should check its storage and its clock."


class BadRequest(ApiStatusError):
    """400: the request is invalid."""

    default_code = "bad_request"


class NotAuthenticated(ApiStatusError):
    """401: the token is missing, unknown or expired."""

    default_code = "not_authenticated"
    default_hint = Hint("sign_in_again", "Sign in again with sign_in, or set COWORLD_TOKEN.")


class Forbidden(ApiStatusError):
    """403: not permitted; often a rule of the league rather than a matter of the token."""

    default_code = "forbidden"


class NotFound(ApiStatusError):
    """404: it does not exist, or is hidden from you."""

    default_code = "not_found"
    default_hint = "Check the id and the server; items you may not see give the same answer."


class Conflict(ApiStatusError):
    """409: the request conflicts with the current state; often the object exists already."""

    default_code = "conflict"


class Gone(ApiStatusError):
    """410: used up or expired."""

    default_code = "gone"


class Unprocessable(ApiStatusError):
    """422: fields of the request are wrong; `detail` says which."""

    default_code = "unprocessable"


class TooManyRequests(ApiStatusError):
    """429: too many requests, or a budget is used up."""

    default_code = "too_many_requests"


class NotOffered(ApiStatusError):
    """405 or 501: this platform does not offer the feature."""

    default_code = "not_offered"
    default_hint = "Other platforms may have it; retrying here does not help."


class ServerError(ApiStatusError):
    """5xx: the server failed, or is not ready yet."""

    default_code = "server_error"
    default_hint = "Try again later; if it persists, tell whoever runs the server, with the request id."


_BY_STATUS: dict[int, type[ApiStatusError]] = {
    400: BadRequest,
    401: NotAuthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Unprocessable,
    429: TooManyRequests,
    405: NotOffered,
    501: NotOffered,
}


def error_for_status(status: int) -> type[ApiStatusError]:
    """The class for a status."""
    return _BY_STATUS.get(status, ServerError if status >= 500 else ApiStatusError)


def detail_text(detail: Any) -> str:
    """A server's detail as one line: its text, its `message`, or each invalid field with its error.

    Args:
        detail: Text, an object, or a list of validation errors (`loc`, `msg`).
    """
    text = " ".join(_detail_text(detail).split())
    return text if len(text) <= _MAX_DETAIL else f"{text[: _MAX_DETAIL - 1]}…"


def _detail_text(detail: Any) -> str:
    match detail:
        case None:
            return ""
        case str():
            return detail
        case {"msg": str() as said, **rest}:
            place = ".".join(str(part) for part in _list(rest.get("loc")) if part not in ("body", "query", "path"))
            return f"{place}: {said}" if place else said
        case {"message": str() as said}:
            return said
        case list():
            return "; ".join(filter(None, (_detail_text(part) for part in cast("list[Any]", detail))))
        case _:
            return json.dumps(detail, ensure_ascii=False, default=str)


def _list(value: Any) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []
