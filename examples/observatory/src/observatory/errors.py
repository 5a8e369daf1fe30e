"""Refusals: the error responses of the API."""

from __future__ import annotations

from collections.abc import Mapping

from coworld_core.errors import CoworldError, ManifestError

__all__ = ["Refusal", "conflict", "explained", "forbidden", "invalid", "not_found", "unauthenticated"]


class Refusal(CoworldError):
    """An HTTP answer other than success.

    Args:
        status: The HTTP status.
        detail: What happened and where, for a person; or a list of issues, as FastAPI writes them.
        code: Stable name of the kind of error, the ``type`` of the body.
        headers: Further headers of the answer.
    """

    kind = "answer"
    default_code = "refused"

    def __init__(
        self,
        status: int,
        detail: str | list[dict[str, object]],
        *,
        code: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail if isinstance(detail, str) else "The request is invalid.", code=code)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


def explained(error: CoworldError) -> str:
    """An error of a request's game or config, as the detail of a refusal."""
    if isinstance(error, ManifestError):
        lines = [f"{issue.pointer or '/'}: {issue.message}" for issue in error.report.issues[:10]]
        return "The game config does not match the game's schema.\n" + "\n".join(lines)
    return f"{error.message} {error.hint}" if error.hint else error.message


def not_found(kind: str, name: str) -> Refusal:
    """404: there is no such resource, or the caller may not see it."""
    return Refusal(404, f"There is no {kind} {name!r}.", code="not_found")


def forbidden(detail: str, *, code: str = "forbidden") -> Refusal:
    """403: the caller is known, and may not do this."""
    return Refusal(403, detail, code=code)


def conflict(detail: str, *, code: str = "conflict") -> Refusal:
    """409: the request conflicts with the resource's current state."""
    return Refusal(409, detail, code=code)


def invalid(detail: str, *, at: tuple[str | int, ...] = (), code: str = "value_error") -> Refusal:
    """422: a well-formed request with invalid content; ``at`` is the path to it, from ``body``."""
    return Refusal(422, [{"type": code, "loc": list(at), "msg": detail}], code="validation_error")


def unauthenticated(
    detail: str = "Not authenticated. Send a token in the header `Authorization: Bearer …`.",
) -> Refusal:
    """401: no token, or one that is invalid or expired."""
    return Refusal(401, detail, code="not_authenticated", headers={"WWW-Authenticate": 'Bearer realm="observatory"'})
