"""What a report says in words, the same wherever it is read."""

from __future__ import annotations

from .comparison import ComparisonReport
from .ranking import RankingReport
from .reports import IntervalRecord

__all__ = ["headline", "interval_words", "not_apart", "number", "ranking_headline"]


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


def ranking_headline(report: RankingReport) -> str:
    """What came of a ranking in a sentence."""
    after = f"after {report.blocks} {'block' if report.blocks == 1 else 'blocks'}"
    if not report.standings:
        return "Nobody could be ranked."
    if report.stopped == "told_apart":
        return f"Everybody is told apart from everybody else, {after}."
    return f"{sum(pair.apart for pair in report.pairs)} of {len(report.pairs)} pairs are told apart, {after}."


def not_apart(report: RankingReport) -> list[str]:
    """Of each player who is not told apart from all others, the best first, from whom it is not."""
    names = {label: player.name for label, player in report.plan.players().items()}
    place = {standing.label: index for index, standing in enumerate(report.standings)}
    close: dict[str, list[str]] = {}
    for pair in report.pairs:
        if not pair.apart:
            first, second = sorted((pair.first, pair.second), key=lambda label: place[label])
            close.setdefault(first, []).append(second)
    return [
        f"{names[label]} from {', '.join(names[other] for other in sorted(close[label], key=lambda one: place[one]))}"
        for label in sorted(close, key=lambda one: place[one])
    ]


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
