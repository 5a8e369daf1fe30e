"""Measuring players: the lineups (designs), which blocks count (judging), and which conclusions hold.

Pure functions over the rows of `episodes.jsonl`: the same rows always give the same answer. Nothing
here plays an episode (`coworld_runner.evaluation` does) or draws a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .battery import DiagnosisPlan as DiagnosisPlan
    from .block_ledger import BlockLedger as BlockLedger
    from .block_ledger import JudgedBlock as JudgedBlock
    from .comparison import ComparisonPlan as ComparisonPlan
    from .comparison import ComparisonReport as ComparisonReport
    from .comparison import compare_rows as compare_rows
    from .designs import block_seed as block_seed
    from .designs import comparison_lineups as comparison_lineups
    from .designs import mixture_lineups as mixture_lineups
    from .designs import pickup_lineups as pickup_lineups
    from .designs import round_robin as round_robin
    from .diagnosis import DiagnosisReport as DiagnosisReport
    from .estimates import Interval as Interval
    from .estimates import Scale as Scale
    from .estimates import mean_interval as mean_interval
    from .estimates import running_interval as running_interval
    from .estimates import sign_evidence as sign_evidence
    from .evaluation_files import read_plan as read_plan
    from .evaluation_files import report_rows as report_rows
    from .markdown import report_markdown as report_markdown
    from .metrics import known_metrics as known_metrics
    from .mixture import MixturePlan as MixturePlan
    from .mixture import MixtureReport as MixtureReport
    from .pickup import PickupPlan as PickupPlan
    from .pickup import PickupReport as PickupReport
    from .ranking import RankingPlan as RankingPlan
    from .ranking import RankingReport as RankingReport
    from .ranking import rank_rows as rank_rows
    from .ratings import Rating as Rating
    from .ratings import rate as rate
    from .report_contents import ShownReport as ShownReport
    from .scrimmage import ScrimmagePlan as ScrimmagePlan
    from .scrimmage import ScrimmageReport as ScrimmageReport
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".battery": ("DiagnosisPlan",),
            ".comparison": ("ComparisonPlan", "ComparisonReport", "compare_rows"),
            ".report_contents": ("ShownReport",),
            ".designs": ("block_seed", "comparison_lineups", "mixture_lineups", "pickup_lineups", "round_robin"),
            ".diagnosis": ("DiagnosisReport",),
            ".estimates": ("Interval", "Scale", "mean_interval", "running_interval", "sign_evidence"),
            ".block_ledger": ("BlockLedger", "JudgedBlock"),
            ".markdown": ("report_markdown",),
            ".metrics": ("known_metrics",),
            ".mixture": ("MixturePlan", "MixtureReport"),
            ".pickup": ("PickupPlan", "PickupReport"),
            ".ranking": ("RankingPlan", "RankingReport", "rank_rows"),
            ".ratings": ("Rating", "rate"),
            ".evaluation_files": ("read_plan", "report_rows"),
            ".scrimmage": ("ScrimmagePlan", "ScrimmageReport"),
        },
    )
