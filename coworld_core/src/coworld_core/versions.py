"""Compare and increment versions of a Coworld, and name the published versions of coworld to be compatible with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

__all__ = ["Generation", "Published", "highest_version", "next_version"]

Published = Literal["0.1.26", "0.1.64"]
"""Published versions whose rules a manifest can be checked against: the last without newer features, and the newest."""

Generation = Literal["0.1.7", Published]
"""Published versions by whose rules a Coworld can be certified; for 0.1.7, manifests are read leniently."""


def next_version(version: str) -> str:
    """The next version: the release with its last number increased by one (`1.2.3` gives `1.2.4`).

    Args:
        version: A PEP 440 version.

    Raises:
        ValueError: It is not a PEP 440 version.
    """
    from packaging.version import Version

    release = list(Version(version).release)
    release[-1] += 1
    return ".".join(map(str, release))


def highest_version(versions: Iterable[str]) -> str | None:
    """The highest of several PEP 440 versions, ignoring invalid ones; None if there is no valid one."""
    from packaging.version import InvalidVersion, Version

    found: dict[Version, str] = {}
    for text in versions:
        try:
            found[Version(text)] = text
        except InvalidVersion:
            continue
    return found[max(found)] if found else None
