"""The layout of an episode's files, shared by the code that writes them and the code that reads them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

__all__ = ["EpisodeLayout", "directory_of"]

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


@dataclass(frozen=True)
class EpisodeLayout:
    """The files of one episode in its workspace.

    The names are those of the published local runner's contract, so that existing scripts keep working, except
    `episode.json` and `events.ndjson`, which are new.
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
        """What ran and how it ended (`EpisodeRecord`); always written."""
        return self.workspace / "episode.json"

    @property
    def events(self) -> Path:
        """The run's events, one JSON object per line."""
        return self.workspace / "events.ndjson"

    @property
    def game_events(self) -> Path:
        """The game's own events, if it writes any (see `conduct`)."""
        return self.workspace / "events.json"

    @property
    def samples(self) -> Path:
        """The samples of a game of the kit, if they were recorded."""
        return self.workspace / "samples.ndjson"

    @property
    def frames(self) -> Path:
        """What players and game said to each other, if it was recorded."""
        return self.workspace / "frames.ndjson"

    @property
    def models(self) -> Path:
        """The calls of language models, if programs had a way to them; with what was said, if that was recorded."""
        return self.workspace / "models.ndjson"

    @property
    def logs(self) -> Path:
        """The directory of logs."""
        return self.workspace / "logs"

    @property
    def game_logs(self) -> Path:
        """The directory of log files that the game wrote itself."""
        return self.logs / "game"

    @property
    def game_stdout(self) -> Path:
        """The game's standard output."""
        return self.logs / "game.stdout.log"

    @property
    def game_stderr(self) -> Path:
        """The game's standard error."""
        return self.logs / "game.stderr.log"

    def player_log(self, slot: int) -> Path:
        """The standard output and error of the player in a slot, combined."""
        return self.logs / f"policy_agent_{slot}.log"

    def player_artifact(self, slot: int) -> Path:
        """The zip that the player in a slot left, if any."""
        return self.workspace / f"policy_artifact_{slot}.zip"

    def relative(self, path: Path) -> str:
        """A path of this layout in the form used in records: relative to the workspace, with forward slashes."""
        return path.relative_to(self.workspace).as_posix()


def directory_of(key: str, earlier: int = 0) -> str:
    """Return the name of an episode's directory: its key, or a name derived from it if the key is not a valid name.

    Args:
        key: Its key.
        earlier: How many attempts at it were lost before; each has a directory of its own.
    """
    if earlier:
        return f"{directory_of(key)}.{earlier + 1}"
    if _PLAIN.fullmatch(key):
        return key
    begin = re.sub(r"[^A-Za-z0-9._-]+", "-", key).strip("-.")[:60] or "episode"
    return f"{begin}-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
