"""The hosted worker: plays one episode in a platform's Job, with the game as a container of the worker's own pod.

`coworld-worker init-config` writes the game's config before the game starts; `coworld-worker run` runs beside the
game, starts each player in its own pod, and uploads the outputs. The episode itself runs as it does everywhere; only
the places where the units run differ (`JobBackend`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .episode_setup import init_config as init_config
    from .worker_run import run_worker as run_worker
    from .worker_settings import Outputs as Outputs
    from .worker_settings import Settings as Settings
    from .worker_settings import read_outputs as read_outputs
    from .worker_settings import read_settings as read_settings
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".worker_settings": ("Outputs", "Settings", "read_outputs", "read_settings"),
            ".episode_setup": ("init_config",),
            ".worker_run": ("run_worker",),
        },
    )
