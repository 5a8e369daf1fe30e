"""Versions of players as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .rows import Column, rows_table, when
from .text import clean, shown_path, table

if TYPE_CHECKING:
    from coworld_core.player_registry import PlayerVersion

__all__ = ["version_line", "version_text", "versions_text"]

_DIGITS = 12
"""Digits of a digest in a list."""

_VERSIONS: tuple[Column[PlayerVersion], ...] = (
    Column("Version", lambda one: one.label),
    Column("Published", lambda one: when(one.created)),
    Column("Tags", lambda one: ", ".join(one.tags)),
    Column("What", lambda one: one.source or one.kind, free=True),
    Column("Digest", lambda one: one.digest.partition(":")[2][:_DIGITS]),
    Column("Metadata", lambda one: ", ".join(f"{key}={value}" for key, value in one.metadata.items()), free=True),
)


def versions_text(versions: Sequence[PlayerVersion], place: str) -> str:
    """Versions, one on a line."""
    return rows_table(_VERSIONS, versions) if versions else f"There are no players in {shown_path(place)}."


def version_line(version: PlayerVersion) -> str:
    """A version in one line."""
    tags = f" ({', '.join(version.tags)})" if version.tags else ""
    digest = f", {version.digest.partition(':')[2][:_DIGITS]}" if version.digest else ""
    return clean(f"{version.label}{tags}: {version.source or version.kind}{digest}", one_line=True)


def version_text(version: PlayerVersion, path: Path | None = None) -> str:
    """A version with all that is known of it.

    Args:
        version: The version.
        path: The file or directory that plays.
    """
    rows = [
        ("Version", version.label),
        ("Published", when(version.created)),
        ("Tags", ", ".join(version.tags) or "-"),
        ("Digest", version.digest or "-"),
        ("Image" if version.kind == "image" else "File", version.source or "-"),
        *([("Command", " ".join(version.run))] if version.run else []),
        *([("Path", shown_path(path))] if path is not None else []),
        *((key, value) for key, value in version.metadata.items()),
    ]
    return table((head, clean(value, one_line=True)) for head, value in rows)
