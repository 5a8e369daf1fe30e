"""Preparing text for a terminal: cleaning, aligning, shortening."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from coworld_core.text import ESCAPES, pasteable, strip_controls

from ..options.platform import DEFAULT_SERVER, resolved

__all__ = [
    "again",
    "clean",
    "command_line",
    "hint_line",
    "labels_line",
    "left_behind",
    "number",
    "seconds",
    "shown_name",
    "shown_path",
    "table",
    "width",
]


def clean(text: str, *, one_line: bool = False) -> str:
    r"""Text without escape sequences, control characters and marks that reorder the text around them.

    Args:
        text: Untrusted text, such as a name in a manifest or the tail of a log.
        one_line: Whether to turn line ends and tabs into spaces too.
    """
    text = strip_controls(text)
    return " ".join(text.split()) if one_line else text


_LONGEST_NAME = 40


def shown_name(name: str, *, most: int = _LONGEST_NAME) -> str:
    """A name for a cell of a table: on one line, and shortened if it is so long that it would widen every line.

    Args:
        name: Untrusted text.
        most: Columns that it may take.
    """
    name = clean(name, one_line=True)
    if width(name) <= most:
        return name
    while width(name) >= most:
        name = name[:-1]
    return f"{name.rstrip()}…"


def hint_line(hint: str, *, indent: str = "  ", one_line: bool = True) -> str:
    """The line below a message that says what to do, in words of the command line.

    Args:
        hint: The hint of a library, or one that is worded already.
        indent: The beginning of the line.
        one_line: Whether to turn line ends into spaces.
    """
    from ..hints import worded

    return f"{indent}{click.style('hint:', fg='cyan')} {clean(worded(hint) or '', one_line=one_line)}"


def width(text: str) -> int:
    """How many columns a line takes on a terminal, colour codes not counted."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in ESCAPES.sub("", text)
    )


def table(rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), indent: str = "", gap: str = "  ") -> str:
    """Rows as aligned columns, never wrapped and never cut, so that ids and paths can be copied.

    Args:
        rows: The cells, which may contain colour codes. All rows have the same length.
        right: Indices of the columns to align to the right.
        indent: The beginning of every line.
        gap: The text between two columns.
    """
    lines = [tuple(row) for row in rows]
    widths = [max(width(row[column]) for row in lines) for column in range(len(lines[0]))] if lines else []
    to_right = frozenset(right)

    def cell(column: int, text: str) -> str:
        space = " " * (widths[column] - width(text))
        return space + text if column in to_right else text + space

    return "\n".join(
        (indent + gap.join(cell(column, text) for column, text in enumerate(row))).rstrip() for row in lines
    )


def number(value: float) -> str:
    """A score: whole numbers without a point, others with at most four digits after it."""
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4f}".rstrip("0").rstrip(".")
    )


def seconds(value: float) -> str:
    """A duration: `0.42 s`, `12.3 s`, `3 min 05 s`, `2 h 07 min`."""
    if value < 1:
        return f"{value:.2f} s"
    if value < 59.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def shown_path(path: str | Path) -> str:
    """A path to display: relative if it is below the current directory."""
    text = str(path)
    try:
        relative = os.path.relpath(text)
    except (ValueError, OSError):  # The path is on another drive; the current directory has been removed
        return clean(text, one_line=True)
    inside = not relative.startswith("..") and Path(text).is_absolute()
    return clean(relative if inside else text, one_line=True)


def command_line(*arguments: str | Path) -> str:
    """A `coworld` command for the user to copy, quoted for a shell and started the way this one was.

    Args:
        arguments: The command and its arguments.
    """
    if "UV_RUN_RECURSION_DEPTH" in os.environ:
        program = ["uv", "run", "coworld"]
    elif Path(sys.argv[0]).name == "__main__.py":
        program = [Path(sys.executable).name, "-m", "coworld_cli"]
    else:
        program = ["coworld"]
    words_shown = (clean(str(word), one_line=True) for word in arguments)
    return pasteable(shlex.join([*program, *words_shown]), quoted=True)


def left_behind(what: Iterable[str]) -> str:
    """What could not be removed, and the command that removes it."""
    return f"Left behind: {', '.join(what)}. `coworld clean` finds it, `coworld clean --yes` removes it."


def again(command: str, server: str) -> str:
    """A `coworld` command for the user to copy, with `--server` unless the command would choose that server anyway."""
    from coworld_core.errors import CoworldError

    known = server == DEFAULT_SERVER
    if known:
        with contextlib.suppress(CoworldError):
            known = resolved(None) == DEFAULT_SERVER
    return command_line(*command.split(), *([] if known else ["--server", server]))


def labels_line(labels: Mapping[str, str] | None) -> str | None:
    """Labels in one line; None if there are none, or none are known."""
    return ", ".join(f"{name}={value}" for name, value in (labels or {}).items()) or None
