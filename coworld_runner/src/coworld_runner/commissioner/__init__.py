"""Commissioners, hosted: their program is started on a backend and spoken to over its socket.

What they say is read in ``coworld_core.commissioner``; what it comes to is not known here.
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


__getattr__, __dir__ = lazy_names(__name__)
