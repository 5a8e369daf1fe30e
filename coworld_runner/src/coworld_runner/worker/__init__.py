"""The hosted worker: plays one episode in a platform's Job, with the game as a container of the worker's own pod.

``coworld-worker init-config`` writes the game's config before the game starts; ``coworld-worker run`` runs beside the
game, starts each player in its own pod, and uploads the outputs. The episode itself runs as it does everywhere; only
the places where the units run differ (``JobBackend``).
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
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".inputs": ("Outputs", "Settings", "read_outputs", "read_settings"),
            ".preparing": ("init_config",),
            ".running": ("run_worker",),
        },
    )
