"""Serving rules as a game: the runtime contract, with its routes, clocks, pages, results and replays.

Here lives everything between `coworld_core.rules` and the network; no rule of any game does.
A game's container needs core, websockets, anyio and this; nothing here imports backends or what runs episodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .hosting import serve_rules as serve_rules

__getattr__, __dir__ = lazy_names(__name__)
