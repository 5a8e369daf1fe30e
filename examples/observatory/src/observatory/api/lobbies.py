"""Lobbies: games of a league that people and policies play together, from the draft to the end."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api
from coworld_core.manifest import load_manifest

from ..episodes.access import view_of, visible
from ..errors import Refusal, conflict
from ..hosted import lobbies
from ..hosted.lobbies import LobbySeat, is_draft, seats_of, status_of
from ..hosted.session_state import error_of_session
from ..hosted.sessions import Session, session_here, sessions_of, until_started
from ..identity.auth import Caller
from ..services import Services
from ..store.audit import audit
from ..store.columns import JsonObject
from ..store.kept_labels import labels_of
from ..store.models import EpisodeRequest, Lobby
from .experience_roster import league_champions
from .lobby_seating import bounds_of, chosen_seat, draft, find_lobby, require_host, seated_game
from .routing import ApiRouter, Call, Json, SignedIn, gate, refusals

__all__ = ["end_game", "lobby_json", "router", "start_game"]

router = ApiRouter(tags=["Lobbies"])


@router.post("/v2/leagues/{league_id}/lobbies", response_model=api.Lobby, responses=refusals(400, 404))
async def create_lobby(call: Annotated[Call, gate("known", keyed=True)], league_id: str, body: api.LobbyBody) -> Json:
    """Draft a lobby. You have seat 0, the newest champion seat 1, unless `seats` says otherwise."""
    lobby = await draft(call.db, call.caller, league_id, body)
    return await _answer(call, lobby)


@router.get("/v2/lobbies/{lobby_id}", response_model=api.Lobby)
async def get_lobby(call: SignedIn, lobby_id: str) -> Json:
    """A lobby, with what you can do."""
    return await _answer(call, await find_lobby(call.db, call.caller, lobby_id))


@router.put("/v2/lobbies/{lobby_id}/seats/{position}", response_model=api.Lobby, responses=refusals(409))
async def change_seat(call: SignedIn, lobby_id: str, position: int, body: api.LobbySeatChangeBody) -> Json:
    """Decide who sits in a seat of your own draft that no person has."""
    lobby = await _own(call, lobby_id)
    champions = await league_champions(call.db, call.caller, lobby.league_id)
    seat = chosen_seat(body.kind, body.player_id, champions)
    lobbies.set_seat(lobby, position, seat, revision=body.expected_revision)
    return await _answer(call, lobby)


@router.post("/v2/lobbies/{lobby_id}/seats/{position}/claim", response_model=api.Lobby, responses=refusals(409))
async def claim_seat(call: SignedIn, lobby_id: str, position: int) -> Json:
    """Take an open seat of a draft, leaving the one that you may have. Repeating this has no effect."""
    lobby = await find_lobby(call.db, call.caller, lobby_id, lock=True)
    lobbies.claim(lobby, position, call.caller)
    return await _answer(call, lobby)


@router.delete("/v2/lobbies/{lobby_id}/seats/{position}/player", response_model=api.Lobby, responses=refusals(409))
async def remove_player(call: SignedIn, lobby_id: str, position: int) -> Json:
    """Remove a person from a seat of your own draft; it is open again."""
    lobby = await _own(call, lobby_id)
    lobbies.remove_person(call.db, lobby, position)
    return await _answer(call, lobby)


@router.post("/v2/lobbies/{lobby_id}/leave", response_model=api.Lobby, responses=refusals(409))
async def leave_lobby(call: SignedIn, lobby_id: str) -> Json:
    """Leave your seat of a draft; it is open again."""
    lobby = await find_lobby(call.db, call.caller, lobby_id, lock=True)
    lobbies.leave(lobby, call.caller)
    return await _answer(call, lobby)


@router.post("/v2/lobbies/{lobby_id}/cancel", response_model=api.Lobby, responses=refusals(409))
async def cancel_lobby(call: SignedIn, lobby_id: str) -> Json:
    """Cancel your own draft. Repeating this has no effect."""
    lobby = await _own(call, lobby_id)
    lobbies.cancel(lobby)
    return await _answer(call, lobby)


@router.post("/v2/lobbies/{lobby_id}/start", response_model=api.Lobby, responses=refusals(400, 409, 503))
async def start_lobby(
    call: Annotated[Call, gate("known", held=False)], lobby_id: str, body: api.LobbyStartBody
) -> Json:
    """Start the game of your own draft, a play session in which everyone's seat waits for them."""
    lobby = await find_lobby(call.db, call.caller, lobby_id)
    await start_game(
        call.services, call.db, call.caller, lobby, key=body.idempotency_key, revision=body.expected_revision
    )
    return await _afresh(call, lobby_id)


@router.post("/v2/lobbies/{lobby_id}/end", response_model=api.Lobby, responses=refusals(409, 503))
async def end_lobby(call: Annotated[Call, gate("known", held=False)], lobby_id: str) -> Json:
    """End your own lobby's game without keeping anything. Repeating this has no effect."""
    await end_game(call.services, call.caller, await find_lobby(call.db, call.caller, lobby_id))
    return await _afresh(call, lobby_id)


async def start_game(
    services: Services, db: AsyncSession, caller: Caller, lobby: Lobby, *, key: str, revision: int
) -> None:
    """Start the game of a lobby, and wait a limited time until it can be played.

    Args:
        services: The Observatory.
        db: A reading session.
        caller: The caller.
        lobby: The lobby.
        key: The same key starts it only once.
        revision: The revision that the caller has seen.

    Raises:
        Refusal: 403 unless the caller is its host; 409 for a draft of another revision, one that cannot be started, or
            programs that may not run here; 422 if the key came with another revision; 429 and 503 as for all games.
    """
    require_host(lobby, caller)
    sessions = sessions_of(services)
    if lobby.start_key == key:
        # Nothing changes a lobby after its start.
        if revision != lobby.revision - 1:
            raise Refusal(
                422,
                "This idempotency key was already used for a different request. Use a new one.",
                code="idempotency_key_reused",
            )
        session = await session_here(services, lobby.session_id)
    else:
        lobbies.require_draft(lobby, revision)
        game = await seated_game(db, caller, lobby)
        await sessions.check(game)
        started = lobbies.started(lobby.id, revision=revision, key=key, policies=game.policies)
        labels = (await labels_of(db, [lobby.id]))[lobby.id]
        session = await sessions.play(game, caller, spectators=True, labels=labels, on_stored=started)
    if session is not None:
        await until_started(session)


async def end_game(services: Services, caller: Caller, lobby: Lobby) -> None:
    """End the game of a lobby.

    Raises:
        Refusal: 403 unless the caller is its host; 409 for one that has not been started.
    """
    require_host(lobby, caller)
    sessions = sessions_of(services)
    if lobby.session_id is None:
        raise conflict(f"The lobby {lobby.id} has not been started, so there is no game to end.", code="not_started")
    session = await session_here(services, lobby.session_id)
    if session is None or session.over:
        return
    await sessions.end(session)
    async with services.database.writing() as db:
        audit(db, "lobby.ended", user_id=lobby.user_id, subject=lobby.id, play_session=session.id)


async def lobby_json(services: Services, db: AsyncSession, caller: Caller, lobby: Lobby) -> JsonObject:
    """A lobby as a caller sees it."""
    session = _session(services, lobby)
    bounds = bounds_of(load_manifest(dict(lobby.coworld.manifest), template=True).manifest)
    status = status_of(lobby, session)
    host, open_to_changes = caller.owns(lobby.user_id, lobby.player_id), is_draft(lobby)
    seats = seats_of(lobby)
    playing = [seat for seat in seats if seat.kind != "closed"]
    ready = bounds.least <= len(playing) <= bounds.most and not any(seat.kind == "human_open" for seat in playing)
    row = lobby.session
    base = services.settings.url
    return {
        "id": lobby.id,
        "league_id": lobby.league_id,
        "coworld_id": lobby.coworld_id,
        "coworld_name": lobby.coworld.name,
        "coworld_version": lobby.coworld.version,
        "coworld_manifest_hash": lobby.coworld.manifest_hash,
        "host_user_id": lobby.user_id,
        "host_name": lobby.player.name if lobby.player is not None else lobby.user.name,
        "variant_id": lobby.variant_id,
        "min_players": bounds.least,
        "max_players": bounds.most,
        "status": status,
        "revision": lobby.revision,
        "session_id": lobby.session_id,
        "page_url": f"{base}/lobbies/{lobby.id}",
        "error": error_of_session(row, session) if row is not None else None,
        "episode_request_id": row.episode_request_id if row is not None else None,
        **await _evidence(services, db, caller, row.episode_request_id if row is not None else None),
        "created_at": lobby.created_at,
        "started_at": lobby.started_at,
        "ended_at": lobby.cancelled_at if row is None else row.ended_at,
        "expires_at": lobby.expires_at,
        "seats": [_seat_json(at, seat, caller, changes=open_to_changes, host=host) for at, seat in enumerate(seats)],
        "tags": (await labels_of(db, [lobby.id]))[lobby.id] if host else None,
        "can_manage": host,
        "permissions": {
            "can_start": host and open_to_changes and ready and any(seat.kind == "human" for seat in playing),
            "can_edit": host and open_to_changes,
            "can_remove_player": host and open_to_changes,
            "can_end_game": host and status in ("pending", "running"),
        },
    }


def _seat_json(at: int, seat: LobbySeat, caller: Caller, *, changes: bool, host: bool) -> JsonObject:
    person = seat.kind == "human"
    return {
        "position": at,
        "kind": seat.kind,
        "player_id": seat.player_id,
        "player_name": seat.name if seat.player_id is not None else None,
        "is_me": person and seat.subject_id == caller.subject_id,
        "claimant_label": seat.name if person else None,
        "can_claim": changes and seat.kind == "human_open",
        "can_remove": changes and host and person,
    }


async def _evidence(services: Services, db: AsyncSession, caller: Caller, episode_id: str | None) -> JsonObject:
    """The episode's other id and its replay, if the caller may see it."""
    row = None
    if episode_id is not None:
        seen = visible(caller, public=services.settings.public)
        row = await db.scalar(sa.select(EpisodeRequest).where(EpisodeRequest.id == episode_id, seen))
    if row is None:
        return {"episode_id": None, "replay_url": None}
    return {"episode_id": row.episode_id, "replay_url": view_of(services, caller).replay_url(row)}


def _session(services: Services, lobby: Lobby) -> Session | None:
    sessions = services.runtime.sessions
    return sessions.get(lobby.session_id) if sessions is not None and lobby.session_id is not None else None


async def _own(call: Call, lobby_id: str) -> Lobby:
    lobby = await find_lobby(call.db, call.caller, lobby_id, lock=True)
    require_host(lobby, call.caller)
    return lobby


async def _answer(call: Call, lobby: Lobby) -> Json:
    return Json(await lobby_json(call.services, call.db, call.caller, lobby))


async def _afresh(call: Call, lobby_id: str) -> Json:
    """The lobby as it is now, after changes outside of the call's session."""
    async with call.services.database.reading() as db:
        lobby = await find_lobby(db, call.caller, lobby_id)
        return Json(await lobby_json(call.services, db, call.caller, lobby))
