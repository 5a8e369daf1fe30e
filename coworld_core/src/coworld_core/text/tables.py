"""Values as tables: HTML for notebooks, and flat rows for data frames."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError
from ..lazy import load_library

__all__ = ["Cell", "TableRow", "Tabular", "csv_text", "html_table", "one_line"]

Cell = str | int | float | bool | None
"""A value in a row: never nested."""

TableRow = dict[str, Cell]
"""One row, by column name."""

_MOST = 100
"""Maximum number of rows in an HTML table."""


def one_line(text: str) -> str:
    """Make untrusted text fit on one line: characters that are invisible or would end the line are escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def html_table(caption: str, rows: Sequence[Mapping[str, Cell]], *, notes: Sequence[str] = ()) -> str:
    """Format rows as an HTML table for a notebook.

    Args:
        caption: One line above the table.
        rows: The rows, all with the same columns; the first hundred are shown.
        notes: Paragraphs below the table.

    Returns:
        HTML in which all text is escaped.
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


def csv_text(rows: Sequence[Mapping[str, Cell]]) -> str:
    """Rows that all have the same columns as CSV, with a line of column names; missing values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


class Tabular(ABC):
    """Base class for values that convert to flat rows, and to data frames of whichever library is installed."""

    @abstractmethod
    def to_records(self) -> list[TableRow]:
        """Flat rows, all with the same columns."""

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`.

        Raises:
            EnvironmentFault: pandas is not installed (`not_installed`).
        """
        return _library("pandas").DataFrame.from_records(self.to_records())

    def to_polars(self) -> Any:
        """The rows as a `polars.DataFrame`.

        Raises:
            EnvironmentFault: polars is not installed (`not_installed`).
        """
        return _library("polars").DataFrame(self.to_records(), infer_schema_length=None)

    def to_bytes(self, suffix: str) -> bytes:
        """The rows as the content of a file.

        Args:
            suffix: The ending of the file's name: `.csv` or `.parquet`.

        Raises:
            UsageError: It is another one (`bad_table_file`).
            EnvironmentFault: pyarrow is not installed, for Parquet (`not_installed`).
        """
        if suffix.lower() == ".csv":
            return csv_text(self.to_records()).encode()
        if suffix.lower() != ".parquet":
            raise UsageError(
                f"Tables are not written as {suffix!r}.",
                code="bad_table_file",
                hint="End the name in .csv or .parquet.",
            )
        hint = "pip install 'coworld-core[parquet]'"
        arrow, written = load_library("pyarrow", hint), io.BytesIO()
        load_library("pyarrow.parquet", hint).write_table(arrow.Table.from_pylist(self.to_records()), written)
        return written.getvalue()


def _library(name: str) -> Any:
    return load_library(name, f"pip install {name}; or use the plain rows that to_records() returns.")
