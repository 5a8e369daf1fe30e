"""What a report says in words, the same wherever it is read."""

from __future__ import annotations

from .comparison import ComparisonReport, IntervalRecord

__all__ = ["headline", "interval_words", "number"]


def headline(report: ComparisonReport) -> str:
    """The verdict of a comparison in a sentence."""
    new, old = report.plan.new.name, report.plan.old.name
    after = f"after {report.blocks} {'block' if report.blocks == 1 else 'blocks'}"
    match report.verdict:
        case "better" | "worse":
            return f"{new} is {report.verdict} than {old}, {after}."
        case "equal":
            return f"Between {new} and {old} there is no difference worth having, {after}."
        case _:
            return f"There is not enough evidence to tell {new} from {old}, {after}."


def interval_words(interval: IntervalRecord | None, *, signed: bool = False) -> str:
    """An interval, and how it was made where that is not the usual way."""
    if interval is None:
        return "no interval yet"
    form = "+.4g" if signed else ".4g"
    how = " (Student's t)" if interval.method == "student-t" else ""
    return f"{interval.low:{form}} to {interval.high:{form}}{how}"


def number(value: float) -> str:
    """A number with four digits that count."""
    return f"{value:.4g}"
