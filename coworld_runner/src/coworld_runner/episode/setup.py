"""The inputs of one episode: plan, backend, options and workspace."""

from __future__ import annotations

from dataclasses import dataclass, field

from coworld_core.episode.artifacts import EpisodeLayout

from ..backend import Backend
from ..plan import EpisodePlan
from ..runs._opening import OpenRun
from .options import EpisodeOptions

__all__ = ["Setup"]


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
    def layout(self) -> EpisodeLayout:
        """Where the evidence goes."""
        return self.run.layout
