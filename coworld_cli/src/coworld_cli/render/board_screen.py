"""A game's board on a terminal: drawn in place, or printed board after board where there is no terminal."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..terminal import colour, echo
from .text import clean, number, width

if TYPE_CHECKING:
    from coworld_core.rules import Board

__all__ = ["BoardScreen", "board_lines", "legal_lines"]

_MAX_MESSAGES = 8
"""Messages between seats that are shown."""

_LONGEST = 200
"""Characters of an action."""

_MOST_LEGAL = 60
"""Legal actions that are listed."""


def board_lines(
    title: str,
    board: Board,
    *,
    names: Sequence[str] = (),
    scores: Sequence[float | None] = (),
    you: int | None = None,
) -> list[str]:
    """The lines of a board: what is played, the board, and a line for each seat.

    Args:
        title: The game.
        board: Its present state.
        names: The names of the seats.
        scores: Scores that the state does not have, such as those of the end.
        you: The seat of who looks.
    """
    from coworld_core.rules import seat_letter

    of = f" of {board.max_ticks}" if board.max_ticks is not None else ""
    at = f" · tick {board.tick}{of}" if board.tick is not None else ""
    lines = [click.style(clean(title, one_line=True), bold=True) + click.style(at, dim=True), ""]
    if board.lines:
        lines += [f"  {clean(line, one_line=False)}" for line in board.lines]
    elif board.picture:
        lines.append("  This game draws its board as a picture only, which a browser shows.")
    else:
        lines.append("  This game tells spectators of no board; ticks and scores are shown.")
    lines.append("")
    known = scores or board.scores
    for seat in range(max(len(names), len(known))):
        score = known[seat] if seat < len(known) else None
        name = clean(names[seat], one_line=True) if seat < len(names) else ""
        marks = [" (you)" if seat == you else "", " *" if seat in board.to_act else ""]
        letter = f"{seat_letter(seat)} " if board.grid else ""
        lines.append(
            f"  {letter}{seat}  {name}{''.join(marks)}{'' if score is None else '  ' + number(score)}".rstrip()
        )
    for seat, action in board.actions:
        actor = names[seat] if seat < len(names) else str(seat)
        lines.append(f"  {clean(f'{actor} did {action}'[:_LONGEST], one_line=True)}")
    if board.messages:
        lines.append("")
    for seat, text, to in board.messages[-_MAX_MESSAGES:]:
        speaker = names[seat] if seat < len(names) else str(seat)
        hearer = names[to] if isinstance(to, int) and 0 <= to < len(names) else to
        whom = "" if to == "all" else f" to {hearer}"
        lines.append(f"  {clean(f'{speaker}{whom}: {text}', one_line=True)}")
    return lines


def legal_lines(actions: Sequence[str], columns: int, *, places: bool = True) -> list[str]:
    """The legal actions, with their places if these may be typed, in as many lines as they need."""
    items = [f"{place} {word}" if places else word for place, word in enumerate(actions[:_MOST_LEGAL], start=1)]
    items += [f"… {len(actions)} in all"] if len(actions) > _MOST_LEGAL else []
    lines = [""]
    for item in (clean(item, one_line=True) for item in items):
        if lines[-1] and width(lines[-1]) + width(item) + 3 > columns:
            lines.append("")
        lines[-1] += f"{'   ' if lines[-1] else ''}{item}"
    return lines if lines != [""] else []


class BoardScreen:
    """Shows boards, the next in the place of the last; what is being typed below them stays.

    Args:
        err: Whether to write to standard error, where standard output is for programs.
    """

    def __init__(self, *, err: bool = False) -> None:
        self._err = err
        self._stream = sys.stderr if err else sys.stdout
        self.live = self._stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        self._before: tuple[tuple[str, ...], str] | None = None
        self._shape = (0, 0, 0)

    @property
    def columns(self) -> int:
        """How many columns a line may take."""
        return shutil.get_terminal_size().columns - 1 if self.live else 120

    def show(self, lines: Sequence[str], *, prompt: str = "") -> None:
        """Show a board, and below it what the person is asked."""
        now = (tuple(lines), prompt)
        if now == self._before:
            return
        if not self.live:
            echo("\n".join([*lines, *([prompt] if prompt else []), ""]), err=self._err)
            self._before = now
            return
        asked_before, self._before = self._before[1] if self._before else None, now
        size = shutil.get_terminal_size()
        room = max(size.lines - 2, 1)
        shown = [_cut(line, size.columns - 1) for line in lines]
        if len(shown) > room:
            low = f"… {len(shown) - room + 1} more lines: the terminal is low"
            shown = [*shown[: room - 1], _cut(low, size.columns - 1)]
        shape = (size.columns, size.lines, len(shown))
        text = "".join(f"{line}\x1b[K\n" for line in shown)
        if shape == self._shape and prompt == asked_before:
            text = f"\x1b7\x1b[H{text}\x1b8"
        else:
            text = f"\x1b[H\x1b[J{text}\n{_cut(prompt, size.columns - 1)}"
        self._shape = shape
        self._write(text)

    def close(self) -> None:
        """Leave the last board on the terminal, and go on below it."""
        if self.live and self._before is not None:
            self._write("\n\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _cut(line: str, columns: int) -> str:
    """A line that fits into so many columns, with colours only where they are wanted."""
    if width(line) > columns:
        line, kept, left = click.unstyle(line), "", max(columns - 1, 0)
        for character in line:
            left -= 2 if unicodedata.east_asian_width(character) in "WF" else not unicodedata.combining(character)
            if left < 0:
                break
            kept += character
        return f"{kept}…"
    return click.unstyle(line) if colour() is False else line
