"""What a report consists of when it is shown: tables, facts, intervals to draw, encounters and notes."""

from __future__ import annotations

from dataclasses import dataclass

from .reports import Estimate

__all__ = ["Contents", "Encounter", "Plot", "Table"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a head; columns that are no names are numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: tuple[int, ...] = (0,)
    """The columns that are aligned to the left."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Estimates of one kind, to be drawn on one scale."""

    title: str
    estimates: tuple[Estimate, ...]
    zero: bool
    """Whether zero says something."""


@dataclass(frozen=True, kw_only=True)
class Encounter:
    """How one player did against another."""

    first: str
    second: str
    share: float
    """Of the blocks in which both were, those that the first won, ties by half."""
    won: int
    lost: int
    drawn: int


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a report has to show."""

    headline: str
    about: str
    """The game and what was played, in a line."""
    tables: tuple[Table, ...]
    facts: tuple[tuple[str, str], ...]
    plots: tuple[Plot, ...]
    encounters: tuple[Encounter, ...]
    """Both ways of every two who met; none of fewer than two players."""
    notes: tuple[str, ...]
