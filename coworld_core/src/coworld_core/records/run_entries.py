"""What a search among runs finds: runs, and episodes, as tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..text.tables import TableRow, Tabular, html_table

__all__ = [
    "EpisodeEntry",
    "FoundEpisodes",
    "FoundRuns",
    "RunEntry",
    "SeatEntry",
    "StoredEpisode",
    "StoredEpisodes",
]


@dataclass(frozen=True, kw_only=True)
class SeatEntry:
    """Who sat where, and with which score."""

    slot: int
    name: str
    player_id: str | None
    image: str
    digest: str
    score: float | None


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """A run: one episode, or many."""

    path: Path
    """The workspace."""
    kind: str
    """`episode`, `batch`, `certification`, `improvement`, `tournament`, or the kind of an evaluation (`compare`, …)."""
    run_id: str
    coworld: str
    version: str
    variant: str
    backend: str
    status: str
    """`completed`, `failed`, `interrupted`, `running`, or `lost`: it was killed, and has not said how it ended."""
    ok: bool
    started_at: dt.datetime | None
    seconds: float | None
    episodes: int
    """Number of episodes that have ended; those of an improvement are in its own directories, and not counted."""
    faulted: int
    players: tuple[str, ...]
    """Names of the players; of one episode by slot, of many without repetition."""
    scores: tuple[float, ...]
    """Scores by slot, of one episode."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    outcome: str = ""
    """What a measurement, an improvement or a tournament has found, in a sentence; empty for other runs."""
    problem: str = ""
    """What of it cannot be read, in a sentence; empty if all can."""

    def to_json(self) -> dict[str, Any]:
        """The run as JSON-ready data."""
        return {**asdict(self), "path": str(self.path), "started_at": _iso(self.started_at)}


@dataclass(frozen=True, kw_only=True)
class StoredEpisode:
    """An episode that was played, on this machine or on a platform. What is not known is None, or empty text."""

    id: str
    """By which its store finds it: a path, or `ereq_…`."""
    coworld: str
    version: str
    variant: str
    seed: int | None
    status: str
    ok: bool
    started_at: dt.datetime | None
    """When it began; of an episode of a run of many, when that run began; on a platform, when it was requested."""
    seconds: float | None
    error_type: str | None
    """Type of the deciding fault, if any."""
    party: str | None
    fault_slot: int | None
    message: str | None
    seats: tuple[SeatEntry, ...]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def scores(self) -> tuple[float | None, ...]:
        """The scores, by slot."""
        return tuple(seat.score for seat in self.seats)

    def to_json(self) -> dict[str, Any]:
        """The episode as JSON-ready data."""
        return {**asdict(self), "started_at": _iso(self.started_at)}


@dataclass(frozen=True, kw_only=True)
class EpisodeEntry(StoredEpisode):
    """An episode on this machine."""

    run: Path
    """The workspace of its run."""
    key: str
    """Its key in a run of many; empty: the run is this episode alone."""
    path: Path | None
    """Its own directory; None if only its row is kept."""
    number: int
    """Its number in its run, from 1."""
    kind: str
    """The kind of its run."""
    backend: str
    run_id: str

    def to_json(self) -> dict[str, Any]:
        """The episode as JSON-ready data."""
        return {
            **super().to_json(),
            "run": str(self.run),
            "path": str(self.path) if self.path is not None else None,
        }


@dataclass(frozen=True, kw_only=True)
class FoundRuns(Tabular):
    """Runs, the newest first. Iterable and indexable; a table in a notebook."""

    runs: tuple[RunEntry, ...]
    notices: tuple[str, ...] = ()
    """What is to be said of the search, in sentences."""

    def __iter__(self) -> Iterator[RunEntry]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, index: int) -> RunEntry:
        return self.runs[index]

    def to_records(self) -> list[TableRow]:
        """One row for each run; players, scores and labels are text."""
        return [
            {
                **{name: getattr(run, name) for name in _RUN_COLUMNS},
                "path": str(run.path),
                "started_at": _iso(run.started_at),
                "players": ", ".join(run.players),
                "scores": ", ".join(f"{score:g}" for score in run.scores),
                "labels": _labels(run.labels),
            }
            for run in self.runs
        ]

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.runs)} runs", self.to_records())


@dataclass(frozen=True, kw_only=True)
class StoredEpisodes(Tabular):
    """Episodes, the newest first. Iterable and indexable; a table in a notebook."""

    episodes: tuple[StoredEpisode, ...]
    notices: tuple[str, ...] = ()
    """What is to be said of the search, in sentences."""

    def __iter__(self) -> Iterator[StoredEpisode]:
        return iter(self.episodes)

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, index: int) -> StoredEpisode:
        return self.episodes[index]

    def to_records(self) -> list[TableRow]:
        """One row for each seat of each episode; labels are text."""
        return [
            {**values, "labels": _labels(episode.labels), **asdict(seat)}
            for episode in self.episodes
            for values in [{name: value for name, value in episode.to_json().items() if name in _EPISODE_COLUMNS}]
            for seat in episode.seats
        ]

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.episodes)} episodes", self.to_records())


@dataclass(frozen=True, kw_only=True)
class FoundEpisodes(StoredEpisodes):
    """Episodes on this machine, those of the newest run first."""

    episodes: tuple[EpisodeEntry, ...]

    def __iter__(self) -> Iterator[EpisodeEntry]:
        return iter(self.episodes)

    def __getitem__(self, index: int) -> EpisodeEntry:
        return self.episodes[index]


_RUN_COLUMNS = (
    *("path", "kind", "run_id", "coworld", "version", "variant", "backend", "status", "ok", "started_at", "seconds"),
    *("episodes", "faulted", "players", "scores", "labels", "outcome", "problem"),
)
_EPISODE_COLUMNS = (
    *("id", "coworld", "version", "variant", "seed", "status", "ok", "started_at", "seconds"),
    *("error_type", "party", "fault_slot", "message", "labels"),
    *("run", "key", "number", "kind", "backend", "run_id"),
)


def _iso(moment: dt.datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())
