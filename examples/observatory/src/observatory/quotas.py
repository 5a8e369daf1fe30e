"""How much one account may have at a time, so that none takes the whole platform."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

from coworld_core.errors import UsageError

__all__ = ["Quotas", "read_quotas", "read_size"]

_SIZE = re.compile(r"(?P<number>\d{1,15})(?P<unit>[KMGT]?)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The most that one account may have; None: as much as it likes.

    Args:
        episodes: Episodes that wait or are played, and roles that were asked for and wait or run.
        sessions: Games that run for people to play, of those that it has started.
        replays: Replays that games show, of those that it has asked for. Callers without an account have it by address.
        stored: Bytes of its images (unpacked, if that is more, and by chains of layers), Coworlds and secrets, and of
            what the episodes that it asked for have left.
        image: Bytes of one image, unpacked.
        teams: Teams that it is a member of.
        players: Players, of those that it has ever made.
        requests: Requests in a second, on average over ten. Callers without an account have it by address.
        rows: Rows that its requests add to the database in a day: requests, episodes and their seats, labels, keys,
            tokens, events. Callers without an account have it by address.
    """

    episodes: int | None = 2000
    sessions: int | None = 2
    replays: int | None = 4
    stored: int | None = 50 * 2**30
    image: int | None = 2 * 2**30
    players: int | None = 10
    teams: int | None = 3
    requests: int | None = 500
    rows: int | None = 100_000


def read_quotas(words: Iterable[str]) -> dict[str, int | None]:
    """Quotas as they are written on a command line, by name: `episodes=500`, or `episodes=none` for no limit.

    Bytes may be written with a unit: `stored=512M` or `stored=20G`, by powers of 1024.

    Raises:
        UsageError: There is no such quota, or it is no number (code `bad_quota`).
    """
    found: dict[str, int | None] = {}
    names = [field.name for field in fields(Quotas)]
    for word in words:
        name, _, value = word.partition("=")
        number = read_size(value)
        is_known = number is not None and (value.isdecimal() or name in ("stored", "image"))
        if name not in names or not (is_known or value == "none"):
            raise UsageError(
                f"{word!r} is not a quota.",
                code="bad_quota",
                hint=f"Write NAME=NUMBER or NAME=none, with one of: {', '.join(names)}.",
            )
        found[name] = number
    return found


def read_size(text: str) -> int | None:
    """A number of bytes, with or without a unit: `512K`, `16M`, by powers of 1024; None: it is none."""
    match = _SIZE.fullmatch(text)
    return None if match is None else int(match["number"]) * 1024 ** " KMGT".index(match["unit"] or " ")
