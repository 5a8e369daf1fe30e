"""Sitting in a seat of a game of the kit: a player as one function.

Here live the player's end of `coworld.seat/1` and what turns a function into it; no client of a platform does.
A player's container needs core, websockets and this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .playing import Act as Act
    from .playing import SeatError as SeatError
    from .playing import load_act as load_act
    from .playing import play_seat as play_seat
    from .playing import seat_url as seat_url

__getattr__, __dir__ = lazy_names(__name__)
