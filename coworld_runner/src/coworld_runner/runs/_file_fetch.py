"""Fetching files from units, several at once and within a time limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import anyio

from coworld_core.errors import TransferError
from coworld_core.hints import Hint

from ..backend import Unit

__all__ = ["Fetched", "SpaceLeft", "Wanted", "fetch_all", "worth_keeping"]

_AT_ONCE = 8
_MOST_FILES = 1000
"""Maximum number of a unit's unrequested files to keep."""

Fetched = int | FileNotFoundError | TransferError
"""The outcome for a file: its size in bytes, that it does not exist, or why it could not be fetched."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A file to fetch."""

    unit: Unit
    name: str
    target: Path
    limit: int
    """The most bytes it may have."""


@dataclass
class SpaceLeft:
    """A size limit that several files share."""

    left: int
    """Bytes that may still be fetched."""


def worth_keeping(names: Iterable[str], *, who: str, warn: Callable[[str], object]) -> list[str]:
    """Choose which of a unit's unrequested files to keep, and warn about the others.

    Args:
        names: The files.
        who: The unit that wrote them, as the subject of a warning.
        warn: Called for each file that is not kept, or once for many.
    """
    kept: list[str] = []
    for name in names:
        if not name.isprintable():
            # Such a name cannot be written to a record
            warn(f"{who} wrote {name!a}, which is not kept: the name is not printable.")
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
    room: SpaceLeft | None = None,
) -> None:
    """Fetch files from units.

    Args:
        wanted: The files.
        seconds: How long all of them together may take.
        tell: Called with each file and its outcome.
        room: The size limit for all of them together; None: only the limit of each applies.
    """
    gate = anyio.CapacityLimiter(_AT_ONCE)
    deadline = anyio.current_time() + seconds

    async def one(want: Wanted) -> None:
        fetched: Fetched = TransferError(
            f"{want.name} could not be fetched within {seconds:g} s.",
            code="too_slow",
            hint=Hint("collect_longer", "Write less, or allow more time with collect_timeout."),
            context={"name": want.name},
        )
        with anyio.CancelScope(deadline=deadline):
            async with gate:
                fetched = await _fetch(want, room)
        await tell(want, fetched)

    async with anyio.create_task_group() as tasks:
        for want in wanted:
            tasks.start_soon(one, want)


async def _fetch(want: Wanted, room: SpaceLeft | None) -> Fetched:
    limit, kept = want.limit, 0
    if room is not None:
        size = await want.unit.size(want.name)
        limit = min(limit, room.left)
        # Reserved, because other fetches run at the same time
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
