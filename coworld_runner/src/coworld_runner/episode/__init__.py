"""One episode, the same over every backend.

prepare → start game → ready → (check the contract while the players start) → play → game over → bounded grace for the
players → collect → validate → record.

One deadline covers the whole. Everything is event-driven: an exit is seen when it happens, and a fault is recorded
when and where it is seen. ``episode.json`` is written on every path, failure and interruption included.

Its parts: what is known (``ledger``), who is to blame (``blame``: a table and a pure function), what is watched while
it plays (``watching``), what is brought in (``collecting``), what happens next (``flow``), and the ``record`` that is
made of it. Nothing here knows one backend from another, a platform or a display.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .options import ContractProbe as ContractProbe
    from .options import EpisodeOptions as EpisodeOptions
    from .running import require_images as require_images
    from .running import run_episode as run_episode


__getattr__, __dir__ = lazy_names(__name__)
