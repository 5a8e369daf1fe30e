"""Values that the pages show of episodes and leagues."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ..episodes.access import may_read, own_slots, player_faults, sealed, visible
from ..episodes.downloads import chunks
from ..identity.auth import Caller
from ..services import Services
from ..store.models import FINAL_STATUSES, Artifact, Coworld, EpisodeRequest, RoleRun
from ..work.seat_files import NOTE

__all__ = [
    "EpisodeRow",
    "GradeRow",
    "LogText",
    "SeatRow",
    "drawn_band",
    "drawn_line",
    "episode_rows",
    "read_log",
    "recent_episodes",
]

LOG_BYTES = 64 * 1024
"""The number of last bytes of a log that a page shows."""
_NOTES = 1024


@dataclass(frozen=True, kw_only=True)
class SeatRow:
    """The occupant of a slot."""

    label: str
    owner: str | None
    """Name of the player or the account that it plays for; None for a person, and for the game's own players."""
    score: float | None
    share: float | None
    """Share of the best score, 0 to 1; None if that is meaningless."""
    mine: bool
    fault: str | None
    """The fault of its player."""


@dataclass(frozen=True, kw_only=True)
class GradeRow:
    """What a grader says."""

    name: str
    score: float


@dataclass(frozen=True, kw_only=True)
class EpisodeRow:
    """An episode on a page."""

    id: str
    status: str
    over: bool
    coworld: str
    version: str
    variant: str | None
    seats: tuple[SeatRow, ...]
    error_type: str | None
    error: str | None
    seed: int | None
    seconds: float | None
    experience_request_id: str | None
    created_at: dt.datetime
    grades: tuple[GradeRow, ...]


@dataclass(frozen=True, kw_only=True)
class LogText:
    """A log, or its end."""

    title: str
    size: int
    text: str
    cut: bool
    href: str


async def recent_episodes(
    session: AsyncSession,
    services: Services,
    caller: Caller,
    *conditions: sa.ColumnElement[bool],
    limit: int = 15,
    offset: int = 0,
) -> list[EpisodeRow]:
    """Read the newest episodes that the visitor may see."""
    rows = await session.scalars(
        sa.select(EpisodeRequest)
        .where(visible(caller, public=services.settings.public), *conditions)
        .order_by(EpisodeRequest.created_at.desc(), EpisodeRequest.index.desc(), EpisodeRequest.id)
        .limit(limit)
        .offset(offset)
    )
    return await episode_rows(session, caller, rows.all())


async def episode_rows(session: AsyncSession, caller: Caller, rows: Sequence[EpisodeRequest]) -> list[EpisodeRow]:
    """Episodes for a page."""
    ids = {row.coworld_id for row in rows}
    found = await session.execute(sa.select(Coworld.id, Coworld.name, Coworld.version).where(Coworld.id.in_(ids)))
    coworlds = {row[0]: (row[1], row[2]) for row in found}
    grades = await _grades(session, caller, rows)
    return [
        _row(row, caller, *coworlds.get(row.coworld_id, ("a Coworld", "")), grades=grades.get(row.id, ()))
        for row in rows
    ]


async def _grades(
    session: AsyncSession, caller: Caller, rows: Sequence[EpisodeRequest]
) -> dict[str, tuple[GradeRow, ...]]:
    """The grades of episodes that the visitor may see."""
    by_id = {row.id: row for row in rows}
    found: dict[str, tuple[GradeRow, ...]] = {}
    for episode, slots, name, score in await session.execute(
        sa.select(RoleRun.episode_request_id, RoleRun.slots, RoleRun.runnable_id, RoleRun.score)
        .where(RoleRun.episode_request_id.in_(by_id), RoleRun.score.is_not(None))
        .order_by(RoleRun.runnable_id, RoleRun.id)
    ):
        if score is not None and may_read(caller, by_id[episode], slots):
            found[episode] = (*found.get(episode, ()), GradeRow(name=name, score=score))
    return found


def _row(
    row: EpisodeRequest, caller: Caller, coworld: str, version: str, *, grades: tuple[GradeRow, ...]
) -> EpisodeRow:
    scores = {score.position: score.score for score in row.scores}
    faults = {fault["position"]: str(fault["message"]) for fault in reversed(player_faults(row))}
    best = max(scores.values(), default=0.0)
    meaningful = bool(scores) and best > 0 and min(scores.values()) >= 0
    mine = own_slots(caller, row) if caller.known and not caller.oversees(row.league_id) else frozenset[int]()
    ended = row.completed_at if row.started_at is not None else None
    return EpisodeRow(
        id=row.id,
        status=row.status,
        over=row.status in FINAL_STATUSES,
        coworld=coworld,
        version=version,
        variant=row.variant_id,
        seats=tuple(
            SeatRow(
                label=seat.policy_name if seat.policy_version_id is None else f"{seat.policy_name}:v{seat.version}",
                owner=seat.player_name if seat.policy_version_id is not None else None,
                score=scores.get(seat.position),
                share=scores[seat.position] / best if meaningful and seat.position in scores else None,
                mine=seat.position in (mine or ()),
                fault=faults.get(seat.position),
            )
            for seat in row.participants
        ),
        error_type=row.error_type,
        error=row.error,
        seed=None if sealed(row, caller) else row.seed,
        seconds=(ended - row.started_at).total_seconds() if ended and row.started_at else None,
        experience_request_id=row.experience_request_id,
        created_at=row.created_at,
        grades=grades,
    )


async def read_log(services: Services, artifact: Artifact, *, title: str, href: str) -> LogText:
    """Read the end of a log as text, after the platform's own notes at its beginning."""
    start = max(0, artifact.size - LOG_BYTES)
    noted = ""
    if start:
        head = b"".join([piece async for piece in chunks(services.artifacts, artifact, stop=_NOTES)])
        lines = head.decode("utf-8", "replace").splitlines(keepends=True)
        noted = "".join(takewhile(lambda line: line.startswith(NOTE), lines))
    pieces = [piece async for piece in chunks(services.artifacts, artifact, start=start)]
    text = b"".join(pieces).decode("utf-8", "replace")
    if start:
        text = noted + text.partition("\n")[2]
    return LogText(title=title, size=artifact.size, text=_printable(text), cut=start > 0, href=href)


def _printable(text: str) -> str:
    """Replace control characters and text direction marks by dots: logs are untrusted."""
    return "".join(_safe(text))


def _safe(text: str) -> Iterable[str]:
    return (letter if letter in "\n\t" or letter.isprintable() else "·" for letter in text)


def drawn_line(
    values: Sequence[float], low: float | None = None, high: float | None = None, *, width: int = 60, height: int = 16
) -> str:
    """Values as the points of a line, for an SVG of this size; empty for fewer than two.

    Args:
        values: The values, from left to right.
        low: The value at the bottom; None: the least.
        high: The value at the top; None: the greatest.
        width: Of the SVG.
        height: Of the SVG.
    """
    if len(values) < 2:
        return ""
    low, high = min(values) if low is None else low, max(values) if high is None else high
    if low == high:
        low, high = low - 1, high + 1  # What never changes is a line in the middle
    across, up = width / (len(values) - 1), (height - 2) / (high - low)
    return " ".join(f"{at * across:.1f},{height - 1 - (value - low) * up:.1f}" for at, value in enumerate(values))


def drawn_band(
    ends: Sequence[tuple[float, float]], low: float, high: float, *, width: int = 60, height: int = 16
) -> str:
    """Intervals as the points of a polygon around a line (`drawn_line`)."""
    below, above = [drawn_line([one[side] for one in ends], low, high, width=width, height=height) for side in (0, 1)]
    return " ".join([above, *reversed(below.split())])
