"""Checks of recorded frames that hold on every backend."""

from __future__ import annotations

import json

from coworld_core import iter_frames
from coworld_runner import EpisodeOptions

from .arena import Arena

__all__ = ["check_blame_of_a_crash", "check_frames"]

OPTIONS = EpisodeOptions(timeout_seconds=300, record="frames")


async def check_frames(arena: Arena) -> None:
    """Every message of every seat is kept, in order, and the episode is as it would be without."""
    found = await arena.play(arena.plan(), OPTIONS)
    record = found.record
    assert record.ok, record.faults
    assert record.recording is not None
    assert (record.recording.complete, record.recording.out_of_sync) == (True, ())
    assert False not in [seat.connected for seat in record.slots]
    frames = list(iter_frames(found.layout.workspace))
    assert len(frames) == record.recording.count
    for seat in range(len(record.slots)):
        said = [json.loads(one.text or "") for one in frames if (one.seat, one.direction) == (seat, "to_player")]
        assert said[0]["type"] == "observation"
        assert said[-1]["type"] == "final"
        ticks = [one.tick for one in frames if one.seat == seat and one.tick is not None]
        assert ticks == sorted(ticks)
        assert ticks[-1] == record.recording.last_tick


async def check_blame_of_a_crash(arena: Arena) -> None:
    """A player that crashes is blamed, and what was said until then is there."""
    found = await arena.play(arena.plan("well", "well", "exits-3-midway"), OPTIONS)
    assert [(fault.party, fault.slot) for fault in found.record.faults] == [("player", 1)]
    assert found.record.recording is not None
    frames = list(iter_frames(found.layout.workspace))
    assert len(frames) == found.record.recording.count > 0
