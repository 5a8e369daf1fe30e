"""Drafts of games that people and policies play together: their seats, and the changes of them.

A draft is a row. Once started, it is a hosted session like any other, and its state is that of the session.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Literal

from sqlalchemy.ext.asyncio import AsyncSession

from ..errors import conflict, not_found
from ..identity.auth import Caller
from ..store.audit import audit
from ..store.columns import JsonObject, now
from ..store.models import Lobby
from ..work.lineups import Candidate
from .games import SeatedPerson
from .session_state import status_of_session
from .sessions import OnStored, Session

__all__ = [
    "LIFETIME",
    "LobbySeat",
    "cancel",
    "claim",
    "is_draft",
    "leave",
    "remove_person",
    "require_draft",
    "seats_of",
    "set_seat",
    "started",
    "status_of",
    "write_seats",
]

LIFETIME = dt.timedelta(hours=1)
"""How long a draft can be started."""


@dataclass(frozen=True, kw_only=True)
class LobbySeat:
    """A seat of a lobby."""

    kind: Literal["human", "human_open", "league_player", "random", "closed"]
    """`human` is a person, and `human_open` waits for one."""
    player_id: str | None = None
    """The player: of a league, or as which a person plays. For a league, also an account without a player. Of a
    `random` seat once it is drawn."""
    name: str | None = None
    """Name of the player or person, as of when it was seated."""
    user_id: str | None = None
    """The account of a person."""

    @classmethod
    def of_person(cls, caller: Caller) -> LobbySeat:
        """A caller's seat."""
        person = SeatedPerson.of(caller, 0)
        return cls(kind="human", player_id=person.player_id, user_id=person.user_id, name=person.name)

    @classmethod
    def of_champion(cls, champion: Candidate) -> LobbySeat:
        """The seat of a league's player; its policy version is decided when the game starts."""
        return cls(kind="league_player", player_id=champion.subject_id, name=champion.player_name)

    @property
    def subject_id(self) -> str | None:
        """The person's player or account."""
        return (self.player_id or self.user_id) if self.kind == "human" else None


OPEN = LobbySeat(kind="human_open")


def seats_of(lobby: Lobby) -> list[LobbySeat]:
    """The seats by position."""
    return [LobbySeat(**seat) for seat in lobby.seats]


def write_seats(seats: Sequence[LobbySeat]) -> list[JsonObject]:
    """Seats as they are stored."""
    return [{key: value for key, value in asdict(seat).items() if value is not None} for seat in seats]


def is_draft(lobby: Lobby) -> bool:
    """Whether it can still be changed and started."""
    return lobby.session_id is None and lobby.cancelled_at is None and lobby.expires_at > now()


def status_of(lobby: Lobby, session: Session | None) -> str:
    """The state of a lobby: its own until it is started, then that of its game.

    Args:
        lobby: The lobby.
        session: Its hosted session, if the server remembers it.
    """
    row = lobby.session
    if row is None:
        if lobby.cancelled_at is not None:
            return "cancelled"
        return "draft" if is_draft(lobby) else "expired"
    return status_of_session(row, session)


def require_draft(lobby: Lobby, revision: int | None = None) -> None:
    """Check that a lobby can be changed.

    Args:
        lobby: The lobby.
        revision: The revision that the caller has seen.

    Raises:
        Refusal: 409 if it is no draft (any more), or has another revision.
    """
    if not is_draft(lobby):
        state = {"expired": "has expired", "cancelled": "was cancelled"}.get(status_of(lobby, None), "has been started")
        detail = f"The lobby {lobby.id} {state} and can no longer be changed. Create a new one."
        raise conflict(detail, code="not_a_draft")
    if revision is not None and revision != lobby.revision:
        raise conflict(
            f"The lobby {lobby.id} has changed: it is at revision {lobby.revision}, and the request was made for "
            f"revision {revision}. Fetch the lobby again, then retry.",
            code="stale_revision",
        )


def set_seat(lobby: Lobby, position: int, seat: LobbySeat, *, revision: int) -> None:
    """Decide who is to sit in a seat that no person has.

    Raises:
        Refusal: 404 without such a seat, 409 if a person has it, or the lobby is no draft of this revision.
    """
    require_draft(lobby, revision)
    if _seat_at(lobby, position).kind == "human":
        raise conflict(f"Seat {position} is taken. Remove its occupant first.", code="seat_taken")
    _replace(lobby, {position: seat})


def claim(lobby: Lobby, position: int, caller: Caller) -> None:
    """Take an open seat, leaving the one that the caller may have. Repeating this has no effect.

    Raises:
        Refusal: 404 without such a seat, 409 if it is not open, or the lobby is no draft.
    """
    require_draft(lobby)
    seat = _seat_at(lobby, position)
    if seat.subject_id is not None and seat.subject_id == caller.subject_id:
        return
    if seat.kind != "human_open":
        code = "seat_taken" if seat.kind == "human" else "seat_not_open"
        raise conflict(f"Seat {position} is not open to people: it is {_described(seat)}.", code=code)
    own = [at for at, other in enumerate(seats_of(lobby)) if other.subject_id == caller.subject_id]
    _replace(lobby, {**dict.fromkeys(own, OPEN), position: LobbySeat.of_person(caller)})


def leave(lobby: Lobby, caller: Caller) -> None:
    """Leave the caller's seat, which is open again.

    Raises:
        Refusal: 409 if the caller has none, or the lobby is no draft.
    """
    require_draft(lobby)
    own = [at for at, seat in enumerate(seats_of(lobby)) if seat.subject_id == caller.subject_id]
    if not own:
        raise conflict(f"You have no seat in the lobby {lobby.id}.", code="not_seated")
    _replace(lobby, dict.fromkeys(own, OPEN))


def remove_person(db: AsyncSession, lobby: Lobby, position: int) -> None:
    """Remove the person in a seat, which is open again.

    Raises:
        Refusal: 404 without such a seat, 409 if nobody sits there, or the lobby is no draft.
    """
    require_draft(lobby)
    seat = _seat_at(lobby, position)
    if seat.kind != "human":
        raise conflict(f"Seat {position} has no person to remove: it is {_described(seat)}.", code="seat_not_taken")
    _replace(lobby, {position: OPEN})
    audit(db, "lobby.player_removed", user_id=seat.user_id, subject=lobby.id, position=position)


def cancel(lobby: Lobby) -> None:
    """Cancel a draft. Repeating this has no effect.

    Raises:
        Refusal: 409 if it has been started, or has expired.
    """
    if lobby.cancelled_at is None:
        require_draft(lobby)
        lobby.cancelled_at = now()
        lobby.revision += 1


def started(lobby_id: str, *, revision: int, key: str, policies: Mapping[int, Candidate]) -> OnStored:
    """A function that makes a hosted session the game of a lobby, in the transaction that stores the session.

    Args:
        lobby_id: The lobby.
        revision: Its revision, from which the session's seats were taken.
        key: The idempotency key of the request.
        policies: The policies that play, for the audit log.
    """
    return partial(_start, lobby_id, revision, key, policies)


async def _start(
    lobby_id: str, revision: int, key: str, policies: Mapping[int, Candidate], db: AsyncSession, session: Session
) -> None:
    lobby = await db.get_one(Lobby, lobby_id, with_for_update={"of": Lobby}, populate_existing=True)
    require_draft(lobby, revision)
    lobby.session_id, lobby.start_key, lobby.started_at = session.id, key, now()
    playing = [at for at, seat in enumerate(seats_of(lobby)) if seat.kind != "closed"]
    drawn = {playing[slot]: policy for slot, policy in policies.items()}
    _replace(lobby, {at: _played_by(seat, drawn.get(at)) for at, seat in enumerate(seats_of(lobby))})
    seated = [policy.label for _, policy in sorted(policies.items())]
    audit(db, "lobby.started", user_id=lobby.user_id, subject=lobby.id, play_session=session.id, policies=seated)


def _seat_at(lobby: Lobby, position: int) -> LobbySeat:
    seats = seats_of(lobby)
    if not 0 <= position < len(seats):
        raise not_found("seat", str(position))
    return seats[position]


def _replace(lobby: Lobby, changes: Mapping[int, LobbySeat]) -> None:
    seats = seats_of(lobby)
    lobby.seats = write_seats([changes.get(at, seat) for at, seat in enumerate(seats)])
    lobby.revision += 1


def _played_by(seat: LobbySeat, policy: Candidate | None) -> LobbySeat:
    """A seat once it is known which policy plays, so that people see with whom they do."""
    return seat if policy is None else replace(seat, player_id=policy.subject_id, name=policy.player_name)


def _described(seat: LobbySeat) -> str:
    words = {
        "human": f"taken by {seat.name}",
        "human_open": "open",
        "league_player": f"for the champion of {seat.name}",
        "random": "for a champion of the league",
        "closed": "closed",
    }
    return words[seat.kind]
