"""Where an episode's files are: one layout, known to whoever writes and whoever reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

__all__ = ["EpisodeLayout"]


@dataclass(frozen=True)
class EpisodeLayout:
    """The files of one episode below its workspace.

    The names are the published ones (contract of the local runner), so scripts that read them keep working;
    ``episode.json`` and ``events.ndjson`` are ours.
    """

    workspace: Path

    @property
    def config(self) -> Path:
        """The game config that ran, without tokens."""
        return self.workspace / "config.json"

    @property
    def results(self) -> Path:
        """The game's results, byte for byte."""
        return self.workspace / "results.json"

    replay_name: ClassVar[str] = "replay"

    @property
    def replay(self) -> Path:
        """The game's replay, byte for byte."""
        return self.workspace / self.replay_name

    @property
    def record(self) -> Path:
        """What ran and how it ended (``EpisodeRecord``); written on every path."""
        return self.workspace / "episode.json"

    @property
    def events(self) -> Path:
        """The run's events, one JSON object a line."""
        return self.workspace / "events.ndjson"

    @property
    def game_events(self) -> Path:
        """What happened in the game, if it says so (``conduct``)."""
        return self.workspace / "events.json"

    @property
    def logs(self) -> Path:
        """The directory of logs."""
        return self.workspace / "logs"

    @property
    def game_logs(self) -> Path:
        """The directory of what the game wrote into ``logs`` of its own accord."""
        return self.logs / "game"

    @property
    def game_stdout(self) -> Path:
        """What the game wrote to standard output."""
        return self.logs / "game.stdout.log"

    @property
    def game_stderr(self) -> Path:
        """What the game wrote to standard error."""
        return self.logs / "game.stderr.log"

    def player_log(self, slot: int) -> Path:
        """What the player in a slot wrote, standard output and error together."""
        return self.logs / f"policy_agent_{slot}.log"

    def player_artifact(self, slot: int) -> Path:
        """The zip the player in a slot left, if it did."""
        return self.workspace / f"policy_artifact_{slot}.zip"

    def relative(self, path: Path) -> str:
        """A path of this layout as written into records: relative to the workspace, with forward slashes."""
        return path.relative_to(self.workspace).as_posix()
