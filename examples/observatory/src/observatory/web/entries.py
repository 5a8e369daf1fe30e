"""The page of an entry in a league: its rating and its place over rounds, whom it has met, and its episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import Request
from starlette.responses import Response

from ..api.leagues import find_league
from ..errors import Refusal
from ..store.columns import JsonObject
from ..store.models import (
    Division,
    EpisodeRequest,
    League,
    Membership,
    Participant,
    Policy,
    PolicyVersion,
    Round,
    RoundResult,
)
from ..work.seasons import holders_of, last_report, names_of
from .view_models import drawn_band, drawn_line, recent_episodes
from .visit import open_visit, page, trouble

__all__ = ["entry"]

_ROUNDS = 60
"""The most rounds of a history."""
_MET = 50
"""The most opponents."""
_POLICIES = 12
"""The most policies of an entry."""


async def entry(request: Request) -> Response:
    """An entry's history in a season: by default the running one."""
    async with open_visit(request) as visit:
        entry_id = request.path_params["entry_id"]
        try:
            league = await find_league(visit.db, visit.caller, request.path_params["league_id"])
        except Refusal:
            league = None
        holder = (await holders_of(visit.db, league.id, [entry_id])).get(entry_id) if league is not None else None
        if league is None or holder is None:
            said = "There is no such entry, or its league is private. Try signing in."
            return trouble(request, visit.caller, 404, "Not found", said)
        asked = request.query_params.get("season", "")
        season = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else league.season
        versions = sa.select(Membership.policy_version_id).where(
            Membership.league_id == league.id, Membership.entry_id == entry_id
        )
        hidden = sa.false() if visit.caller.elevated else Division.hidden
        played = sa.and_(Division.league_id == league.id, ~hidden, RoundResult.policy_version_id.in_(versions))
        rounds = await _history(visit.db, entry_id, sa.and_(played, Round.season == season))
        members = await visit.db.scalars(
            sa.select(Membership)
            .where(Membership.league_id == league.id, Membership.entry_id == entry_id)
            .order_by(Membership.end_time.is_not(None), Membership.created_at.desc(), Membership.id)
            .limit(_POLICIES)
        )
        its_own = sa.and_(
            EpisodeRequest.league_id == league.id,
            EpisodeRequest.round_id.is_not(None),
            EpisodeRequest.participants.any(Participant.policy_version_id.in_(versions)),
        )
        return page(
            request,
            "entry.html",
            visit.caller,
            here="leagues",
            league={"id": league.id, "name": league.name},
            name=holder.name,
            entry=entry_id,
            season=season,
            seasons=await _seasons(visit.db, league, played),
            rounds=rounds,
            most=_ROUNDS,
            charts=_charts(rounds[::-1]),
            met=await _met(visit.db, league.id, entry_id, rounds[0].division_id, season) if rounds else [],
            policies=[
                {
                    "id": one.policy_version_id,
                    "label": f"{one.policy_version.policy.name}:v{one.policy_version.version}",
                    "state": "champion" if one.is_champion else one.status,
                    "since": one.start_time,
                }
                for one in members.unique()
            ],
            recent=await recent_episodes(visit.db, visit.services, visit.caller, its_own),
        )


@dataclass(frozen=True, kw_only=True)
class _Played:
    """A round in which an entry has played."""

    id: str
    number: int
    division_id: str
    policy: str
    score: float
    """Its mean score there; with a commissioner, what that gave."""
    rank: int
    """By that score."""
    place: int | None
    """In the standings after it; None if they are not known."""
    rating: float | None
    low: float | None
    high: float | None


async def _history(session: AsyncSession, entry: str, condition: sa.ColumnElement[bool]) -> list[_Played]:
    """The last rounds of an entry, newest first."""
    rows = await session.execute(
        sa.select(
            Round.id,
            Round.round_number,
            Round.division_id,
            Round.report,
            Policy.name,
            PolicyVersion.version,
            RoundResult.score,
            RoundResult.rank,
        )
        .join(Division, Division.id == Round.division_id)
        .join(RoundResult, RoundResult.round_id == Round.id)
        .join(PolicyVersion, PolicyVersion.id == RoundResult.policy_version_id)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .where(condition)
        .order_by(Round.created_at.desc(), Round.id)
        .limit(_ROUNDS)
    )
    found: list[_Played] = []
    for id, number, division, report, name, version, score, rank in rows:
        lines = (report or {}).get("standings", [])
        nothing: JsonObject = {}
        stands: JsonObject = next((line for line in lines if line["subject"] == entry), nothing)
        found.append(
            _Played(
                id=id,
                number=number,
                division_id=division,
                policy=f"{name}:v{version}",
                score=score,
                rank=rank,
                place=stands.get("rank") or stands.get("place"),
                rating=stands.get("rating"),
                low=stands.get("low"),
                high=stands.get("high"),
            )
        )
    return found


def _charts(rounds: Sequence[_Played]) -> list[JsonObject]:
    """The charts of a history, oldest round first: the rating with its interval, and the place, the first on top."""
    rated = [(one.rating, one.low, one.high) for one in rounds if one.rating is not None]
    ends = [(rating if low is None else low, rating if high is None else high) for rating, low, high in rated]
    low, high = min((end for end, _ in ends), default=0.0), max((end for _, end in ends), default=0.0)
    ratings = [rating for rating, _, _ in rated]
    places = [one.place for one in rounds if one.place is not None]
    drawn = (
        {
            "name": "Rating",
            "values": [f"{rating:+.0f}" for rating in ratings],
            "line": drawn_line(ratings, low, high, width=600, height=120),
            "band": drawn_band(ends, low, high, width=600, height=120),
            "ends": (f"{high:+.0f}", f"{low:+.0f}"),
        },
        {
            "name": "Place",
            "values": [str(place) for place in places],
            "line": drawn_line([-place for place in places], width=600, height=120),
            "band": "",
            "ends": [*map(str, sorted({min(places, default=0), max(places, default=0)}))],
        },
    )
    return [one for one in drawn if one["line"]]


async def _seasons(session: AsyncSession, league: League, played: sa.ColumnElement[bool]) -> list[int]:
    """The seasons in which an entry has played, and the running one; newest first."""
    numbers = await session.scalars(
        sa.select(Round.season)
        .join(Division, Division.id == Round.division_id)
        .join(RoundResult, RoundResult.round_id == Round.id)
        .where(played)
        .distinct()
    )
    return sorted({league.season, *numbers}, reverse=True)


async def _met(session: AsyncSession, league: str, entry: str, division: str, season: int) -> list[JsonObject]:
    """What an entry has won and lost against each of the others, those first that it has met most."""
    report = await last_report(session, division, season) or {}
    found = [
        {"id": pair[other], "won": pair[won], "lost": pair[lost], "drawn": pair["drawn"]}
        for pair in report.get("pairs", [])
        for own, other, won, lost in (("first", "second", "won", "lost"), ("second", "first", "lost", "won"))
        if pair[own] == entry
    ]
    found.sort(key=lambda one: (-one["won"] - one["lost"] - one["drawn"], one["id"]))
    names = await names_of(session, league, [one["id"] for one in found[:_MET]])
    return [{**one, "name": names.get(one["id"]) or "unknown"} for one in found[:_MET]]
