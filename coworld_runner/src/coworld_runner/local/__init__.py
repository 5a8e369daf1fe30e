"""Games and players of one's own, opened by hand on this machine: served, seated, and worked on while they play.

Here live what `coworld serve`, `sit` and `dev` do, over local processes; nothing of an episode's record or blame does.
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

__getattr__, __dir__ = lazy_names(__name__)
