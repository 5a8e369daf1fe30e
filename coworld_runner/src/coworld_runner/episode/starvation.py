"""Whether an episode got the processor time it asked for.

Games tick in real time: on a machine with too much to do, ticks come late, players answer late, and a deterministic
game ends with other scores. The kernel says how long runnable work waited for a processor (pressure stall
information, "some"); over the time of play that is the share in which somebody waited. It is the machine's figure,
so a busy neighbour shows too: that is what the episode suffered from.
"""

from __future__ import annotations

import time
from pathlib import Path

from coworld_core.episode.record import StarvationRecord

__all__ = ["STARVED_SHARE", "StarvationMeter"]

STARVED_SHARE = 0.5
"""From this share of waiting on, an episode counts as starved."""

_PRESSURE = Path("/proc/pressure/cpu")


def _stalled_seconds() -> float | None:
    try:
        for line in _PRESSURE.read_text("ascii").splitlines():
            if line.startswith("some "):
                return int(line.rsplit("total=", 1)[1]) / 1e6
    except (OSError, ValueError, IndexError):
        return None
    return None


class StarvationMeter:
    """Started when play begins, read when it ends."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._stalled = _stalled_seconds()

    def read(self) -> StarvationRecord | None:
        """The share of the time since the meter was made; None where the kernel does not say."""
        stalled = _stalled_seconds()
        elapsed = time.monotonic() - self._begin
        if stalled is None or self._stalled is None or elapsed <= 0:
            return None
        share = min(1.0, max(0.0, (stalled - self._stalled) / elapsed))
        return StarvationRecord(
            starved=share >= STARVED_SHARE,
            waited_share=round(share, 4),
            threshold=STARVED_SHARE,
            source="linux pressure stall information (cpu, some)",
        )
