"""How far the running season of a division is, and when its next round begins."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ..store.columns import now
from ..store.models import FINAL_STATUSES, Division, EpisodeRequest, Membership, Round
from .league_members import champions
from .league_settings import LeagueSettings
from .seasons import COMMISSIONED, last_report, rounds_finished, state_of

__all__ = ["SeasonProgress", "season_progress"]


@dataclass(frozen=True, kw_only=True)
class SeasonProgress:
    """How far a season is."""

    done: int
    """Finished rounds."""
    planned: int | None
    """Rounds of the season; None: until the pairing ends, or somebody closes the season."""
    current: Round | None
    """The round that is being played."""
    over: int
    """Its episodes that are over."""
    running: int
    waiting: int
    next: str
    """When the next round begins, for people; empty if none does in this season."""
    next_at: dt.datetime | None
    """The moment that ends the sentence `next`; None: it has none."""

    @property
    def episodes(self) -> int:
        """The number of episodes of the current round."""
        return self.over + self.running + self.waiting


async def season_progress(session: AsyncSession, division: Division) -> SeasonProgress | None:
    """How far the running season of a division is; None in a league without rounds of its own."""
    league = division.league
    state, terms = state_of(league), LeagueSettings.of(league.commissioner_config)
    if state in ("over", "stands still"):
        return None
    last = await session.scalar(
        sa.select(Round).where(Round.division_id == division.id).order_by(Round.round_number.desc()).limit(1)
    )
    current = last if last is not None and last.status == "running" else None
    counts: dict[str, int] = {}
    if current is not None:
        rows = await session.execute(
            sa.select(EpisodeRequest.status, sa.func.count())
            .where(EpisodeRequest.round_id == current.id)
            .group_by(EpisodeRequest.status)
        )
        counts = {status: count for status, count in rows}  # noqa: C416 - the rows are no pairs for the type checker
    report = await last_report(session, division.id, league.season) or {}
    words, moment = "", None
    # After the last round of a season, and of a pairing, none follows
    if state == "paused":
        words = "No round begins while the league is paused."
    elif not report.get("over"):
        words, moment = await _next(session, division, terms, last)
    return SeasonProgress(
        done=await rounds_finished(session, division),
        planned=terms.rounds if league.commissioner_key != COMMISSIONED else None,
        current=current,
        over=sum(counts.get(status, 0) for status in FINAL_STATUSES),
        running=counts.get("running", 0),
        waiting=counts.get("pending", 0),
        next=words,
        next_at=moment,
    )


async def _next(
    session: AsyncSession, division: Division, terms: LeagueSettings, last: Round | None
) -> tuple[str, dt.datetime | None]:
    if division.league.commissioner_key == COMMISSIONED:
        return "The commissioner decides when the next round begins.", None
    due = last.created_at + dt.timedelta(seconds=terms.every_seconds) if last is not None else now()
    early = now() < due
    if last is not None and last.status == "running":
        words = "The next round begins when this one is over"
        return (f"{words}, at the earliest", due) if early else (f"{words}.", None)
    competing = champions(Membership.division_id == division.id, Membership.status == "competing")
    owners = competing.with_only_columns(sa.func.count(Membership.user_id.distinct())).order_by(None)
    if (await session.scalar(owners) or 0) < 2:
        return "The next round begins when champions of two accounts are here.", None
    return ("The next round begins", due) if early else ("The next round is about to begin.", None)
