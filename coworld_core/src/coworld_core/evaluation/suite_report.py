"""The report of a suite: a table of what was measured in each of its entries, and each player over all of them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from ..documents.records import Record, SchemaVersion, is_empty, open_record, read_as
from ..episode.hook_record import HookRecord
from ..errors import UsageError
from ..text.phrases import plural
from .estimates import Interval
from .mixture import MixtureReport
from .report_base import (
    UNMEASURED,
    Estimate,
    FaultCount,
    IntervalRecord,
    MeasuredEntrant,
    MeasuredValue,
    interval_record,
)
from .report_contents import INTERVAL, shown_interval, shown_number
from .report_parts import Contents, Plot, Table

__all__ = ["SUITE_NAME", "SuiteCell", "SuitePlayer", "SuiteReport", "read_suite_file"]

SUITE_NAME = "suite.json"
"""Name of the file with the report of a suite, in its directory."""


class SuiteCell(Record):
    """One line-up in one variant of an entry, measured as a mixture."""

    entry: str = Field(description="Name of the entry.")
    variant: str = Field(description="Variant id, or certification.")
    lineup: tuple[str, ...] = Field(description="The players as the suite names them; twice: twice the seats.")
    directory: str = Field(description="Its directory, relative to that of the suite.")
    episodes: int = Field(ge=1, description="Number of episodes that are asked for, at least.")
    stopped: str = Field(default="", description="Why it needs no more blocks; empty while it does.")
    blocks: int = Field(default=0, ge=0, description="Number of counted blocks.")
    played: int = Field(default=0, ge=0, description="Number of episodes that were played.")
    void: int = Field(default=0, ge=0, description="Blocks that did not count.")
    names: tuple[str, ...] = Field(default=(), description="Names of the players that were measured, by label.")
    images: tuple[str, ...] = Field(default=(), description="Their images, or files with digests.")
    entrants: tuple[MeasuredEntrant, ...] = Field(default=(), description="The result of each of them.")
    faults: tuple[FaultCount, ...] = Field(default=(), description="Faults in its episodes.")

    def measured(self, report: MixtureReport) -> SuiteCell:
        """The cell with what a mixture's report says."""
        players = report.plan.players()
        return self.model_copy(
            update={
                "variant": report.plan.variant,
                "stopped": report.stopped,
                "blocks": report.blocks,
                "played": report.durations.episodes if report.durations is not None else 0,
                "void": report.void + report.spoiled,
                "names": tuple(player.name for player in players.values()),
                "images": tuple(player.image for player in players.values()),
                "entrants": report.entrants,
                "faults": report.faults,
            }
        )


class SuitePlayer(MeasuredValue):
    """A player over all cells in which it was measured, each of which counts the same."""

    name: str = Field(description="Name of the player.")
    image: str = Field(description="Its image, or its file and digest.")
    cells: int = Field(ge=1, description="Number of those cells.")


class SuiteReport(Record):
    """The report of a suite (`suite.json`), also while it is being played."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this file's shape.")
    name: str = Field(description="Name of the suite.")
    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(description="Version of the Coworld.")
    seed: int = Field(description="The base seed.")
    hooks: tuple[HookRecord, ...] = Field(
        default=(), exclude_if=is_empty, description="The hooks that the plans of its episodes go through."
    )
    cells: tuple[SuiteCell, ...] = Field(description="What it measures, in order.")
    players: tuple[SuitePlayer, ...] = Field(default=(), description="The players over all cells, as they came up.")

    @property
    def complete(self) -> bool:
        """Whether every cell has ended."""
        return all(cell.stopped for cell in self.cells)

    @property
    def ok(self) -> bool:
        """Whether every cell has ended with a measurement."""
        return self.complete and all(cell.stopped not in UNMEASURED for cell in self.cells)

    def with_cells(self, cells: Sequence[SuiteCell]) -> SuiteReport:
        """The report with other cells, and the players over them."""
        return self.model_copy(update={"cells": tuple(cells), "players": _over_all(cells)})

    @property
    def headline(self) -> str:
        """How far it is, and who scores most, in a sentence."""
        ended = sum(bool(cell.stopped) for cell in self.cells)
        lost = sum(cell.stopped in UNMEASURED for cell in self.cells)
        said = f"{ended} of {plural(len(self.cells), 'measurement')} ended"
        said += f", {lost} of them without a result" if lost else ""
        best = max(self.players, key=lambda player: player.value, default=None)
        if best is None or len(self.players) < 2:
            return f"{self.name}: {said}."
        return f"{self.name}: {said}. {best.name} scores most, {shown_number(best.value, best.interval)} on average."

    def contents(self) -> Contents:
        """Everything to display, in order."""
        tables = (_cells_table(self), _players_table(self))
        drawn = tuple(
            Estimate(quantity="mean score", of=player.name, value=player.value, interval=player.interval)
            for player in self.players
        )
        return Contents(
            headline=self.headline,
            about=f"{self.coworld} {self.version} · base seed {self.seed}",
            tables=tuple(table for table in tables if table.rows),
            facts=(("Episodes", str(sum(cell.played for cell in self.cells))),),
            plots=(Plot(title="Mean score over all entries", estimates=drawn, zero=False),) if drawn else (),
            encounters=(),
            notes=_notes(self),
        )


def read_suite_file(directory: str | os.PathLike[str]) -> SuiteReport:
    """Read the report of the suite in a directory, as it was last written.

    Raises:
        UsageError: Code `no_suite` if there is none.
        RecordError: It is broken.
    """
    place = Path(directory)
    if not (place / SUITE_NAME).is_file():
        raise UsageError(
            f"{place} has no suite: there is no {SUITE_NAME}.",
            code="no_suite",
            hint="Name the directory in which a suite was played.",
        )
    return read_as(SuiteReport, open_record(place, what="suite", name=SUITE_NAME), what="suite")


def _over_all(cells: Sequence[SuiteCell]) -> tuple[SuitePlayer, ...]:
    found: dict[tuple[str, str], list[MeasuredEntrant]] = {}
    for cell in cells:
        for name, image, entrant in zip(cell.names, cell.images, cell.entrants, strict=True):
            if entrant.mean_score is not None:
                found.setdefault((name, image), []).append(entrant)
    players: list[SuitePlayer] = []
    for (name, image), entrants in found.items():
        means = [entrant.mean_score or 0.0 for entrant in entrants]
        intervals = [entrant.interval for entrant in entrants]
        mean = math.fsum(means) / len(means)
        players.append(
            SuitePlayer(name=name, image=image, cells=len(means), value=mean, interval=_mean_of(means, mean, intervals))
        )
    return tuple(players)


def _mean_of(means: list[float], mean: float, intervals: list[IntervalRecord | None]) -> IntervalRecord | None:
    """An interval for the mean of independent estimates (Zou and Donner's MOVER); None if one has no interval."""
    known = [interval for interval in intervals if interval is not None]
    if len(known) < len(means):
        return None
    if len(known) == 1:
        return known[0]
    below = math.hypot(*(value - interval.low for value, interval in zip(means, known, strict=True))) / len(means)
    above = math.hypot(*(interval.high - value for value, interval in zip(means, known, strict=True))) / len(means)
    return interval_record(Interval(low=mean - below, high=mean + above, method="mover"))


def _cells_table(report: SuiteReport) -> Table:
    rows: list[tuple[str, ...]] = []
    for cell in report.cells:
        where = (cell.entry, cell.variant)
        if not cell.entrants:
            rows.append((*where, ", ".join(cell.lineup), "-", "–", "0", "0"))
        for index, (name, entrant) in enumerate(zip(cell.names, cell.entrants, strict=True)):
            shown = shown_number(entrant.mean_score, entrant.interval), shown_interval(entrant.interval)
            first = (*where, name, *shown, str(cell.blocks), str(entrant.forfeits))
            rows.append(first if index == 0 else ("", "", name, *shown, "", str(entrant.forfeits)))
    return Table(
        title="Entries",
        head=("Entry", "Variant", "Player", "Mean", INTERVAL, "Blocks", "Forfeits"),
        rows=tuple(rows),
        names=(0, 1, 2, 4),
    )


def _players_table(report: SuiteReport) -> Table:
    return Table(
        title="Over all entries",
        head=("Player", "Mean", INTERVAL, "Measurements"),
        rows=tuple(
            (
                player.name,
                shown_number(player.value, player.interval),
                shown_interval(player.interval),
                str(player.cells),
            )
            for player in report.players
        )
        if len(report.cells) > 1
        else (),
        names=(0, 2),
    )


def _notes(report: SuiteReport) -> tuple[str, ...]:
    faults = [
        f"{cell.entry}, {cell.variant}: {plural(fault.episodes, 'episode')} with {fault.error_type} ({fault.party})"
        for cell in report.cells
        for fault in cell.faults
    ]
    void = [
        f"{cell.entry}, {cell.variant}: {plural(cell.void, 'block')} did not count"
        for cell in report.cells
        if cell.void
    ]
    waiting = sum(not cell.stopped for cell in report.cells)
    unfinished = [f"{plural(waiting, 'measurement')} not over yet"] if waiting else []
    return tuple(f"{note}." for note in (*unfinished, *void, *faults))
