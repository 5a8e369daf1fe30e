"""Paged lists: await one for a list of its items, or iterate over it to stream them.

Servers page in several ways: an envelope with ``total_count`` or with ``next_cursor``, a bare list with the header
``X-Next-Cursor``, a bare list selected by ``limit`` and ``offset``, and a list that is always complete. Callers need
not know which.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from coworld_core.api import Wire, read_entries
from coworld_core.errors import UsageError
from coworld_core.issues import Issue

from .errors import ApiShapeError
from .transport._replies import Reply

__all__ = ["AsyncPager", "Page"]

_T = TypeVar("_T", bound=Wire)

_MAX_PAGES = 10_000
_MAX_STALE = 3
"""Most consecutive pages by offset without a new row; a list that grows this fast cannot be read by offset."""


@dataclass(frozen=True, kw_only=True)
class Page(Generic[_T]):
    """Some rows of a list."""

    items: tuple[_T, ...]
    """The rows."""
    total: int | None = None
    """Number of rows in the whole list, if the server reports it and the client filters nothing."""
    next_cursor: str | None = None
    """Where the next page begins, if the server pages by cursor; None at the end."""
    offset: int | None = None
    """Index in the whole list of the server's first row of this page, if the server pages by offset."""
    has_more: bool = False
    """Whether the server had more rows when this page was made."""
    odd: tuple[Issue, ...] = ()
    """Rows left out because they are not objects, with a pointer into the server's page; also a ``list_cut`` issue if
    the server may have rows that it gives no access to."""

    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Everything else in the server's answer, as JSON."""

    def __len__(self) -> int:
        return len(self.items)


class Fetch(Protocol):
    """Gets one page of a list from the server."""

    def __call__(self, *, limit: int | None, offset: int | None, cursor: str | None) -> Awaitable[Reply]:
        """Request a page; arguments that are None are not sent."""
        ...


class AsyncPager(Generic[_T]):
    """A list on a server.

    ``await pager`` gives its rows as a list, ``async for row in pager`` streams them, and ``pager.pages()`` gives its
    pages. Nothing is requested before that, and each use starts from the beginning.

    Args:
        fetch: Gets one page.
        model: The type of the rows.
        limit: The most rows to return, after filters; all by default.
        offset: How many rows of the server's list to skip.
        cursor: Where to begin: the ``next_cursor`` of a page.
        page_size: Rows to request at a time.
        keep: Prepares the filter, which returns whether to keep a row; awaited once per use, before the first page.
        whole: Whether the server returns the complete list at once and takes no limit.
        max_pages: Pages to read before the list counts as endless.

    Raises:
        UsageError: Code ``bad_limit``, for an invalid limit, offset or page size.
    """

    def __init__(
        self,
        fetch: Fetch,
        model: type[_T],
        *,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        page_size: int = 100,
        keep: Callable[[], Awaitable[Callable[[_T], bool]]] | None = None,
        whole: bool = False,
        max_pages: int = _MAX_PAGES,
    ) -> None:
        if (limit is not None and limit < 0) or offset < 0 or page_size < 1:
            raise UsageError("limit and offset must not be negative, and page_size at least 1.", code="bad_limit")
        self._fetch = fetch
        self._model = model
        self._limit = limit
        self._offset = offset
        self._cursor = cursor
        self._page_size = page_size
        self._keep = keep
        self._whole = whole
        self._max_pages = max_pages

    def __await__(self) -> Generator[Any, Any, list[_T]]:
        return self._all().__await__()

    async def __aiter__(self) -> AsyncIterator[_T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def _all(self) -> list[_T]:
        return [item async for item in self]

    async def pages(self) -> AsyncGenerator[Page[_T]]:
        """The list page by page. Only the last can be empty; with a filter each but the last is full.

        Raises:
            ApiShapeError: A cursor repeats, the list has no end, or the answer is not a list.
        """
        if self._limit == 0:
            yield Page(items=())
            return
        keep = await self._keep() if self._keep is not None else None
        reader = _Reader(self._fetch, self._model, self._offset, self._cursor, whole=self._whole)
        waiting: list[_T] = []
        odd: list[Issue] = []
        given = 0
        while not reader.ended:
            if reader.pages >= self._max_pages:
                raise ApiShapeError(f"A list does not end: {reader.pages} pages were read.", code="endless_pages")
            left = None if self._limit is None else self._limit - given
            ask = self._page_size if keep is not None or left is None else min(self._page_size, left)
            start = reader.offset
            rows, issues = await reader.read(ask)
            odd += issues
            waiting += rows if keep is None else filter(keep, rows)
            # with a filter, the client cuts the pages, so that only the last can be short
            size = len(waiting) if keep is None else self._page_size
            while waiting and (len(waiting) >= size or reader.ended or (left is not None and len(waiting) >= left)):
                items = waiting[:size][:left]
                del waiting[: len(items)]
                given += len(items)
                left = None if self._limit is None else self._limit - given
                yield Page(
                    items=tuple(items),
                    total=reader.total if keep is None else None,
                    next_cursor=None if waiting else reader.cursor,
                    offset=start if keep is None and reader.cursor is None else None,
                    has_more=bool(waiting) or not reader.ended,
                    odd=tuple(odd),
                    extra=reader.extra,
                )
                odd.clear()
                if left == 0:
                    return
        if odd or not given:
            total = reader.total if keep is None else None
            yield Page(items=(), total=total, odd=tuple(odd), extra=reader.extra)


class _Reader(Generic[_T]):
    """Reads a server's list page by page, in any style of paging, and returns each row once."""

    def __init__(self, fetch: Fetch, model: type[_T], offset: int, cursor: str | None, *, whole: bool) -> None:
        self.offset = offset
        self.cursor = cursor
        self.total: int | None = None
        self.extra: Mapping[str, Any] = {}
        self.pages = 0
        self.ended = False
        self._fetch = fetch
        self._model = model
        self._whole = whole
        self._by_cursor = cursor is not None
        self._cursors = {cursor}
        self._ids: set[str] = set()
        self._stale = 0

    async def read(self, limit: int) -> tuple[list[_T], tuple[Issue, ...]]:
        """The new rows of the next page, and the issues found in it."""
        reply = await self._fetch(
            limit=None if self._whole else limit,
            offset=None if self._whole or self._by_cursor else self.offset,
            cursor=self.cursor,
        )
        self.pages += 1
        entries, cursor, total, self.extra = _opened(reply)
        skipped = self.offset if self._whole else 0
        rows, odd = read_entries(self._model, entries[skipped:])
        fresh = self._unseen(rows)
        self.total = total if total is not None else len(entries) if self._whole else self.total
        self.offset += len(entries)
        if cursor is not None:
            self._by_cursor = True
            if cursor in self._cursors:
                raise ApiShapeError(f"{reply.what} returned the same cursor twice.", code="repeated_cursor")
            self._cursors.add(cursor)
        elif self._by_cursor or self._whole or not entries:
            self.ended = True
        elif total is not None:
            self.ended = self.offset >= total
        else:
            # a bare list ends with a page shorter than requested, or one that ignores the limit
            self.ended = len(entries) != limit
        self.cursor = cursor
        if cursor is None and not self.ended:
            self._stale = 0 if fresh or odd else self._stale + 1
            # a bare list that repeats: its server ignores the offset
            if self._stale and total is None:
                self.ended = True
                odd = (*odd, _cut(reply.what, len(entries)))
            if self._stale > _MAX_STALE:
                raise ApiShapeError(f"{reply.what} keeps returning the same rows.", code="endless_pages")
        return fresh, odd

    def _unseen(self, rows: Iterable[_T]) -> list[_T]:
        """The rows not seen before: rows inserted meanwhile push earlier ones into the next page again."""
        fresh: list[_T] = []
        for row in rows:
            identity: object = getattr(row, "id", "")
            if isinstance(identity, str) and identity:
                if identity in self._ids:
                    continue
                self._ids.add(identity)
            fresh.append(row)
        return fresh


def _cut(what: str, rows: int) -> Issue:
    message = f"{what} gives {rows} rows and no way to those after them; there may be more."
    return Issue(code="list_cut", severity="warning", message=message, hint="Ask for less, with the list's filters.")


def _opened(reply: Reply) -> tuple[list[Any], str | None, int | None, Mapping[str, Any]]:
    """Return the entries, the next cursor, the total and the remaining fields of a page of any style."""
    value = reply.json()
    header = reply.headers.get("x-next-cursor") or None
    match value:
        case None:
            return [], header, None, {}
        case list():
            return cast("list[Any]", value), header, None, {}
        case {"entries": entries, **rest} if isinstance(entries, list):
            cursor, total = rest.pop("next_cursor", None), rest.pop("total_count", None)
            cursor = str(cursor) if cursor not in (None, "") else header
            counted = isinstance(total, int) and not isinstance(total, bool) and total >= 0
            return cast("list[Any]", entries), cursor, total if counted else None, rest
        case _:
            raise ApiShapeError(f"The answer to {reply.what} is not a list.", code="not_a_list")
