"""Files of units, brought in several at once and all within a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import anyio

from coworld_core.errors import TransferError

from ..backend import Unit

__all__ = ["Fetched", "Room", "Wanted", "fetch_all", "worth_keeping"]

_AT_ONCE = 8
_MOST_FILES = 1000
"""How many files that a unit leaves of its own accord are kept."""

Fetched = int | FileNotFoundError | TransferError
"""What came of a file: its bytes, that there is none, or why it was not brought in."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A file to be brought in."""

    unit: Unit
    name: str
    target: Path
    limit: int
    """Bytes it may have."""


@dataclass
class Room:
    """What several files may have in all."""

    left: int
    """Bytes that may still be brought in."""


def worth_keeping(names: Iterable[str], *, who: str, warn: Callable[[str], object]) -> list[str]:
    """Which of the files that a unit has left of its own accord are kept; why others are not is told.

    Args:
        names: The files.
        who: Who left them, at the beginning of a sentence.
        warn: Told of each that is not kept, or of many at once.
    """
    kept: list[str] = []
    for name in names:
        if not name.isprintable():
            # nor could it be told of in a record
            warn(f"{who} wrote {name!a}, which is not kept: that is no name for a file.")
        elif len(kept) == _MOST_FILES:
            warn(f"{who} wrote more than {_MOST_FILES} further files; the rest is not kept.")
            break
        else:
            kept.append(name)
    return kept


async def fetch_all(
    wanted: Iterable[Wanted],
    *,
    seconds: float,
    tell: Callable[[Wanted, Fetched], Awaitable[None]],
    room: Room | None = None,
) -> None:
    """Bring in files of units.

    Args:
        wanted: Which.
        seconds: How long all of them may take.
        tell: Told of each what came of it.
        room: What they may have in all; None: as much as each may have.
    """
    gate = anyio.CapacityLimiter(_AT_ONCE)
    deadline = anyio.current_time() + seconds

    async def one(want: Wanted) -> None:
        fetched: Fetched = TransferError(
            f"{want.name} could not be brought in within {seconds:g} s.",
            code="too_slow",
            hint="Write less, or allow more time with the option collect_timeout.",
            context={"name": want.name},
        )
        with anyio.CancelScope(deadline=deadline):
            async with gate:
                fetched = await _fetch(want, room)
        await tell(want, fetched)

    async with anyio.create_task_group() as tasks:
        for want in wanted:
            tasks.start_soon(one, want)


async def _fetch(want: Wanted, room: Room | None) -> Fetched:
    limit, kept = want.limit, 0
    if room is not None:
        size = await want.unit.size(want.name)
        limit = min(limit, room.left)
        # for the others that are under way
        kept = min(size or 0, limit)
        room.left -= kept
    fetched: Fetched = 0
    try:
        fetched = await want.unit.fetch(want.name, want.target, limit=limit)
    except (FileNotFoundError, TransferError) as error:
        fetched = error
    finally:
        if room is not None:
            room.left += kept - (fetched if isinstance(fetched, int) else 0)
    return fetched
