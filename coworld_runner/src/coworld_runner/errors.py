"""Small helpers around errors; the tree itself is in ``coworld_core.errors``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from coworld_core.errors import CoworldError

__all__ = ["unwrapped"]


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            found.extend(_leaves(error))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found.append(error)
    return found


@contextmanager
def unwrapped() -> Generator[None]:
    """Raise one error as itself although a task group wrapped it.

    A group whose leaves are all ``CoworldError`` becomes its first leaf, with the others noted on it; a group of one
    becomes that one; any other group stays.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = _leaves(group)
        first = leaves[0]
        if len(leaves) > 1 and not all(isinstance(leaf, CoworldError) for leaf in leaves):
            raise
        for other in leaves[1:]:
            first.add_note(f"also: {other}")
        raise first from first.__cause__
