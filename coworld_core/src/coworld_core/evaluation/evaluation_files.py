"""Reads an evaluation from the files in its directory; the plan says which kind it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from ..documents.records import open_record, read_as
from ..episode.record import EpisodeRow
from ..errors import UsageError
from ..hints import Hint
from .battery import DiagnosisPlan
from .comparison import Comparison, ComparisonPlan
from .diagnosis import Diagnosis
from .mixture import FORMER_KINDS, Mixture, MixturePlan
from .pickup import Pickup, PickupPlan
from .ranking import Ranking, RankingPlan
from .report_base import Evaluation, EvaluationPlan
from .report_contents import ShownReport
from .scrimmage import Scrimmage, ScrimmagePlan

__all__ = ["MARKDOWN_NAME", "PLAN_NAME", "PLAYERS_NAME", "REPORT_NAME", "open_evaluation", "read_plan", "report_rows"]

PLAN_NAME = "plan.json"
REPORT_NAME = "report.json"
MARKDOWN_NAME = "report.md"
PLAYERS_NAME = "players.json"
"""Name of the file that says where the game and the files of players were, if episodes are kept as rows alone."""

_WHAT = "evaluation plan"
_PLANS: dict[str, type[EvaluationPlan]] = {
    "compare": ComparisonPlan,
    "rank": RankingPlan,
    "scrimmage": ScrimmagePlan,
    "mix": MixturePlan,
    "pickup": PickupPlan,
    "diagnose": DiagnosisPlan,
}
_EVALUATIONS: dict[type[EvaluationPlan], Callable[[Any], Evaluation[Any, Any]]] = {
    ComparisonPlan: Comparison,
    RankingPlan: Ranking,
    ScrimmagePlan: Scrimmage,
    MixturePlan: Mixture,
    PickupPlan: Pickup,
    DiagnosisPlan: Diagnosis,
}


def read_plan(directory: str | os.PathLike[str]) -> EvaluationPlan:
    """Read the plan of the evaluation in a directory.

    Args:
        directory: The directory that contains `plan.json`.

    Raises:
        UsageError: Code `no_evaluation` if there is no plan, or its kind is unknown.
        RecordError: If the plan is invalid.
    """
    place = Path(directory)
    if not (place / PLAN_NAME).is_file():
        there = "There is no such directory." if not place.exists() else ""
        hint = "Name the directory that compare, rank, scrimmage, mix, pickup or diagnose wrote."
        if (place / "tournament.toml").is_file():
            hint = Hint(
                "show_tournament",
                "That is a tournament: read_tournament({directory!r}) reads it.",
                directory=str(place),
            )
        elif (place / "events.ndjson").is_file():
            hint = f"That is one episode, or several of one plan. {hint}"
        raise UsageError(
            f"{place} has no evaluation: there is no {PLAN_NAME}. {there}".rstrip(),
            code="no_evaluation",
            hint=hint,
        )
    document = open_record(place, what=_WHAT, name=PLAN_NAME)
    value: object = document.value
    said = cast("Mapping[str, object]", value).get("kind") if isinstance(value, dict) else None
    kind = str(said)
    model = _PLANS.get(FORMER_KINDS.get(kind, kind))
    if model is None and document.usable:
        raise UsageError(
            f"{place / PLAN_NAME} is of an unknown kind of evaluation.",
            code="no_evaluation",
            hint=f"The known kinds are {', '.join(_PLANS)}; a later version may know more.",
        )
    return read_as(model or ComparisonPlan, document, what=_WHAT)


def open_evaluation(plan: EvaluationPlan) -> Evaluation[Any, Any]:
    """Create an evaluation with this plan and no rows."""
    return _EVALUATIONS[type(plan)](plan)


def report_rows(plan: EvaluationPlan, rows: Iterable[EpisodeRow]) -> ShownReport:
    """Compute the report of an evaluation from its rows.

    Args:
        plan: The plan of the evaluation (`plan.json`).
        rows: The episodes, in any order (`episodes.jsonl`).
    """
    report: ShownReport = open_evaluation(plan).over(rows)
    return report
