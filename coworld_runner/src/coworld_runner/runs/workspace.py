"""Workspaces for an episode's evidence: a fresh directory, or an error if the directory is in use."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import hashlib
import os
import secrets
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from coworld_core.episode.artifacts import EpisodeLayout
from coworld_core.episode.record import ROWS_NAME, SUMMARY_NAME, ArtifactRecord
from coworld_core.errors import EnvironmentFault, WorkspaceError
from coworld_core.writing import write_whole

from ._trees import remove_tree

__all__ = [
    "Reserve",
    "artifact_records",
    "atomic_write",
    "default_workspace",
    "point_latest",
    "prepare_workspace",
    "replays_of",
    "timestamp",
    "unwritable",
]

_LATEST = "latest"
_RESERVE = 256 * 1024
"""Bytes to reserve; a record takes about ten thousand, mostly the last lines of logs."""


def timestamp() -> str:
    """Return the current local time as a directory name that sorts by time: ``20261121-141503``."""
    return dt.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")


def default_workspace(results: Path, run_id: str) -> Path:
    """Return the run's own directory below a results directory."""
    return results / f"{timestamp()}-{run_id[:6]}"


def prepare_workspace(path: Path, *, overwrite: bool = False, resume: str = "") -> EpisodeLayout:
    """Create a workspace, or check that an existing directory may be used as one.

    Args:
        path: The directory. Missing parents are created.
        overwrite: Whether a directory with files in it may be emptied first.
        resume: The name of a file that marks a directory as one to resume in; such a directory is left as it is.

    Raises:
        WorkspaceError: It is a file, contains files, or cannot be written to.
        EnvironmentFault: The disk is full.
    """
    path = path.expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise WorkspaceError(
            f"{path} cannot be the output directory: it, or something above it, is a file.",
            code="workspace_not_a_directory",
            hint="Name another directory with -o.",
            context={"path": str(path)},
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        entries = list(path.iterdir())
    except OSError as error:
        raise unwritable(path, error) from error
    if entries and not (resume and (path / resume).is_file()):
        if not overwrite:
            raise WorkspaceError(
                f"{path} is not empty, and results of another run must not pass for this one's.",
                code="workspace_not_empty",
                hint="Name a new directory with -o, leave -o out for a fresh one, or add --overwrite to empty it.",
                context={"path": str(path)},
            )
        if not _is_workspace(path):
            raise WorkspaceError(
                f"{path} holds files that no episode has written, so it is not emptied.",
                code="workspace_foreign",
                hint="Name another directory with -o.",
                context={"path": str(path)},
            )
        for entry in entries:
            if reason := remove_tree(entry):
                raise WorkspaceError(
                    f"{path} cannot be emptied: {reason}.",
                    code="workspace_unwritable",
                    hint="Name a directory you may write to with -o.",
                    context={"path": str(path)},
                )
    layout = EpisodeLayout(path)
    try:
        layout.logs.mkdir(exist_ok=bool(resume))
    except OSError as error:
        raise unwritable(path, error) from error
    return layout


def _is_workspace(path: Path) -> bool:
    """Return whether a directory looks like a workspace that this or the published runner wrote."""
    ours = (
        "episode.json",
        ROWS_NAME,
        SUMMARY_NAME,
        "certification.json",
        "config.json",
        "results.json",
        "logs",
    )
    return any((path / name).exists() for name in ours)


def unwritable(path: Path, error: OSError) -> WorkspaceError | EnvironmentFault:
    """Return the error for an evidence directory that cannot be written to."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvironmentFault(
            f"There is no room to write to {path}.",
            code="disk_full",
            hint="Free some room, or name a directory on another disk with -o.",
            context={"path": str(path)},
        )
    return WorkspaceError(
        f"{path} cannot be written to: {error.strerror}.",
        code="workspace_unwritable",
        hint="Name a directory you may write to with -o.",
        context={"path": str(path)},
    )


def point_latest(results: Path, workspace: Path) -> None:
    """Make ``results/latest`` point at a workspace, atomically; of several runs, the last to call this wins.

    Does nothing on a file system without links, or if ``latest`` is not a link.
    """
    link = results / _LATEST
    if link.exists() and not link.is_symlink():
        return
    temporary = results / f".{_LATEST}-{secrets.token_hex(4)}"
    with contextlib.suppress(OSError, NotImplementedError):
        temporary.symlink_to(workspace.name, target_is_directory=True)
        try:
            temporary.replace(link)
        except OSError:
            temporary.unlink(missing_ok=True)


def replays_of(workspace: Path) -> list[Path]:
    """Return the replays that a run has left: of its one episode, or of each of its episodes."""
    return [path for runs in ("replay", "episode-*/replay") for path in workspace.glob(runs) if path.is_file()]


def atomic_write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: to a temporary file beside it, which is then renamed.

    Raises:
        WorkspaceError: It cannot be written.
        EnvironmentFault: The disk is full.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise unwritable(path, error) from error


class Reserve:
    """Reserves space on a workspace's disk, so that a run that has filled the disk can still write its record.

    The space belongs to a file without a name, so a killed runner leaves nothing behind. Use as a context manager.

    Args:
        directory: The workspace.
        size: Bytes to reserve.

    Raises:
        EnvironmentFault: There is not enough space.
    """

    def __init__(self, directory: Path, size: int = _RESERVE) -> None:
        try:
            self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115 - closed on leaving
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(self._file.fileno(), 0, size)
                else:
                    self._file.write(os.urandom(size))
            except OSError:
                self._file.close()
                raise
        except OSError as error:
            raise unwritable(directory, error) from error

    def __enter__(self) -> Self:
        return self

    def write(self, path: Path, data: bytes) -> None:
        """Like ``atomic_write``; if the disk is full, the reserve is released first.

        Raises:
            WorkspaceError: It cannot be written.
            EnvironmentFault: There is not enough space even then.
        """
        try:
            atomic_write(path, data)
        except EnvironmentFault:
            if self._file.closed:
                raise
            self._file.close()
            atomic_write(path, data)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex, without loading the whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def artifact_records(layout: EpisodeLayout) -> tuple[ArtifactRecord, ...]:
    """Return size and digest of the visible regular files in a workspace, except the record and the open event log."""
    records: list[ArtifactRecord] = []
    for directory, _, names in os.walk(layout.workspace):
        for name in names:
            path = Path(directory) / name
            if path in (layout.record, layout.events) or path.is_symlink() or name.startswith("."):
                continue
            with contextlib.suppress(OSError):
                records.append(
                    ArtifactRecord(path=layout.relative(path), size=path.stat().st_size, sha256=digest(path))
                )
    return tuple(sorted(records, key=lambda record: record.path))
