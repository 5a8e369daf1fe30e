"""Playing from a seat of a game, with a player that is a function, a class or a session.

This package implements the player's end of `coworld.seat/1` for each form of player, without the client of a platform.
A player's container needs only `coworld_core`, websockets and this package.
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
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".connecting": ("SeatError",),
            ".playing": ("Act", "load_player", "play_seat", "seat_url"),
            ".session": ("OpenSeat",),
        },
    )
