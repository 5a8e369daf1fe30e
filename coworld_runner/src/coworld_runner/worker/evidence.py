"""What an episode comes to for the platform: success or one error, how long things took, and the files to hand over."""

from __future__ import annotations

import datetime as dt
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from coworld_core.artifacts import EpisodeLayout
from coworld_core.episode import EpisodeRecord
from coworld_core.errors import CoworldError
from coworld_core.events import BaseEvent, PhaseFinished, ProbeFinished, UnitStarted
from coworld_core.outcome import ErrorType, Fault

__all__ = ["Failure", "Stopwatch", "failure_of", "failure_of_error", "pack_debug", "pack_replay"]

_MESSAGE_LIMIT = 2000
_CHUNK = 1 << 20

_PUBLISHED: dict[ErrorType, str] = {
    "player_left_early": "player_error",
    "player_timeout": "player_error",
    "player_never_started": "player_error",
    "image_unreachable": "game_unhealthy",
    "artifact_transport_error": "crash",
    "platform_error": "crash",
    "config_error": "crash",
    "interrupted": "crash",
}
"""What the published platform calls those that it does not know; the others keep their names."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why an episode counts for nothing."""

    error_type: str
    """One of the published platform's."""
    message: str
    slot: int | None = None

    def to_json(self) -> bytes:
        """The document that goes to ``ERROR_INFO_URI``."""
        message = self.message if len(self.message) <= _MESSAGE_LIMIT else self.message[: _MESSAGE_LIMIT - 1] + "…"
        document = {"error_type": self.error_type, "message": message, "failed_policy_index": self.slot}
        return json.dumps(document, ensure_ascii=False).encode()


def failure_of(
    record: EpisodeRecord, *, replay_present: bool, replay_wanted: bool, players_stop_it: bool = True
) -> Failure | None:
    """Why an episode failed, or None when it counts.

    It counts when the game played it to the end: valid results, the replay where one is wanted, and nothing wrong with
    the game. What a player did wrong after that does not take it away, and is in the record.

    Args:
        record: What the episode came to.
        replay_present: Whether the game has left a replay.
        replay_wanted: Whether the platform asked for one.
        players_stop_it: Whether a player's failure ended the episode, so that results which are there all the same are
            not those of a whole game.
    """

    def counts_against(fault: Fault) -> bool:
        if record.status != "completed" or fault.fault == "game":
            return True
        times = (fault.seconds, record.over_seconds)
        return players_stop_it and times[0] is not None and times[1] is not None and times[0] <= times[1]

    against = next((fault for fault in record.faults if counts_against(fault)), None)
    if against is not None:
        return _of_fault(against)
    if record.status != "completed":
        return Failure(error_type="crash", message=f"The episode was {record.status}.")
    if replay_wanted and not replay_present:
        return Failure(error_type="replay_missing", message="The game wrote results but no replay.")
    return None


def _of_fault(fault: Fault) -> Failure:
    known = _PUBLISHED.get(fault.error_type, str(fault.error_type))
    if fault.error_type == "image_unreachable" and fault.slot is not None:
        known = "player_error"
    words = [fault.message] if known == fault.error_type else [f"{fault.error_type}: {fault.message}"]
    return Failure(
        error_type=known,
        message=" ".join([*words, *([fault.hint] if fault.hint else [])]),
        slot=fault.slot if fault.fault == "player" else None,
    )


def failure_of_error(error: BaseException) -> Failure:
    """What an error that ended the worker itself comes to."""
    if isinstance(error, CoworldError):
        hint = f" {error.hint}" if error.hint else ""
        return Failure(error_type="crash", message=f"{error.code}: {error.message}{hint}")
    return Failure(error_type="crash", message=f"The worker failed: {type(error).__name__}: {error}")


class Stopwatch:
    """Listens to an episode's events for the times that the platform wants to know.

    Args:
        begun: When the worker began (UTC).
    """

    def __init__(self, begun: dt.datetime) -> None:
        self._marks: dict[str, dt.datetime] = {"begun": begun}

    def __call__(self, event: BaseEvent) -> None:
        """Take in an event."""
        match event:
            case PhaseFinished(phase="ready"):
                self._marks.setdefault("booted", event.time)
            case UnitStarted(slot=int()):
                # the last one counts
                self._marks["launched"] = event.time
            case ProbeFinished(probe="global_message", ok=True):
                self._marks.setdefault("stepped", event.time)
            case PhaseFinished(phase="play"):
                self._marks.setdefault("played", event.time)
            case _:
                pass

    def timings(self, upload_seconds: float) -> dict[str, float]:
        """Seconds by name. A phase that was not seen took none, and its time is that of the next one."""
        names = ("booted", "launched", "stepped", "played")
        before = self._marks["begun"]
        spans: list[float] = []
        for name in names:
            mark = max(self._marks.get(name, before), before)
            # the first message is looked for while the game plays, and may come out after its end
            mark = min(mark, max(self._marks.get("played", mark), before))
            spans.append(round((mark - before).total_seconds(), 3))
            before = mark
        keys = ("game_boot_s", "player_launch_s", "first_step_s", "gameplay_s")
        return {**dict(zip(keys, spans, strict=True)), "artifact_upload_s": round(upload_seconds, 3)}


# --- files ------------------------------------------------------------------------------------------------------


def pack_replay(layout: EpisodeLayout, target: Path) -> None:
    """Write the replay as a zlib stream, piece by piece."""
    packer = zlib.compressobj()
    with layout.replay.open("rb") as source, target.open("wb") as sink:
        while piece := source.read(_CHUNK):
            sink.write(packer.compress(piece))
        sink.write(packer.flush())


def pack_debug(layout: EpisodeLayout, target: Path) -> bool:
    """Write a zip of all logs, flat at its root, and of the episode's record.

    Returns:
        Whether there was anything to pack.
    """
    logs = sorted(path for path in layout.logs.glob("*") if path.is_file()) if layout.logs.is_dir() else []
    if not logs:
        return False
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in logs:
            archive.write(path, path.name)
        if layout.record.is_file():
            archive.write(layout.record, layout.record.name)
    return True
