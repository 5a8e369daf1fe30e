"""Where an episode is that a path names: its workspace or file, the last one, or an episode of a run of many."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import ROWS_NAME, EpisodeRow, read_rows
from coworld_core.errors import CoworldError, UsageError
from coworld_core.hints import Hint

from .workspace import LATEST

__all__ = ["find_episode", "not_one_episode", "row_at", "runs_below"]

_RESULTS = "results"


def find_episode(path: Path) -> Path:
    """Return the path of an episode: its workspace, or a file such as a replay or a bundle.

    Args:
        path: A path that exists; or `latest` in a directory, for the newest run of the packages at or below it; or the
            index or key of an episode in the workspace of a run of many, such as `results/latest/3`.

    Returns:
        The path; that of a row may not exist, if its episode has left nothing.

    Raises:
        UsageError: There is no run, or no such episode in it (`no_run`, `no_such_episode`).
    """
    if path.exists() or path.parent == path:
        return path
    if path.name == LATEST and path.parent.is_dir():
        # There is a link of that name, except on file systems without links
        return latest_run(path.parent.parent if path.parent.name == _RESULTS else path.parent)
    run = find_episode(path.parent)
    if not (run / ROWS_NAME).is_file():
        return path
    rows = list(read_rows(run))
    rows.reverse()  # The last attempt at an episode counts
    for row in rows:
        if path.name in (row.key, str(row.index), row.workspace):
            return run / row.workspace
    count = len(rows)
    raise UsageError(
        f"The run in {run} has no episode {path.name!r}.",
        code="no_such_episode",
        hint=f"It has {count} so far: name one by its number, from 1, or by its key in {ROWS_NAME}.",
        context={"path": str(run), "episodes": count},
    )


def row_at(workspace: Path) -> EpisodeRow | None:
    """Return the row of the episode whose workspace this is; None if it is not one of a run of many."""
    with contextlib.suppress(CoworldError):
        return next((row for row in read_rows(workspace.parent) if row.workspace == workspace.name), None)
    return None


def not_one_episode(directory: Path) -> UsageError | None:
    """Return the error for a run of many episodes or a package with runs, in place of an episode; None for all else."""
    if (directory / ROWS_NAME).is_file():
        return UsageError(
            f"{directory} holds a run of several episodes.",
            code="several_episodes",
            hint=f"Name one of them by its number, from 1: {directory / '1'}.",
            context={"path": str(directory)},
        )
    runs = _runs(directory, below=False)
    if not runs:
        return None
    latest, link = max(runs)[1], directory / _RESULTS / LATEST
    return UsageError(
        f"{directory} is a package, not a run.",
        code="not_an_episode",
        hint=f"Its last run: {link if link.exists() else latest}",
        context={"path": str(directory)},
    )


def runs_below(directory: Path, *, below: bool) -> Iterator[tuple[Path, Path]]:
    """Find the directories among the results of packages.

    Args:
        directory: A package's directory.
        below: Whether to search packages one or two directories below, too.

    Yields:
        The directory of a package, and one in its results.
    """
    for depth in ("", "*/", "*/*/")[: 3 if below else 1]:
        for results in directory.glob(f"{depth}{_RESULTS}"):
            yield from ((results.parent, run) for run in results.glob("*") if not run.is_symlink())


def _runs(directory: Path, *, below: bool) -> list[tuple[int, Path]]:
    """The workspaces of the runs of packages, each with its age."""
    return [
        (file.stat().st_mtime_ns, run)
        for _, run in runs_below(directory, below=below)
        for file in (EpisodeLayout(run).record, run / ROWS_NAME)
        if file.is_file()
    ]


def latest_run(directory: Path) -> Path:
    """Return the workspace of the newest run of the packages at or below a directory.

    Raises:
        UsageError: There is none (`no_run`).
    """
    found = _runs(directory, below=True)
    if not found:
        raise UsageError(
            f"There is no run at or below {directory} yet.",
            code="no_run",
            hint=Hint("play_and_name", "run_episode leaves one; any other can be named by the path of its workspace."),
        )
    return max(found)[1]
