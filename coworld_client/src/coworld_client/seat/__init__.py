"""Sitting in a seat of a game: a player as one function, a class, or a session.

Here live the player's end of `coworld.seat/1` and what turns each form into it; no client of a platform does.
A player's container needs core, websockets and this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .connecting import SeatError as SeatError
    from .playing import Act as Act
    from .playing import load_player as load_player
    from .playing import play_seat as play_seat
    from .playing import seat_url as seat_url
    from .session import OpenSeat as OpenSeat

__getattr__, __dir__ = lazy_names(__name__)
