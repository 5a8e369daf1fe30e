"""A game of the kit that runs as a separate process, as in a container."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coworld_core.rules import RulesReplay, read_replay

from .served_game import TOKENS
from .waiting import wait_until

__all__ = ["Program", "program"]

SUPPORT = Path(__file__).parents[1]


@dataclass
class Program:
    """A game in a separate process."""

    process: subprocess.Popen[bytes]
    place: Path

    @property
    def port(self) -> int:
        """The port on which it listens; waits until the game prints it."""

        def listens() -> re.Match[str] | None:
            found = re.search(r"listening on \S+:(\d+)\n", self.printed())
            assert found or self.process.poll() is None, self.printed()
            return found

        return int(wait_until(listens, seconds=60, what=self.printed, every=0.01)[1])

    def printed(self) -> str:
        """All output so far."""
        return (self.place / "log").read_text()

    def replay(self) -> RulesReplay:
        """The replay that it has written."""
        return read_replay((self.place / "replay").read_bytes())


@contextmanager
def program(
    place: Path, rules: str = "support.served_game:Sticks", *, sticks: int = 4, **env: str
) -> Generator[Program]:
    """Run a game with its files in `place`; its process never survives the block."""
    config = {"tokens": TOKENS, "sticks": sticks, "seed": 1}
    (place / "config.json").write_text(json.dumps(config))
    uris = {
        "COGAME_CONFIG_URI": (place / "config.json").as_uri(),
        "COGAME_RESULTS_URI": (place / "there" / "results.json").as_uri(),
        "COGAME_SAVE_REPLAY_URI": (place / "replay").as_uri(),
    }
    base = {key: value for key, value in os.environ.items() if not key.startswith(("COGAME", "COWORLD"))}
    base |= {"COGAME_HOST": "127.0.0.1", "COGAME_PORT": "0", "PYTHONPATH": str(SUPPORT)}
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "coworld_runner.kit.server", rules],
            env={**base, **(uris if "COGAME_LOAD_REPLAY_URI" not in env else {}), **env},
            stdout=log,
            stderr=log,
        )
    try:
        yield Program(process, place)
    finally:
        process.kill()
        process.wait()
