"""The contents of a displayed report: tables, facts, intervals to draw, encounters and notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .report_base import Estimate

__all__ = ["Contents", "Encounter", "Plot", "Scene", "Shown", "Table"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a heading; all columns except `names` hold numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: tuple[int, ...] = (0,)
    """Indices of the columns that hold text and are aligned to the left."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Estimates of one kind, to be drawn on one scale."""

    title: str
    estimates: tuple[Estimate, ...]
    zero: bool
    """Whether zero is meaningful."""


@dataclass(frozen=True, kw_only=True)
class Encounter:
    """One player's record against another."""

    first: str
    second: str
    share: float
    """Share of the blocks with both players that the first won; ties count half."""
    won: int
    lost: int
    drawn: int


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A moment of an episode that is worth a look."""

    title: str
    lines: tuple[tuple[str, str], ...]
    """What was done in each game, and the name of the episode's directory in that of the evaluation."""
    seen: str = ""
    """What the player saw; it may have several lines."""
    note: str = ""
    """What else is to be said; empty: nothing."""
    tick: int | None = None
    """The tick of the moment; None: the whole episode."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything to display of a report."""

    headline: str
    about: str
    """The game and the settings, in one line."""
    tables: tuple[Table, ...]
    facts: tuple[tuple[str, str], ...]
    plots: tuple[Plot, ...]
    encounters: tuple[Encounter, ...]
    """Every pair that met, once from each side; empty for fewer than two players."""
    notes: tuple[str, ...]
    scenes_title: str = ""
    scenes: tuple[Scene, ...] = ()


class Shown(Protocol):
    """What can be laid out: a report of any kind."""

    def contents(self) -> Contents:
        """Everything to display, in order."""
        ...
