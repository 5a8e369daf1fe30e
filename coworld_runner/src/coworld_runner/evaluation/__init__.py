"""Measures players by playing the blocks of a design as episodes until there is enough evidence.

`many` plays the episodes and `coworld_core.evaluation` analyses them. This package connects the two: it plans
episodes for lineups, decides what to play next, and keeps the files of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .comparison import compare as compare
    from .diagnosis import diagnose as diagnose
    from .episode_again import play_row_again as play_row_again
    from .evaluation_page import report_page as report_page
    from .evaluation_rules import EvaluationRules as EvaluationRules
    from .evaluation_run import PlayedEvaluation as PlayedEvaluation
    from .evaluation_run import read_evaluation as read_evaluation
    from .measurements import mix as mix
    from .measurements import pickup as pickup
    from .measurements import scrimmage as scrimmage
    from .ranking import rank as rank
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".comparison": ("compare",),
            ".diagnosis": ("diagnose",),
            ".episode_again": ("play_row_again",),
            ".measurements": ("mix", "pickup", "scrimmage"),
            ".evaluation_page": ("report_page",),
            ".evaluation_run": ("PlayedEvaluation", "read_evaluation"),
            ".ranking": ("rank",),
            ".evaluation_rules": ("EvaluationRules",),
        },
    )
