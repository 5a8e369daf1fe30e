"""What a seat may leave when its episode is over: the end of its player's log, and an artifact of limited size."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from coworld_core.text import plural

__all__ = ["LEAST_LOG_BYTES", "LINE_BYTES", "LOG_LINES", "NOTE", "SeatLimits", "keep_log"]

LOG_LINES = 10_000
"""The most lines of a player's log to keep."""
LINE_BYTES = 4096
"""The most bytes of a line to keep."""
LEAST_LOG_BYTES = 8192
"""The least limit of a log: there is room for the notes, and for one line."""
NOTE = "[observatory] "
"""How a line begins that the platform adds to a log."""
_ROOM_FOR_NOTE = 256
_ROOM_FOR_TAIL = 64
_PIECE = 1 << 18


@dataclass(frozen=True, kw_only=True)
class SeatLimits:
    """The most that one seat of an episode may leave, in bytes; these defaults hold wherever no league sets others."""

    log_bytes: int = 1 << 20
    artifact_bytes: int = 16 << 20

    def note_on_artifact(self, size: int) -> str | None:
        """Why an artifact of this size is not kept, as a line of the seat's log; None: it is kept."""
        if size <= self.artifact_bytes:
            return None
        return f"{NOTE}The artifact of this seat is not kept: {size:,} bytes; the limit is {self.artifact_bytes:,}.\n"


def keep_log(source: Path, target: Path, limits: SeatLimits, *, note: str = "") -> None:
    """Copy the last lines of a log that fit, with a line before them that says how much was left out.

    Lines that are too long are cut, and say so at their end. However long the log or one of its lines is, this takes
    little memory.

    Args:
        source: The log.
        target: The copy; there must be none yet.
        limits: The limits of the seat; the copy is no larger than its `log_bytes`.
        note: A line to add before the log.

    Raises:
        OSError: A file cannot be read or written.
    """
    head = note.encode()
    room = limits.log_bytes - len(head)
    with source.open("rb") as file, target.open("xb") as kept:
        size = file.seek(0, os.SEEK_END)
        start = _first_kept(file, size, room)
        if start:
            start = _first_kept(file, size, room - _ROOM_FOR_NOTE)
            limit = f"the last {LOG_LINES:,} lines, and {limits.log_bytes:,} bytes at most"
            head = f"{NOTE}Left out before this: {start:,} bytes. Of a log are kept: {limit}.\n".encode() + head
        kept.write(head)
        file.seek(start)
        kept.writelines(_lines(file))


def _first_kept(file: BinaryIO, size: int, room: int) -> int:
    """Where the last lines begin that have this much room."""
    kept = size
    for count, start in enumerate(_line_starts(file, size)):
        room -= min(kept - start, LINE_BYTES)
        if room < 0 or count == LOG_LINES:
            break
        kept = start
    return kept


def _line_starts(file: BinaryIO, size: int) -> Iterator[int]:
    """Where the lines of a file begin, from the last to the first."""
    # Without the last byte: where it ends a line, none begins after it.
    end = size - 1
    while end > 0:
        begin = max(end - _PIECE, 0)
        file.seek(begin)
        piece = file.read(end - begin)
        found = len(piece)
        while (found := piece.rfind(b"\n", 0, found)) >= 0:
            yield begin + found + 1
        end = begin
    if size:
        yield 0


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines from here on, none longer than `LINE_BYTES`."""
    while line := file.readline(LINE_BYTES + 1):
        if len(line) <= LINE_BYTES:
            yield line
            continue
        shown = _whole_characters(line[: LINE_BYTES - _ROOM_FOR_TAIL])
        more, last = len(line) - len(shown), line
        while not last.endswith(b"\n") and (last := file.readline(_PIECE)):
            more += len(last)
        end = b"\n" if last else b""
        yield shown + f"… ({plural(more - len(end), 'more byte')})".encode() + end


def _whole_characters(text: bytes) -> bytes:
    """A text without the character at its end that is incomplete, if there is one."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(text)
    incomplete, _ = decoder.getstate()
    return text.removesuffix(incomplete)
