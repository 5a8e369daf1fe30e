"""Finds pairings: the entry points of installed distributions in the group `coworld.pairings`."""

from __future__ import annotations

from coworld_core.errors import UsageError
from coworld_core.tournament.pairing_rule import PairingRule

from ...backends._plugins import entry_points_of, find_entry_point, source_of

__all__ = ["GROUP", "find_pairing", "pairing_names"]

GROUP = "coworld.pairings"
"""The entry point group; each of its entry points is a `coworld_core.tournament.PairingRule`."""


def pairing_names() -> tuple[str, ...]:
    """Return the names of the installed pairings."""
    return tuple(entry_points_of(GROUP))


def find_pairing(name: str) -> PairingRule:
    """Load a pairing by name.

    Raises:
        UsageError: There is no such pairing, two distributions have one, or it cannot be loaded.
    """
    entry = find_entry_point(name, entry_points_of(GROUP), noun="pairing")
    try:
        found: object = entry.load()
    except Exception as error:
        raise _broken(name, source_of(entry), f"{type(error).__name__}: {error}") from error
    if not isinstance(found, PairingRule):
        raise _broken(name, source_of(entry), f"it is a {type(found).__name__}, not a PairingRule")
    return found


def _broken(name: str, source: str, why: str) -> UsageError:
    return UsageError(
        f"The pairing {name!r} of {source} cannot be used: {why}.",
        code="pairing_broken",
        hint=f"Update or uninstall {source}.",
    )
