"""The hosted worker: one episode whose game runs in the worker's own pod, as a platform's Job makes it.

``coworld-worker init-config`` writes the game's config before the game starts; ``coworld-worker run`` stands beside the
game, starts the players as pods of their own, and hands over what came of it. The episode itself is the same algorithm
as everywhere; only where the units run is different (``JobBackend``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .inputs import Outputs as Outputs
    from .inputs import Settings as Settings
    from .inputs import read_outputs as read_outputs
    from .inputs import read_settings as read_settings
    from .preparing import init_config as init_config
    from .running import run_worker as run_worker

__getattr__, __dir__ = lazy_names(__name__)
