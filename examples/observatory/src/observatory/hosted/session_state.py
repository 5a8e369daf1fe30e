"""What is known of a hosted game while it goes on, and of one that the server has forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..identity.auth import Caller
from ..store.columns import JsonObject
from ..store.models import HostedSession
from .games import SeatedPerson

if TYPE_CHECKING:
    from .sessions import Session

__all__ = ["LOST", "error_of_session", "kept_state", "person_json", "seats_json", "status_of_session", "takes_part"]

LOST = "The server was restarted during the game."


def kept_state(session: Session) -> JsonObject:
    """What `HostedSession.state` keeps of a session."""
    return {
        "server": session.server,
        "slots": session.game.slots,
        "player_id": session.player_id,
        "labels": dict(session.labels),
        "players": seats_json(session),
        "error": session.error or None,
    }


def seats_json(session: Session) -> list[JsonObject]:
    """Who sits in a game, by slot: people and policies."""
    people = {slot: person_json(seat) for slot, seat in session.joined.items()}
    policies = {
        slot: {
            "slot": slot,
            "label": policy.label,
            "user_id": None,
            "player_id": policy.player_id,
            "player_name": policy.player_name,
            "joined_at": None,
        }
        for slot, policy in session.game.policies.items()
    }
    return [seat for _, seat in sorted((people | policies).items())]


def person_json(seat: SeatedPerson) -> JsonObject:
    """A person's seat."""
    return {
        "slot": seat.slot,
        "label": seat.name,
        "user_id": seat.user_id,
        "player_id": seat.player_id,
        "player_name": seat.name,
        "joined_at": seat.at.isoformat(),
    }


def status_of_session(row: HostedSession, session: Session | None) -> str:
    """The state of a game: `pending`, `running`, `completed`, `ended` without an episode, or `failed`.

    Args:
        row: Its row.
        session: The session, if the server remembers it.
    """
    if row.status == "starting":
        return "running" if session is not None and session.address else "pending"
    if row.status == "over":
        return "completed" if row.episode_request_id is not None else "ended"
    return "failed"


def error_of_session(row: HostedSession, session: Session | None) -> str | None:
    """Why a game failed; None if it did not, or nobody knows."""
    if session is not None:
        return session.error or None
    return LOST if row.status == "lost" else row.state.get("error")


def takes_part(caller: Caller, row: HostedSession, state: JsonObject) -> bool:
    """Whether a caller has started a game, or sits in it, whose state is as `kept_state` says."""
    people = (seat for seat in state.get("players") or () if seat["user_id"] is not None)
    return caller.owns(row.user_id, state.get("player_id")) or any(
        caller.is_owner(seat["user_id"], seat["player_id"]) for seat in people
    )
