"""Names that mean the same."""

from __future__ import annotations

__all__ = ["name_key"]


def name_key(name: str) -> str:
    """What a Coworld's name is known by: case does not matter, and ``-`` is ``_``."""
    return name.strip().casefold().replace("-", "_")
