"""Results of evaluations as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .results import labelled
from .text import clean, command_line, shown_name, shown_path, table

if TYPE_CHECKING:
    from coworld_core.evaluation import ComparisonForecast, Scene, Shown, Table

__all__ = ["evaluation_result", "forecast_text"]

_NAMES = ("Player", "Against", "Pair")
"""Headings of columns with names of players."""
_COLOURS = {"better": "green", "worse": "red", "not_better": "red", "equal": "cyan"}


def evaluation_result(report: Shown, workspace: Path, *, tables: int | None = None) -> str:
    """The result of an evaluation, with its caveats.

    Args:
        report: The report of an evaluation or a suite.
        workspace: Where its files are.
        tables: How many of its tables to show, the most important ones; None: all.
    """
    from coworld_core.evaluation import ComparisonReport

    found = report.contents()
    colour = _COLOURS.get(report.verdict, "yellow") if isinstance(report, ComparisonReport) else None
    verdict = click.style(clean(found.headline, one_line=True), fg=colour, bold=True)
    name, dot, rest = clean(found.about, one_line=True).partition(" · ")
    word = click.style("note:", fg="yellow", bold=True)
    notes = [f"{word} {clean(note, one_line=True)}" for note in found.notes]
    facts = [(name, clean(value, one_line=True)) for name, value in found.facts]
    return "\n\n".join(
        [
            f"{click.style(name, bold=True)}{click.style(dot + rest, dim=True)}\n{verdict}",
            *(_table(one, titled=number > 0) for number, one in enumerate(found.tables[:tables])),
            *([labelled(facts)] if facts else []),
            *(["\n".join(notes)] if notes else []),
            labelled(
                [("Artifacts", shown_path(workspace)), ("Report", shown_path(workspace / "report.md"))], indent=""
            ),
            *([click.style(found.scenes_title, bold=True)] if found.scenes else []),
            *(_scene(scene, workspace) for scene in found.scenes),
        ]
    )


def _scene(scene: Scene, workspace: Path) -> str:
    """A moment of an episode, with the commands that show it."""
    from coworld_core.episode import EpisodeLayout

    lines = [f"  {click.style(clean(scene.title, one_line=True), bold=True)}"]
    lines += [f"    {clean(scene.note, one_line=True)}"] if scene.note else []
    lines += [f"    {click.style(line, dim=True)}" for line in clean(scene.seen).splitlines()]
    at = ["--at", str(scene.tick)] if scene.tick is not None else []
    rows: list[tuple[str, str]] = []
    for said, episode in scene.lines:
        place = workspace / episode
        shown = (
            command_line("replay", shown_path(place), *at)
            if EpisodeLayout(place).replay.is_file()
            else command_line("evaluation", "replay", shown_path(workspace), episode)
        )
        rows.append((clean(said, one_line=True), shown))
    return "\n".join([*lines, table(rows, indent="    ")])


def forecast_text(forecast: ComparisonForecast) -> str:
    """How many blocks a comparison takes, as text."""
    word = click.style("note:", fg="yellow", bold=True)
    return "\n\n".join(
        [
            click.style(clean(forecast.headline, one_line=True), bold=True),
            _table(forecast.table, titled=False),
            *(f"{word} {note}" for note in forecast.notes),
        ]
    )


def _table(of: Table, *, titled: bool) -> str:
    """A table; the first needs no title, because the text above introduces it."""
    rows = [[click.style(head.lower(), dim=True) for head in of.head]]
    for row in of.rows:
        rows.append(
            [
                shown_name(cell) if head in _NAMES else clean(cell, one_line=True)
                for head, cell in zip(of.head, row, strict=True)
            ]
        )
    right = [column for column in range(len(of.head)) if column not in of.names]
    title = f"  {click.style(of.title, bold=True)}\n" if titled else ""
    return title + table(rows, right=right, indent="  ")
