"""Versions of a Coworld: which is higher, and which comes next; and those of coworld itself that one may ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

__all__ = ["Generation", "Published", "highest_version", "next_version"]

Published = Literal["0.1.26", "0.1.64"]
"""Published versions that a manifest can be for: the last that knows nothing newer, and the newest."""

Generation = Literal["0.1.7", Published]
"""Published versions by whose rules a Coworld can be certified; to 0.1.7 a manifest is what can be read of it."""


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
