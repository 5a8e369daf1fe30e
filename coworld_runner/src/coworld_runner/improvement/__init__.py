"""Improves players: a program changes a player's files, and a comparison decides whether the change is kept.

Here is the loop, and what it keeps on disk; the programs are roles, and the comparisons evaluations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .improvement_loop import Improvement as Improvement
    from .improvement_loop import improve_player as improve_player
    from .improvement_rules import ImprovementRules as ImprovementRules
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".improvement_loop": ("Improvement", "improve_player"),
            ".improvement_rules": ("ImprovementRules",),
        },
    )
