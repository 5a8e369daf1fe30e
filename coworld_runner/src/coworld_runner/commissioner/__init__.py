"""Hosts commissioners: starts their program on a backend and talks to it over a websocket.

``coworld_core.commissioner`` parses their messages; this package does not interpret them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .finding import FoundCommissioner as FoundCommissioner
    from .finding import declared_commissioner as declared_commissioner
    from .finding import find_commissioner as find_commissioner
    from .hosting import CommissionerOptions as CommissionerOptions
    from .hosting import CommissionerSocket as CommissionerSocket
    from .hosting import open_commissioner as open_commissioner
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".finding": ("FoundCommissioner", "declared_commissioner", "find_commissioner"),
            ".hosting": ("CommissionerOptions", "CommissionerSocket", "open_commissioner"),
        },
    )
