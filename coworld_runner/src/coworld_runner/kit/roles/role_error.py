"""The error of a role that says what no role may say."""

from __future__ import annotations

from coworld_core.errors import CoworldError

__all__ = ["RoleError"]


class RoleError(CoworldError):
    """A role's function has failed, or has returned what no role may say."""

    kind = "answer"
    default_code = "role_answer_invalid"
