"""Starts a real game server for a test, waits until it listens, and always stops it.

with running(tmp_path, config=small_config()) as server:
    ...  # connect to server.player_url(0)
    assert server.wait() == 0
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlencode

from paintarena.config import Json

DEADLINE: Final = 30.0
"""Seconds after which a server that has not ended counts as hung."""

TOKENS: Final = ("secret-of-slot-0", "secret-of-slot-1")


def small_config(**changes: Json) -> dict[str, Json]:
    """Return a config for two players and a game of about a second; `changes` replace its values."""
    return {
        "tokens": list(TOKENS),
        "players": [{"name": "Ada"}, {"name": "Bob"}],
        "width": 8,
        "height": 6,
        "max_ticks": 20,
        "tick_rate": 40,
        "player_connect_timeout_seconds": 20,
        **changes,
    }


@dataclass(kw_only=True)
class Server:
    """A server process.

    Attributes:
        process: The process.
        directory: Contains the files it writes: `results.json`, `replay`, `stdout`, `stderr`.
        port: The port on 127.0.0.1 on which it listens.
    """

    process: subprocess.Popen[bytes]
    directory: Path
    port: int

    @property
    def results(self) -> Path:
        """The results file, which exists after the game."""
        return self.directory / "results.json"

    @property
    def replay(self) -> Path:
        """The replay file, which exists after the game."""
        return self.directory / "replay"

    def http(self, path: str) -> str:
        """Return the address of a page."""
        return f"http://127.0.0.1:{self.port}{path}"

    def ws(self, path: str) -> str:
        """Return the address of a socket."""
        return f"ws://127.0.0.1:{self.port}{path}"

    def query(self, slot: int) -> str:
        """Return the query that seats a player: slot and token."""
        return urlencode({"slot": slot, "token": TOKENS[slot]})

    def player_url(self, slot: int) -> str:
        """Return what a runner would put into `COWORLD_PLAYER_WS_URL`."""
        return self.ws(f"/player?{self.query(slot)}")

    def wait(self) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: It did not end within `DEADLINE`.
        """
        return self.process.wait(DEADLINE)

    def printed(self) -> str:
        """Return everything that the server has printed so far, stdout and stderr."""
        return (self.directory / "stdout").read_text() + (self.directory / "stderr").read_text()


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment without the variables that a runner sets, plus `changes`."""
    ours = ("COGAME_", "COGAMES_", "COWORLD_")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)} | changes


@contextmanager
def running(
    directory: Path, *, config: Mapping[str, Json] | None = None, env: Mapping[str, str] | None = None
) -> Generator[Server]:
    """Run a server for the duration of the block, which starts once it listens; its process never survives the block.

    Args:
        directory: An empty directory for the files it reads and writes.
        config: The game config, or None for a server that gets its task from `env` alone.
        env: Variables in addition to the usual ones.

    Raises:
        RuntimeError: The server ended or hung before it listened; the message contains its stderr.
    """
    variables = environment(COGAME_HOST="127.0.0.1", COGAME_PORT="0", PYTHONUNBUFFERED="1")
    if config is not None:
        (directory / "config.json").write_text(json.dumps(config))
        variables |= {
            "COGAME_CONFIG_URI": (directory / "config.json").as_uri(),
            "COGAME_RESULTS_URI": (directory / "results.json").as_uri(),
            "COGAME_SAVE_REPLAY_URI": (directory / "replay").as_uri(),
        }
    # Output goes to files: a pipe that is not read would block a server that prints a lot.
    with (directory / "stdout").open("w") as output, (directory / "stderr").open("w") as errors:
        process = start("paintarena.server", env=variables | dict(env or {}), output=output, errors=errors)
    try:
        yield Server(process=process, directory=directory, port=_port(process, directory))
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def start(module: str, *, env: Mapping[str, str], output: IO[str], errors: IO[str]) -> "subprocess.Popen[bytes]":
    """Start a program; tests that start hundreds of programs may replace this function with a quicker one."""
    return subprocess.Popen([sys.executable, "-m", module], env=env, stdout=output, stderr=errors)


def _port(process: subprocess.Popen[bytes], directory: Path) -> int:
    """Return the port that the server prints once it listens."""
    deadline = time.monotonic() + DEADLINE
    while True:
        ended = process.poll()
        if said := re.search(r"listening on http://127\.0\.0\.1:(\d+)\n", (directory / "stdout").read_text()):
            return int(said[1])
        if ended is not None or time.monotonic() > deadline:
            end = "does not listen" if ended is None else f"ended with {ended}"
            raise RuntimeError(f"the server {end}: {(directory / 'stderr').read_text()}")
        # There is no event for a change to a file.
        time.sleep(0.005)
