"""Measuring players by playing: the blocks of a design as episodes, until there is enough evidence.

``many`` plays them and ``coworld_core.evaluation`` says what they come to; here is only what lies between: plans for
lineups, what to play next, and the files of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .comparing import compare as compare
    from .playing import EvaluationRun as EvaluationRun
    from .ranking import rank as rank
    from .rules import EvaluationRules as EvaluationRules


__getattr__, __dir__ = lazy_names(__name__)
