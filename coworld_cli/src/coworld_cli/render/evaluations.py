"""What evaluations came to, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .results import labelled
from .text import clean, plural, shown_path, table

if TYPE_CHECKING:
    from coworld_core.evaluation.comparison import ComparisonReport
    from coworld_core.evaluation.ranking import RankingReport
    from coworld_core.evaluation.reports import EvaluationPlan, EvaluationReport

__all__ = ["comparison_result", "ranking_result"]

_COLOURS = {"better": "green", "worse": "red", "equal": "cyan"}


def comparison_result(report: ComparisonReport, workspace: Path) -> str:
    """Whether one player is better than another, by how much, and what a reader must know.

    Args:
        report: What the comparison came to.
        workspace: Where its files are.
    """
    from coworld_core.evaluation.words import headline, interval_words, number

    plan = report.plan
    verdict = click.style(clean(headline(report), one_line=True), fg=_COLOURS.get(report.verdict, "yellow"), bold=True)
    facts = [
        ("Blocks", f"{report.won} won, {report.lost} lost, {report.drawn} drawn{_left_out(report)}"),
        ("Evidence", f"{number(report.evidence)} ({number(1 / plan.alpha)} decides)"),
    ]
    if report.difference is not None:
        interval = interval_words(report.interval, signed=True)
        facts.append(("Difference", f"{report.difference:+.4g} on average ({interval})"))
    if plan.margin is not None:
        facts.append(("Margin", f"{number(plan.margin)}"))
    return "\n\n".join(
        [
            f"{_headline(plan)}\n{verdict}",
            _entrants(plan, report),
            labelled(facts),
            *_remarks(report),
            _files(workspace),
        ]
    )


def ranking_result(report: RankingReport, workspace: Path) -> str:
    """How players stand, who is not told apart, and what a reader must know.

    Args:
        report: What the ranking came to.
        workspace: Where its files are.
    """
    from coworld_core.evaluation.words import not_apart, number, ranking_headline

    players = report.plan.players()
    means = {entrant.label: entrant.mean for entrant in report.entrants}
    head = ["", "player", "rating", "95 % interval", "mean"]
    rows = [[click.style(cell, dim=True) for cell in head]]
    for place, standing in enumerate(report.standings, 1):
        mean = means[standing.label]
        rows.append(
            [
                click.style(str(place), dim=True),
                clean(players[standing.label].name, one_line=True),
                click.style(f"{standing.points:+.0f}", bold=True),
                f"{standing.interval.low:+.0f} to {standing.interval.high:+.0f}",
                "-" if mean is None else number(mean),
            ]
        )
    apart = [("Not told apart", clean(line, one_line=True)) for line in not_apart(report)]
    counts = _left_out(report)
    return "\n\n".join(
        [
            f"{_headline(report.plan)}\n{click.style(ranking_headline(report), bold=True)}",
            *([table(rows, right=(2, 4), indent="  ")] if report.standings else []),
            *([labelled(apart)] if apart else []),
            *([f"  Left out: {counts.removeprefix('; ')}"] if counts else []),
            *_remarks(report),
            _files(workspace),
        ]
    )


def _files(workspace: Path) -> str:
    rows = [("Artifacts", shown_path(workspace)), ("Report", shown_path(workspace / "report.md"))]
    return labelled(rows, indent="")


def _headline(plan: EvaluationPlan) -> str:
    name = click.style(clean(f"{plan.coworld} {plan.version}", one_line=True), bold=True)
    seeds = f"base seed {plan.seed}" if plan.seeded else "no seeds"
    about = " · ".join([plan.variant, seeds, *([f"metric {plan.metric}"] if plan.metric else [])])
    return f"{name} {click.style(clean(about, one_line=True), dim=True)}"


def _left_out(report: EvaluationReport) -> str:
    parts = [f"{report.void} void"] if report.void else []
    parts += [f"{report.spoiled} spoiled"] if report.spoiled else []
    parts += [f"played again {plural(report.replayed, 'time')}"] if report.replayed else []
    return f"; {', '.join(parts)}" if parts else ""


def _entrants(plan: EvaluationPlan, report: EvaluationReport) -> str:
    from coworld_core.evaluation.words import interval_words, number

    names = {label: player.name for label, player in plan.players().items()}
    forfeits = any(entrant.forfeits for entrant in report.entrants)
    head = ["player", "mean", "95 % interval", *(["forfeits"] if forfeits else [])]
    rows = [[click.style(cell, dim=True) for cell in head]]
    for entrant in report.entrants:
        rows.append(
            [
                clean(names[entrant.label], one_line=True),
                click.style("-" if entrant.mean is None else number(entrant.mean), bold=True),
                "-" if entrant.interval is None else interval_words(entrant.interval),
                *([str(entrant.forfeits)] if forfeits else []),
            ]
        )
    return table(rows, right=(1, 3), indent="  ")


def _remarks(report: EvaluationReport) -> list[str]:
    word = click.style("note:", fg="yellow", bold=True)
    lines = [f"{word} {clean(remark.message, one_line=True)}" for remark in report.remarks]
    return ["\n".join(lines)] if lines else []
