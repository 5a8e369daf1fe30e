"""Values as tables: in a notebook for people, and as flat rows for whatever makes data frames of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from .lazy import load_library

__all__ = ["Cell", "TableRow", "Tabular", "html_table", "one_line"]

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


class Tabular(ABC):
    """What can be had as flat rows, and so as a data frame of whichever library is installed."""

    @abstractmethod
    def to_records(self) -> list[TableRow]:
        """Flat rows, all with the same columns."""

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``.

        Raises:
            EnvironmentFault: Code ``not_installed``: pandas is not.
        """
        return _library("pandas").DataFrame.from_records(self.to_records())

    def to_polars(self) -> Any:
        """The rows as a ``polars.DataFrame``.

        Raises:
            EnvironmentFault: Code ``not_installed``: polars is not.
        """
        return _library("polars").DataFrame(self.to_records(), infer_schema_length=None)


def _library(name: str) -> Any:
    return load_library(name, f"pip install {name}; or take the rows as they are, by to_records().")
