"""The lobby of a hosted game, where people take seats."""

from __future__ import annotations

import anyio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..api.hosted import player_url
from ..errors import Refusal
from ..hosted.sessions import Session, session_here, wait_ready
from ..store.models import Coworld
from .visit import Visit, is_same_origin, open_visit, page, trouble

__all__ = ["lobby", "take_seat"]


async def lobby(request: Request) -> Response:
    """Show the seats and the possible actions."""
    async with open_visit(request) as visit:
        session = await _session(visit)
        if session is None:
            return _gone(visit)
        session.used = anyio.current_time()
        coworld = await visit.db.get(Coworld, session.coworld_id)
        own = next((seat for seat in session.joined.values() if seat.subject_id == visit.caller.subject_id), None)
        watch = f"/sessions/{session.id}{session.page}" if session.spectators and session.address else None
        return page(
            request,
            "lobby.html",
            visit.caller,
            coworld=coworld.name if coworld else "A game",
            seats=[_occupant(session, slot) for slot in range(session.game.slots)],
            scores=session.scores,
            seat=player_url("", session, own.slot) if own and session.seats else None,
            watch=watch if not session.over else None,
            over=session.over,
            episode=session.episode_id,
            trouble=session.error,
        )


async def take_seat(request: Request) -> Response:
    """Take a seat, and redirect to it."""
    async with open_visit(request) as visit:
        if not is_same_origin(request):
            return trouble(
                request, visit.caller, 403, "Refused", "This form was submitted from another site, so it was rejected."
            )
        session = await _session(visit)
        if session is None:
            return _gone(visit)
        if not visit.caller.known:
            return RedirectResponse(f"/sign-in?next=/play/{session.id}", status_code=303)
        sessions = visit.services.runtime.sessions
        assert sessions is not None
        try:
            await wait_ready(session)
            seat = await sessions.join(session, visit.caller)
        except Refusal as refusal:
            return trouble(request, visit.caller, refusal.status, "No seat", str(refusal.detail))
        return RedirectResponse(player_url("", session, seat.slot), status_code=303)


def _occupant(session: Session, slot: int) -> str | None:
    if (policy := session.game.policies.get(slot)) is not None:
        return policy.label
    return session.joined[slot].name if slot in session.joined else None


async def _session(visit: Visit) -> Session | None:
    session = await session_here(visit.services, visit.request.path_params["session_id"])
    return session if session is not None and session.kind == "play" else None


def _gone(visit: Visit) -> Response:
    return trouble(visit.request, visit.caller, 404, "Not found", "There is no such game, or it is over.")
