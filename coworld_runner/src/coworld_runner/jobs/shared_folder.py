"""The directory that the two halves of a pod share: the courier, which reaches the store, and what plays.

What plays gets neither the store's credentials nor the files of other episodes; it sees one chunk at a time. Either
half notices by the other's signs of life that the other is gone, and ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import anyio

from coworld_core.errors import EnvironmentFault
from coworld_core.files.regular import read_regular

from ..runs.workspace import atomic_write

__all__ = ["BEAT_SECONDS", "SharedFolder", "Signs"]

BEAT_SECONDS = 5.0
"""Seconds between two signs of life in the directory."""
_GONE_SECONDS = 60.0
_LOOK_SECONDS = 0.1


class Signs:
    """Signs of life of somebody else, judged by this process's own clock: other clocks may be wrong.

    Args:
        lease: Seconds without a sign after which it is gone.
        clock: Tells the time; only for tests.
    """

    def __init__(self, lease: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}

    def is_gone(self, who: str, sign: str) -> bool:
        """Whether somebody has given no other sign than this one for longer than the lease."""
        last, since = self._seen.get(who, (None, 0.0))
        if last != sign:
            since = self._clock()
            self._seen[who] = (sign, since)
        return self._clock() - since > self._lease


class SharedFolder:
    """The directory.

    Args:
        path: Its path.

    Attributes:
        run: The run, with the package and its players.
        chunk: The directory of the chunk to play, which appears whole.
        over: A file that says that there is nothing more to play.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = path / "run"
        self.chunk = path / "chunk"
        self.over = path / "over"

    @property
    def ended(self) -> Path:
        """The file that says how the chunk has ended."""
        return self.chunk / "ended.json"

    async def beat(self, who: str) -> None:
        """Give signs of life, without end."""
        count = 0
        while True:
            count += 1
            atomic_write(self.path / f"{who}.beat", str(count).encode())
            await anyio.sleep(BEAT_SECONDS)

    async def until(self, other: str, done: Callable[[], bool]) -> None:
        """Wait for the other half.

        Args:
            other: That half.
            done: Whether it has done what is waited for.

        Raises:
            EnvironmentFault: That half is gone (`half_gone`).
        """
        signs = Signs(_GONE_SECONDS)
        while not done():
            try:
                sign = read_regular(self.path / f"{other}.beat", most=100).decode("ascii", "replace")
            except OSError:
                sign = ""
            if signs.is_gone(other, sign):
                raise EnvironmentFault(f"The {other} of this pod is gone.", code="half_gone")
            await anyio.sleep(_LOOK_SECONDS)
