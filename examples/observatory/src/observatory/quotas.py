"""How much one account may have at a time, so that none takes the whole platform."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from coworld_core.errors import UsageError

__all__ = ["Quotas", "read_quotas"]


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The most that one account may have; None: as much as it likes.

    Args:
        episodes: Episodes that wait or are played.
        sessions: Games that run for people to play, of those that it has started.
        requests: Calls of the API in a second, on average over ten. Callers without an account have it by address.
    """

    episodes: int | None = 2000
    sessions: int | None = 2
    requests: int | None = 500


def read_quotas(words: Iterable[str]) -> dict[str, int | None]:
    """Quotas as they are written on a command line, by name: ``episodes=500``, or ``episodes=none`` for no limit.

    Raises:
        UsageError: There is no such quota, or it is no number (code ``bad_quota``).
    """
    found: dict[str, int | None] = {}
    names = [field.name for field in fields(Quotas)]
    for word in words:
        name, _, value = word.partition("=")
        if name not in names or not (value == "none" or (value.isascii() and value.isdigit())):
            raise UsageError(
                f"{word!r} is no quota.",
                code="bad_quota",
                hint=f"Write NAME=NUMBER or NAME=none, with one of: {', '.join(names)}.",
            )
        found[name] = None if value == "none" else int(value)
    return found
