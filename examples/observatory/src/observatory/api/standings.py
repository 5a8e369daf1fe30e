"""Leaderboards, from the sums of scores in finished episodes of the league's own rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import BeforeValidator, Field
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api
from coworld_core.evaluation import shared_places

from ..store.columns import JsonObject
from ..store.models import Division, Player, Round, RoundResult, Tally, User
from ..work.seasons import COMMISSIONED, Holder, absent_among, entry_of_tally, holders_of, last_report
from .leagues import find_division
from .routing import Anyone, ApiRouter, Json, QueryModel

__all__ = ["Standing", "router", "standings"]

router = ApiRouter(tags=["Standings"])


MOST_ROUNDS = 200
"""The most past rounds in a leaderboard."""


def _count(given: object) -> object:
    """Read the parameter as newer clients send it: `false` means none."""
    return {"false": 0, "true": 5}.get(given, given) if isinstance(given, str) else given


class RecentQuery(QueryModel):
    """The number of past rounds to include."""

    include_recent_rounds: Annotated[int, BeforeValidator(_count)] = Field(
        default=0, ge=0, le=10**9, description=f"How many of the latest rounds to return, at most {MOST_ROUNDS}."
    )


_STORED = ("rounds", "rating", "low", "high", "won", "played", "points")
"""Fields of a standing in `Round.report`."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One line of a leaderboard."""

    rank: int | None
    """From 1; equal scores share it. None: it is `absent`."""
    entry_id: str
    """The entry in the league (`Membership.entry_id`)."""
    subject_id: str
    """The player that it plays for, or the user who plays without one."""
    subject_type: str
    """`player` or `user`."""
    name: str | None
    score: float
    """Mean score over the episodes."""
    episodes: int
    policy_version_ids: tuple[str, ...]
    subject_ids: frozenset[str] = frozenset()
    """All players, or users without one, that have played for it in this season."""
    rounds: int = 0
    """The number of finished rounds of the season in which it played."""
    rating: float | None = None
    """Rating after the last finished round; None before, and in leagues without rounds of their own."""
    low: float | None = None
    """Bounds of the rating's 95 % interval, with `high`."""
    high: float | None = None
    won: float = 0.0
    """Matches won; with several players, the share of opponents beaten."""
    played: int = 0
    """Matches that counted."""
    absent: str | None = None
    """Why it does not compete now: it is `benched`, or has `withdrawn`; None if it competes."""
    points: float | None = None
    """The score that a commissioner gave it with its last place; None without a commissioner."""


_TALLIES = (
    sa.select(
        entry_of_tally(sa.bindparam("league", type_=sa.String())),
        Tally.policy_version_id,
        Tally.total,
        Tally.episodes,
        Player.id,
        Player.name,
        User.id,
        User.name,
    )
    .join(User, User.id == Tally.user_id)
    .outerjoin(Player, Player.id == Tally.player_id)
    .where(Tally.division_id == sa.bindparam("division"))
)


async def standings(session: AsyncSession, division_id: str) -> list[Standing]:
    """The leaderboard of a division in the current season, best first.

    If the league plays rounds, the order is that of the last finished round, given by the pairing or the commissioner;
    newer members are below. Otherwise the order is by score. Whoever does not compete now comes last, without a rank.
    If a commissioner moves a member to another division during a season, its line moves too.

    The score of an entry is the mean over all finished episodes of the division's rounds, with all its policies.
    Requested episodes do not count, wherever they were played (`Tally`).
    """
    division = await session.get_one(Division, division_id)
    season = division.league.season
    tallies = await session.execute(_TALLIES, {"league": division.league_id, "division": division_id})
    sums: dict[str, _Sum] = {}
    for id, version, total, episodes, player_id, player_name, user_id, user_name in tallies:
        who = Holder.of(player_id, player_name, user_id, user_name)
        sums.setdefault(id, _Sum(who)).add(who.id, version, float(total), int(episodes))
    holders = await holders_of(session, division.league_id, list(sums))
    for id, holder in holders.items():
        sums[id].holder = holder
    report = await last_report(session, division_id, season) or {"standings": []}
    stands = {line["subject"]: line for line in report["standings"]}
    # Leagues without rounds of their own may list those who were never members
    absent = await absent_among(session, division, holders)
    lines = [
        Standing(
            rank=None,
            entry_id=id,
            subject_id=found.holder.id,
            subject_type=found.holder.kind,
            name=found.holder.name,
            score=found.total / found.episodes,
            episodes=found.episodes,
            policy_version_ids=tuple(sorted(found.versions)),
            subject_ids=frozenset(found.subjects),
            absent=absent.get(id),
            **{key: stands[id][key] for key in _STORED if key in stands.get(id, ())},
        )
        for id, found in sums.items()
    ]
    if division.league.commissioner_key == COMMISSIONED:
        # It may have moved to another division, where its line is
        lines = [line for line in lines if line.entry_id not in absent]
    places = {id: line["place"] for id, line in stands.items()}
    lines.sort(key=lambda line: (places.get(line.entry_id, math.inf), -line.score, -line.episodes, line.entry_id))
    ranked = _ranked(
        [line for line in lines if line.absent is None], {id: line.get("rank") for id, line in stands.items()}
    )
    return [*ranked, *(line for line in lines if line.absent is not None)]


@dataclass
class _Sum:
    """What the tallies of an entry add up to."""

    holder: Holder
    """Its holder; of an entry without members, somebody who played for it."""
    total: float = 0.0
    episodes: int = 0
    versions: set[str] = field(default_factory=set[str])
    subjects: set[str] = field(default_factory=set[str])

    def add(self, subject: str, version: str, total: float, episodes: int) -> None:
        self.total += total
        self.episodes += episodes
        self.versions.add(version)
        self.subjects.add(subject)


def _ranked(lines: Sequence[Standing], given: Mapping[str, int | None]) -> list[Standing]:
    """Rank the lines; equal lines share a rank.

    Args:
        lines: The lines, best first.
        given: The ranks that a commissioner gave, by entry.
    """

    def level(line: Standing) -> object:
        own = given.get(line.entry_id)
        if own is not None:
            return own
        # Sums in another order may differ in the last digits
        return f"{line.score:.12g}" if line.rating is None else (line.rating, line.won)

    return [replace(line, rank=place) for place, line in zip(shared_places([*map(level, lines)]), lines, strict=True)]


@router.get("/v2/divisions/{division_id}/leaderboard", response_model=list[api.LeaderboardEntry] | None)
async def leaderboard(call: Anyone, division_id: str, query: Annotated[RecentQuery, Query()]) -> Json:
    """A division's leaderboard, best first; null before the first episode."""
    division = await find_division(call.db, call.caller, division_id)
    lines = await standings(call.db, division.id)
    if not lines:
        return Json(None)
    recent = await _recent_rounds(call.db, division, min(query.include_recent_rounds, MOST_ROUNDS))
    return Json(
        [
            {
                "rank": line.rank,
                "player_id": line.subject_id,
                "player_name": line.name,
                "score": line.score,
                "rounds_played": line.rounds,
                "recent_rounds": _rounds_of(recent, line),
            }
            for line in lines
        ]
    )


@router.get("/v2/divisions/{division_id}/leaderboards", response_model=api.Leaderboard | None)
async def leaderboards(call: Anyone, division_id: str) -> Json:
    """A division's leaderboard as a table with described columns; null before the first episode."""
    division = await find_division(call.db, call.caller, division_id)
    lines = await standings(call.db, division.id)
    if not lines:
        return Json(None)
    recent = await _recent_rounds(call.db, division, 5)
    rated = any(line.rating is not None for line in lines)
    about = "Computed from the pairing and the ratings after each round."
    if division.league.commissioner_key == COMMISSIONED:
        about = "Decided by the commissioner after each round."
    unused = {key for key in ("points", "absent") if all(getattr(line, key) is None for line in lines)}
    keys = [key for key in _COLUMNS if (rated or key not in _STORED) and key not in unused]
    return Json(
        {
            "default_view_key": "score",
            "axes": [],
            "views": [
                {
                    "key": "score",
                    "title": division.name,
                    "description": about if rated else "The mean score of all finished episodes of its rounds.",
                    "axis_values": {},
                    "columns": [{"key": key, **_COLUMNS[key]} for key in keys],
                    "rows": [
                        {
                            "subject_type": line.subject_type,
                            "subject_id": line.subject_id,
                            "subject_name": line.name,
                            "values": {key: getattr(line, key) for key in keys},
                            "policy_version_ids": line.policy_version_ids,
                            "recent_rounds": _rounds_of(recent, line),
                        }
                        for line in lines
                    ],
                }
            ],
        }
    )


_COLUMNS = {
    "rank": {"label": "Rank", "value_type": "integer", "sort": "asc"},
    "points": {"label": "Points", "value_type": "number", "sort": "desc"},
    "rating": {"label": "Rating", "value_type": "number", "sort": "desc"},
    "low": {"label": "At least", "value_type": "number", "sort": "desc"},
    "high": {"label": "At most", "value_type": "number", "sort": "desc"},
    "won": {"label": "Won", "value_type": "number", "sort": "desc"},
    "played": {"label": "Matches", "value_type": "integer", "sort": "desc"},
    "rounds": {"label": "Rounds", "value_type": "integer", "sort": "desc"},
    "score": {"label": "Score", "value_type": "number", "sort": "desc"},
    "episodes": {"label": "Episodes", "value_type": "integer", "sort": "desc"},
    "absent": {"label": "Absent", "value_type": "string", "sort": "asc"},
}

_Recent = Sequence[tuple[Round, Sequence[RoundResult]]]


async def _recent_rounds(session: AsyncSession, division: Division, count: int) -> _Recent:
    if not count:
        return ()
    rounds = (
        await session.scalars(
            sa.select(Round).where(Round.division_id == division.id).order_by(Round.round_number.desc()).limit(count)
        )
    ).all()
    results = await session.scalars(
        sa.select(RoundResult).where(RoundResult.round_id.in_([found.id for found in rounds]))
    )
    by_round: dict[str, list[RoundResult]] = {}
    for result in results:
        by_round.setdefault(result.round_id, []).append(result)
    return [(found, by_round.get(found.id, ())) for found in rounds]


def _rounds_of(recent: _Recent, line: Standing) -> list[JsonObject]:
    lines: list[JsonObject] = []
    for found, results in recent:
        own = next((row for row in results if (row.player_id or row.policy_version.user_id) in line.subject_ids), None)
        lines.append(
            {
                "id": found.id,
                "round_number": found.round_number,
                "status": found.status,
                "rank": own.rank if own else None,
                "score": own.score if own else None,
                "started_at": found.started_at,
                "completed_at": found.completed_at,
            }
        )
    return lines
