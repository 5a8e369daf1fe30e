"""Reports as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from .comparison import ComparisonReport
from .ranking import RankingReport
from .reports import EvaluationPlan, EvaluationReport, IntervalRecord, MeasuredEntrant
from .words import headline, interval_words, not_apart, number, ranking_headline

__all__ = ["comparison_markdown", "ranking_markdown"]


def comparison_markdown(report: ComparisonReport) -> str:
    """A comparison as a section of Markdown.

    Args:
        report: What it came to.
    """
    plan = report.plan
    lines = [f"### {_text(headline(report))}", ""]
    lines += _table(
        ("Player", "Mean score", "95 % interval", "Forfeits"),
        [_entrant(plan.players()[entrant.label].name, entrant) for entrant in report.entrants],
    )
    facts = [f"Blocks: {report.won} won, {report.lost} lost, {report.drawn} drawn."]
    facts.append(f"Evidence: {number(report.evidence)} ({number(1 / plan.alpha)} decides).")
    if report.difference is not None:
        facts.append(f"Mean difference: {_signed(report.difference)} ({interval_words(report.interval, signed=True)}).")
    lines += ["", " ".join(facts), ""]
    lines += _remarks(report)
    return "\n".join([*lines, *_about(plan)])


def ranking_markdown(report: RankingReport) -> str:
    """A ranking as a section of Markdown.

    Args:
        report: What it came to.
    """
    players = report.plan.players()
    measured = {entrant.label: entrant for entrant in report.entrants}
    lines = [f"### {_text(ranking_headline(report))}", ""]
    lines += _table(
        ("Player", "Rating", "95 % interval", "Mean score", "Forfeits"),
        [
            (
                players[standing.label].name,
                f"{standing.points:+.0f}",
                f"{standing.interval.low:+.0f} to {standing.interval.high:+.0f}",
                *_entrant("", measured[standing.label])[1::2],
            )
            for standing in report.standings
        ],
    )
    lines.append("")
    if close := not_apart(report):
        lines += ["Not told apart yet:", "", *(f"- {_text(line)}" for line in close), ""]
    return "\n".join([*lines, *_remarks(report), *_about(report.plan)])


def _about(plan: EvaluationPlan) -> list[str]:
    seeds = f"base seed {plan.seed}" if plan.seeded else "no seeds"
    return [f"{_text(plan.coworld)} {_text(plan.version)}, {_text(plan.variant)}, {seeds}.", ""]


def _entrant(name: str, entrant: MeasuredEntrant) -> tuple[str, ...]:
    mean = "–" if entrant.mean is None else number(entrant.mean)
    return name, mean, _interval(entrant.interval), str(entrant.forfeits)


def _interval(interval: IntervalRecord | None) -> str:
    return "–" if interval is None else interval_words(interval)


def _signed(value: float) -> str:
    return f"{value:+.4g}"


def _remarks(report: EvaluationReport) -> list[str]:
    return ["Notes:", "", *(f"- {_text(remark.message)}" for remark in report.remarks), ""] if report.remarks else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(cells)} |"
        for cells in (head, ["---", *["---:"] * (len(head) - 1)], *([_text(cell) for cell in row] for row in rows))
    ]


def _text(text: str) -> str:
    """Anyone's text, on one line and without meaning of its own."""
    return "".join(f"\\{c}" if c in "\\|`*_<>[]#" else c for c in " ".join(text.split()))
