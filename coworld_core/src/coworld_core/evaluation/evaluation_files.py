"""Reads an evaluation from the files in its directory; the plan says which kind it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..documents.records import open_record, read_as
from ..episode.record import EpisodeRow, read_record
from ..errors import UsageError
from ..hints import Hint
from ..text.phrases import listed
from .battery import DiagnosisPlan
from .comparison import Comparison, ComparisonPlan, ComparisonReport
from .diagnosis import Diagnosis, DiagnosisReport
from .markdown import report_markdown
from .metrics import known_metrics, measured
from .mixture import Mixture, MixturePlan, MixtureReport
from .pickup import Pickup, PickupPlan, PickupReport
from .ranking import Ranking, RankingPlan, RankingReport
from .report_base import Evaluation, EvaluationPlan
from .report_contents import ShownReport
from .scrimmage import Scrimmage, ScrimmagePlan, ScrimmageReport

__all__ = [
    "KINDS",
    "MARKDOWN_NAME",
    "PLAN_NAME",
    "PLAYERS_NAME",
    "REPORT_NAME",
    "measure_row",
    "open_evaluation",
    "plan_file",
    "read_plan",
    "refuse_changed",
    "report_files",
    "report_rows",
    "require_same_plan",
]

PLAN_NAME = "plan.json"
REPORT_NAME = "report.json"
MARKDOWN_NAME = "report.md"
PLAYERS_NAME = "players.json"
"""Name of the file that says where the game and the files of players were, if episodes are kept as rows alone."""

_MAY_DIFFER = ("max_blocks", "max_cost", "before", "rating", "lowest", "highest")
"""Fields of a plan that may change when a run resumes, as they do not affect episodes already played. Plans of older
versions do not have the lowest and the highest score."""

_WHAT = "evaluation plan"


class EvaluationKind(NamedTuple):
    """What one kind of evaluation is made of."""

    plan: type[EvaluationPlan]
    evaluation: Callable[[Any], Evaluation[Any, Any]]
    report: type[ShownReport]


KINDS: Mapping[str, EvaluationKind] = {
    "compare": EvaluationKind(ComparisonPlan, Comparison, ComparisonReport),
    "rank": EvaluationKind(RankingPlan, Ranking, RankingReport),
    "scrimmage": EvaluationKind(ScrimmagePlan, Scrimmage, ScrimmageReport),
    "mix": EvaluationKind(MixturePlan, Mixture, MixtureReport),
    "pickup": EvaluationKind(PickupPlan, Pickup, PickupReport),
    "diagnose": EvaluationKind(DiagnosisPlan, Diagnosis, DiagnosisReport),
}
"""The kinds of evaluations, by the command that makes them."""


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
    found = KINDS.get(kind)
    if found is None and document.usable:
        raise UsageError(
            f"{place / PLAN_NAME} is of an unknown kind of evaluation.",
            code="no_evaluation",
            hint=f"The known kinds are {', '.join(KINDS)}; a later version may know more.",
        )
    return read_as(found.plan if found is not None else ComparisonPlan, document, what=_WHAT)


def open_evaluation(plan: EvaluationPlan) -> Evaluation[Any, Any]:
    """Create an evaluation with this plan and no rows."""
    return KINDS[plan.kind].evaluation(plan)


def report_rows(plan: EvaluationPlan, rows: Iterable[EpisodeRow]) -> ShownReport:
    """Compute the report of an evaluation from its rows.

    Args:
        plan: The plan of the evaluation (`plan.json`).
        rows: The episodes, in any order (`episodes.jsonl`).
    """
    report: ShownReport = open_evaluation(plan).over(rows)
    return report


def plan_file(plan: EvaluationPlan) -> bytes:
    """The content of `plan.json`."""
    return plan.to_document()


def report_files(report: ShownReport) -> dict[str, bytes]:
    """The contents of `report.json` and `report.md`, by name."""
    return {REPORT_NAME: report.to_document(), MARKDOWN_NAME: report_markdown(report).encode()}


def require_same_plan(found: EvaluationPlan, plan: EvaluationPlan, place: Path) -> None:
    """Refuse to resume an evaluation by another plan.

    More blocks may be requested at any time: the evidence stays valid however often it is examined.

    Args:
        found: The plan that it began with.
        plan: The plan to go on with.
        place: Its directory, for messages.

    Raises:
        UsageError: Code `another_evaluation`: it differs; or as `refuse_changed`.
    """
    refuse_changed(found, plan)
    others = [
        name
        for name in type(plan).model_fields
        if name not in _MAY_DIFFER and getattr(found, name, None) != getattr(plan, name)
    ]
    others = ["kind"] if found.kind != plan.kind else others
    if others:
        raise UsageError(
            f"{place} has an evaluation that differs from this one in: {listed(others)}.",
            code="another_evaluation",
            hint=Hint("repeat_evaluation", "Repeat the call that began it, or pass another workspace."),
        )


def refuse_changed(found: EvaluationPlan, plan: EvaluationPlan) -> None:
    """Refuse to resume with a player's file whose content has changed.

    Raises:
        UsageError: Code `player_changed`: a player's file has another digest than before.
    """
    before = found.players()
    for label, player in plan.players().items():
        file, _, content = player.image.rpartition("@")
        was = before[label].image if label in before else ""
        if file and player.image != was and was.rpartition("@")[0] == file and not content.startswith("sha"):
            raise UsageError(
                f"{file} has changed since the evaluation began: its digest was {was.rpartition('@')[2]} and is "
                f"{content} now.",
                code="player_changed",
                hint=Hint(
                    "restore_player",
                    "Restore the old content, or start again: in another workspace, or under another name.",
                ),
            )


def _results_of(row: EpisodeRow, workspace: Path) -> dict[str, Any]:
    # A row may be a stranger's
    if Path(row.workspace).is_absolute() or ".." in Path(row.workspace).parts:
        raise UsageError(f"Episode {row.key} has no directory below {workspace}.", code="episode_elsewhere")
    return read_record(workspace / row.workspace).results or {}


def measure_row(row: EpisodeRow, plan: EvaluationPlan, workspace: Path) -> EpisodeRow:
    """Return the row with its scores replaced by the measured metric.

    Raises:
        UsageError: The results do not have this metric.
    """
    if not plan.metric or not row.scores:
        return row
    results = row.results if row.results is not None else _results_of(row, workspace)
    numbers = measured(results, plan.metric, plan.slot_count)
    if numbers is None:
        known = known_metrics(results, plan.slot_count)
        raise UsageError(
            f"The results have no list of {plan.slot_count} numbers at {plan.metric!r}.",
            code="metric_unknown",
            hint=f"There is {listed(known)}." if known else "They have no such list at all.",
        )
    return row.model_copy(update={"scores": numbers})
