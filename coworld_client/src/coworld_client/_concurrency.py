"""Small shapes of structured concurrency that the standard ones lack."""

from __future__ import annotations

from typing import cast

from coworld_core.errors import CoworldError

__all__ = ["single"]


def single(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error that a task group's group stands for; the first, when all of them are ours; else the group."""
    inner = errors
    while len(inner.exceptions) == 1:
        only = inner.exceptions[0]
        if not isinstance(only, BaseExceptionGroup):
            return only
        inner = cast("BaseExceptionGroup[BaseException]", only)
    ours = [error for error in inner.exceptions if isinstance(error, CoworldError)]
    return ours[0] if len(ours) == len(inner.exceptions) else errors
