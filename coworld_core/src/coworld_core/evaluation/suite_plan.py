"""Suites in a directory: their seeds and files, and what is resumed of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..hints import Hint
from ..secret_seeds import fresh_seed
from ..text.phrases import listed
from .evaluation_files import MARKDOWN_NAME, PLAN_NAME
from .markdown import report_markdown
from .mixture import MixturePlan, MixtureReport
from .played_evaluation import PlayedEvaluation, read_evaluation
from .suite_report import SUITE_NAME, SuiteCell, SuiteReport, read_suite_file
from .suite_settings import SuiteSettings

__all__ = [
    "read_suite",
    "resumed_suite",
    "suite_files",
    "suite_seed",
]


def suite_seed(settings: SuiteSettings, directory: Path) -> int:
    """The base seed of a suite: its own, that of the suite in its directory, or a fresh one.

    Raises:
        RecordError: The suite in the directory is broken.
    """
    if settings.seed is not None:
        return settings.seed
    return read_suite_file(directory).seed if (directory / SUITE_NAME).is_file() else fresh_seed()


def read_suite(directory: str | os.PathLike[str]) -> tuple[SuiteReport, tuple[PlayedEvaluation, ...]]:
    """Read the suite in a directory: its report so far, from the episodes that have ended, and its measurements.

    Raises:
        UsageError: The directory has no suite.
        RecordError: Its files are broken.
    """
    place = Path(directory)
    report = read_suite_file(place)
    cells: list[SuiteCell] = []
    played: list[PlayedEvaluation] = []
    for cell in report.cells:
        if not (place / cell.directory / PLAN_NAME).is_file():
            cells.append(cell)
            continue
        found = read_evaluation(place / cell.directory)
        played.append(found)
        cells.append(cell.measured(found.report) if isinstance(found.report, MixtureReport) else cell)
    return report.with_cells(cells), tuple(played)


def resumed_suite(directory: Path, report: SuiteReport, plans: Sequence[MixturePlan]) -> SuiteReport:
    """The report to go on with: what the suite in a directory has of these measurements already.

    Args:
        directory: The directory of a suite.
        report: The report of the suite that is to be played, in which nothing is measured yet.
        plans: The plans of its measurements.

    Raises:
        UsageError: Code `another_suite`: the suite there has measurements that this one does not have, or is of another
            game.
        RecordError: Its files are broken.
    """
    found, _ = read_suite(directory)
    before = {cell.directory: cell for cell in found.cells}
    names = {
        cell.directory: tuple(one.name for one in plan.players().values())
        for cell, plan in zip(report.cells, plans, strict=True)
    }
    gone = [cell.directory for cell in before.values() if cell.names and names.get(cell.directory) != cell.names]
    if gone or found.coworld != report.coworld:
        what = f"episodes of {found.coworld}"
        what = f"measurements that this one has not: {listed(gone, limit=5)}" if gone else what
        raise UsageError(
            f"{directory} has a suite with {what}.",
            code="another_suite",
            hint=Hint("repeat_evaluation", "Repeat the call that began it, or pass another workspace."),
        )
    return report.with_cells([before.get(cell.directory, cell) for cell in report.cells])


def suite_files(report: SuiteReport) -> dict[str, bytes]:
    """The contents of `suite.json` and `report.md`, by name."""
    return {
        SUITE_NAME: (report.model_dump_json(indent=2) + "\n").encode(),
        MARKDOWN_NAME: report_markdown(report).encode(),
    }
