"""Games that were continued another way, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.text import plural

from .text import clean, shown_path, table

if TYPE_CHECKING:
    from coworld_runner.evaluation import ForkReport

__all__ = ["fork_text"]


def fork_text(report: ForkReport) -> str:
    """What came of the continuations, seat by seat."""
    many = report.times > 1
    head = ["", "Seat", "Player", "Was", "Mean score" if many else "Is now", *(["Share of points"] if many else [])]
    rows = [tuple(head)]
    for seat in report.slots:
        share = "" if seat.share is None else f"{seat.share:.0%}"
        if seat.interval is not None:
            share += f" ({seat.interval.low:.0%} to {seat.interval.high:.0%})"
        who = clean(seat.name, one_line=True)
        row = ["", str(seat.slot), who, _number(seat.recorded), _number(seat.score)]
        rows.append((*row[:2], who if seat.original else f"{who} (new)", *row[3:], *([share] if many else [])))
    went = f"From tick {report.tick} of {report.last}, {plural(report.times, 'continuation')}"
    lines = [f"{went}, {report.completed} of them completed:" if report.completed < report.times else f"{went}:"]
    lines.append(table(rows))
    if report.same is not None:
        lines.append("It ended as before." if report.same else "It ended otherwise: a player has chance of its own.")
    lines += [clean(problem, one_line=True) for problem in report.problems]
    if report.workspace:
        lines.append(f"Kept in {shown_path(report.workspace)}")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
