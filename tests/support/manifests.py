"""Finds the parts of a manifest that are missing from its written form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

__all__ = ["leaves", "lost"]

LIFTED = {("game", "protocols", "player"), ("game", "protocols", "global")}
"""Places of plain text that becomes a document."""

_NEW_NAMES: dict[str | int, str | int] = {"image_uri": "image"}


def lost(before: Any, after: Any) -> set[tuple[str | int, ...]]:
    """Places in one document whose value is missing from another; null counts as missing."""
    return {
        place
        for place, value in leaves(before)
        if value is not None
        and not _same(value, _at(after, place))
        and not (place in LIFTED and _same(value, _at(after, (*place, "value"))))
        and not _same(value, _at(after, tuple(_NEW_NAMES.get(part, part) for part in place if part != "runnable")))
    }


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value that is not an object or a list, with its place."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    if not items and value not in ({}, []):
        yield place, value
    for key, below in items:
        yield from leaves(below, (*place, key))


def _same(one: Any, other: Any) -> bool:
    # Line ends of a page's id are dropped.
    return one == other or (isinstance(one, str) and one.rstrip("\r\n") == other)


def _at(value: Any, place: tuple[str | int, ...]) -> Any:
    for part in place:
        if part == "ephemeral_storage" and part not in value:
            part = "ephemeral-storage"
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value
