"""The inputs of one episode: plan, backend, options and workspace."""

from __future__ import annotations

from dataclasses import dataclass, field

from coworld_core.episode.artifacts import EpisodeLayout

from ..backend import Backend
from ..plan import EpisodePlan
from ..runs._opening import OpenRun
from .options import EpisodeOptions

__all__ = ["Setup"]

_SPARE_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One episode's surroundings; constant while it runs."""

    plan: EpisodePlan
    backend: Backend
    options: EpisodeOptions
    run: OpenRun
    tokens: tuple[str, ...] = field(repr=False)
    """By slot."""

    @property
    def lifetime(self) -> float:
        """Seconds that a unit may live: longer than the episode, to fetch its evidence."""
        return self.options.timeout_seconds + _SPARE_SECONDS

    @property
    def layout(self) -> EpisodeLayout:
        """Where the evidence goes."""
        return self.run.layout
