"""Supporting roles in a few lines of Python: a file with a function `grade`, `report` or `diagnose`.

`python -m coworld_runner.kit.roles FILE.py` plays the role that the environment asks for:

::

    def grade(episode): ...  # A number, or an object with a `score` and whatever else the grade says
    def report(episodes): ...  # Markdown, or files by name: `report.md`, `stats.json`, `events.parquet`
    def diagnose(episode, player): ...  # The same; `findings.json` is for programs

An episode is a `coworld_core.roles.finished_episode.FinishedEpisode`; `player` has `slot`, `name` and `source`. A
constant `ID` in the file is the role's id; by default, it is the file's name.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TargetPlayer"]


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
