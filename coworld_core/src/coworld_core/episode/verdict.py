"""Decide whether an episode counts, and if not, why, in the same way for all callers.

An episode counts if the game played it to the end: it has valid results and, where one is required, a replay, and the
game itself is not at fault. Failures of players are then reflected in the game's scores.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ..errors import CapabilityError, CoworldError, HookError, ImageError, ManifestError, UsageError
from .layout import EpisodeLayout
from .outcome import ErrorType, Fault, FaultParty, decisive

if TYPE_CHECKING:
    from .record import EpisodeRecord, EpisodeRow

__all__ = ["Verdict", "VerdictPolicy", "blame_for", "judge", "judge_error", "judge_row", "party_of"]

_MESSAGE_LIMIT = 2000
_PUBLISHED: dict[str, str] = {
    "player_left_early": "player_error",
    "player_timeout": "player_error",
    "player_never_started": "player_error",
    "program_error": "crash",
    "program_timeout": "crash",
    "program_never_started": "crash",
    "output_missing": "crash",
    "output_refused": "crash",
    "artifact_transport_error": "crash",
    "platform_error": "crash",
    "config_error": "crash",
    "interrupted": "crash",
}
"""The published platform's names for error types that it does not know; the others keep their names."""

_OF_PLAYERS = ("player_error", "player_left_early", "player_timeout", "player_never_started")
_OF_THE_GAME = (
    *("game_unhealthy", "game_contract_violation", "episode_timeout"),
    *("results_missing", "results_malformed", "replay_missing", "replay_unloadable"),
)


@dataclass(frozen=True, kw_only=True)
class VerdictPolicy:
    """What a host requires of an episode that counts."""

    replay: bool = True
    """Whether it must have a replay."""
    players_end_it: bool = True
    """Whether a player's failure ends an episode (`EpisodeOptions.on_player_failure`). If so, results written after
    such a failure are not those of a complete game."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How an episode counts."""

    counts: bool
    party: FaultParty | None = None
    """The party to blame if it does not count; an episode that failed because of the platform is worth retrying."""
    error_type: str | None = None
    """Why it does not count, as in `Fault.error_type`; None if it counts."""
    message: str = ""
    hint: str | None = None
    slot: int | None = None
    """The slot of the player to blame, if it is a player."""
    code: str | None = None
    """The code of the exception that ended the episode, if one did; more specific than `error_type`."""

    @property
    def published_type(self) -> str | None:
        """`error_type` by the published platform's name."""
        if self.error_type == "image_unreachable":
            return {"game": "game_unhealthy", "player": "player_error"}.get(self.party or "", "crash")
        return _PUBLISHED.get(self.error_type or "", self.error_type)

    @property
    def published_message(self) -> str:
        """The message in at most 2000 characters, prefixed with the code or error type if the published name differs.

        The hint follows, unless it points at logs in the workspace. A log's end is not included, since a player's
        log is private to its owner.
        """
        known = self.published_type == self.error_type
        text = self.message if known else f"{self.code or self.error_type}: {self.message}"
        if self.hint and "logs/" not in self.hint:
            text = f"{text} {self.hint}"
        return text if len(text) <= _MESSAGE_LIMIT else text[: _MESSAGE_LIMIT - 1] + "…"

    @property
    def error_info(self) -> bytes:
        """The document `error_info.json` of a platform."""
        document = {
            "error_type": self.published_type,
            "message": self.published_message,
            "failed_policy_index": self.slot,
        }
        return json.dumps(document, ensure_ascii=False).encode()


_COUNTS = Verdict(counts=True)


def judge(record: EpisodeRecord, policy: VerdictPolicy | None = None) -> Verdict:
    """Judge whether an episode counts, and if not, which fault decides.

    Args:
        record: The record of the episode.
        policy: The host's requirements.
    """
    policy = policy or VerdictPolicy()
    over = record.over_seconds
    if record.status != "completed":
        return _against(decisive(record.faults)) or Verdict(
            counts=False, party="game", error_type="results_missing", message="There are no results."
        )

    def counts_against(fault: Fault) -> bool:
        cut_short = policy.players_end_it and fault.seconds is not None and over is not None and fault.seconds <= over
        return fault.party == "game" or cut_short

    against = _against(decisive(tuple(fault for fault in record.faults if counts_against(fault))))
    if against is not None:
        return against
    if policy.replay and not any(file.path == EpisodeLayout.replay_name for file in record.artifacts):
        return Verdict(
            counts=False, party="game", error_type="replay_missing", message="The game wrote results, but no replay."
        )
    return Verdict(counts=True)


def judge_row(row: EpisodeRow) -> Verdict:
    """Like `judge`, but from a row, for a host that requires only results.

    Args:
        row: The row of the episode, which holds only the deciding fault.
    """
    if row.status == "completed" and row.party != "game":
        return _COUNTS
    return Verdict(
        counts=False,
        party=cast("FaultParty", row.party) or "game",
        error_type=row.error_type or "results_missing",
        message=row.message or "There are no results.",
        slot=row.fault_slot if row.party == "player" else None,
    )


def judge_error(error: BaseException) -> Verdict:
    """The verdict for an error that ended an episode before its record was written."""
    if not isinstance(error, CoworldError):
        message = f"{type(error).__name__}: {error}"
        return Verdict(counts=False, party="platform", error_type="crash", message=message)
    party, error_type = blame_for(error)
    return Verdict(
        counts=False, party=party, error_type=error_type, message=error.message, hint=error.hint, code=error.code
    )


def blame_for(error: CoworldError) -> tuple[FaultParty, ErrorType]:
    """The party to blame, and the error type, when one of coworld's own errors ends an episode."""
    if error.code == "disk_full":
        return "platform", "platform_error"
    if error.code == "registry_unavailable":
        return "platform", "image_unreachable"
    # Who chose an image that is not there (`image_absent`), its episode knows
    if isinstance(error, ImageError) or error.code in ("image_unreachable", "image_absent"):
        return "operator", "image_unreachable"
    if isinstance(error, ManifestError | UsageError | CapabilityError | HookError):
        return "operator", "config_error"
    return "platform", "platform_error"


def party_of(error_type: str | None, slot: int | None) -> FaultParty:
    """The party to blame where only the type of a fault is told, as by platforms.

    Args:
        error_type: The type; unknown ones are the platform's own.
        slot: The player's slot, if the fault is a player's.
    """
    if slot is not None or error_type in _OF_PLAYERS:
        return "player"
    return "game" if error_type in _OF_THE_GAME else "platform"


def _against(fault: Fault | None) -> Verdict | None:
    if fault is None:
        return None
    return Verdict(
        counts=False,
        party=fault.party,
        error_type=fault.error_type,
        message=fault.message,
        hint=fault.hint,
        slot=fault.slot if fault.party == "player" else None,
    )
