"""Versions of a Coworld: which is higher, and which comes next."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["highest_version", "next_version"]


def next_version(version: str) -> str:
    """The version after one: its release with one added to the last number (``1.2.3`` gives ``1.2.4``).

    Args:
        version: A PEP 440 version.

    Raises:
        ValueError: It is none.
    """
    from packaging.version import Version

    release = list(Version(version).release)
    release[-1] += 1
    return ".".join(map(str, release))


def highest_version(versions: Iterable[str]) -> str | None:
    """The highest of several PEP 440 versions; what is none does not count. None when there is none."""
    from packaging.version import InvalidVersion, Version

    found: dict[Version, str] = {}
    for text in versions:
        try:
            found[Version(text)] = text
        except InvalidVersion:
            continue
    return found[max(found)] if found else None
