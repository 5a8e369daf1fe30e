"""How units end and whose fault it was, as values.

Later versions may add reasons, parties, statuses and types, so a value read from a file may be any string.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from ..documents.records import OpenEnum, Record
from ..issues import HintCode, Hinted, HintValues

__all__ = ["LOST", "EpisodeStatus", "ErrorType", "Exit", "ExitReason", "Fault", "FaultParty", "decisive"]

ExitReason = Annotated[
    Literal["exited", "signal", "oom", "disk", "pids", "stopped", "timeout", "evicted", "lost", "unknown"],
    OpenEnum,
]
"""Why a unit is no longer running.

`exited`: by itself, with a status; `signal`: by a signal; `oom`, `disk`, `pids`: over its limit of memory,
disk or processes; `stopped`: by coworld, because its part was over; `timeout`: by coworld, because time was up;
`evicted`: by the platform; `lost`: the platform no longer knows it; `unknown`: it shared a process with other episodes,
and has no end of its own.
"""

FaultParty = Annotated[Literal["game", "player", "program", "platform", "operator"], OpenEnum]
"""Who is at fault: the game, a player (with its slot), another program (reporter, grader, ...), the platform that runs
them, or the operator."""

LOST: tuple[FaultParty, ...] = ("platform", "operator")
"""Whose faults say nothing of the game and its players, so that what they ended may be played again."""

EpisodeStatus = Annotated[Literal["completed", "failed", "interrupted"], OpenEnum]
"""`completed`: there are valid results, and possibly faults; `failed`; `interrupted` by the user."""

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
    OpenEnum,
]
"""Stable names of what went wrong; where the published platform has a name, it is the same."""


class Exit(Record):
    """How a unit ended: the reason, with the status or signal if there was one."""

    reason: ExitReason = Field(description="Why it is no longer running.")
    code: int | None = Field(default=None, description="Exit status, where the unit ended with one.")
    signal: int | None = Field(default=None, description="Signal number, where a signal ended it.")
    detail: str = Field(default="", description="The platform's own explanation, if any.")

    @property
    def ok(self) -> bool:
        """Whether the unit ended by itself with status 0."""
        return self.reason == "exited" and self.code == 0

    @property
    def was_terminated(self) -> bool:
        """Whether it was told to end: by SIGINT, SIGKILL or SIGTERM, or with the exit status for one of them."""
        return self.signal in (2, 9, 15) or self.code in (130, 137, 143)

    def __str__(self) -> str:
        words = {
            "oom": "was killed: out of memory",
            "disk": "was killed: over its disk limit",
            "pids": "was killed: over its process limit",
            "stopped": "was stopped when its part was over",
            "timeout": "was stopped when its time was up",
            "evicted": "was evicted by the platform",
            "lost": "vanished from the platform",
            "unknown": "had no end of its own, in a process that plays several episodes",
        }
        if self.reason == "exited":
            text = f"exited with status {self.code}"
        elif self.reason == "signal":
            text = f"was ended by signal {self.signal}"
        else:
            text = words.get(self.reason, f"ended: {self.reason}")
        return f"{text} ({self.detail})" if self.detail else text


class Fault(Record, Hinted):
    """One thing that went wrong, recorded when it was detected."""

    party: FaultParty = Field(description="Whose fault it was.")
    slot: int | None = Field(default=None, ge=0, description="The player's slot, when the fault is a player's.")
    error_type: ErrorType = Field(description="Stable name of what went wrong.")
    message: str = Field(description="What happened, in a sentence.")
    hint: str | None = Field(default=None, description="What to do next.")
    hint_code: HintCode = None
    hint_values: HintValues = None
    phase: str = Field(default="", description="The phase of the episode in which it was detected.")
    time: dt.datetime = Field(description="When it was detected (UTC).")
    seconds: float | None = Field(default=None, description="Seconds since the episode began.")
    exit: Exit | None = Field(default=None, description="How the unit ended, when that is the fault.")
    log: str | None = Field(default=None, description="The unit's log, relative to the workspace.")
    log_tail: str = Field(default="", description="The last lines of that log.")

    def __str__(self) -> str:
        who = f"player {self.slot}" if self.party == "player" and self.slot is not None else self.party
        return f"{who}: {self.message} [{self.error_type}]"


def decisive(faults: Sequence[Fault]) -> Fault | None:
    """The fault that decides the outcome of an episode; None if there is none.

    Usually this is the first fault. But a player's failure does not excuse a later fault of the game, the platform or
    the operator, because games must cope with players that fail; then the later fault decides. The exception is an
    episode timeout, which is blamed on the player that failed before it.

    Args:
        faults: The faults in the order they were detected.
    """
    others = (fault for fault in faults if fault.party != "player" and fault.error_type != "episode_timeout")
    first = faults[0] if faults else None
    return next(others, first) if first is not None and first.party == "player" else first
