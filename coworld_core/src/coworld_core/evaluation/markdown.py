"""Reports as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from .comparison import NEW, ComparisonReport, EvaluationReport, IntervalRecord, MeasuredEntrant
from .words import headline, interval_words, number

__all__ = ["comparison_markdown"]


def comparison_markdown(report: ComparisonReport) -> str:
    """A comparison as a section of Markdown.

    Args:
        report: What it came to.
    """
    plan = report.plan
    names = {NEW: plan.new.name}
    lines = [f"### {_text(headline(report))}", ""]
    lines += _table(
        ("Player", "Mean score", "95 % interval", "Forfeits"),
        [_entrant(names.get(entrant.label, plan.old.name), entrant) for entrant in report.entrants],
    )
    facts = [f"Blocks: {report.won} won, {report.lost} lost, {report.drawn} drawn."]
    facts.append(f"Evidence: {number(report.evidence)} ({number(1 / plan.alpha)} decides).")
    if report.difference is not None:
        facts.append(f"Mean difference: {_signed(report.difference)} ({interval_words(report.interval, signed=True)}).")
    lines += ["", " ".join(facts), ""]
    lines += _remarks(report)
    seeds = f"base seed {plan.seed}" if plan.seeded else "no seeds"
    lines += [f"{_text(plan.coworld)} {_text(plan.version)}, {_text(plan.variant)}, {seeds}.", ""]
    return "\n".join(lines)


def _entrant(name: str, entrant: MeasuredEntrant) -> tuple[str, ...]:
    mean = "–" if entrant.mean is None else number(entrant.mean)
    return name, mean, _interval(entrant.interval), str(entrant.forfeits)


def _interval(interval: IntervalRecord | None) -> str:
    return "–" if interval is None else interval_words(interval)


def _signed(value: float) -> str:
    return f"{value:+.4g}"


def _remarks(report: EvaluationReport) -> list[str]:
    return [*(f"- {_text(remark.message)}" for remark in report.remarks), ""] if report.remarks else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(cells)} |"
        for cells in (head, ["---", *["---:"] * (len(head) - 1)], *([_text(cell) for cell in row] for row in rows))
    ]


def _text(text: str) -> str:
    """Anyone's text, on one line and without meaning of its own."""
    return "".join(f"\\{c}" if c in "\\|`*_<>[]#" else c for c in " ".join(text.split()))
