"""The pages of leagues: standings, head to head, rounds, and finished seasons."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import lazyload
from starlette.requests import Request
from starlette.responses import Response

from coworld_core.text import listed, strip_controls

from ..api.leagues import find_league
from ..api.rounds import find_round
from ..api.standings import standings
from ..errors import Refusal
from ..store.columns import JsonObject, now
from ..store.models import (
    FINAL_STATUSES,
    Commission,
    Division,
    EpisodeRequest,
    Image,
    League,
    Membership,
    Policy,
    PolicyVersion,
    RoleRun,
    Round,
    RoundResult,
    Season,
    User,
)
from ..work.league_seeds import published_seeds
from ..work.league_settings import LeagueSettings
from ..work.season_progress import season_progress
from ..work.seasons import COMMISSIONED, last_report, names_of, state_of, why_stopped, why_unattended
from .officers import officer_values
from .view_models import drawn_line, recent_episodes
from .visit import Visit, open_visit, page, trouble

__all__ = ["league", "league_round"]

_ROUNDS = 8
"""The number of rounds on a league's page."""
_HISTORY = 30
"""The number of rounds in the history of a rating."""
_MET = 12
"""The number of leading members in a division's head to head table."""
_EPISODES = 200
"""The number of episodes on a round's page."""


async def league(request: Request) -> Response:
    """A league: standings, head to head, rounds, members, finished seasons, and the latest episodes."""
    async with open_visit(request) as visit:
        try:
            row = await find_league(visit.db, visit.caller, request.path_params["league_id"])
        except Refusal:
            return _nothing(visit, "There is no such league, or it is private. Try signing in.")
        divisions = (
            await visit.db.scalars(
                sa.select(Division)
                .where(Division.league_id == row.id, Division.archived_at.is_(None), ~Division.hidden)
                .order_by(Division.level.desc())
            )
        ).unique()
        seasons = await visit.db.scalars(
            sa.select(Season).where(Season.league_id == row.id).order_by(Season.number.desc()).limit(_ROUNDS)
        )
        lease = await visit.db.get(Commission, row.id)
        terms = LeagueSettings.of(row.commissioner_config)
        return page(
            request,
            "league.html",
            visit.caller,
            here="leagues",
            league={
                "id": row.id,
                "name": row.name,
                "coworld": row.game.name,
                "description": row.game.description,
                "season": row.season,
                "state": state_of(row),
                "submissions": terms.submissions_in_words(row.season, now()),
                "commissioner": terms.commissioner_runnable_id,
                "after": terms.roles_in_words,
                "entries": terms.entries_in_words,
                "places": terms.places_in_words,
                "trouble": lease.trouble if lease is not None else None,
                "unattended": why_unattended(row, lease),
            },
            divisions=[await _division(visit.db, division) for division in divisions.all()],
            rounds=await _rounds(visit.db, Division.league_id == row.id),
            seasons=seasons.all(),
            commands=_to_take_part(row, visit.services.settings.url),
            members=await _members(visit.db, row.id),
            recent=await recent_episodes(visit.db, visit.services, visit.caller, EpisodeRequest.league_id == row.id),
            **await officer_values(visit, row.id),
        )


async def league_round(request: Request) -> Response:
    """A round: its progress, its results, and its episodes."""
    async with open_visit(request) as visit:
        try:
            found = await find_round(visit.db, visit.caller, request.path_params["round_id"])
        except Refusal:
            return _nothing(visit, "There is no such round, or it is private. Try signing in.")
        [shown] = await _rounds(visit.db, Round.id == found.id)
        results = await visit.db.scalars(
            sa.select(RoundResult).where(RoundResult.round_id == found.id).order_by(RoundResult.rank, RoundResult.id)
        )
        byes = await names_of(visit.db, found.division.league_id, found.round_config.get("byes", []))
        arena = found.division.league
        return page(
            request,
            "round.html",
            visit.caller,
            here="leagues",
            league={"id": arena.id, "name": arena.name},
            division=found.division.name,
            round=shown,
            error=found.error,
            pairing=found.round_config.get("pairing"),
            commissioner=found.round_config.get("commissioner"),
            said=[*_notes(found.round_display), *found.round_config.get("moves", [])],
            byes=sorted(byes.values()),
            seeds=published_seeds(found),
            results=[
                {
                    "rank": result.rank,
                    "label": f"{result.policy_version.policy.name}:v{result.policy_version.version}",
                    "owner": result.player.name if result.player else result.policy_version.user.name,
                    "score": result.score,
                }
                for result in results.unique()
            ],
            episodes=await recent_episodes(
                visit.db, visit.services, visit.caller, EpisodeRequest.round_id == found.id, limit=_EPISODES
            ),
        )


def _notes(display: JsonObject | None) -> list[str]:
    """A commissioner's notes on a round, line by line."""
    lines = (
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in (display or {}).items()
    )
    return [strip_controls(line)[:500] for line in lines]


async def _division(session: AsyncSession, division: Division) -> JsonObject:
    league = division.league
    terms, season = LeagueSettings.of(league.commissioner_config), league.season
    pairing = None if league.commissioner_key == COMMISSIONED else terms.pairing
    table = await _table(session, division.id)
    report = await last_report(session, division.id, season)
    pairs = (report or {}).get("pairs", [])
    history = await _history(session, division.id, season)
    return {
        "id": division.id,
        "name": division.name,
        "progress": await season_progress(session, division),
        # Of a Swiss tournament: what has been won are points, and those of the opponents part equal ones
        "buchholz": (report or {}).get("buchholz", {}),
        # Whoever meets everybody is read off a cross table, if that is small
        "crossed": pairing == "round-robin" and len(table) <= _MET,
        "stopped": why_stopped(report),
        "rated": any(line["rating"] is not None for line in table),
        "pointed": any(line["points"] is not None for line in table),
        "about": [
            (key.replace("_", " ").capitalize(), words)
            for key, words in (division.commissioner_description or {}).items()
        ],
        "standings": [{**line, "history": drawn_line(history.get(line["entry_id"], ()))} for line in table],
        "met": _met(table[:_MET], pairs),
    }


async def _table(session: AsyncSession, division_id: str) -> list[dict[str, Any]]:
    """A division's standings, with policies and owners."""
    lines = await standings(session, division_id)
    ids = {version for line in lines for version in line.policy_version_ids}
    found = await session.execute(
        sa.select(PolicyVersion.id, Policy.name, PolicyVersion.version, User.name)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .join(User, User.id == PolicyVersion.user_id)
        .where(PolicyVersion.id.in_(ids))
    )
    versions = {row[0]: (row[1], row[2], row[3]) for row in found}
    table: list[dict[str, Any]] = []
    for line in lines:
        newest: dict[str, int] = {}
        own = [versions[version] for version in line.policy_version_ids]
        for name, number, _ in own:
            newest[name] = max(number, newest.get(name, 0))
        labels = [f"{name}:v{number}" for name, number in sorted(newest.items())]
        table.append({**asdict(line), "policies": ", ".join(labels), "owner": own[0][2] if own else line.name})
    return table


async def _history(session: AsyncSession, division_id: str, season: int) -> dict[str, list[float]]:
    """Ratings after each of the last rounds, oldest first, by entry."""
    reports = await session.scalars(
        sa.select(Round.report)
        .where(Round.division_id == division_id, Round.season == season, Round.report.is_not(None))
        .order_by(Round.round_number.desc())
        .limit(_HISTORY)
    )
    found: dict[str, list[float]] = {}
    for report in reversed(reports.all()):
        for line in (report or {}).get("standings", []):
            if line["rating"] is not None:
                found.setdefault(line["subject"], []).append(float(line["rating"]))
    return found


def _met(table: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """The head to head table: one row and one column for each member."""
    results: dict[tuple[str, str], JsonObject] = {}
    for pair in pairs:
        for first, second, won, lost in (("first", "second", "won", "lost"), ("second", "first", "lost", "won")):
            total = pair["won"] + pair["lost"] + pair["drawn"]
            results[pair[first], pair[second]] = {
                "won": pair[won],
                "lost": pair[lost],
                "drawn": pair["drawn"],
                "apart": pair["apart"],
                "share": (pair[won] + pair["drawn"] / 2) / total if total else 0.5,
            }
    if not results:
        return []
    return [
        {
            "name": row["name"],
            "rank": row["rank"],
            "cells": [results.get((row["entry_id"], other["entry_id"])) for other in table],
        }
        for row in table
    ]


async def _rounds(session: AsyncSession, condition: sa.ColumnElement[bool]) -> list[JsonObject]:
    """Rounds, newest first, with the number of finished episodes."""
    over = sa.func.count(EpisodeRequest.id).filter(EpisodeRequest.status.in_(FINAL_STATUSES))
    rows = await session.execute(
        sa.select(
            Round,
            Division.name,
            over,
            sa.func.count(EpisodeRequest.id),
            sa.func.count(EpisodeRequest.id).filter(EpisodeRequest.status == "pending"),
            sa.func.max(EpisodeRequest.started_at),
        )
        .join(Division, Division.id == Round.division_id)
        .outerjoin(EpisodeRequest, EpisodeRequest.round_id == Round.id)
        .where(condition)
        .group_by(Round.id, Division.id)
        .order_by(Round.created_at.desc(), Round.id)
        .limit(_ROUNDS)
        .options(lazyload(Round.division))
    )
    shown = rows.all()
    grades = await _mean_grades(session, [row[0].id for row in shown])
    return [
        {
            "id": found.id,
            "grades": grades.get(found.id, []),
            "number": found.round_number,
            "season": found.season,
            "division": name,
            "status": found.status,
            "over": done,
            "episodes": total,
            "since": found.started_at,
            # Since nothing of it has begun, while something waits
            "waits_since": (last or found.created_at) if waiting else None,
            "error": found.error,
        }
        for found, name, done, total, waiting, last in shown
    ]


async def _mean_grades(session: AsyncSession, rounds: Sequence[str]) -> dict[str, list[JsonObject]]:
    """The mean of what each grader says of the episodes of rounds, by round."""
    rows = await session.execute(
        sa.select(EpisodeRequest.round_id, RoleRun.runnable_id, sa.func.avg(RoleRun.score))
        .join(RoleRun, RoleRun.episode_request_id == EpisodeRequest.id)
        .where(EpisodeRequest.round_id.in_(rounds), RoleRun.score.is_not(None))
        .group_by(EpisodeRequest.round_id, RoleRun.runnable_id)
        .order_by(RoleRun.runnable_id)
    )
    found: dict[str, list[JsonObject]] = {}
    for round_id, name, score in rows:
        found.setdefault(str(round_id), []).append({"name": name, "score": float(score)})
    return found


async def _members(session: AsyncSession, league_id: str) -> list[JsonObject]:
    rows = await session.scalars(
        sa.select(Membership)
        .where(Membership.league_id == league_id, Membership.end_time.is_(None))
        .order_by(Membership.is_champion.desc(), Membership.created_at)
    )
    members = rows.unique().all()
    images = {member.policy_version.image_id for member in members}
    found = await session.scalars(sa.select(Image).where(Image.id.in_(images)))
    contents = {image.id: image.content for image in found}
    labels = [f"{member.policy_version.policy.name}:v{member.policy_version.version}" for member in members]
    alike: dict[int, list[int]] = {}
    group: list[int] = []
    first = ""
    for content, at in sorted(
        (contents.get(member.policy_version.image_id, ""), at) for at, member in enumerate(members)
    ):
        # All that begin alike follow each other
        if not first or not content.startswith(first):
            group, first = [], content
        group.append(at)
        alike[at] = group if content else [at]
    return [
        {
            "label": labels[at],
            "owner": member.player.name if member.player else member.policy_version.user.name,
            "division": member.division.name,
            "state": "champion" if member.is_champion else "is being checked" if member.status == "qualifying" else "",
            "since": member.start_time,
            "alike": listed(
                (labels[other] for other in sorted(alike[at]) if other != at),
                limit=3,
            ),
        }
        for at, member in enumerate(members)
    ]


def _to_take_part(row: League, server: str) -> list[str]:
    return [
        shlex.join(words)
        for words in (
            ["coworld", "login", "--server", server],
            ["coworld", "upload-policy", "./bot.py", "--league", row.name, "--server", server],
            ["coworld", "results", row.name, "--server", server],
        )
    ]


def _nothing(visit: Visit, text: str) -> Response:
    return trouble(visit.request, visit.caller, 404, "Not found", text)
