"""The page of a lobby: its seats, who sits there, and what the visitor can do, until its game is over."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coworld_core.api import LobbyBody, LobbySeatBody
from coworld_core.errors import UsageError

from ..api.experience_roster import league_champions
from ..api.hosted import player_url
from ..api.lobbies import end_game, lobby_json, start_game
from ..api.lobby_seating import chosen_seat, draft, find_lobby, require_host
from ..errors import Refusal
from ..hosted import lobbies
from ..hosted.sessions import Session
from ..identity.auth import Caller
from ..services import Services
from ..store.audit import acting
from ..store.columns import new_id
from ..store.models import League
from .visit import Visit, actor_of, open_visit, page, read_form, refused_form, trouble

__all__ = ["change_lobby", "draft_lobby", "lobby_page"]


async def lobby_page(request: Request) -> Response:
    """Show a lobby."""
    async with open_visit(request) as visit:
        caller, services = visit.caller, visit.services
        try:
            row = await find_lobby(visit.db, caller, request.path_params["lobby_id"])
        except Refusal:
            return trouble(
                request, caller, 404, "Not found", "There is no such lobby, or it is private. Try signing in."
            )
        lobby = await lobby_json(services, visit.db, caller, row)
        champions = await league_champions(visit.db, caller, row.league_id) if lobby["can_manage"] else ()
        session = _session(visit, row.session_id)
        own = None if session is None else _own_seat(session, caller)
        league = await visit.db.get_one(League, row.league_id)
        return page(
            request,
            "draft.html",
            caller,
            here="leagues",
            lobby=lobby,
            league={"id": league.id, "name": league.name},
            champions=[(champion.subject_id, champion.player_name, champion.label) for champion in champions],
            seated=any(seat["is_me"] for seat in lobby["seats"]),
            seat=own,
            watch=f"/sessions/{session.id}{session.page}" if session is not None and session.address else None,
        )


async def draft_lobby(request: Request) -> Response:
    """Draft a lobby in a league, and show it."""
    async with open_visit(request) as visit:
        caller, services = visit.caller, visit.services
    league_id = request.path_params["league_id"]
    if (refused := refused_form(request, caller, f"/leagues/{league_id}")) is not None:
        return refused
    try:
        with acting(actor_of(request, caller)):
            async with services.database.writing() as db:
                lobby = await draft(db, caller, league_id, LobbyBody(idempotency_key=new_id()))
    except Refusal as refusal:
        return trouble(request, caller, refusal.status, "The lobby was not created", refusal.message)
    return RedirectResponse(f"/lobbies/{lobby.id}", status_code=303)


async def change_lobby(request: Request) -> Response:
    """Apply a form's action to a lobby, and show it again."""
    async with open_visit(request) as visit:
        caller, services = visit.caller, visit.services
    lobby_id, action = request.path_params["lobby_id"], request.path_params["action"]
    place = f"/lobbies/{lobby_id}"
    if (refused := refused_form(request, caller, place)) is not None:
        return refused
    values = await read_form(request)
    try:
        with acting(actor_of(request, caller)):
            if action in ("start", "end"):
                await _play(services, caller, lobby_id, action, values)
            else:
                await _change(services, caller, lobby_id, action, values)
    except Refusal as refusal:
        return trouble(request, caller, refusal.status, "The change was not made", refusal.message)
    except (UsageError, ValueError):
        return trouble(request, caller, 404, "Not found", "There is no such action.")
    return RedirectResponse(place, status_code=303)


async def _change(services: Services, caller: Caller, lobby_id: str, action: str, values: Mapping[str, str]) -> None:
    position = values.get("position", "")
    async with services.database.writing() as db:
        lobby = await find_lobby(db, caller, lobby_id, lock=True)
        if action == "claim":
            lobbies.claim(lobby, int(position), caller)
            return
        if action == "leave":
            lobbies.leave(lobby, caller)
            return
        require_host(lobby, caller)
        match action:
            case "remove":
                lobbies.remove_person(db, lobby, int(position))
            case "seat":
                choice = LobbySeatBody.parse(f"{position}:{values.get('choice', '')}")
                champions = await league_champions(db, caller, lobby.league_id)
                seat = chosen_seat(choice.kind, choice.player_id, champions)
                lobbies.set_seat(lobby, choice.position, seat, revision=int(values.get("revision", "")))
            case "cancel":
                lobbies.cancel(lobby)
            case _:
                raise ValueError(action)


async def _play(services: Services, caller: Caller, lobby_id: str, action: str, values: Mapping[str, str]) -> None:
    async with services.database.reading() as db:
        lobby = await find_lobby(db, caller, lobby_id)
        if action == "end":
            await end_game(services, caller, lobby)
        else:
            revision = int(values.get("revision", ""))
            await start_game(services, db, caller, lobby, key=new_id(), revision=revision)


def _session(visit: Visit, session_id: str | None) -> Session | None:
    """The running game of a lobby."""
    sessions = visit.services.runtime.sessions
    session = sessions.get(session_id) if sessions is not None and session_id is not None else None
    return session if session is not None and not session.over else None


def _own_seat(session: Session, caller: Caller) -> str | None:
    own = next((seat for seat in session.joined.values() if seat.subject_id == caller.subject_id), None)
    return player_url("", session, own.slot) if own is not None and session.seats else None
