"""Wraps games of other libraries as rules of the kit, and makes whole packages from them.

Contains an adapter for each library, the lists of games that can be wrapped, and the writer of packages. An adapter
imports its library only when rules are made from it. The rules of single games do not belong here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .game_catalogue import list_wrappable as list_wrappable
    from .gymnasium import Gymnasium as Gymnasium
    from .openspiel import OpenSpiel as OpenSpiel
    from .pettingzoo import PettingZoo as PettingZoo
    from .practice import Practised as Practised
    from .textarena import TextArena as TextArena
    from .wrapped_package import wrap_game as wrap_game
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".gymnasium": ("Gymnasium",),
            ".openspiel": ("OpenSpiel",),
            ".wrapped_package": ("wrap_game",),
            ".pettingzoo": ("PettingZoo",),
            ".practice": ("Practised",),
            ".game_catalogue": ("list_wrappable",),
            ".textarena": ("TextArena",),
        },
    )
