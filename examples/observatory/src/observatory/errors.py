"""What the server answers when it does not do what was asked."""

from __future__ import annotations

from collections.abc import Mapping

from coworld_core.errors import CoworldError, ManifestError

__all__ = ["Refusal", "conflict", "explained", "forbidden", "invalid", "not_found", "unauthenticated"]


class Refusal(CoworldError):
    """An HTTP answer other than success.

    Args:
        status: The HTTP status.
        detail: What happened and where, for a person; or a list of issues, as FastAPI writes them.
        code: Stable name of the kind of refusal, the ``type`` of the body.
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
        super().__init__(detail if isinstance(detail, str) else "The request is not valid.", code=code)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


def explained(error: CoworldError) -> str:
    """An error of a request's game or config, as the detail of a refusal."""
    if isinstance(error, ManifestError):
        lines = [f"{issue.pointer or '/'}: {issue.message}" for issue in error.report.issues[:10]]
        return "The game config does not fit the game.\n" + "\n".join(lines)
    return f"{error.message} {error.hint}" if error.hint else error.message


def not_found(kind: str, name: str) -> Refusal:
    """404: there is no such thing, or the caller may not know of it."""
    return Refusal(404, f"There is no {kind} {name!r}.", code="not_found")


def forbidden(detail: str, *, code: str = "forbidden") -> Refusal:
    """403: the caller is known, and may not do this."""
    return Refusal(403, detail, code=code)


def conflict(detail: str, *, code: str = "conflict") -> Refusal:
    """409: not in the state things are in."""
    return Refusal(409, detail, code=code)


def invalid(detail: str, *, at: tuple[str | int, ...] = (), code: str = "value_error") -> Refusal:
    """422: a request of the right form whose content cannot be meant; ``at`` leads to the place, from ``body``."""
    return Refusal(422, [{"type": code, "loc": list(at), "msg": detail}], code="validation_error")


def unauthenticated(detail: str = "Not authenticated: send a token, as in `Authorization: Bearer …`.") -> Refusal:
    """401: nobody, or somebody with a token that is not valid (any more)."""
    return Refusal(401, detail, code="not_authenticated", headers={"WWW-Authenticate": 'Bearer realm="observatory"'})
