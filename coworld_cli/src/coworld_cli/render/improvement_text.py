"""What became of the improvement of a player, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from coworld_core.text import plural

from .results import labelled
from .text import clean, seconds, shown_path, table

if TYPE_CHECKING:
    from coworld_core.roles import ImprovementStep
    from coworld_runner.improvement import Improvement

__all__ = ["improvement_answer", "improvement_result"]

_COLOURS = {"kept": "green", "dropped": "yellow", "lost": "red"}
_WIDEST = 60
"""Characters of a cell."""
_ENDED = {
    "losses": "Many steps in a row were lost, so it was not asked again.",
    "": "It was interrupted: the same command goes on.",
}


def improvement_answer(done: Improvement) -> dict[str, Any]:
    """The improvement as JSON."""
    return {
        "workspace": str(done.workspace),
        "best_player": str(done.best),
        "ok": done.report.improved,
        **done.report.model_dump(mode="json"),
    }


def improvement_result(done: Improvement) -> str:
    """The improvement as text: the result, the steps, and where the best player is."""
    report, spent = done.report, done.report.spent
    colour = "green" if report.improved else "yellow"
    said = f"{plural(spent.episodes, 'episode')} in {plural(spent.steps, 'step')}, {seconds(spent.seconds)}"
    parts = [click.style(clean(report.headline, one_line=True), fg=colour, bold=True)]
    if report.steps:
        head = tuple(click.style(text, dim=True) for text in ("step", "result", "why", "change"))
        parts.append(table([head, *map(_row, report.steps)], right=[0], indent="  "))
    if why := _ENDED.get(report.ended):
        parts.append(why)
    elif report.unfinished is not None:
        parts.append(f"Step {report.unfinished} has not ended: the same command with a larger budget goes on with it.")
    where = [
        ("Spent", said),
        ("Base seed", str(report.plan.seed)),
        ("Best player", shown_path(done.best)),
        ("Everything", shown_path(done.workspace)),
        ("Report", shown_path(done.workspace / "report.md")),
    ]
    if report.best:
        where.append(("Its change", shown_path(done.workspace / "steps" / f"{report.best:04}" / "changes.diff")))
    return "\n\n".join([*parts, labelled(where, indent="")])


def _row(step: ImprovementStep) -> tuple[str, ...]:
    fate = click.style(clean(step.status, one_line=True), fg=_COLOURS.get(step.status))
    return (str(step.step), fate, _cell(step.message), _cell(step.change))


def _cell(text: str) -> str:
    short = clean(text, one_line=True).strip()
    return short if len(short) <= _WIDEST else f"{short[: _WIDEST - 1].rstrip()}…"
