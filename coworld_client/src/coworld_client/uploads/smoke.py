"""The first episodes of a Coworld, which the platform plays by itself after an upload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coworld_core.api import CertificationState, Coworld, EpisodeRequest

__all__ = ["CoworldStatus", "SmokeVerdict"]

SmokeVerdict = Literal["none", "pending", "passed", "failed"]
"""`none`: no episode yet; `pending`: not all have ended; `passed`: all completed; `failed`: one did not."""


@dataclass(frozen=True, kw_only=True)
class CoworldStatus:
    """A Coworld on a platform, and how its first episodes went."""

    coworld: Coworld
    episodes: tuple[EpisodeRequest, ...]
    """The episodes that the platform plays by itself."""
    certification: CertificationState | None = None
    """The state of the platform's own certification, if it has one."""

    @property
    def verdict(self) -> SmokeVerdict:
        """The verdict of the episodes. A single failed one decides it, whatever the others do."""
        if not self.episodes:
            return "none"
        if any(row.status.is_terminal and not row.status.is_success for row in self.episodes):
            return "failed"
        return "passed" if all(row.status.is_success for row in self.episodes) else "pending"

    @property
    def decided(self) -> bool:
        """Whether the verdict is final."""
        return self.verdict in ("passed", "failed")
