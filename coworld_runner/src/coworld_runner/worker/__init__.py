"""The hosted worker: plays one episode in a platform's Job, with the game as a container of the worker's own pod.

`coworld-worker init-config` writes the game's config before the game starts; `coworld-worker run` runs beside the
game, starts each player in its own pod, and uploads the outputs. The episode itself runs as it does everywhere; only
the places where the units run differ (`JobBackend`).
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
