"""Times the phases of an episode, one after the other."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coworld_core.episode.events import PhaseFinished, PhaseStarted

from ..backend import Publish

if TYPE_CHECKING:
    from coworld_core.episode.record import PhaseTiming

__all__ = ["COLLECT", "Phases"]

COLLECT = "collect"
"""Happens between other phases and at the end, so it does not count as progress."""


class Phases:
    """The phases so far, and the current one.

    Args:
        publish: Receives an event at the start and at the end of each phase.
    """

    def __init__(self, publish: Publish) -> None:
        self.now = self.stage = "prepare"
        """The phase that began last; ``stage`` ignores collecting."""
        self._publish = publish
        self._begun: float | None = None
        self._seconds: dict[str, float] = {}

    def begin(self, phase: str) -> None:
        """End the current phase, and begin the next."""
        self.end()
        self.now = phase
        if phase != COLLECT:
            self.stage = phase
        self._begun = time.monotonic()
        self._publish(PhaseStarted(phase=phase))

    def end(self) -> None:
        """End the current phase; does nothing if it has already ended."""
        if self._begun is None:
            return
        seconds = round(time.monotonic() - self._begun, 4)
        self._begun = None
        self._seconds[self.now] = self._seconds.get(self.now, 0.0) + seconds
        self._publish(PhaseFinished(phase=self.now, seconds=seconds))

    @contextmanager
    def during(self, phase: str) -> Generator[None]:
        """Run the body as a phase."""
        self.begin(phase)
        try:
            yield
        finally:
            self.end()

    def timings(self) -> tuple[PhaseTiming, ...]:
        """Return one row per phase, in order; repeated phases are added up."""
        from coworld_core.episode.record import PhaseTiming

        return tuple(PhaseTiming(phase=phase, seconds=round(total, 4)) for phase, total in self._seconds.items())
