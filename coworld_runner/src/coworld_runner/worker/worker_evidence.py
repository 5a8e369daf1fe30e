"""An episode's outcome for the platform: the durations of its phases, and files to upload."""

from __future__ import annotations

import datetime as dt
import zipfile
import zlib
from pathlib import Path

from coworld_core.episode.events import BaseEvent, PhaseFinished, ProbeFinished, UnitStarted
from coworld_core.episode.layout import EpisodeLayout

__all__ = ["Stopwatch", "pack_debug", "pack_replay"]

_CHUNK = 1 << 20


class Stopwatch:
    """Measures the durations that the platform asks for, from an episode's events.

    Args:
        started: When the worker began (UTC).
    """

    def __init__(self, started: dt.datetime) -> None:
        self._marks: dict[str, dt.datetime] = {"begun": started}

    def __call__(self, event: BaseEvent) -> None:
        """Handle an event."""
        match event:
            case PhaseFinished(phase="ready"):
                self._marks.setdefault("booted", event.time)
            case UnitStarted(slot=int()):
                # The last player to start counts
                self._marks["launched"] = event.time
            case ProbeFinished(probe="global_message", ok=True):
                self._marks.setdefault("stepped", event.time)
            case PhaseFinished(phase="play"):
                self._marks.setdefault("played", event.time)
            case _:
                pass

    def timings(self, upload_seconds: float) -> dict[str, float]:
        """Seconds by name. A phase that was not seen took 0 s; its time counts for the next one."""
        names = ("booted", "launched", "stepped", "played")
        before = self._marks["begun"]
        spans: list[float] = []
        for name in names:
            mark = max(self._marks.get(name, before), before)
            # The first message is polled for during the game, and may be noticed after its end
            mark = min(mark, max(self._marks.get("played", mark), before))
            spans.append(round((mark - before).total_seconds(), 3))
            before = mark
        keys = ("game_boot_s", "player_launch_s", "first_step_s", "gameplay_s")
        return {**dict(zip(keys, spans, strict=True)), "artifact_upload_s": round(upload_seconds, 3)}


# --- files ------------------------------------------------------------------------------------------------------


def pack_replay(layout: EpisodeLayout, target: Path) -> None:
    """Write the replay as a zlib stream, in chunks."""
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
