"""Workspaces for an episode's evidence: a fresh directory, or an error if the directory is in use."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import hashlib
import os
import secrets
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import EnvironmentFault, WorkspaceError
from coworld_core.files.atomic import write_whole
from coworld_core.files.locks import is_free, while_opening
from coworld_core.hints import Hint
from coworld_core.records.labels import LABELS_NAME
from coworld_core.text.phrases import listed

from ._append_log import AppendedFile
from .lock_holder import busy

if TYPE_CHECKING:
    from coworld_core.episode.record import ArtifactRecord

    from ._workspace_contents import Contents

__all__ = [
    "LATEST",
    "WorkspaceReservation",
    "artifact_record",
    "artifact_records",
    "atomic_write",
    "default_workspace",
    "open_workspace",
    "plain_name",
    "point_latest",
    "prepare_workspace",
    "remove_workspace",
    "replays_of",
    "timestamp",
    "unwritable",
]

LATEST = "latest"
"""Name of the link to the newest workspace among the results of a package."""
_OTHER_WORKSPACE = Hint("other_workspace", "Name another directory as workspace.")
_SHOWN = 3
"""Number of names that an error lists."""
_RESERVE = 256 * 1024
"""Bytes to reserve; a record takes about ten thousand, mostly the last lines of logs."""


def timestamp() -> str:
    """Return the current local time as a directory name that sorts by time: `20261121-141503`."""
    return dt.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")


def default_workspace(results: Path, run_id: str) -> Path:
    """Return the run's own directory below a results directory."""
    return results / f"{timestamp()}-{run_id[:6]}"


def prepare_workspace(path: Path) -> EpisodeLayout:
    """Create a directory for evidence, or check that an existing one is empty.

    Args:
        path: The directory. Missing parents are created.

    Raises:
        WorkspaceError: It is a file, contains files, or cannot be written to.
        EnvironmentFault: The disk is full.
    """
    layout = EpisodeLayout(_made(path))
    try:
        if any(layout.workspace.iterdir()):
            raise _not_empty(layout.workspace)
        layout.logs.mkdir()
    except OSError as error:
        raise unwritable(layout.workspace, error) from error
    return layout


@contextmanager
def open_workspace(
    path: Path, *, overwrite: bool = False, resume: bool = False, marker: str = ""
) -> Generator[tuple[EpisodeLayout, AppendedFile]]:
    """Open a workspace for one run: no other run can open it until the context is left or the process has ended.

    The log of events is made first and kept locked. Readers need no lock.

    Args:
        path: The directory. Missing parents are created.
        overwrite: Whether what an earlier run has written there is removed first; nothing is if anything else is there.
        resume: Whether a directory with the marker is left as it is, to resume in it.
        marker: The name of a file that marks a directory in which a run may be resumed.

    Yields:
        The workspace, and its log of events.

    Raises:
        WorkspaceError: It is a file, contains files, cannot be written to, or another run is writing to it.
        EnvironmentFault: The disk is full.
    """
    layout = EpisodeLayout(_made(path))
    with ExitStack() as stack:
        try:
            log = _taken(layout, stack, overwrite=overwrite, resume=resume, marker=marker)
            layout.logs.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(layout.workspace, error) from error
        yield layout, log


def remove_workspace(path: Path) -> None:
    """Remove the workspace of a run that has ended, with all that runs have written to it.

    Raises:
        WorkspaceError: Something else is in it, or it is a directory that is never emptied (`workspace_foreign`); a run
            is writing to it (`workspace_busy`); or it cannot be removed (`workspace_unwritable`). Unless it is the
            last, nothing was removed.
    """
    layout = EpisodeLayout(path.expanduser().absolute())
    with ExitStack() as stack:
        try:
            _taken(layout, stack, overwrite=True)
            with contextlib.suppress(FileNotFoundError):
                layout.logs.rmdir()
            layout.events.unlink()
            layout.workspace.rmdir()
        except WorkspaceError as error:
            if error.code == "workspace_foreign":
                error.hint = "Move what is yours elsewhere first, or remove the directory yourself."
            raise
        except OSError as error:
            raise unwritable(layout.workspace, error) from error
    link = layout.workspace.parent / LATEST
    if link.is_symlink() and not link.exists():
        with contextlib.suppress(OSError):
            link.unlink()


def _made(path: Path) -> Path:
    path = path.expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise WorkspaceError(
            f"{path} cannot be the output directory: it, or something above it, is a file.",
            code="workspace_not_a_directory",
            hint=_OTHER_WORKSPACE,
            context={"path": str(path)},
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error
    return path


def _taken(
    layout: EpisodeLayout, stack: ExitStack, *, overwrite: bool, resume: bool = False, marker: str = ""
) -> AppendedFile:
    """Lock the log of events, which is made if it is missing, and remove what an earlier run has left."""
    log = AppendedFile(layout.events, place=layout.workspace, follow_links=False)
    # What is there is only looked at while nobody else can open it
    with while_opening(layout.workspace):
        if there := _is_regular(layout.events):
            stack.enter_context(log)
        earlier = _earlier(layout, overwrite=overwrite, resume=resume, marker=marker)
        if not there:
            stack.enter_context(log)
    if earlier is not None:
        _empty(layout, earlier, log)
    return log


def _earlier(layout: EpisodeLayout, *, overwrite: bool, resume: bool, marker: str) -> Contents | None:
    """Return what an earlier run has left and this one may remove; None if there is nothing to remove.

    Raises:
        WorkspaceError: Something is in the way.
    """
    workspace = layout.workspace
    begun = bool(marker) and (workspace / marker).is_file()
    if resume and begun:
        return None
    entries = {entry.name for entry in workspace.iterdir()}
    if not entries or (entries <= {layout.events.name, layout.logs.name} and _is_bare(layout)):
        # Nothing, or what a run leaves that could not begin
        return None
    if not overwrite:
        raise _not_empty(workspace, started=begun)
    _refuse_own_place(workspace)
    above = EpisodeLayout(workspace.parent).events
    if not is_free(above):
        # An episode of a run of several
        raise busy(workspace.parent, above)
    # It knows the plans of all evaluations, which an episode does not need.
    from ._workspace_contents import read_contents

    found = read_contents(workspace)
    if found.foreign:
        shown = listed(
            [*found.foreign[:_SHOWN], *([f"{more} more"] if (more := len(found.foreign) - _SHOWN) > 0 else [])]
        )
        raise WorkspaceError(
            f"{workspace} contains files that no run has written: {shown}. Nothing was removed.",
            code="workspace_foreign",
            hint=Hint(
                "other_workspace_or_move",
                "Name another directory as workspace, or move that elsewhere first. What the published runner left has "
                "no record: remove it yourself.",
            ),
            context={"path": str(workspace), "foreign": found.foreign[:_SHOWN], "count": len(found.foreign)},
        )
    return found


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_bare(layout: EpisodeLayout) -> bool:
    """Return whether neither the log of events nor the directory of logs, if they exist, contains anything."""
    events, logs = layout.events, layout.logs
    if os.path.lexists(events) and not (_is_regular(events) and events.stat().st_size == 0):
        return False
    return not os.path.lexists(logs) or (logs.is_dir() and not logs.is_symlink() and not any(logs.iterdir()))


def _refuse_own_place(workspace: Path) -> None:
    """Refuse to empty directories that nobody means to lose, whatever is in them."""
    real = workspace.resolve()
    for place, what in ((Path.cwd(), "the current directory"), (Path.home(), "the home directory")):
        if place.resolve().is_relative_to(real):
            above = "" if place.resolve() == real else " or above it"
            raise WorkspaceError(
                f"{workspace} is {what}{above}, which is never emptied.",
                code="workspace_foreign",
                hint=_OTHER_WORKSPACE,
                context={"path": str(workspace)},
            )


def _empty(layout: EpisodeLayout, earlier: Contents, log: AppendedFile) -> None:
    """Remove what an earlier run has left; the log of events comes last, so that this can be repeated at any point."""
    try:
        earlier.remove(keep=(layout.events, layout.logs))
        log.clear()
    except OSError as error:
        raise WorkspaceError(
            f"{layout.workspace} cannot be emptied: {error.filename or layout.events}: {error.strerror}.",
            code="workspace_unwritable",
            hint=Hint("writable_workspace", "Name a directory you may write to as workspace."),
            context={"path": str(layout.workspace)},
        ) from error


def _not_empty(path: Path, *, started: bool = False) -> WorkspaceError:
    return WorkspaceError(
        f"{path} is not empty, and results of another run could be mistaken for this one's.",
        code="workspace_not_empty",
        hint=Hint("resume_or_fresh", "Go on with the run in it (resume=True), or name a new directory as workspace.")
        if started
        else Hint(
            "fresh_workspace",
            "Name a new directory as workspace, leave workspace out for a fresh one, or pass overwrite=True to remove "
            "what a run has left in it.",
        ),
        context={"path": str(path)},
    )


def plain_name(text: str) -> str:
    """A name of a file or a directory made of a text of others: ASCII letters, digits, `_` and `-`, 80 at most."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "-" for char in text)[:80]


def unwritable(path: Path, error: OSError) -> WorkspaceError | EnvironmentFault:
    """Return the error for an evidence directory that cannot be written to."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvironmentFault(
            f"There is no room to write to {path}.",
            code="disk_full",
            hint=Hint("other_disk", "Free some room, or name a directory on another disk as workspace."),
            context={"path": str(path)},
        )
    return WorkspaceError(
        f"{path} cannot be written to: {error.strerror}.",
        code="workspace_unwritable",
        hint=Hint("writable_workspace", "Name a directory you may write to as workspace."),
        context={"path": str(path)},
    )


def point_latest(results: Path, workspace: Path) -> None:
    """Make `results/latest` point at a workspace, atomically; of several runs, the last to call this wins.

    Does nothing on a file system without links, or if `latest` is not a link.
    """
    link = results / LATEST
    if link.exists() and not link.is_symlink():
        return
    temporary = results / f".{LATEST}-{secrets.token_hex(4)}"
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


class WorkspaceReservation:
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
            self._file = tempfile.TemporaryFile(dir=directory, prefix=".reserve-", buffering=0)  # noqa: SIM115 - closed on leaving
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
        """Like `atomic_write`; if the disk is full, the reserve is released first.

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
    """Return size and digest of the visible regular files in a workspace, except the record and an open event log.

    Labels are not of the run: they change afterwards.
    """
    records: list[ArtifactRecord] = []
    for directory, _, names in os.walk(layout.workspace):
        for name in names:
            path = Path(directory) / name
            if path in (layout.record, layout.workspace / LABELS_NAME) or path.is_symlink() or name.startswith("."):
                continue
            if path == layout.events and not is_free(path):
                continue
            with contextlib.suppress(OSError):
                records.append(artifact_record(layout, path))
    return tuple(sorted(records, key=lambda record: record.path))


def artifact_record(layout: EpisodeLayout, path: Path) -> ArtifactRecord:
    """Return size and digest of a file.

    Raises:
        OSError: It cannot be read.
    """
    from coworld_core.episode.record import ArtifactRecord

    return ArtifactRecord(path=layout.relative(path), size=path.stat().st_size, sha256=digest(path))
