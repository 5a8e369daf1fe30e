"""How units end and whose fault it was, as values.

Later versions may know more reasons, parties, statuses and types than these. Where a value was read from a file, it may
be any text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from ..records import Grows, Record

__all__ = ["EpisodeStatus", "ErrorType", "Exit", "ExitReason", "Fault", "FaultParty", "decisive"]

ExitReason = Annotated[
    Literal["exited", "signal", "oom", "disk", "pids", "stopped", "deadline", "evicted", "lost"], Grows
]
"""Why a unit is no longer running.

``exited`` on its own with a code; ``signal`` on its own by a signal; ``oom``, ``disk`` and ``pids`` over that limit;
``stopped`` by us because its part was over; ``deadline`` by us because time was up; ``evicted`` by the platform;
``lost`` when the platform no longer knows it.
"""

FaultParty = Annotated[Literal["game", "player", "program", "platform", "operator"], Grows]
"""Whose fault it was: the game, one player (with slot), a program beside an episode (reporter, grader, ...), what runs
them, or the person running it."""

EpisodeStatus = Annotated[Literal["completed", "failed", "interrupted"], Grows]
"""``completed``: valid results of this run exist (there may still be faults); ``failed``; ``interrupted`` by us."""

ErrorType = Annotated[
    Literal[
        "player_error",
        "player_left_early",
        "player_timeout",
        "player_never_started",
        "game_unhealthy",
        "game_contract_violation",
        "program_error",
        "program_timeout",
        "program_never_started",
        "output_missing",
        "output_refused",
        "results_missing",
        "results_malformed",
        "replay_missing",
        "replay_unloadable",
        "episode_timeout",
        "image_unreachable",
        "config_error",
        "artifact_transport_error",
        "platform_error",
        "interrupted",
        "crash",
    ],
    Grows,
]
"""Stable names of what went wrong; those the published platform knows keep their names."""


class Exit(Record):
    """How a unit ended: never only a number."""

    reason: ExitReason = Field(description="Why it is no longer running.")
    code: int | None = Field(default=None, description="Exit status, where the unit ended with one.")
    signal: int | None = Field(default=None, description="Signal number, where a signal ended it.")
    detail: str = Field(default="", description="The platform's own words, if it had any.")

    @property
    def ok(self) -> bool:
        """True when the unit ended by itself with status 0."""
        return self.reason == "exited" and self.code == 0

    @property
    def was_told(self) -> bool:
        """Whether it ended because somebody told it to: by SIGINT, SIGKILL or SIGTERM, or with the status for one."""
        return self.signal in (2, 9, 15) or self.code in (130, 137, 143)

    def __str__(self) -> str:
        words = {
            "oom": "was killed: out of memory",
            "disk": "was killed: over its disk limit",
            "pids": "was killed: over its process limit",
            "stopped": "was stopped when its part was over",
            "deadline": "was stopped at the deadline",
            "evicted": "was evicted by the platform",
            "lost": "vanished from the platform",
        }
        if self.reason == "exited":
            text = f"exited with status {self.code}"
        elif self.reason == "signal":
            text = f"was ended by signal {self.signal}"
        else:
            text = words.get(self.reason, f"ended: {self.reason}")
        return f"{text} ({self.detail})" if self.detail else text


class Fault(Record):
    """One thing that went wrong, recorded where and when it was seen."""

    fault: FaultParty = Field(description="Whose fault it was.")
    slot: int | None = Field(default=None, ge=0, description="The player's slot, when the fault is a player's.")
    error_type: ErrorType = Field(description="Stable name of what went wrong.")
    message: str = Field(description="What happened, in a sentence.")
    hint: str | None = Field(default=None, description="What to do next.")
    phase: str = Field(default="", description="The phase of the episode in which it was seen.")
    time: dt.datetime = Field(description="When it was seen (UTC).")
    seconds: float | None = Field(default=None, description="Seconds since the episode began.")
    exit: Exit | None = Field(default=None, description="How the unit ended, when that is the fault.")
    log: str | None = Field(default=None, description="The unit's log, relative to the workspace.")
    log_tail: str = Field(default="", description="The last lines of that log.")

    def __str__(self) -> str:
        who = f"player {self.slot}" if self.fault == "player" and self.slot is not None else self.fault
        return f"{who}: {self.message} [{self.error_type}]"


def decisive(faults: Sequence[Fault]) -> Fault | None:
    """The fault that decides the outcome of an episode; None when there is none.

    It is the first that was seen. But a player's failure explains nothing that the game, the platform or the operator
    has done wrong after it: a game has to live with players that fail. Only a game that waits in vain for its players
    is theirs.

    Args:
        faults: In the order they were seen.
    """
    others = (fault for fault in faults if fault.fault != "player" and fault.error_type != "episode_timeout")
    first = faults[0] if faults else None
    return next(others, first) if first is not None and first.fault == "player" else first
