"""What a workspace holds: the files that runs have written, which may be removed, and everything else, which may not.

A name alone proves nothing, since `config.json` and `logs` are common names. Files are ours if their names are
those of a run's layout, and a record of that kind of run lies beside them and can be read. Links are never ours.
Neither is another run that was copied into the workspace of a run of many: `OwnEpisodes` tells whose a directory is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

from coworld_core.episode.events import ArtifactCollected, RunStarted, parse_event, read_events, read_starts
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import ROWS_NAME, SUMMARY_NAME, read_record, read_rows, read_summary
from coworld_core.errors import CoworldError
from coworld_core.evaluation.evaluation_files import MARKDOWN_NAME, PLAN_NAME, PLAYERS_NAME, REPORT_NAME, read_plan
from coworld_core.evaluation.lost_blocks import LOST_BLOCKS_NAME
from coworld_core.files.locks import is_free
from coworld_core.files.regular import regular_lines
from coworld_core.files.zips import open_zip
from coworld_core.records.labels import LABELS_NAME
from coworld_core.roles.bundle_file import BUNDLE_LIMIT
from coworld_core.roles.role_record import ROLE_EVENTS, ROLE_FILES, ROLE_RECORD, ROLES_DIRECTORY, read_role_record
from coworld_core.text.terminal import strip_controls

from .lock_holder import busy

__all__ = ["Contents", "OwnEpisodes", "read_contents"]

_Kind = Literal["episode", "many", "evaluation", "certification"]

_LAYOUT = EpisodeLayout(Path())
_EVENTS = _LAYOUT.events.name
_LOGS = _LAYOUT.logs.name
_NAMES: dict[_Kind, re.Pattern[str]] = {
    "episode": re.compile(
        r"(episode|config|results|events)\.json|(samples|frames)\.ndjson|replay(\.html)?|policy_artifact_\d+\.zip"
    ),
    "many": re.compile(rf"{re.escape(ROWS_NAME)}|{re.escape(SUMMARY_NAME)}"),
    "evaluation": re.compile(
        "|".join(map(re.escape, (PLAN_NAME, PLAYERS_NAME, REPORT_NAME, MARKDOWN_NAME, LOST_BLOCKS_NAME)))
    ),
    "certification": re.compile(r"certification\.(json|html)|(certificate|certified_manifest)\.json"),
}
"""Names of the files of each kind of run, besides its events."""
_LOG_NAMES = re.compile(
    r"(game|replay|rules-audit)\.std(out|err)\.log|rules-audit\.json|policy_agent_\d+\.log|(https-proxy|recorder)\.log"
)
_STEP_LOGS = ("replay-plain", "replay-zlib", "replay-gzip", "rules-audit")
"""Directories of logs of a certification."""
_CERTIFYING = ("episode", "bad-clients", "lost-connections", "same-seed", "same-seed-again", "pages")
"""Directories of episodes of a certification."""
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}([0-9a-f]{4})?\.(part|peek)|\.reserve-.+")
"""Names of temporary files, which a killed run leaves."""


@dataclass
class Contents:
    """What a workspace holds."""

    files: list[Path] = field(default_factory=list[Path])
    """Files that a run has written, in an order in which they can be removed: what proves the others ours is last."""
    directories: list[Path] = field(default_factory=list[Path])
    """Directories that a run has made, each after those that it contains."""
    foreign: list[str] = field(default_factory=list[str])
    """What no run has written: names relative to the workspace, fit to be shown; a directory's ends with a slash."""

    def remove(self, *, keep: tuple[Path, ...] = ()) -> None:
        """Remove the files and directories, except those to keep. No link is followed.

        Raises:
            OSError: Something cannot be removed, or something was added meanwhile.
        """
        for path in self.files:
            if path not in keep:
                _remove_file(path)
        for path in self.directories:
            if path not in keep:
                path.rmdir()


def read_contents(workspace: Path, *, nested: bool = False) -> Contents:
    """Tell what runs have written to a directory from everything else.

    Args:
        workspace: The directory.
        nested: Whether it is the directory of one of several episodes, and so may contain no others.

    Raises:
        OSError: A directory cannot be listed.
        WorkspaceError: A run is writing to a directory below it (`workspace_busy`).
    """
    return _Reader(workspace, nested=nested).read()


class OwnEpisodes:
    """The directories of a run's episodes: those that its rows name, and those whose logs say that it has begun them.

    Args:
        workspace: The run's workspace; the log also knows it by the places where it was before.
    """

    def __init__(self, workspace: Path) -> None:
        self._starts = list(read_starts(EpisodeLayout(workspace).events))
        self._named: set[object] = set()
        with contextlib.suppress(OSError):
            for line in regular_lines(workspace / ROWS_NAME):
                with contextlib.suppress(ValueError, RecursionError):
                    row: object = json.loads(line)
                    if isinstance(row, dict) and isinstance(
                        name := cast("dict[str, object]", row).get("workspace"), str
                    ):
                        self._named.add(name)

    def has(self, directory: Path) -> bool:
        """Whether a directory is of an episode of this run; one that says nothing of a run may be."""
        if directory.name in self._named:
            return True
        if begun := {one.workspace for one in read_starts(EpisodeLayout(directory).events)}:
            return any(f"{run.workspace}{os.sep}{directory.name}" in begun for run in self._starts)
        with contextlib.suppress(CoworldError):
            # What worker processes play has no log of its own
            return read_record(directory).run_id in {run.run_id for run in self._starts}
        return True


class _Reader:
    def __init__(self, workspace: Path, *, nested: bool) -> None:
        self._layout = EpisodeLayout(workspace)
        self._nested = nested
        self._found = Contents()
        self._proofs: list[Path] = []
        self._kinds: set[_Kind] = set()

    def read(self) -> Contents:
        self._prove()
        found = self._found
        below: list[os.DirEntry[str]] = []
        for entry in _entries(self._layout.workspace):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                below.append(entry)
            elif not self._is_ours(entry):
                self._refuse(path)
            elif path not in self._proofs:
                found.files.append(path)
        for entry in below:
            path = Path(entry.path)
            if entry.name == _LOGS:
                self._read_logs(path)
            elif entry.name == ROLES_DIRECTORY and "episode" in self._kinds:
                self._read_roles(path)
            elif entry.name == "screenshots" and "certification" in self._kinds:
                self._read_files(path, _is_screenshot)
            elif self._has_episodes(entry.name):
                self._read_episode(path)
            else:
                self._refuse(path, directory=True)
        found.files += self._proofs
        return found

    def _prove(self) -> None:
        """Find out which kinds of run have written to the workspace."""
        workspace = self._layout.workspace
        proofs: tuple[tuple[Path, _Kind | None, Callable[[Path], _Kind]], ...] = (
            (self._layout.events, None, _begun),
            (workspace / ROWS_NAME, "many", _row),
            (workspace / PLAN_NAME, "evaluation", _planned),
            (workspace / SUMMARY_NAME, None, _summed_up),
            (self._layout.record, "episode", _recorded),
        )
        for path, kind, prove in proofs:
            if kind in self._kinds:
                continue
            with contextlib.suppress(CoworldError, OSError, ValueError, KeyError, StopIteration, RecursionError):
                if stat.S_ISREG(path.lstat().st_mode):
                    self._kinds.add(prove(path))
                    # The events are removed last: they are there first, and in every workspace
                    self._proofs.insert(0, path)

    @cached_property
    def _collected(self) -> frozenset[str]:
        """Files that an episode's game named and the run collected, relative to the workspace."""
        if "episode" in self._kinds:
            # The record lists whatever lay there, also what a user had added by then
            with contextlib.suppress(CoworldError):
                events = read_events(self._layout.events)
                return frozenset(event.name for event in events if isinstance(event, ArtifactCollected))
        return frozenset()

    @cached_property
    def _own(self) -> OwnEpisodes:
        return OwnEpisodes(self._layout.workspace)

    def _is_ours(self, entry: os.DirEntry[str]) -> bool:
        """Return whether a file in the workspace was written by a run; an empty one needs no proof."""
        if not entry.is_file(follow_symlinks=False):
            return False
        empty = entry.stat(follow_symlinks=False).st_size == 0
        if entry.name == SUMMARY_NAME and not empty:
            # Not every run of many has one
            return Path(entry.path) in self._proofs
        kinds = _NAMES if empty else self._kinds
        if entry.name in (_EVENTS, LABELS_NAME) or _UNFINISHED.fullmatch(entry.name):
            return bool(kinds)
        return any(_NAMES[kind].fullmatch(entry.name) for kind in kinds) or entry.name in self._collected

    def _read_logs(self, logs: Path) -> None:
        for entry in _entries(logs):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if path == self._layout.game_logs:
                    self._read_files(path, self._is_game_log)
                elif entry.name in _STEP_LOGS and "certification" in self._kinds:
                    self._read_files(path, _has_log_name)
                else:
                    self._refuse(path, directory=True)
            elif self._is_log(entry):
                self._found.files.append(path)
            else:
                self._refuse(path)
        self._found.directories.append(logs)

    def _is_log(self, entry: os.DirEntry[str]) -> bool:
        if not entry.is_file(follow_symlinks=False):
            return False
        if not self._kinds and entry.stat(follow_symlinks=False).st_size:
            return False
        return (
            _has_log_name(entry)
            or bool(_UNFINISHED.fullmatch(entry.name))
            or f"{_LOGS}/{entry.name}" in self._collected
        )

    def _is_game_log(self, entry: os.DirEntry[str]) -> bool:
        return self._layout.relative(self._layout.game_logs / entry.name) in self._collected

    def _read_files(self, directory: Path, is_ours: Callable[[os.DirEntry[str]], bool]) -> None:
        for entry in _entries(directory):
            regular = entry.is_file(follow_symlinks=False)
            if regular and self._kinds and (is_ours(entry) or _UNFINISHED.fullmatch(entry.name)):
                self._found.files.append(Path(entry.path))
            else:
                self._refuse(Path(entry.path), directory=entry.is_dir(follow_symlinks=False))
        self._found.directories.append(directory)

    def _read_roles(self, roles: Path) -> None:
        for entry in _entries(roles):
            path = Path(entry.path)
            known = _left_by_role(path) if entry.is_dir(follow_symlinks=False) else None
            if known is None:
                self._refuse(path, directory=entry.is_dir(follow_symlinks=False))
            else:
                self._read_tree(path, {path / name for name in known})
        self._found.directories.append(roles)

    def _read_tree(self, directory: Path, known: set[Path]) -> None:
        for entry in _entries(directory):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                self._read_tree(path, known)
            elif path in known and entry.is_file(follow_symlinks=False):
                self._found.files.append(path)
            else:
                self._refuse(path)
        self._found.directories.append(directory)

    def _has_episodes(self, name: str) -> bool:
        if self._nested:
            return False
        return bool(self._kinds & {"many", "evaluation"}) or ("certification" in self._kinds and name in _CERTIFYING)

    def _read_episode(self, directory: Path) -> None:
        events = EpisodeLayout(directory).events
        if not is_free(events):
            raise busy(directory, events)
        if "certification" not in self._kinds and not self._own.has(directory):
            self._refuse(directory, directory=True)
            return
        episode = read_contents(directory, nested=True)
        if episode.foreign and len(episode.foreign) == sum(1 for _ in _entries(directory)):
            # Nothing in it is ours
            self._refuse(directory, directory=True)
            return
        self._found.foreign += [f"{_shown(directory.name)}/{name}" for name in episode.foreign]
        self._found.files += episode.files
        self._found.directories += [*episode.directories, directory]

    def _refuse(self, path: Path, *, directory: bool = False) -> None:
        self._found.foreign.append(_shown(self._layout.relative(path)) + ("/" if directory else ""))


def _has_log_name(entry: os.DirEntry[str]) -> bool:
    return bool(_LOG_NAMES.fullmatch(entry.name))


def _is_screenshot(entry: os.DirEntry[str]) -> bool:
    return re.fullmatch(r"(player|viewers|replay)\.png", entry.name) is not None


def _begun(events: Path) -> _Kind:
    event = parse_event(next(regular_lines(events, longest=1 << 20)))
    if not isinstance(event, RunStarted) or event.seq != 1 or not event.run_id:
        raise ValueError
    kinds: dict[str, _Kind] = {"episode": "episode", "batch": "many", "certification": "certification"}
    return kinds[event.what]


def _row(rows: Path) -> _Kind:
    next(iter(read_rows(rows)))
    return "many"


def _planned(plan: Path) -> _Kind:
    read_plan(plan.parent)
    return "evaluation"


def _summed_up(summary: Path) -> _Kind:
    read_summary(summary)
    return "many"


def _recorded(record: Path) -> _Kind:
    read_record(record)
    return "episode"


def _left_by_role(directory: Path) -> frozenset[str] | None:
    """The files that a role's record names, and those of its zip, relative to its directory; None without a record."""
    try:
        record = read_role_record(directory)
        outputs = [output.path for output in record.outputs.values()]
        unpacked: list[str] = []
        for path in outputs:
            if path.endswith(".zip") and (directory / ROLE_FILES).is_dir():
                with open_zip(directory / path, limit=BUNDLE_LIMIT, what="report", error=CoworldError) as archive:
                    unpacked += [f"{ROLE_FILES}/{name}" for name in archive.entries]
    except (CoworldError, OSError):
        return None
    logs = record.unit.logs if record.unit is not None else ()
    return frozenset({ROLE_RECORD, ROLE_EVENTS, *outputs, *logs, *unpacked})


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        yield from sorted(entries, key=lambda entry: entry.name)


def _shown(name: str) -> str:
    # A name may contain any bytes, but is shown in terminals and in JSON
    return " ".join(strip_controls(os.fsencode(name).decode("utf-8", "replace")).split())


def _remove_file(path: Path) -> None:
    """Remove a file; a link that has taken the place of its directory is not followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    directory = os.open(path.parent, flags)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=directory)
    finally:
        os.close(directory)
