"""Runs the user's own games and players on this machine, while the user develops them or tries them out.

Implements `coworld game serve`, `coworld game join` and `coworld dev` with local processes. Keeps no episode record and
assigns no blame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .dev_session import Dev as Dev
    from .dev_session import open_dev as open_dev
    from .local_server import Served as Served
    from .local_server import open_served as open_served
    from .seat_player import open_seat as open_seat
    from .seat_player import socket_address as socket_address
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".dev_session": ("Dev", "open_dev"),
            ".local_server": ("Served", "open_served"),
            ".seat_player": ("open_seat", "socket_address"),
        },
    )
