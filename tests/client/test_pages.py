"""One pager over every way servers page, and over the ways they fail to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import httpx2
import pytest
from pydantic_core import to_json

from coworld_client import ApiShapeError, AsyncPager, Page
from coworld_client.transport._replies import Reply
from coworld_core.api import Game
from coworld_core.errors import UsageError

ROWS = [{"id": f"game_{number}", "name": f"g{number}", "created_at": "2026-01-01T00:00:00Z"} for number in range(25)]


class Server:
    """A list of rows, paged in one way."""

    def __init__(self, kind: str, rows: list[Any] | None = None, *, most: int = 1000) -> None:
        self.kind = kind
        self.rows: list[Any] = list(ROWS if rows is None else rows)
        self.most = most
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, *, limit: int | None, offset: int | None, cursor: str | None) -> Reply:
        self.asked.append({"limit": limit, "offset": offset, "cursor": cursor})
        headers: dict[str, str] = {}
        size = min(limit or self.most, self.most)
        start = int(cursor.removeprefix("c")) if cursor else offset or 0
        part = self.rows[start : start + size]
        after = f"c{start + size}" if start + size < len(self.rows) else None
        body: Any = part
        match self.kind:
            case "total":
                body = {"entries": part, "total_count": len(self.rows), "limit": size, "offset": start}
            case "cursor":
                body = {"entries": part, "next_cursor": after}
            case "header":
                headers = {"X-Next-Cursor": after} if after else {}
            case "bare":
                pass
            case "deaf":  # takes no notice of limit and offset
                body = self.rows
            case "cut":  # takes a limit and no offset
                body = self.rows[:size]
            case _:
                raise AssertionError(self.kind)
        return Reply(status=200, headers=httpx2.Headers(headers), content=to_json(body), what="GET /rows")


KINDS = ["total", "cursor", "header", "bare", "deaf"]


def pager(server: Any, **options: Any) -> AsyncPager[Game]:
    return AsyncPager(server, Game, **{"page_size": 10, **options})


def keeping(test: Callable[[Game], bool]) -> Callable[[], Awaitable[Callable[[Game], bool]]]:
    async def prepare() -> Callable[[Game], bool]:
        return test

    return prepare


async def first_page(rows: AsyncPager[Game]) -> Page[Game]:
    async with aclosing(rows.pages()) as pages:
        return await anext(pages)


def even(row: Game) -> bool:
    return int(row.id.removeprefix("game_")) % 2 == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_all_rows_once_and_in_order(kind: str) -> None:
    assert [row.id async for row in pager(Server(kind))] == [row["id"] for row in ROWS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [0, 1, 10, 11, 24, 25, 26])
async def test_a_limit_is_exact(kind: str, limit: int) -> None:
    server = Server(kind)
    assert [row.id for row in await pager(server, limit=limit)] == [row["id"] for row in ROWS[:limit]]
    if limit == 0:
        assert not server.asked


@pytest.mark.parametrize("kind", ["total", "bare"])
async def test_an_offset_skips(kind: str) -> None:
    assert [row.id for row in await pager(Server(kind), offset=7, limit=5)] == [r["id"] for r in ROWS[7:12]]
    assert await pager(Server(kind), offset=99) == []


async def test_an_offset_into_a_list_that_comes_whole() -> None:
    server = Server("deaf")
    page = await first_page(pager(server, offset=7, limit=5, whole=True))
    assert [row.id for row in page.items] == [row["id"] for row in ROWS[7:12]]
    assert (page.total, page.has_more) == (25, True)
    assert server.asked == [{"limit": None, "offset": None, "cursor": None}]


@pytest.mark.parametrize("kind", KINDS)
async def test_awaiting_gives_all_rows_as_streaming_does(kind: str) -> None:
    rows = pager(Server(kind))
    assert await rows == [row async for row in rows]
    assert len(await rows) == 25


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_is_all_that_is_asked_for(kind: str) -> None:
    server = Server(kind)
    page = await first_page(pager(server))
    assert page.items[0].id == "game_0"
    assert len(server.asked) == 1
    if kind != "deaf":
        assert len(page) == 10
        assert page.has_more
    assert page.total == (25 if kind == "total" else None)
    assert page.next_cursor == ("c10" if kind in ("cursor", "header") else None)


async def test_cursor_continues_after_a_page() -> None:
    server = Server("cursor")
    first = await first_page(pager(server))
    rest = await pager(server, cursor=first.next_cursor)
    assert [row.id for row in (*first.items, *rest)] == [row["id"] for row in ROWS]
    assert server.asked[1] == {"limit": 10, "offset": None, "cursor": "c10"}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_empty_list_is_one_empty_page(kind: str) -> None:
    pages = [page async for page in pager(Server(kind, [])).pages()]
    assert [page.items for page in pages] == [()]
    assert not pages[0].has_more


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [None, 1, 3, 7, 13, 50])
async def test_with_a_filter_the_limit_counts_matches_and_pages_are_full(kind: str, limit: int | None) -> None:
    pages = [page async for page in pager(Server(kind), keep=keeping(even), limit=limit, page_size=4).pages()]
    wanted = [row["id"] for row in ROWS[::2]][:limit]
    assert [row.id for page in pages for row in page.items] == wanted
    assert all(len(page) == 4 for page in pages[:-1])
    assert all(page.total is None for page in pages)


async def test_a_filter_that_keeps_one_row_at_the_very_end_still_finds_it() -> None:
    server = Server("total")
    rows = await pager(server, keep=keeping(lambda row: row.id == "game_24"), limit=5)
    assert [row.id for row in rows] == ["game_24"]
    assert len(server.asked) == 3


async def test_the_filter_is_prepared_once_and_only_when_needed() -> None:
    prepared = 0

    async def prepare() -> Callable[[Game], bool]:
        nonlocal prepared
        prepared += 1
        return even

    rows = pager(Server("total"), keep=prepare)
    assert prepared == 0
    assert len(await rows) == 13
    assert prepared == 1


async def test_a_limit_is_not_exceeded_in_what_is_asked_for() -> None:
    server = Server("total")
    await pager(server, limit=13)
    assert [asked["limit"] for asked in server.asked] == [10, 3]


async def test_rows_inserted_meanwhile_are_not_given_twice() -> None:
    server = Server("total")
    found: list[str] = []
    async for page in pager(server).pages():
        found += [row.id for row in page.items]
        if len(server.asked) == 1:
            server.rows[:0] = [{"id": "game_new", "name": "new", "created_at": "2026-01-01T00:00:00Z"}]
    assert found == [row["id"] for row in ROWS]


async def test_rows_without_an_id_are_all_given() -> None:
    assert len(await pager(Server("total", [{"name": "a"}, {"name": "a"}]))) == 2


async def test_an_empty_page_with_a_cursor_is_not_the_end() -> None:
    answers = iter([([ROWS[0]], "a"), ([], "b"), ([], "c"), ([ROWS[1]], None)])

    async def server(*, limit: int | None, offset: int | None, cursor: str | None) -> Reply:
        entries, after = next(answers)
        content = to_json({"entries": entries, "next_cursor": after})
        return Reply(status=200, headers=httpx2.Headers(), content=content, what="GET /rows")

    assert [len(page) async for page in pager(server).pages()] == [1, 1]


def always(body: Any, **headers: str) -> Any:
    async def server(*, limit: int | None, offset: int | None, cursor: str | None) -> Reply:
        return Reply(status=200, headers=httpx2.Headers(headers), content=to_json(body), what="GET /rows")

    return server


async def test_a_cursor_that_comes_twice_is_an_error() -> None:
    with pytest.raises(ApiShapeError) as raised:
        await pager(always({"entries": ROWS[:1], "next_cursor": "same"}))
    assert raised.value.code == "repeated_cursor"
    with pytest.raises(ApiShapeError):
        await pager(always(ROWS[:1], **{"X-Next-Cursor": "same"}), cursor="same")


async def test_a_list_without_an_end_is_an_error() -> None:
    count = 0

    async def endless(*, limit: int | None, offset: int | None, cursor: str | None) -> Reply:
        nonlocal count
        count += 1
        content = to_json({"entries": [], "next_cursor": f"c{count}"})
        return Reply(status=200, headers=httpx2.Headers(), content=content, what="GET /rows")

    with pytest.raises(ApiShapeError) as raised:
        await pager(endless, max_pages=20)
    assert raised.value.code == "endless_pages"
    assert count == 20


async def test_wrong_total_does_not_loop_forever() -> None:
    with pytest.raises(ApiShapeError) as raised:
        await pager(always({"entries": ROWS[:10], "total_count": 10**9}))
    assert raised.value.code == "endless_pages"
    assert await pager(always({"entries": [], "total_count": 10**9})) == []
    assert len(await pager(always({"entries": ROWS[:3], "total_count": "many"}))) == 3


async def test_a_bare_list_that_takes_no_notice_of_the_offset_is_read_once() -> None:
    server = Server("cut", ROWS)
    pages = [page async for page in pager(server).pages()]
    assert [len(page) for page in pages] == [10, 0]
    assert [issue.code for issue in pages[1].odd] == ["list_cut"]
    assert len(server.asked) == 2


@pytest.mark.parametrize("body", [{"rows": []}, {"entries": {}}, "text", 3, {"entries": None}])
async def test_response_that_is_not_a_list_is_an_error(body: Any) -> None:
    with pytest.raises(ApiShapeError) as raised:
        await pager(always(body))
    assert raised.value.code == "not_a_list"


async def test_null_is_an_empty_list() -> None:
    assert await pager(always(None)) == []


async def test_odd_rows_are_kept_and_non_objects_are_reported() -> None:
    rows = [{"id": "game_a", "created_at": "never"}, 7, None, {"id": "game_b"}]
    page = await first_page(pager(Server("total", rows)))
    assert [row.id for row in page.items] == ["game_a", "game_b"]
    assert [issue.pointer for issue in page.odd] == ["/1", "/2"]
    assert page.items[0].odd
    only_odd = [page async for page in pager(Server("total", [1, 2])).pages()]
    assert [len(page.odd) for page in only_odd] == [2]


@pytest.mark.parametrize("options", [{"limit": -1}, {"offset": -1}, {"page_size": 0}])
async def test_invalid_paging_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        pager(Server("total"), **options)


async def test_pager_restarts_each_time() -> None:
    rows = pager(Server("cursor"))
    assert len(await rows) == len(await rows) == 25
