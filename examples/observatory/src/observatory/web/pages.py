"""The pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coworld_core.roles import BUNDLE_PARTS

from ..api.artifacts import send_bundle
from ..api.episodes import MAX_IDS
from ..api.feed import LONGEST_WAIT, wait_for_changes
from ..api.leagues import league_rows, visible_leagues
from ..api.standings import standings
from ..episodes.access import find_episode, own_slots, view_of, visible
from ..episodes.downloads import filename_of, send, send_plain
from ..errors import Refusal
from ..hosted.sessions import viewer_of
from ..operations.moderation import disabled_since
from ..store.columns import JsonObject
from ..store.models import (
    FINAL_STATUSES,
    Artifact,
    Division,
    EpisodeRequest,
    League,
    Membership,
    Participant,
    PolicyVersion,
)
from .roles import role_values
from .view_models import LogText, episode_rows, read_log, recent_episodes
from .visit import PAGE_ROWS, Visit, is_same_origin, open_visit, page, read_number, trouble

__all__ = [
    "bundle",
    "deep_link",
    "episode",
    "episodes",
    "file",
    "home",
    "live",
    "policy_version",
    "start_replay",
]

_LOGS = ("game_logs", "player_logs")


async def home(request: Request) -> Response:
    """Leagues, current activity, and the latest episodes."""
    async with open_visit(request) as visit:
        return page(
            request,
            "home.html",
            visit.caller,
            here="leagues",
            leagues=[await _card(visit, row) for row in await league_rows(visit.db, visit.caller)],
            figures=await _figures(visit),
            recent=await recent_episodes(visit.db, visit.services, visit.caller),
        )


async def episodes(request: Request) -> Response:
    """Episodes, newest first."""
    offset = read_number(request.query_params, "offset")
    async with open_visit(request) as visit:
        rows = await recent_episodes(visit.db, visit.services, visit.caller, limit=PAGE_ROWS + 1, offset=offset)
        return page(
            request,
            "episodes.html",
            visit.caller,
            here="episodes",
            rows=rows[:PAGE_ROWS],
            at=offset,
            more=len(rows) > PAGE_ROWS,
            per_page=PAGE_ROWS,
        )


async def episode(request: Request) -> Response:
    """An episode: its state, replay, scores, and the logs that the visitor may see."""
    async with open_visit(request) as visit:
        row = await _episode(visit)
        if row is None:
            return _nothing(visit, "There is no such episode, or it is private. Try signing in.")
        (shown,) = await episode_rows(visit.db, visit.caller, [row])
        arena = await visit.db.get(League, row.league_id) if row.league_id else None
        kept = _allowed(visit, row)
        return page(
            request,
            "episode.html",
            visit.caller,
            here="episodes",
            row=shown,
            league={"id": arena.id, "name": arena.name} if arena is not None else None,
            live_url=view_of(visit.services, visit.caller).live_url(row),
            replay=any(item.kind == "replay" for item in kept),
            pruned_at=row.pruned_at,
            logs=[await _log(visit, row, item) for item in kept if item.kind in _LOGS],
            files=[
                {"name": filename_of(item).removesuffix(".z"), "size": item.size, "href": _href(row, item)}
                for item in kept
                if item.kind not in ("replay", *_LOGS)
            ],
            bundles=_bundles(row, kept),
            **await role_values(visit, row),
        )


async def bundle(request: Request) -> Response:
    """An episode's bundle, for a browser: all that the visitor may see, or the parts that a form names."""
    async with open_visit(request) as visit:
        row = await _episode(visit)
    if row is None or row.status not in FINAL_STATUSES:
        return _nothing(visit, "There is no such episode, or it is private or not over.")
    parts = [part for part in request.query_params.getlist("include") if part]
    return send_bundle(visit.services, request, visit.caller, row, include=parts or None)


def _bundles(row: EpisodeRequest, kept: Sequence[Artifact]) -> list[str]:
    """The parts of a bundle that there are for a visitor."""
    if row.status not in FINAL_STATUSES:
        return []
    found = {item.kind for item in kept} | {"metadata"}
    return [part for part in BUNDLE_PARTS if part in found]


async def file(request: Request) -> Response:
    """One artifact, for a browser."""
    async with open_visit(request) as visit:
        row = await _episode(visit)
        place = (request.path_params["kind"], request.path_params.get("position", -1))
        kept = _allowed(visit, row) if row is not None else []
        artifact = next((item for item in kept if (item.kind, item.position) == place), None)
    if artifact is None:
        return _nothing(visit, "There is no such file, or it is private.")
    serve = send_plain if artifact.kind == "replay" else send
    try:
        answer = serve(visit.services.artifacts, request, artifact)
    except Refusal as refusal:
        return JSONResponse({"detail": refusal.detail}, status_code=refusal.status, headers=refusal.headers)
    # The content is not a page of this server.
    answer.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    name = filename_of(artifact).removesuffix(".z")
    answer.headers["Content-Disposition"] = f'attachment; filename="{row.id if row else ""}-{name}"'
    return answer


async def start_replay(request: Request) -> Response:
    """Have the game show a replay; returns the address."""
    if not is_same_origin(request):
        return JSONResponse({"detail": "This request came from another site, so it was rejected."}, status_code=403)
    async with open_visit(request) as visit:
        row = await _episode(visit)
    if row is None:
        return JSONResponse({"detail": "There is no such episode."}, status_code=404)
    try:
        url = await viewer_of(visit.services, visit.caller, row, request)
    except Refusal as refusal:
        return JSONResponse({"detail": refusal.detail}, status_code=refusal.status, headers=refusal.headers)
    return JSONResponse({"viewer_url": url})


async def policy_version(request: Request) -> Response:
    """A policy version and its episodes."""
    async with open_visit(request) as visit:
        version = await visit.db.scalar(
            sa.select(PolicyVersion).where(PolicyVersion.id == request.path_params["version_id"])
        )
        seated = EpisodeRequest.id.in_(
            sa.select(Participant.episode_request_id).where(
                Participant.policy_version_id == request.path_params["version_id"]
            )
        )
        rows = await recent_episodes(visit.db, visit.services, visit.caller, seated, limit=PAGE_ROWS)
        owned = version is not None and visit.caller.owns(version.user_id, version.player_id)
        if version is None or not (rows or owned):
            return _nothing(visit, "There is no such policy, or it is private. Try signing in.")
        label = f"{version.policy.name}:v{version.version}"
        entries = await visit.db.execute(
            sa.select(League.id, League.name, Membership.entry_id)
            .join(Membership, Membership.league_id == League.id)
            .where(
                Membership.policy_version_id == version.id,
                League.id.in_(visible_leagues(visit.caller).with_only_columns(League.id)),
            )
            .distinct()
            .order_by(League.name, League.id)
        )
        closed = disabled_since(version) if owned else None
        return page(
            request,
            "policy.html",
            visit.caller,
            here="episodes",
            label=label,
            owner=version.player.name if version.player else version.user.name,
            version=version,
            entries=entries.all(),
            rows=rows,
            closed=closed,
        )


async def deep_link(request: Request) -> Response:
    """Support addresses of the published platform's pages, with the path behind the hash."""
    async with open_visit(request) as visit:
        return page(request, "deep_link.html", visit.caller)


async def live(request: Request) -> Response:
    """Changes of episodes, for the pages' script."""
    ids = [item for item in request.query_params.get("ids", "").split(",") if item][:MAX_IDS]
    after, wait = (read_number(request.query_params, name) for name in ("after", "wait"))
    async with open_visit(request) as visit:
        services, caller = visit.services, visit.caller
    # Wait without a connection to the database.
    changes = await wait_for_changes(
        services, caller, ids, "ereq", after=after, limit=MAX_IDS, seconds=min(wait, LONGEST_WAIT)
    )
    rows = changes.rows if changes is not None else ()
    found: list[JsonObject] = []
    for row in rows:
        scores = {score.position: score.score for score in row.scores}
        found.append(
            {
                "id": row.id,
                "status": row.status,
                "scores": [scores.get(seat.position) for seat in row.participants] if scores else None,
            }
        )
    return JSONResponse({"episodes": found, "cursor": str(changes.seen if changes is not None else after)})


async def _episode(visit: Visit) -> EpisodeRequest | None:
    try:
        return await find_episode(visit.db, visit.services, visit.caller, visit.request.path_params["episode_id"])
    except Refusal:
        return None


def _allowed(visit: Visit, row: EpisodeRequest) -> list[Artifact]:
    """The artifacts of an episode that the visitor may see."""
    slots = own_slots(visit.caller, row)
    return [item for item in row.artifacts if item.position < 0 or slots is None or item.position in slots]


async def _log(visit: Visit, row: EpisodeRequest, artifact: Artifact) -> LogText:
    title = "Game"
    if artifact.position >= 0:
        seat = next((seat for seat in row.participants if seat.position == artifact.position), None)
        title = f"{seat.policy_name} in slot {artifact.position}" if seat else f"Slot {artifact.position}"
    return await read_log(visit.services, artifact, title=title, href=_href(row, artifact))


def _href(row: EpisodeRequest, artifact: Artifact) -> str:
    place = f"/{artifact.position}" if artifact.position >= 0 else ""
    return f"/episodes/{row.id}/files/{artifact.kind}{place}"


async def _card(visit: Visit, row: League) -> dict[str, Any]:
    members = await visit.db.scalar(
        sa.select(sa.func.count()).where(Membership.league_id == row.id, Membership.end_time.is_(None))
    )
    top = await visit.db.scalar(
        sa.select(Division.id)
        .where(Division.league_id == row.id, Division.archived_at.is_(None))
        .order_by(Division.level.desc())
        .limit(1)
    )
    table = await standings(visit.db, top) if top is not None else []
    leaders = [line for line in table if line.absent is None]
    return {
        "id": row.id,
        "name": row.name,
        "coworld": row.game.name,
        "members": members or 0,
        "leader": leaders[0].name if leaders else None,
        "leader_score": leaders[0].score if leaders else None,
    }


async def _figures(visit: Visit) -> dict[str, int]:
    found = await visit.db.execute(
        sa.select(EpisodeRequest.status, sa.func.count())
        .where(visible(visit.caller, public=visit.services.settings.public))
        .group_by(EpisodeRequest.status)
    )
    counts = {row[0]: row[1] for row in found}
    return {status: counts.get(status, 0) for status in ("pending", "running", *FINAL_STATUSES)}


def _nothing(visit: Visit, text: str) -> Response:
    return trouble(visit.request, visit.caller, 404, "Not found", text)
