"""What a search among runs asks for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import UsageError

__all__ = ["RunFilter", "read_moment"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """What runs and episodes are to be found; by default all. A run is found if one of its episodes is.

    Texts are patterns, with `*`, `?` and `[…]` as in a shell.
    """

    game: str = ""
    """The name of the Coworld."""
    variant: str = ""
    kind: str = ""
    """`episode`, `batch`, `certification`, `improvement`, `tournament`, or the kind of an evaluation."""
    player: str = ""
    """The name or the id of a player, or its image or file."""
    digest: str = ""
    """The beginning of the digest of a player's content, with or without `sha256:`."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """A pattern for the value of each of these labels; `*`: it has any."""
    status: str = ""
    """`completed`, `failed`, `interrupted`, `running` or `lost`."""
    fault: str = ""
    """The type of the deciding fault, or the party at fault; `*`: any fault."""
    min_score: float | None = None
    """A seat has at least this score; with `player` or `digest`, one of that player's."""
    max_score: float | None = None
    since: dt.datetime | None = None
    """The run began at this moment or later."""
    until: dt.datetime | None = None
    """The run began before this moment."""

    @property
    def of_episodes(self) -> bool:
        """Whether it asks for something that only an episode has."""
        asks = (self.player, self.digest, self.fault, self.min_score, self.max_score)
        return any(value not in ("", None) for value in asks)


def read_moment(text: str, *, now: dt.datetime | None = None) -> dt.datetime:
    """Read a moment: a date or a time in ISO 8601 (local without an offset), or how long ago (`30m`, `12h`, `7d`).

    Raises:
        UsageError: Code `bad_moment`: it is neither.
    """
    number, unit = text[:-1], text[-1:]
    try:
        if unit in _UNITS:
            now = now or dt.datetime.now(dt.UTC)
            return now - dt.timedelta(seconds=float(number) * _UNITS[unit])
        return dt.datetime.fromisoformat(text).astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is no time.",
            code="bad_moment",
            hint="Write a date (2026-11-26), a time (2026-11-26T19:30), or how long ago: 30m, 12h, 7d, 2w.",
        ) from error
