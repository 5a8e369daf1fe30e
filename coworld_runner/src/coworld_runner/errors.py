"""What errors and ends come to, and small helpers around them; the tree itself is in ``coworld_core.errors``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from coworld_core.errors import CoworldError

__all__ = ["OWN_DOING", "PLATFORM_ENDS", "leaves", "unwrapped"]

OWN_DOING = ("program_missing", "no_command", "command_failed", "image_unusable", "port_taken")
"""Codes of a ``StartError`` that is due to what was to be started."""
PLATFORM_ENDS = ("evicted", "lost", "deadline")
"""Ends of a unit (``Exit.reason``) that are its host's doing."""


def leaves(error: BaseException) -> list[BaseException]:
    """The error itself; of a group every error in it, however deep."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in cast("tuple[BaseException, ...]", error.exceptions) for leaf in leaves(inner)]


@contextmanager
def unwrapped() -> Generator[None]:
    """Raise one error as itself although a task group wrapped it.

    A group whose leaves are all ``CoworldError`` becomes its first leaf, with the others noted on it; a group of one
    becomes that one; any other group stays.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        first, *others = leaves(group)
        if others and not all(isinstance(error, CoworldError) for error in (first, *others)):
            raise
        for other in others:
            first.add_note(f"also: {other}")
        raise first from first.__cause__
