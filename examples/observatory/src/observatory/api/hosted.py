"""Hosted play: games in the browser that anyone with access can join."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from coworld_core import api

from ..errors import not_found
from ..hosted.games import game_for_people
from ..hosted.session_state import error_of_session, kept_state, person_json, status_of_session, takes_part
from ..hosted.sessions import Session, elsewhere, open_sessions, session_here, sessions_of, wait_ready
from ..services import Services
from ..store.columns import JsonObject
from ..store.models import HostedSession
from .catalogue import find_coworld
from .routing import ApiRouter, Call, Json, SignedIn, gate, refusals

__all__ = ["lifespan", "router"]

router = ApiRouter(tags=["Play"])


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Run the hosted games."""
    async with open_sessions(services):
        yield


@router.post("/v2/coworlds/play/session", response_model=api.PlaySession, responses=refusals(404, 502, 503))
async def start_play(call: Annotated[Call, gate("known", held=False)], body: api.PlaySessionBody) -> Json:
    """Start a game that waits for players."""
    coworld = await find_coworld(call.db, call.caller, body.coworld_id)
    sessions = sessions_of(call.services)
    game = game_for_people(coworld, body.variant_id)
    session = await sessions.play(game, call.caller, spectators=body.allow_spectators, labels=body.tags or {})
    await wait_ready(session)
    return Json(await _session_json(call, session.id))


@router.get("/v2/coworlds/play/session/{session_id}", response_model=api.PlaySession)
async def get_play(call: SignedIn, session_id: str) -> Json:
    """A game that you have started, or sit in, also after its end."""
    return Json(await _session_json(call, session_id))


@router.post(
    "/v2/coworlds/play/session/{session_id}/join",
    response_model=api.JoinedSession,
    responses=refusals(404, 409, 502, 503),
)
async def join_play(call: Annotated[Call, gate("known", held=False)], session_id: str) -> Json:
    """Take a seat, the same one each time; its link works for anyone."""
    sessions, session = sessions_of(call.services), await session_here(call.services, session_id)
    if session is None or session.kind != "play":
        raise not_found("game", session_id)
    await wait_ready(session)
    seat = await sessions.join(session, call.caller)
    url = player_url(call.base_url, session, seat.slot)
    return Json(
        {
            "player_url": url,
            "target_url": url,
            "entrant_kind": "player",
            "slot": seat.slot,
            "player": person_json(seat),
        }
    )


@router.put(
    "/v2/coworlds/play/session/{session_id}/config",
    response_model=api.PlaySession,
    responses=refusals(404, 409, 502, 503),
)
async def change_play(
    call: Annotated[Call, gate("known", held=False)], session_id: str, body: api.PlayConfigBody
) -> Json:
    """Restart your own game with another variant, or close it to spectators."""
    sessions, session = sessions_of(call.services), await _own(call, session_id)
    if body.kind == "variant":
        coworld = await find_coworld(call.db, call.caller, session.coworld_id)
        game = game_for_people(coworld, body.variant_id)
        session = await sessions.play(
            game, call.caller, spectators=session.spectators, labels=session.labels, instead_of=session
        )
        await wait_ready(session)
    elif body.allow_spectators is not None:
        session.spectators = body.allow_spectators
    return Json(await _session_json(call, session.id))


@router.delete("/v2/coworlds/play/session/{session_id}", response_model=api.PlaySession, responses=refusals(503))
async def end_play(call: Annotated[Call, gate("known", held=False)], session_id: str) -> Json:
    """End your own game without keeping anything. Repeating this has no effect."""
    sessions, session = sessions_of(call.services), await _own(call, session_id)
    await sessions.end(session)
    return Json(await _session_json(call, session.id))


async def _own(call: Call, session_id: str) -> Session:
    session = await session_here(call.services, session_id, may=lambda row: takes_part(call.caller, row, row.state))
    if session is None or session.kind != "play" or not call.caller.owns(session.user_id, session.player_id):
        raise not_found("game", session_id)
    return session


async def _session_json(call: Call, session_id: str) -> JsonObject:
    """A game as those who take part in it see it.

    Raises:
        Refusal: 404 if there is none, or the caller takes no part in it; 421 if it runs on another server.
    """
    sessions = call.services.runtime.sessions
    session = sessions.get(session_id) if sessions is not None else None
    async with call.services.database.reading() as db:
        row = await db.get(HostedSession, session_id)
    state = row.state if row is not None and session is None else kept_state(session) if session is not None else {}
    if row is None or row.kind != "play" or not takes_part(call.caller, row, state):
        raise not_found("game", session_id)
    if session is None and row.ended_at is None:
        raise elsewhere(row)
    open_to_all = session is not None and session.spectators
    return {
        "session_id": row.id,
        "join_url": f"{call.base_url}/play/{row.id}",
        "lobby_url": f"{call.base_url}/play/{row.id}",
        "player_count": state.get("slots", 0),
        "global_url": f"{call.base_url}/sessions/{row.id}{session.page}" if session and open_to_all else None,
        "tags": state.get("labels") or {},
        "status": status_of_session(row, session),
        "coworld_id": row.coworld_id,
        "variant_id": row.variant_id,
        "players": state.get("players") or [],
        "episode_request_id": row.episode_request_id,
        "error": error_of_session(row, session),
        "created_at": row.created_at,
        "ended_at": row.ended_at,
    }


def player_url(base_url: str, session: Session, slot: int) -> str:
    """The address of a seat's page."""
    return f"{base_url}/sessions/{session.id}{session.seats[slot]}"
