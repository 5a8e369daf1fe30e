"""Plug-ins: the entry points of installed distributions in a group, found without importing them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from coworld_core.errors import UsageError
from coworld_core.text.phrases import closest, listed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["entry_points_of", "find_entry_point", "source_of"]


def entry_points_of(group: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a group by name, in alphabetical order; several under one name if they clash."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in _entry_points(group, tuple((place, _changed(place)) for place in sys.path)):
        found.setdefault(entry.name, []).append(entry)
    return found


@lru_cache(maxsize=16)
def _entry_points(group: str, _places: tuple[tuple[str, int | None], ...]) -> tuple[EntryPoint, ...]:
    """Read the metadata of all distributions; cached until one is added or removed, as each has a file of its own."""
    from importlib.metadata import entry_points  # 20 ms, which no help text needs to pay

    return tuple(sorted(entry_points(group=group), key=lambda entry: (entry.name, source_of(entry))))


def _changed(place: str) -> int | None:
    """Return when a directory of distributions last changed, which `importlib` checks too."""
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return None


def find_entry_point(name: str, known: Mapping[str, list[EntryPoint]], *, noun: str) -> EntryPoint:
    """Return the entry point with a name.

    Args:
        name: The name.
        known: The entry points of the group (`entry_points_of`).
        noun: What they are called in messages and codes.

    Raises:
        UsageError: There is none of that name, or two distributions have one.
    """
    if name not in known:
        close = closest(name, known)
        there = f"There are {listed(known)}." if known else f"No {noun} is installed: reinstall coworld-runner."
        raise UsageError(
            f"There is no {noun} {name!r}.",
            code=f"unknown_{noun}",
            hint=f"Did you mean {close!r}? {there}" if close else there,
            context={noun: name},
        )
    first, *others = known[name]
    if others:
        sources = listed(map(source_of, known[name]))
        raise UsageError(
            f"There is more than one {noun} {name!r}: it is in {sources}.",
            code=f"ambiguous_{noun}",
            hint="Uninstall all but one of them.",
            context={noun: name},
        )
    return first


def source_of(entry: EntryPoint) -> str:
    """Return the name of an entry point's distribution, or its value if that is unknown."""
    return entry.dist.name if entry.dist is not None else entry.value
