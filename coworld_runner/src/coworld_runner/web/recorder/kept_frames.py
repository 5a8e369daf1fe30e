"""What is kept of messages: a line of JSON for each, and one at the end."""

from __future__ import annotations

import base64
import json
import re

__all__ = ["MOST_KEPT", "KeptFrames", "tick_of"]

MOST_KEPT = 64 << 20
"""Bytes of lines that wait to be taken, at most."""

_EARLY_TICK = re.compile(
    r'\s*\{\s*(?:"[^"\\]*"\s*:\s*(?:"[^"\\]*"|-?\d+|true|false|null)\s*,\s*)*"tick"\s*:\s*(\d{1,15})\s*[,}]'
)
"""Finds the tick where only simple values come before it, without reading the rest."""


class KeptFrames:
    """The lines that wait to be taken.

    Args:
        seats: Number of seats.

    Attributes:
        waiting: The lines.
        is_open: Whether messages are still kept.
    """

    def __init__(self, seats: int) -> None:
        self.waiting = bytearray()
        self.is_open = True
        self._reason = "over"
        self._seats = seats
        self._newest_ticks: dict[int, int] = {}
        """The newest tick that each seat was told."""
        self._back: set[int] = set()
        """Seats that were told an earlier tick after a later one."""

    def add(self, seat: int, when: float, direction: str, is_text: bool, content: bytes | None, size: int) -> None:
        """Keep a message.

        Args:
            seat: The seat.
            when: Seconds since 1970.
            direction: `to_player` or `to_game`.
            is_text: Whether it was sent as text.
            content: What it says; None if it is too long.
            size: Its size in bytes.
        """
        if not self.is_open:
            return
        tick: int | None = None
        said = f'"size":{size}'
        if content is not None:
            try:
                text = content.decode() if is_text else None
            except UnicodeDecodeError:
                text = None
            if text is None:
                said = f'"base64":"{base64.b64encode(content).decode()}"'
            else:
                tick = tick_of(text)
                said = f'"text":{json.dumps(text)}'
        if tick is not None and direction == "to_player":
            if tick < self._newest_ticks.get(seat, 0):
                self._back.add(seat)
            self._newest_ticks[seat] = tick
        named = "null" if tick is None else tick
        line = f'{{"tick":{named},"time":{when:.6f},"seat":{seat},"direction":"{direction}",{said}}}\n'
        self.waiting += line.encode()
        if len(self.waiting) > MOST_KEPT:
            self.is_open, self._reason = False, "too much waited to be written"

    def take(self) -> bytes:
        """Remove and return the lines."""
        taken, self.waiting = bytes(self.waiting), bytearray()
        return taken

    def finish(self) -> None:
        """Add the last line."""
        newest = max(self._newest_ticks.values(), default=0)
        behind = {
            seat for seat in range(self._seats) if self._newest_ticks and self._newest_ticks.get(seat, -1) < newest
        }
        end = {"end": self._reason, "complete": self.is_open, "out_of_sync": sorted(behind | self._back)}
        self.is_open = False
        self.waiting += f"{json.dumps(end)}\n".encode()


def tick_of(text: str) -> int | None:
    """The tick that a message tells, if it is a JSON object with one."""
    if (early := _EARLY_TICK.match(text, 0, 4096)) is not None:
        return int(early[1])
    if '"tick"' not in text or not text.lstrip().startswith("{"):
        return None
    try:
        tick = json.loads(text).get("tick")
    except (ValueError, RecursionError):
        return None
    return tick if isinstance(tick, int) and not isinstance(tick, bool) and 0 <= tick < 10**15 else None
