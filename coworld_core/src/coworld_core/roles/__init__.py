"""What programs that look at episodes afterwards get, and what they say: bundles, grades, reports, diagnoses.

Nothing here runs such a program; `coworld_runner.roles` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .finished_episode import FinishedEpisode as FinishedEpisode
    from .role_record import RoleRecord as RoleRecord
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".finished_episode": ("FinishedEpisode",),
            ".role_record": ("RoleRecord",),
        },
    )
