"""Hosts commissioners: starts their program on a backend and talks to it over a websocket.

`coworld_core.commissioner` parses their messages; this package does not interpret them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .commissioner_host import CommissionerOptions as CommissionerOptions
    from .commissioner_host import CommissionerSocket as CommissionerSocket
    from .commissioner_host import open_commissioner as open_commissioner
    from .commissioner_lookup import FoundCommissioner as FoundCommissioner
    from .commissioner_lookup import declared_commissioner as declared_commissioner
    from .commissioner_lookup import find_commissioner as find_commissioner
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".commissioner_lookup": ("FoundCommissioner", "declared_commissioner", "find_commissioner"),
            ".commissioner_host": ("CommissionerOptions", "CommissionerSocket", "open_commissioner"),
        },
    )
