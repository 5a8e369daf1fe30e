"""The runs on this machine: found, labelled, removed, queried and exported, through one index."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.records.labels import check_changes
from coworld_core.records.run_entries import EpisodeEntry, FoundEpisodes, FoundRuns, RunEntry
from coworld_core.records.run_filter import RunFilter
from coworld_core.text.phrases import listed
from coworld_core.text.terminal import writable

from ..package.locations import expand
from ..runs.episode_places import find_episode
from ..runs.run_labels import change_labels
from ..runs.workspace import remove_workspace
from .index_scan import Refreshed, refresh
from .index_store import IndexStore
from .known_places import default_index, known_places, remember_directory
from .run_search import find_episodes, find_runs

if TYPE_CHECKING:
    from .run_export import ExportedTables
    from .run_query import QueryResult

__all__ = ["FoundRun", "LocalRuns"]

_Answer = TypeVar("_Answer")

_SHORTEST = 4
"""Characters of a run's id that suffice to name it."""


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """What a word names: a run, and of one of many perhaps one episode."""

    run: RunEntry
    episode: EpisodeEntry | None = None


class LocalRuns:
    """The runs on this machine; use as a context manager.

    ::

        with LocalRuns() as runs:
            table = runs.episodes(RunFilter(game="nim", labels={"exp": "a"})).to_pandas()

    The index is brought up to date when the context is entered. The folders are the truth: what was deleted there is
    gone here, and an index that was deleted, or is damaged, comes back.

    Args:
        places: Directories to look in, and to search alone; they are remembered. None: those that are known, and the
            current directory. `workspaces_at` says what is found in one.
        index: The file of the index; None: the user's own.
        on_progress: Called with the number of runs that were looked at so far, now and then.

    Attributes:
        refreshed: What had changed when the context was entered.
        notices: What is to be said, in sentences: for example, that the index was made anew.

    Raises:
        UsageError: On entry: a place is no directory (`no_such_place`).
        EnvironmentFault: On entry: the index cannot be written to.
    """

    def __init__(
        self,
        *places: str | os.PathLike[str],
        index: str | os.PathLike[str] | None = None,
        on_progress: Callable[[int], object] | None = None,
    ) -> None:
        self._below = [expand(os.fspath(place)).resolve() for place in places]
        self._path = default_index() if index is None else Path(index).absolute()
        self._on_progress = on_progress
        self.notices: list[str] = []

    def __enter__(self) -> Self:
        for place in self._below:
            if not place.is_dir():
                raise UsageError(f"There is no directory {place}.", code="no_such_place", context={"path": str(place)})
            remember_directory(place)
        with ExitStack() as stack:
            self._store = stack.enter_context(IndexStore(self._path))
            self.notices = self._store.notices
            self.refreshed = self.refresh()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """The database of the index, for queries of one's own; it is not to be written to."""
        return self._store.connection

    def refresh(self) -> Refreshed:
        """Bring the index up to date with the folders.

        Raises:
            EnvironmentFault: The index cannot be written to.
        """
        places = self._below or known_places()
        if not self._below:
            # A directory that was removed has no runs
            with suppress(FileNotFoundError):
                places.append(Path.cwd())
        places = list(dict.fromkeys(place.resolve() for place in places))
        try:
            return refresh(self._store, places, self._on_progress)
        except sqlite3.DatabaseError as error:
            if not self._store.reopen(error):
                raise
            return refresh(self._store, places, self._on_progress)

    def _ask(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Ask the index; if that shows that it is damaged, again once it is made anew."""
        try:
            return question(self.connection)
        except sqlite3.DatabaseError as error:
            if not self._store.reopen(error):
                raise
            self.refresh()
            return question(self.connection)

    def runs(self, asked: RunFilter | None = None, *, limit: int | None = None) -> FoundRuns:
        """Return the runs that a search asks for, the newest first."""
        found = self._ask(lambda index: find_runs(index, asked or RunFilter(), below=self._below, limit=limit))
        return FoundRuns(runs=tuple(found), notices=tuple(self.notices))

    def episodes(self, asked: RunFilter | None = None, *, limit: int | None = None) -> FoundEpisodes:
        """Return the episodes that a search asks for, those of the newest run first."""
        found = self._ask(lambda index: find_episodes(index, asked or RunFilter(), below=self._below, limit=limit))
        return FoundEpisodes(episodes=tuple(found), notices=tuple(self.notices))

    def episodes_of(self, run: RunEntry, *, limit: int | None = None) -> FoundEpisodes:
        """Return the episodes of a run, by number."""
        found = self._ask(lambda index: find_episodes(index, RunFilter(), below=[run.path], limit=limit))
        return FoundEpisodes(episodes=tuple(found))

    def find(self, word: str | os.PathLike[str]) -> FoundRun:
        """Return the run, or the episode of a run of many, that a word names.

        Args:
            word: A path, as in `find_episode`: of a workspace, `latest`, or `results/latest/3`. Or the id of a run, or
                its beginning; or the name of its directory.

        Raises:
            UsageError: There is no such run (`no_such_run`, `no_run`, `no_such_episode`), or several (`several_runs`).
        """
        text = os.fspath(word)
        path = expand(text)
        if path.exists() or path.name == "latest" or os.sep in text:
            return self._at(path)
        return FoundRun(run=self._by_name(text))

    def _by_name(self, text: str) -> RunEntry:
        """The run with this name, or with an id that begins so."""
        rows = self.connection.execute(
            "SELECT path FROM run WHERE (length(?1) >= ?2 AND substr(run_id, 1, length(?1)) = ?1) "
            "OR substr('/' || path, -length(?1) - 1) = '/' || ?1",
            (writable(text), _SHORTEST),
        ).fetchall()
        if len(rows) == 1:
            return self._entry(rows[0][0])
        if rows:
            raise UsageError(
                f"{len(rows)} runs are meant by {text!r}: {listed(sorted(row[0] for row in rows), limit=4)}.",
                code="several_runs",
                hint="Name one of them by its path.",
            )
        raise _unknown(text)

    def evidence(self, episode: EpisodeEntry) -> tuple[str, ...]:
        """The names of an episode's files, below its directory, sorted; none if only its row is kept."""
        place = episode.path
        found = os.walk(place) if place is not None else ()
        return tuple(sorted(os.path.relpath(Path(at, name), place) for at, _, names in found for name in names))

    def label(self, word: str | os.PathLike[str], changes: Mapping[str, str | None]) -> FoundRun:
        """Change labels of a run, or of an episode of a run of many; None takes one away.

        Raises:
            UsageError: There is no such run, or one of them is no label (`bad_label`).
            WorkspaceError: Its workspace cannot be written to.
        """
        check_changes(changes)
        found = self.find(word)
        change_labels(found.run.path, changes, episode=found.episode.key if found.episode is not None else "")
        self.refresh()
        again = self._entry(str(found.run.path))
        return FoundRun(run=again, episode=self._episode(again, found.episode.key) if found.episode else None)

    def remove(self, word: str | os.PathLike[str]) -> RunEntry:
        """Remove a run that is over: its workspace, with all that the run has written, and nothing else.

        Raises:
            UsageError: There is no such run, or the word names one of many episodes (`part_of_a_run`).
            WorkspaceError: A run writes to it, or it has files of others; as in `remove_workspace`.
        """
        found = self.find(word)
        if found.episode is not None:
            raise UsageError(
                f"The episode {found.episode.key!r} is a part of the run in {found.run.path}.",
                code="part_of_a_run",
                hint="Only whole runs are removed: what was measured with an episode could not be checked without it.",
            )
        remove_workspace(found.run.path)
        self.refresh()
        return found.run

    def query(self, sql: str, *, parquet: Sequence[str | os.PathLike[str]] = ()) -> QueryResult:
        """Ask the index, and Parquet files beside it, in SQL; see `run_query.query_runs`."""
        from .run_query import query_runs

        files = [expand(os.fspath(path)) for path in parquet]
        return self._ask(lambda index: query_runs(index, sql, parquet=files))

    def export(self, directory: str | os.PathLike[str], asked: RunFilter | None = None, **how: Any) -> ExportedTables:
        """Write episodes, seats, turns, samples and events as Parquet files; see `run_export.export_runs`."""
        from .run_export import export_runs

        place = expand(os.fspath(directory))
        return self._ask(lambda index: export_runs(index, place, asked, below=self._below, **how))

    def _at(self, path: Path) -> FoundRun:
        """The run or the episode at a path."""
        if not path.exists() and path.parent.exists():
            # An episode of which there may be no more than its row
            run = find_episode(path.parent).resolve()
            if (entry := self._known(run)) is not None and entry.kind != "episode":
                return FoundRun(run=entry, episode=self._episode(entry, path.name))
        place = find_episode(path).resolve()
        if not place.exists():
            raise _unknown(str(path))
        place = place if place.is_dir() else place.parent
        if (entry := self._known(place)) is not None:
            return FoundRun(run=entry)
        for above in list(place.parents)[:2]:
            if (entry := self._known(above)) is not None:
                return FoundRun(run=entry, episode=self._episode(entry, place.relative_to(above).as_posix()))
        raise _unknown(str(path))

    def _known(self, place: Path) -> RunEntry | None:
        """The run in a workspace, which need not be at a known place."""
        for again in (True, False):
            if self.connection.execute("SELECT 1 FROM run WHERE path = ?", (writable(str(place)),)).fetchone():
                return self._entry(str(place))
            if again:
                refresh(self._store, [place])
        return None

    def _entry(self, path: str) -> RunEntry:
        found = [run for run in find_runs(self.connection, RunFilter(), below=[Path(path)]) if str(run.path) == path]
        if not found:
            raise _unknown(path)
        return found[0]

    def _episode(self, run: RunEntry, word: str) -> EpisodeEntry:
        row = self.connection.execute(
            "SELECT episode.key FROM episode JOIN run ON run.id = episode.run WHERE run.path = ? "
            "AND (episode.key = ? OR episode.directory = ? OR CAST(episode.number AS TEXT) = ?) LIMIT 1",
            (str(run.path), word, word, word),
        ).fetchone()
        if row is None:
            raise UsageError(
                f"The run in {run.path} has no episode {word!r}.",
                code="no_such_episode",
                hint=f"It has {run.episodes} so far: name one by its number, from 1, or by its key.",
            )
        return find_episodes(self.connection, RunFilter(), below=[run.path], key=row[0])[0]


def _unknown(word: str) -> UsageError:
    return UsageError(
        f"There is no run {word!r}.",
        code="no_such_run",
        hint=Hint("name_run", "Name the path of its workspace, or the beginning of its id."),
        context={"run": word},
    )
