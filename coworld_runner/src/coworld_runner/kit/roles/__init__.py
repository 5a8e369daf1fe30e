"""Supporting roles in a few lines of Python: a file with a function `grade`, `report`, `diagnose` or `optimize`.

`python -m coworld_runner.kit.roles FILE.py` plays the role that the environment asks for:

::

    def grade(episode): ...  # A number, or an object with a `score` and whatever else the grade says
    def report(episodes): ...  # Markdown, or files by name: `report.md`, `stats.json`, `events.parquet`
    def diagnose(episode, player): ...  # The same; `findings.json` is for programs
    def optimize(task, player): ...  # Changes the player's files; says what it changed or advises, in texts

An episode is a `coworld_core.roles.finished_episode.FinishedEpisode`; the `player` of a diagnoser has `slot`, `name`
and `source`. A `task` is an `OptimizerTask`, and the `player` of an optimizer is the path of the player's working copy,
a file or a directory; None if only advice is asked for. A constant `ID` in the file is the role's id; by default, it is
the file's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coworld_core.roles.finished_episode import FinishedEpisode
    from coworld_core.roles.improvement import ImprovementStep
    from coworld_core.roles.improvement_task import EpisodeOutcome, ImprovementTask

__all__ = ["OptimizerTask", "TargetPlayer", "TaskEpisode"]


@dataclass(frozen=True, kw_only=True)
class TargetPlayer:
    """The player that is diagnosed."""

    slot: int
    name: str
    """Display name; may be empty."""
    source: str
    """Where it is from: a bundled player's id, a file, an image, or a policy version; may be empty."""
    uri: str
    """The address that the diagnoser was given for it."""


@dataclass(frozen=True, kw_only=True)
class TaskEpisode:
    """An episode of the player that is to be improved."""

    episode: FinishedEpisode
    slot: int
    """The player's seat."""
    outcome: EpisodeOutcome
    """`won`, `lost`, `drawn`, or `failed` if it did not play to the end."""
    grade: Mapping[str, Any]
    """What the grader says; empty if there is none."""
    findings: Mapping[str, Any]
    """What the diagnoser says of the player; empty if there is none."""


@dataclass(frozen=True, kw_only=True)
class OptimizerTask:
    """What an optimizer is asked to do, and what is known."""

    goal: str
    """What the changed player is to achieve; empty if only advice is asked for."""
    game: str
    """Name of the Coworld."""
    step: int
    """Number of the step, from 1."""
    history: tuple[ImprovementStep, ...]
    """The steps before, oldest first: `status` (`kept`, `dropped`, `lost`), `reason`, `message`, `note`, …"""
    episodes: tuple[TaskEpisode, ...]
    """Episodes of the player as it is."""
    grades: tuple[Mapping[str, Any], ...]
    """All grades that were given."""
    findings: tuple[Mapping[str, Any], ...]
    """The findings of all diagnoses that were given."""
    docs: Mapping[str, str]
    """Documents about the game, by name."""
    asked: ImprovementTask | None = field(default=None, repr=False)
    """All of the task; None if only advice is asked for."""
