"""Runs the user's own games and players on this machine, while the user develops them or tries them out.

Implements `coworld game serve`, `coworld game join` and `coworld dev` with local processes. Keeps no episode record and
assigns no blame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .dev import Dev as Dev
    from .dev import open_dev as open_dev
    from .serve import Served as Served
    from .serve import open_served as open_served
    from .sit import open_seat as open_seat
    from .sit import socket_address as socket_address
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".dev": ("Dev", "open_dev"),
            ".serve": ("Served", "open_served"),
            ".sit": ("open_seat", "socket_address"),
        },
    )
