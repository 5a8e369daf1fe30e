"""Exports a tournament as a static site: one page, and the replays that it links to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from coworld_core.documents.records import open_record, read_as
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import CoworldError, UsageError, WorkspaceError
from coworld_core.evaluation.evaluation_files import REPORT_NAME
from coworld_core.tournament.standings import TournamentReport

from ...runs.workspace import atomic_write, unwritable
from ..evaluation_page import report_page
from .tournament_folder import read_tournament

__all__ = ["export_tournament"]


def export_tournament(directory: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Write a tournament as a site that any file server can serve: standings, results of each pair, rounds, replays.

    A page of an earlier export is overwritten; the same log gives the same page.

    Args:
        directory: The tournament's directory.
        target: The directory of the site, which is created.

    Returns:
        The path of the page.

    Raises:
        UsageError: There is no tournament, its log was changed, or the target is the tournament's own directory.
        WorkspaceError: The target cannot be written to, or has a page that no export wrote (`path_taken`).
    """
    played = read_tournament(directory)
    site = Path(target).expanduser()
    if site.resolve() == played.workspace.resolve():
        raise UsageError("The site must have a directory of its own.", code="bad_target")
    page, report = site / "index.html", site / REPORT_NAME
    if (page.exists() or report.exists()) and not _is_export(report):
        raise WorkspaceError(
            f"{site} has a page that is not a tournament's.",
            code="path_taken",
            hint="Name a new directory.",
            context={"path": str(site)},
        )
    try:
        for row in played.rows():
            replay = EpisodeLayout(played.workspace / row.workspace).replay
            copy = EpisodeLayout(site / row.workspace).replay
            if replay.is_file() and not (copy.is_file() and copy.stat().st_size == replay.stat().st_size):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(replay, copy)
        site.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(site, error) from error
    # First, since it shows that the page is an export's
    atomic_write(report, played.report.to_document())
    atomic_write(page, report_page([played], beside=site, files=site).encode())
    return page


def _is_export(report: Path) -> bool:
    try:
        read_as(TournamentReport, open_record(report, what="report", name=REPORT_NAME), what="report")
    except CoworldError:
        return False
    return True
