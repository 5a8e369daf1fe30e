"""Checkpoints for watching: the last known state of episodes, kept in a file between calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from coworld_core.api import EpisodeProgress
from coworld_core.errors import UsageError, WorkspaceError
from coworld_core.hints import Hint
from coworld_core.writing import write_whole

from .watching import Change

__all__ = ["Checkpoint"]

_START_AGAIN = Hint("new_checkpoint", "Delete it to start a new one, or name another file.")


class Checkpoint:
    """The last known state of the watched episodes, and the cursor to resume from.

    Args:
        server: The server of the episodes.
        ids: The watched ids.
        file: The checkpoint file; None keeps the state in memory only.
    """

    def __init__(self, server: str, ids: Sequence[str], file: Path | None = None) -> None:
        self.episodes: dict[str, EpisodeProgress] = {}
        """The last known state of each episode, by id."""
        self.cursor: str | None = None
        """Pass this to ``CoworldClient.watch`` to resume."""
        self._of = {"server": server, "ids": sorted(ids)}
        self._file = file

    def take(self, change: Change) -> bool:
        """Apply a change; return whether it added or removed the episode, or changed its status."""
        self.cursor = change.cursor
        before = self.episodes.pop(change.id, None)
        if change.removed or change.episode is None:
            return before is not None
        self.episodes[change.id] = change.episode
        return before is None or before.status != change.episode.status

    @property
    def ok(self) -> bool:
        """Whether all episodes were completed."""
        return all(episode.status.is_success for episode in self.episodes.values())

    def counts(self) -> Counter[str]:
        """Return the number of episodes by status."""
        return Counter(str(episode.status) for episode in self.episodes.values())

    def save(self) -> None:
        """Write the file atomically. Blocks.

        Raises:
            WorkspaceError: The file cannot be written.
        """
        if self._file is None:
            return
        rows = {id: row.model_dump(mode="json", by_alias=True) for id, row in self.episodes.items()}
        state = {**self._of, "cursor": self.cursor, "episodes": rows}
        try:
            write_whole(self._file, (json.dumps(state) + "\n").encode())
        except OSError as error:
            raise WorkspaceError(
                f"The checkpoint {self._file} cannot be written: {error.strerror}.", code="path_unwritable"
            ) from error

    def load(self) -> None:
        """Load the state from the file, if it exists. Blocks.

        Raises:
            UsageError: The file is not a checkpoint, or belongs to another server or other ids.
        """
        if self._file is None:
            return
        try:
            state: Any = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{self._file} is not a checkpoint.",
                code="bad_checkpoint",
                hint=_START_AGAIN,
            ) from error
        held = cast("dict[str, Any]", state) if isinstance(state, dict) else {}
        if {name: held.get(name) for name in self._of} != self._of:
            raise UsageError(
                f"{self._file} is a checkpoint for another server or other ids.",
                code="other_checkpoint",
                hint=_START_AGAIN,
            )
        rows: Any = held.get("episodes")
        if isinstance(rows, dict):
            for id, row in cast("dict[str, Any]", rows).items():
                self.episodes[id] = EpisodeProgress.read(row)
        cursor: Any = held.get("cursor")
        self.cursor = cursor if isinstance(cursor, str) else None
