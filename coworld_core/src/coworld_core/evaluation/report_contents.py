"""The contents of a report: a summary sentence, tables, facts, intervals to draw, and notes.

Each kind of report defines them once (`ShownReport.parts`); the terminal, Markdown, notebooks and the page only lay
them out. All of it may be untrusted text, so renderers must escape it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..text.phrases import listed, plural
from ..text.tables import html_table, one_line
from .number_text import interval_text, number
from .report_base import UNMEASURED, Durations, EvaluationPlan, EvaluationReport, IntervalRecord, MeasuredValue
from .report_parts import Contents, Encounter, Plot, Scene, Table

__all__ = [
    "INTERVAL",
    "Contents",
    "Encounter",
    "Parts",
    "Plot",
    "Scene",
    "ShownReport",
    "Table",
    "block_facts",
    "duration_facts",
    "player_names",
    "players_table",
    "seats_table",
    "shown_interval",
    "shown_number",
    "signed_rows",
]

INTERVAL = "95 % interval"
"""Heading of interval columns."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The contents that are specific to a kind of report."""

    tables: Sequence[Table]
    quantities: dict[str, bool]
    """The quantities to draw, in order, and whether zero is meaningful for each."""
    facts: Sequence[tuple[str, str]] = ()
    encounters: Sequence[Encounter] = field(default=())
    notes: Sequence[str] = ()
    """What a reader should know first; the report's remarks follow."""
    scenes_title: str = ""
    """Heading of the scenes."""
    scenes: Sequence[Scene] = ()


class ShownReport(EvaluationReport):
    """A report that can be displayed: as a sentence with str, as tables in a notebook."""

    @abstractmethod
    def sentence(self, after: str) -> str:
        """The result in one sentence, if anything was measured.

        Args:
            after: The number of blocks as it is to appear in the sentence, such as `after 12 blocks`.
        """

    @abstractmethod
    def parts(self) -> Parts:
        """The parts to display."""

    @property
    def headline(self) -> str:
        """The result in one sentence; if players forfeited episodes, another one names them.

        That one comes first, and says why, if nothing could be counted.
        """
        result, forfeited = self.sentence(f"after {plural(self.blocks, 'block')}"), _forfeited(self)
        said = [result, *forfeited] if self.blocks else [*forfeited, result]
        if self.stopped == "max_cost":
            spent = f"{dollars(self.cost)} is spent" if self.cost is not None else "what is spent is not known"
            said.append(f"It was stopped by the budget of {dollars(self.plan.max_cost)}: {spent}.")
        return " ".join(said)

    @property
    def nothing(self) -> str:
        """Why there are no numbers, in a sentence; empty if there are."""
        if self.blocks:
            return ""
        return "Nothing could be measured." if self.stopped in UNMEASURED else "Nothing is measured yet."

    def contents(self) -> Contents:
        """Everything to display, in order."""
        parts = self.parts()
        return Contents(
            headline=self.headline,
            about=_about(self.plan),
            tables=tuple(table for table in (*parts.tables, models_table(self)) if table.rows),
            facts=(*parts.facts, *_spent(self), *_left_out(self)),
            plots=tuple(
                plot for quantity, zero in parts.quantities.items() for plot in _plot(self, quantity, zero=zero)
            ),
            encounters=tuple(parts.encounters),
            notes=(*parts.notes, *(remark.message for remark in self.remarks)),
            scenes_title=parts.scenes_title,
            scenes=tuple(parts.scenes),
        )

    def plot(self) -> Any:
        """Draw the intervals, and who beat whom.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            EnvironmentFault: Code `not_installed` if matplotlib is not installed (the extra `plot`).
        """
        from .plots import draw_contents

        return draw_contents(self.contents())

    def __str__(self) -> str:
        return one_line(self.headline)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        found = self.contents()
        notes = [*(f"{name}: {value}" for name, value in found.facts), *found.notes]
        tables = [
            html_table(
                found.headline if index == 0 else table.title,
                [dict(zip(table.head, row, strict=True)) for row in table.rows],
                notes=notes if index == len(found.tables) - 1 else [],
            )
            for index, table in enumerate(found.tables)
        ]
        return "".join(tables)


def _forfeited(report: EvaluationReport) -> list[str]:
    """Who forfeited how many episodes, as a sentence; empty if nobody did."""
    names = player_names(report)
    most = sorted(report.entrants, key=lambda entrant: -entrant.forfeits)
    said = [f"{names[one.label]} forfeited {plural(one.forfeits, 'episode')}" for one in most if one.forfeits]
    if not said:
        return []
    first = most[0].first_forfeit if not report.blocks else None
    return [f"{listed(said, limit=3)}.", *([f"The first: {first}."] if first is not None else [])]


def block_facts(report: EvaluationReport) -> list[tuple[str, str]]:
    """The number of blocks, as a fact."""
    return [("Blocks", str(report.blocks))]


def duration_facts(taken: Durations | None) -> list[tuple[str, str]]:
    """How long episodes took, as a fact; empty if unknown."""
    if taken is None:
        return []
    each = f"{number(taken.median)} s half of them, the longest {number(taken.longest)} s"
    return [("Episodes", f"{taken.episodes}, {each}")]


def _left_out(report: EvaluationReport) -> list[tuple[str, str]]:
    parts = [f"{report.void} void"] if report.void else []
    parts += [f"{report.spoiled} spoiled"] if report.spoiled else []
    parts += [f"played again {plural(report.replayed, 'time')}"] if report.replayed else []
    facts = [("Left out", ", ".join(parts))] if parts else []
    faults = [f"{fault.episodes} {fault.error_type} ({fault.party})" for fault in report.faults]
    return facts + ([("Faults", ", ".join(faults))] if faults else [])


def _about(plan: EvaluationPlan) -> str:
    seeds = f"base seed {plan.seed}" if plan.seeded else "no seeds"
    if plan.seeded and plan.seed_commitment:
        seeds = f"secret seeds, commitment {plan.seed_commitment}"
    game = f"{plan.coworld} {plan.version} {plan.played}"
    return " · ".join([game, seeds, *([f"metric {plan.metric}"] if plan.metric else [])])


def players_table(report: EvaluationReport) -> Table:
    """The mean score of each player, and forfeits if there are any."""
    names = player_names(report)
    forfeits = any(entrant.forfeits for entrant in report.entrants)
    return Table(
        title="Players",
        head=("Player", "Mean", INTERVAL, *(["Forfeits"] if forfeits else [])),
        rows=tuple(
            (
                names[entrant.label],
                shown_number(entrant.mean_score, entrant.interval),
                shown_interval(entrant.interval),
                *([str(entrant.forfeits)] if forfeits else []),
            )
            for entrant in report.entrants
        ),
        names=(0, 2),
    )


def models_table(report: EvaluationReport) -> Table:
    """What language models were asked, and what that cost; no rows if there are none."""
    others = report.plan.others.name if report.plan.others is not None else "the other players"
    names = {"": others, **player_names(report)}
    return Table(
        title="Language models",
        head=("Player", "Calls", "Tokens in", "Tokens out", "Refused", "Cost"),
        rows=tuple(
            (
                names.get(one.label, one.model),
                str(one.calls),
                *(f"{'about ' * bool(one.uncounted)}{count}" for count in (one.prompt_tokens, one.completion_tokens)),
                str(one.refused),
                dollars(one.cost),
            )
            for one in report.models
        ),
    )


def dollars(cost: float | None) -> str:
    """An amount of US dollars as text."""
    return "not known" if cost is None else f"${number(cost)}"


def _spent(report: EvaluationReport) -> list[tuple[str, str]]:
    if not report.models:
        return []
    most = f", of at most {dollars(report.plan.max_cost)}" if report.plan.max_cost is not None else ""
    return [("Cost", f"{dollars(report.cost)}{most}")]


def seats_table(report: EvaluationReport) -> Table:
    """The effect of each seat; no rows if none were measured."""
    return Table(
        title="Seats",
        head=("Seat", "Over the others", INTERVAL),
        rows=tuple(
            (
                str(seat.slot),
                shown_number(seat.effect, seat.interval, signed=True),
                shown_interval(seat.interval, signed=True),
            )
            for seat in report.slot_effects
        ),
        names=(0, 2),
    )


def signed_rows(
    rows: Iterable[tuple[str, MeasuredValue]], name: Callable[[str], str]
) -> tuple[tuple[str, str, str], ...]:
    """Table rows of values that can be positive or negative."""
    return tuple(
        (name(key), shown_number(one.value, one.interval, signed=True), shown_interval(one.interval, signed=True))
        for key, one in rows
    )


def player_names(report: EvaluationReport) -> dict[str, str]:
    """The names of the players, by label."""
    return {label: player.name for label, player in report.plan.players().items()}


def shown_number(value: float | None, interval: IntervalRecord | None, *, signed: bool = False) -> str:
    """A number as a table cell."""
    return "-" if value is None else number(value, interval, signed=signed)


def shown_interval(interval: IntervalRecord | None, *, signed: bool = False) -> str:
    """An interval as a table cell."""
    return "–" if interval is None else interval_text(interval, signed=signed)


def _plot(report: EvaluationReport, quantity: str, *, zero: bool) -> list[Plot]:
    drawn = tuple(one for one in report.estimates() if one.quantity == quantity and math.isfinite(one.value))
    return [Plot(title=quantity[:1].upper() + quantity[1:], estimates=drawn, zero=zero)] if drawn else []
