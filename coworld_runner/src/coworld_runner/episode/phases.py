"""How long each phase of an episode takes, one after the other."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from coworld_core.episode.events import PhaseFinished, PhaseStarted
from coworld_core.episode.record import PhaseTiming

from ..backend import Publish

__all__ = ["COLLECT", "Phases"]

COLLECT = "collect"
"""What is done in between, and at the end: it says nothing about how far the episode is."""


class Phases:
    """The phases so far, and the one that lasts.

    Args:
        publish: Where their begin and end are told.
    """

    def __init__(self, publish: Publish) -> None:
        self.now = self.stage = "prepare"
        """The phase that began last; and that, but for collecting."""
        self._publish = publish
        self._begun: float | None = None
        self._seconds: dict[str, float] = {}

    def begin(self, phase: str) -> None:
        """End the phase before, and begin the next."""
        self.end()
        self.now = phase
        if phase != COLLECT:
            self.stage = phase
        self._begun = time.monotonic()
        self._publish(PhaseStarted(phase=phase))

    def end(self) -> None:
        """End the phase that lasts; does nothing when it has ended already."""
        if self._begun is None:
            return
        seconds = round(time.monotonic() - self._begun, 4)
        self._begun = None
        self._seconds[self.now] = self._seconds.get(self.now, 0.0) + seconds
        self._publish(PhaseFinished(phase=self.now, seconds=seconds))

    @contextmanager
    def during(self, phase: str) -> Generator[None]:
        """A phase that lasts as long as the body."""
        self.begin(phase)
        try:
            yield
        finally:
            self.end()

    def timings(self) -> tuple[PhaseTiming, ...]:
        """One row a phase, in order; what was collected in two goes is one phase."""
        return tuple(PhaseTiming(phase=phase, seconds=round(total, 4)) for phase, total in self._seconds.items())
