"""An evaluation that was played, or is being played, read from the files in its directory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..episode.record import ROWS_NAME, EpisodeRow, read_rows
from .comparison import Comparison
from .evaluation_files import measure_row, open_evaluation, read_plan
from .lost_blocks import read_loss_notes
from .report_contents import ShownReport

__all__ = ["PlayedEvaluation", "read_evaluation"]


@dataclass(frozen=True, kw_only=True)
class PlayedEvaluation:
    """An evaluation as it is stored in its directory."""

    workspace: Path
    report: ShownReport
    episodes: int
    """Number of episodes that have ended."""
    reread: Callable[[], Iterator[EpisodeRow]]

    def rows(self) -> Iterator[EpisodeRow]:
        """Return the episodes in the order in which they ended; each call reads them again, as there may be many."""
        return itertools.islice(self.reread(), self.episodes)


def read_evaluation(workspace: str | os.PathLike[str]) -> PlayedEvaluation:
    """Read the evaluation in a directory: its report so far, and its episodes.

    Args:
        workspace: The directory of `plan.json` and `episodes.jsonl`.

    Raises:
        UsageError: The directory has no evaluation.
        RecordError: Its files are broken.
    """
    directory = Path(workspace)
    plan = read_plan(directory)
    evaluation = open_evaluation(plan)
    episodes = 0

    def rows() -> Iterator[EpisodeRow]:
        return read_rows(directory) if (directory / ROWS_NAME).is_file() else iter(())

    for row in rows():
        evaluation.add(measure_row(row, plan, directory))
        episodes += 1
    if isinstance(evaluation, Comparison):
        evaluation.worst.notes = read_loss_notes(directory)
    report: ShownReport = evaluation.report()
    return PlayedEvaluation(workspace=directory, report=report, episodes=episodes, reread=rows)
