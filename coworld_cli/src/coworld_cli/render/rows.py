"""Output of a platform's rows: tables for people, JSON for programs.

A table has one line for each row. Ids are never cut; free text is shortened only on a terminal that is too narrow.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from coworld_core.text import plural

from .. import exitcodes
from .text import clean, shown_name, table, width

if TYPE_CHECKING:
    from coworld_client import AsyncPager, Page
    from coworld_core.api import Wire

    from ..options.platform import Listing
    from ..output import Output

__all__ = [
    "Column",
    "Styled",
    "cell",
    "dump",
    "rows_table",
    "show_list",
    "show_one",
    "show_rows",
    "status_word",
    "when",
]

_T = TypeVar("_T")
_M = TypeVar("_M", bound="Wire")

_SHORTEST = 12
"""The minimum width of a column of free text, in characters."""

_COLOURS = {
    "completed": "green",
    "placed": "green",
    "ready": "green",
    "passed": "green",
    "competing": "green",
    "running": "cyan",
    "processing": "cyan",
    "failed": "red",
    "lost": "red",
    "rejected": "red",
    "disqualified": "red",
    "ended": "yellow",
    "expired": "yellow",
    "cancelled": "yellow",
    "canceled": "yellow",
}


@dataclass(frozen=True)
class Column(Generic[_T]):
    """One column of a table.

    Args:
        title: The heading.
        text: Returns the column's text for a row.
        right: Whether to align the column to the right.
        free: Whether the column is prose, which may be shortened to fit a terminal.
    """

    title: str
    text: Callable[[_T], object]
    right: bool = False
    free: bool = False


class Styled(str):
    """Text with our own colour codes; they are removed from any other text."""

    __slots__ = ()


def cell(value: object) -> str:
    """A value as one line; `-` if it is missing."""
    if isinstance(value, Styled):
        return value
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "-"
    if isinstance(value, datetime):
        return when(value)
    if isinstance(value, float):
        return f"{value:.4f}"
    return clean(str(value), one_line=True) or "-"


def when(value: datetime | str | None) -> str:
    """A time in the local time zone, to the minute; `-` for None."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return clean(value, one_line=True)
    if value is None:
        return "-"
    return (value.astimezone() if value.tzinfo is not None else value).strftime("%Y-%m-%d %H:%M")


def status_word(status: object) -> str:
    """A status in its colour."""
    word = cell(status)
    return Styled(click.style(word, fg=_COLOURS[word])) if word in _COLOURS else word


def rows_table(columns: Sequence[Column[_T]], rows: Iterable[_T]) -> str:
    """Rows under headings, aligned."""
    found = [[cell(column.text(row)) for column in columns] for row in rows]
    _fit(columns, found)
    head = [click.style(column.title, dim=True) for column in columns]
    right = [index for index, column in enumerate(columns) if column.right]
    return table([head, *found], right=right)


def _fit(columns: Sequence[Column[Any]], rows: list[list[str]]) -> None:
    """Shorten free text so that the lines fit the terminal; without a terminal nothing is shortened."""
    free = [index for index, column in enumerate(columns) if column.free]
    if not free or not rows or not sys.stdout.isatty():
        return
    widths = [max(width(column.title), *(width(row[index]) for row in rows)) for index, column in enumerate(columns)]
    over = sum(widths) + 2 * (len(columns) - 1) - shutil.get_terminal_size().columns
    for index in reversed(free):
        if over <= 0:
            return
        keep = max(_SHORTEST, widths[index] - over)
        over -= max(0, widths[index] - keep)
        for row in rows:
            if width(row[index]) > keep:
                row[index] = shown_name(row[index], most=keep)


def dump(row: Wire) -> dict[str, Any]:
    """A row as the platform sent it, with its computed fields."""
    return row.model_dump(mode="json", by_alias=True)


async def show_one(out: Output, asked: Awaitable[_M], details: Callable[[_M], str]) -> int:
    """Write one row: as an object under `--json`, else as text."""
    row = await asked
    out.answer(dump(row))
    out.say(details(row))
    return exitcodes.OK


async def show_rows(out: Output, asked: Awaitable[Sequence[_M]], columns: Sequence[Column[_M]], *, none: str) -> int:
    """Write a list that is not paged: a JSON list under `--json`, else a table.

    Args:
        out: Where to write.
        asked: The rows.
        columns: The columns of the table.
        none: Shown when there are no rows.
    """
    rows = await asked
    out.answer([dump(row) for row in rows])
    out.say(rows_table(columns, rows) if rows else none)
    return exitcodes.OK


async def show_list(
    out: Output,
    pager: AsyncPager[_M],
    columns: Sequence[Column[_M]],
    listing: Listing,
    *,
    noun: str,
    envelope: bool = False,
) -> int:
    """Write a list: rows as they come under `--jsonl`, a JSON list or envelope under `--json`, else a table.

    Args:
        out: Where to write.
        pager: The rows, limited as `listing` says.
        columns: The columns of the table.
        listing: Which part of the list to show.
        noun: The name of a row, for messages.
        envelope: Whether programs get `{entries, total_count, limit, offset, next_cursor}` rather than the bare list.
    """
    rows: list[_M] = []
    counts = _ListCounts()
    async for page in pager.pages():
        counts.add(page)
        if listing.jsonl:
            for row in page.items:
                out.line(dump(row))
        else:
            rows += page.items
    if not listing.jsonl:
        if envelope:
            known = counts.total if counts.total is not None else listing.offset + len(rows)
            out.answer(
                {
                    "entries": [dump(row) for row in rows],
                    "total_count": known,
                    "limit": listing.limit if listing.limit is not None else known,
                    "offset": listing.offset,
                    "next_cursor": counts.next_cursor,
                }
            )
        else:
            out.answer([dump(row) for row in rows])
        out.say(rows_table(columns, rows) if rows else f"There are no {noun}s.")
    counts.remark(out, plural(counts.count, noun), listing)
    return exitcodes.OK


@dataclass
class _ListCounts:
    """Remarks on a list: that there are more rows, and anything odd about it."""

    count: int = 0
    total: int | None = None
    more: bool = False
    next_cursor: str | None = None
    left_out: int = 0
    odd: int = 0
    first: str = ""

    def add(self, page: Page[Any]) -> None:
        """Add a page."""
        self.count += len(page.items)
        self.total = page.total if page.total is not None else self.total
        self.more = page.has_more
        self.next_cursor = page.next_cursor
        self.left_out += len(page.odd)
        for row in page.items:
            if row.odd:
                self.odd += 1
                self.first = self.first or clean(row.odd[0].message, one_line=True)

    def remark(self, out: Output, shown: str, listing: Listing) -> None:
        """Write the remarks."""
        if self.more:
            of = f" of {self.total}" if self.total is not None else ""
            first = f", from row {listing.offset + 1} on" if listing.offset else ""
            out.note(f"{shown}{of} shown{first}; --all lists all of them.")
        if self.left_out:
            out.warn(f"left out {plural(self.left_out, 'row')} that cannot be read.")
        if self.odd:
            out.warn(f"{plural(self.odd, 'row')} with unexpected values, the first: {self.first}")
