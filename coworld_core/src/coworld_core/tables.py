"""Values as tables: in a notebook for people, and as flat rows for whatever makes data frames of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["Cell", "TableRow", "html_table", "one_line"]

Cell = str | int | float | bool | None
"""What a row holds: nothing that would have to be unpacked first."""

TableRow = dict[str, Cell]
"""One row, by the names of its columns."""

_MOST = 100
"""How many rows are shown; a page is no place for thousands."""


def one_line(text: str) -> str:
    """A text by somebody else as part of a line: what is not to be seen, or would end the line, is written out."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def html_table(caption: str, rows: Sequence[Mapping[str, Cell]], *, notes: Sequence[str] = ()) -> str:
    """A table for a notebook.

    Args:
        caption: What it is, in a line.
        rows: Each with the same columns; the first hundred are shown.
        notes: What else there is to say, below it.

    Returns:
        HTML in which every text is escaped, whoever it is by.
    """
    from html import escape

    def shown(cell: Cell) -> str:
        if isinstance(cell, float):
            return f"{cell:g}"
        return "" if cell is None else escape(one_line(str(cell)))

    left = len(rows) - _MOST
    notes = [*notes, *([f"{left} more are not shown."] if left > 0 else [])]
    columns = list(rows[0]) if rows else []
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{shown(row[column])}</td>' for column in columns)}</tr>" for row in rows[:_MOST]
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>" if rows else ""
    below = "".join(f"<p>{shown(note)}</p>" for note in notes)
    return f"<table><caption>{shown(caption)}</caption>{table}</table>{below}"
