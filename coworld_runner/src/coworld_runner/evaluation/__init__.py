"""Measures players by playing the blocks of a design as episodes until there is enough evidence.

``many`` plays the episodes and ``coworld_core.evaluation`` analyses them. This package connects the two: it plans
episodes for lineups, decides what to play next, and keeps the files of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .comparing import compare as compare
    from .diagnosing import diagnose as diagnose
    from .mixing import mix as mix
    from .page import report_page as report_page
    from .picking import pickup as pickup
    from .playing import PlayedEvaluation as PlayedEvaluation
    from .playing import RunArguments as RunArguments
    from .playing import read_evaluation as read_evaluation
    from .ranking import rank as rank
    from .rules import EvaluationRules as EvaluationRules
    from .scrimmaging import scrimmage as scrimmage
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".comparing": ("compare",),
            ".diagnosing": ("diagnose",),
            ".mixing": ("mix",),
            ".page": ("report_page",),
            ".picking": ("pickup",),
            ".playing": ("PlayedEvaluation", "RunArguments", "read_evaluation"),
            ".ranking": ("rank",),
            ".rules": ("EvaluationRules",),
            ".scrimmaging": ("scrimmage",),
        },
    )
