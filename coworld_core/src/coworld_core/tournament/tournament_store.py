"""What keeps a tournament: a folder, or a platform's database."""

from __future__ import annotations

from typing import Protocol

from .standings import Tournament
from .tournament_log import LogEvent

__all__ = ["TournamentStore"]


class TournamentStore(Protocol):
    """A tournament and its log."""

    @property
    def tournament(self) -> Tournament:
        """The tournament, to which all events of the log have been applied."""
        ...

    def happen(self, *events: LogEvent) -> None:
        """Append events to the log, and apply them to the tournament."""
        ...
