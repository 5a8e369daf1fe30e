"""Seasons of a league: closing one, promotion and relegation, and pausing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.evaluation import shared_places
from coworld_core.tournament import risers

from ..identity.accounts import AccountError
from ..store.audit import audit
from ..store.columns import JsonObject, now
from ..store.event_log import record_event
from ..store.models import Commission, Division, EpisodeRequest, League, Membership, Player, Round, Season, Tally, User
from .cancellation import cancel_waiting
from .league_settings import LeagueSettings

__all__ = [
    "COMMISSIONED",
    "CONTINUOUS",
    "MOST_RETREAT",
    "Holder",
    "absent_among",
    "change_division",
    "change_league",
    "close_season",
    "entry_of_tally",
    "final_places",
    "holders_of",
    "keep_report",
    "last_report",
    "living_divisions",
    "locked_league",
    "names_of",
    "replace_report",
    "rounds_finished",
    "season_table",
    "state_of",
    "subjects_in",
    "who_decides",
    "why_stopped",
    "why_unattended",
]

CONTINUOUS = "continuous"
"""`League.commissioner_key` of a league whose champions meet in one round after another."""
COMMISSIONED = "container"
"""`League.commissioner_key` of a league whose rounds a commissioner decides; the protocol's word."""

MOST_RETREAT = 600.0
"""The longest pause after a failure of a commissioner, in seconds, unless its rounds are farther apart."""


async def last_report(session: AsyncSession, division_id: str, season: int) -> JsonObject | None:
    """A division's report after the last round of a season; None before the first."""
    return await session.scalar(
        sa.select(Round.report)
        .where(Round.division_id == division_id, Round.season == season, Round.report.is_not(None))
        .order_by(Round.round_number.desc())
        .limit(1)
    )


async def keep_report(session: AsyncSession, row: Round, report: JsonObject, state: JsonObject | None = None) -> None:
    """Store a division's report after a round, and the state that its next table continues from.

    Only the newest pair results and state are kept: together those of all rounds would take more space than all scores.
    """
    before = await last_report(session, row.division_id, row.season)
    if before is not None:
        await replace_report(session, row.division_id, row.season, {**before, "pairs": []})
    await session.execute(sa.update(Round).where(Round.id == row.id).values(report=report, state=state))
    await session.flush()


async def replace_report(session: AsyncSession, division_id: str, season: int, report: JsonObject) -> None:
    """Replace a division's last report, if there is one. No table continues from it afterwards."""
    last = (
        sa.select(Round.id)
        .where(Round.division_id == division_id, Round.season == season, Round.report.is_not(None))
        .order_by(Round.round_number.desc())
        .limit(1)
    )
    await session.execute(sa.update(Round).where(Round.id == last.scalar_subquery()).values(report=report, state=None))


async def close_season(session: AsyncSession, league: League) -> Season:
    """End a league's season: archive its tables, promote and relegate members, and begin the next season.

    Waiting episodes of its rounds are cancelled; running ones finish but do not count.

    Args:
        session: A writing session that has locked the league's row.
        league: The league.
    """
    divisions = await living_divisions(session, league.id)
    ids = [division.id for division in divisions]
    running = sa.and_(Round.division_id.in_(ids), Round.status == "running")
    rounds = (await session.scalars(sa.select(Round.id).where(running))).all()
    why = "The season was closed before this episode was played."
    await cancel_waiting(session, EpisodeRequest.round_id.in_(rounds), why, error_type="cancelled")
    await session.execute(
        sa.update(Round).where(running).values(status="cancelled", completed_at=now(), error="The season was closed.")
    )
    terms = LeagueSettings.of(league.commissioner_config)
    tables = [await season_table(session, division, terms) for division in divisions]
    ladder: list[list[str]] = []
    for division, table in zip(divisions, tables, strict=True):
        placed = [line["subject"] for line in table["standings"] if line["place"] is not None]
        ladder.append(placed + [one for one in await subjects_in(session, division.id) if one not in placed])
    # A commissioner has already moved the members that it wanted to move.
    moves = 0 if league.commissioner_key == COMMISSIONED else terms.moves
    moved = risers(ladder, moves=moves, size=terms.size)
    names = await names_of(session, league.id, [one.subject for one in moved])
    for one in moved:
        await change_division(session, league.id, one.subject, divisions[one.to].id)
    await session.execute(sa.delete(Tally).where(Tally.division_id.in_(ids)))
    season = Season(
        league_id=league.id,
        number=league.season,
        tables=tables,
        moves=[
            {
                "subject": one.subject,
                "name": names.get(one.subject),
                "from": divisions[one.frm].name,
                "to": divisions[one.to].name,
            }
            for one in moved
        ],
    )
    session.add(season)
    league.season += 1
    if terms.is_over(league.season):
        league.paused_at = league.paused_at or now()
    first = [
        f"{line['name']} in {table['division']}"
        for table in tables
        for line in table["standings"]
        if line["place"] == 1
    ]
    await record_event(
        session,
        "season_ended",
        f"Season {season.number} of {league.name} is over",
        summary=f"First: {', '.join(first)}." if first else "",
        league_id=league.id,
        payload={"season": season.number},
    )
    audit(session, "league.season_closed", subject=league.name, season=season.number, moved=len(moved))
    await session.flush()
    return season


async def living_divisions(session: AsyncSession, league_id: str) -> Sequence[Division]:
    """A league's divisions that are not archived, highest first."""
    statement = sa.select(Division).where(Division.league_id == league_id, Division.archived_at.is_(None))
    return (await session.scalars(statement.order_by(Division.level.desc()))).all()


async def season_table(session: AsyncSession, division: Division, terms: LeagueSettings) -> JsonObject:
    """The table of a division if its season ended now, as archived in `Season.tables`."""
    report = await last_report(session, division.id, division.league.season) or {"standings": []}
    absent = await absent_among(session, division, [line["subject"] for line in report["standings"]])
    least = terms.played_percent / 100 * await rounds_finished(session, division)
    lines = final_places(report["standings"], absent, least=least)
    names = await names_of(session, division.league_id, [line["subject"] for line in lines])
    means = await _means(session, division)
    return {
        "division_id": division.id,
        "division": division.name,
        "standings": [{**line, "name": names.get(line["subject"]), **means.get(line["subject"], {})} for line in lines],
    }


def final_places(lines: Sequence[JsonObject], absent: Mapping[str, str], *, least: float) -> list[JsonObject]:
    """The places of a season: those who withdrew or hardly played have none, and are listed last.

    Args:
        lines: The last standings, best first (`Round.report`).
        absent: The entries that do not compete there now, and why (`absent_among`).
        least: The least number of rounds that an entry must have played.

    Returns:
        The lines, each with its new `place`, or None and the reason as `unplaced`: that in `absent`, or `few_rounds`.
    """

    def unplaced(line: JsonObject) -> str | None:
        return absent.get(line["subject"]) or ("few_rounds" if line["rounds"] < least else None)

    placed = [line for line in lines if unplaced(line) is None]
    places = shared_places([line["place"] for line in placed])
    return [
        *({**line, "place": place} for line, place in zip(placed, places, strict=True)),
        *({**line, "place": None, "unplaced": why} for line in lines if (why := unplaced(line)) is not None),
    ]


async def rounds_finished(session: AsyncSession, division: Division) -> int:
    """How many rounds of the season a division has finished."""
    of_season = (Round.division_id == division.id, Round.season == division.league.season)
    finished = (Round.report.is_not(None), Round.status == "completed")
    return await session.scalar(sa.select(sa.func.count()).select_from(Round).where(*of_season, *finished)) or 0


async def change_division(session: AsyncSession, league_id: str, entry: str, division_id: str) -> None:
    """Move all members of an entry in a league to a division."""
    await session.execute(
        sa.update(Membership)
        .where(
            Membership.league_id == league_id,
            Membership.end_time.is_(None),
            Membership.entry_id == entry,
        )
        .values(division_id=division_id)
    )


async def locked_league(session: AsyncSession, reference: str) -> League:
    """Find a league by name or id, and lock it until the session ends.

    Raises:
        AccountError: There is no such league (code `unknown_league`).
    """
    league = await session.scalar(
        sa.select(League).where(sa.or_(League.id == reference, League.name == reference)).with_for_update(of=League)
    )
    if league is None:
        hint = "`observatory league list` has them all."
        raise AccountError(f"There is no league {reference!r}.", code="unknown_league", hint=hint)
    return league


async def change_league(session: AsyncSession, reference: str, action: str) -> JsonObject:
    """Pause or resume a league, or close its season.

    Args:
        session: A writing session.
        reference: The league's name or id.
        action: `pause` (begin no more rounds; the current one finishes), `resume`, or `season`
            (`close_season`).

    Returns:
        `id`, `name`, `state`, `season`, and the `moves` between divisions.

    Raises:
        AccountError: There is no such league (code `unknown_league`), or one that is over does not resume
            (`league_over`).
    """
    league = await locked_league(session, reference)
    moves: list[JsonObject] = []
    if action == "season":
        moves = (await close_season(session, league)).moves
    elif action == "pause":
        league.paused_at = league.paused_at or now()
        audit(session, "league.paused", subject=league.name)
    elif state_of(league) == "over":
        said = f"{league.name} is over: season {league.season - 1} was its final one."
        hint = "Another --final-season, or 0 for none, lets it go on."
        raise AccountError(said, code="league_over", hint=hint)
    else:
        league.paused_at = None
        audit(session, "league.resumed", subject=league.name)
    return {
        "id": league.id,
        "name": league.name,
        "state": state_of(league),
        "season": league.season,
        "moves": moves,
    }


def state_of(league: League) -> str:
    """`plays`, `paused`, `over` after its final season, or `stands still` if it has no rounds of its own."""
    if LeagueSettings.of(league.commissioner_config).is_over(league.season):
        return "over"
    if league.commissioner_key not in (CONTINUOUS, COMMISSIONED):
        return "stands still"
    return "paused" if league.paused_at is not None else "plays"


def who_decides(league: League) -> str:
    """The pairing or the commissioner that decides the league's rounds."""
    terms = LeagueSettings.of(league.commissioner_config)
    return (
        f"commissioner {terms.commissioner_runnable_id}" if league.commissioner_key == COMMISSIONED else terms.pairing
    )


def why_unattended(league: League, lease: Commission | None) -> str | None:
    """Why the commissioner of a league is not asked for rounds, if no server runs it; None otherwise.

    Args:
        league: The league.
        lease: The lease on it, if a server has ever held one.
    """
    if league.commissioner_key != COMMISSIONED or league.disabled_at is not None:
        return None
    if lease is not None and lease.owner is not None and lease.expires_at > now():
        return None
    if lease is not None and lease.trouble is not None:
        # After a failure, a server holds no lease until it tries again.
        pause = max(MOST_RETREAT, LeagueSettings.of(league.commissioner_config).every_seconds)
        if lease.expires_at + dt.timedelta(seconds=pause) > now():
            return None
    return "No server runs its commissioner, so no rounds are played: start a server that has a backend."


def why_stopped(report: JsonObject | None) -> str | None:
    """Why a division cannot play the rest of its season; None if it can, or if it has not begun.

    Args:
        report: The report of its last round (`last_report`).
    """
    match (report or {}).get("over"):
        case None | "":
            return None
        case "rounds":
            return "All rounds of this season are played. The next season begins when the other divisions are done."
        case over:
            why = (report or {}).get("why") or f"The first blocks of the season did not count ({over})."
            return f"No more rounds will be played in this season: {why}"


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The player that an entry plays for, or the account without one."""

    id: str
    kind: str
    """`player` or `user`."""
    name: str

    @classmethod
    def of(cls, player_id: str | None, player_name: str | None, user_id: str, user_name: str) -> Holder:
        """A player of a user, or the user if it plays without one."""
        if player_id is None or player_name is None:
            return cls(id=user_id, kind="user", name=user_name)
        return cls(id=player_id, kind="player", name=player_name)


_NEWEST = (
    sa.select(
        Membership.entry_id,
        Membership.player_id,
        Membership.user_id,
        sa.func.row_number()
        .over(
            partition_by=Membership.entry_id,
            order_by=(Membership.is_champion.desc(), Membership.created_at.desc(), Membership.id),
        )
        .label("place"),
    )
    .where(Membership.league_id == sa.bindparam("league"))
    .where(Membership.entry_id.in_(sa.bindparam("entries", expanding=True)))
    .subquery()
)
# Every leaderboard needs it, and to write a statement costs more than to run it
_HOLDERS = (
    sa.select(_NEWEST.c.entry_id, Player.id, Player.name, User.id, User.name)
    .join(User, User.id == _NEWEST.c.user_id)
    .outerjoin(Player, Player.id == _NEWEST.c.player_id)
    .where(_NEWEST.c.place == 1)
)


async def holders_of(session: AsyncSession, league_id: str, entries: Sequence[str]) -> dict[str, Holder]:
    """The holders of entries of a league: the champion's, else that of the member that joined last."""
    rows = await session.execute(_HOLDERS, {"league": league_id, "entries": [*entries]})
    return {entry: Holder.of(*who) for entry, *who in rows}


async def names_of(session: AsyncSession, league_id: str, entries: Sequence[str]) -> dict[str, str]:
    """Names of the holders of entries of a league."""
    return {entry: holder.name for entry, holder in (await holders_of(session, league_id, entries)).items()}


def entry_of_tally(league_id: str | sa.BindParameter[str]) -> sa.ColumnElement[str]:
    """The entry that a `Tally` counts for in a league."""
    player = sa.func.coalesce(Membership.player_id, Membership.user_id)
    own = sa.select(sa.func.min(Membership.entry_id)).where(
        Membership.league_id == league_id, Membership.user_id == Tally.user_id, player == Tally.subject_id
    )
    return sa.func.coalesce(own.correlate(Tally).scalar_subquery(), Tally.subject_id)


async def subjects_in(session: AsyncSession, division_id: str) -> list[str]:
    """Entries that compete in a division, in the order in which they joined."""
    found = await session.scalars(
        sa.select(Membership.entry_id)
        .where(Membership.division_id == division_id, Membership.end_time.is_(None), Membership.is_champion)
        .order_by(Membership.created_at, Membership.id)
    )
    return list(dict.fromkeys(found))


async def absent_among(session: AsyncSession, division: Division, entries: Collection[str]) -> dict[str, str]:
    """Which of these entries do not compete in a division, and why: they are `benched`, or have `withdrawn`."""
    rows = await session.execute(
        sa.select(Membership.entry_id, sa.and_(Membership.is_champion, Membership.division_id == division.id)).where(
            Membership.league_id == division.league_id, Membership.end_time.is_(None)
        )
    )
    staying: dict[str, bool] = {}
    for entry, competes in rows:
        staying[entry] = staying.get(entry, False) or competes
    return {entry: "benched" if entry in staying else "withdrawn" for entry in entries if not staying.get(entry, False)}


async def _means(session: AsyncSession, division: Division) -> dict[str, JsonObject]:
    lines = (
        sa.select(entry_of_tally(division.league_id).label("entry"), Tally.total, Tally.episodes)
        .where(Tally.division_id == division.id)
        .subquery()
    )
    rows = await session.execute(
        sa.select(lines.c.entry, sa.func.sum(lines.c.total), sa.func.sum(lines.c.episodes)).group_by(lines.c.entry)
    )
    return {who: {"score": float(total) / int(count), "episodes": int(count)} for who, total, count in rows}
