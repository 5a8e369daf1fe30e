"""The episodes that a platform plays of a Coworld when it has been uploaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coworld_core.api import CertificationState, Coworld, EpisodeRequest

__all__ = ["CoworldStatus", "SmokeVerdict"]

SmokeVerdict = Literal["none", "pending", "passed", "failed"]
"""``none``: no episode yet; ``pending``: not all have ended; ``passed``: all completed; ``failed``: one did not."""


@dataclass(frozen=True, kw_only=True)
class CoworldStatus:
    """A Coworld on a platform, and how its first episodes went."""

    coworld: Coworld
    episodes: tuple[EpisodeRequest, ...]
    """Those the platform plays of it by itself."""
    certification: CertificationState | None = None
    """What the platform's own certification says, where there is one."""

    @property
    def verdict(self) -> SmokeVerdict:
        """What the episodes say. One that failed decides it, whatever the others do."""
        if not self.episodes:
            return "none"
        if any(row.status.is_terminal and not row.status.is_success for row in self.episodes):
            return "failed"
        return "passed" if all(row.status.is_success for row in self.episodes) else "pending"

    @property
    def decided(self) -> bool:
        """Whether the verdict is final."""
        return self.verdict in ("passed", "failed")
