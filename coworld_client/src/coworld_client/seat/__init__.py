"""Playing from a seat of a game, with a player that is a function, a class or a session.

This package implements the player's end of `coworld.seat/1` for each form of player, without the client of a platform.
A player's container needs only `coworld_core`, websockets and this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .connection import SeatError as SeatError
    from .open_seat import OpenSeat as OpenSeat
    from .seat_session import Act as Act
    from .seat_session import load_player as load_player
    from .seat_session import play_seat as play_seat
    from .seat_session import seat_seed as seat_seed
    from .seat_session import seat_url as seat_url
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".connection": ("SeatError",),
            ".seat_session": ("Act", "load_player", "play_seat", "seat_seed", "seat_url"),
            ".open_seat": ("OpenSeat",),
        },
    )
