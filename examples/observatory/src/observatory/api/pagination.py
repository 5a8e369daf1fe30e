"""Paginated lists: newest first, by limit and offset, or by a cursor that new rows do not shift."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from pydantic import BaseModel, Field, field_validator
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.base import ExecutableOption

from coworld_core.errors import UsageError
from coworld_core.records import label_patterns

from ..errors import Refusal
from ..store.columns import JsonObject
from ..store.models import EpisodeRequest
from ..store.row_cache import RowCache
from .routing import Call, Json, QueryModel

__all__ = ["Envelope", "LabelledQuery", "Page", "PageQuery", "paginate", "paginate_episodes"]

_Row = TypeVar("_Row")
_Item = TypeVar("_Item")

MAX_LIMIT = 1000
"""Most rows of one page."""


class PageQuery(QueryModel):
    """The page of a list."""

    limit: int = Field(default=50, ge=1, le=MAX_LIMIT, description="Maximum number of rows in the page.")
    offset: int = Field(
        default=0, ge=0, le=10**9, description="Number of rows to skip; not allowed together with a cursor."
    )
    cursor: str | None = Field(default=None, max_length=400, description="`next_cursor` of the previous page.")


class LabelledQuery(PageQuery):
    """The page of a list of what has labels."""

    tags: list[str] | None = Field(
        default=None,
        max_length=20,
        description="Only what has these labels: `NAME=VALUE`, where `*`, `?` and `[…]` are wildcards, or `NAME`.",
    )

    @field_validator("tags")
    @classmethod
    def _patterns(cls, tags: list[str] | None) -> list[str] | None:
        try:
            label_patterns(tags or ())
        except UsageError as error:
            raise ValueError(f"{error.message} {error.hint}") from None
        return tags

    @property
    def labels(self) -> dict[str, str]:
        """The patterns, by name of the label."""
        return label_patterns(self.tags or ())


class Envelope(BaseModel, Generic[_Item]):
    """The JSON form of a page, for the OpenAPI document."""

    entries: list[_Item] = Field(description="The rows.")
    total_count: int = Field(description="Number of rows in all pages.")
    limit: int = Field(description="Maximum number of rows in a page.")
    offset: int = Field(description="Number of rows before this page.")
    next_cursor: str | None = Field(default=None, description="Cursor of the next page; null on the last page.")


@dataclass(frozen=True)
class Page(Generic[_Row]):
    """One page of a list."""

    rows: Sequence[_Row]
    total: int
    """The number of rows of all pages."""
    limit: int
    offset: int
    next_cursor: str | None
    """Where the next page begins; None at the end."""

    def envelope(self, render: Callable[[_Row], Any]) -> JsonObject:
        """The page as an object, with `entries`."""
        return {
            "entries": [render(row) for row in self.rows],
            "total_count": self.total,
            "limit": self.limit,
            "offset": self.offset,
            "next_cursor": self.next_cursor,
        }

    def bare(self, render: Callable[[_Row], Any]) -> Json:
        """The page as a bare list, the cursor in a header."""
        headers = {"X-Total-Count": str(self.total)}
        if self.next_cursor is not None:
            headers["X-Next-Cursor"] = self.next_cursor
        return Json([render(row) for row in self.rows], headers=headers)


async def paginate(
    session: AsyncSession,
    statement: sa.Select[_Row],
    page: PageQuery,
    *,
    moment: InstrumentedAttribute[dt.datetime],
    key: InstrumentedAttribute[str],
    options: Sequence[ExecutableOption] = (),
    remembered: RowCache[_Row] | None = None,
) -> Page[_Row]:
    """Read one page of a statement's rows, newest first.

    Args:
        session: A session.
        statement: Selects rows of the class of `key`, filtered but not ordered.
        page: The page.
        moment: The column with a row's creation time.
        key: The id column, which orders rows of equal time.
        options: Loader options for each row.
        remembered: Rows that were read before and are not loaded again; loaded without `options`.

    Raises:
        Refusal: 400 for an invalid cursor.
    """
    remembered = remembered or RowCache(key, (), most=0)
    keys = statement.with_only_columns(key, maintain_column_froms=True).order_by(None)
    total = await session.scalar(sa.select(sa.func.count()).select_from(keys.subquery())) or 0
    wanted = keys.with_only_columns(*remembered.columns, maintain_column_froms=True)
    wanted = wanted.order_by(moment.desc(), key.desc()).limit(page.limit + 1)
    if page.cursor is not None:
        at, last = _decode(page.cursor)
        wanted = wanted.where(sa.or_(moment < at, sa.and_(moment == at, key < last)))
    elif page.offset:
        wanted = wanted.offset(page.offset)

    async def load(ids: list[str]) -> Sequence[_Row]:
        whole: sa.Select[_Row] = sa.select(key.class_).options(*options).where(key.in_(ids))
        return (await session.scalars(whole)).unique().all()

    # The database filters and sorts only keys; whole rows are loaded for one page.
    found = [tuple(row) for row in await session.execute(wanted)]
    by_id = await remembered.rows(found, load)
    rows = [by_id[version[0]] for version in found if version[0] in by_id]
    more, rows = len(rows) > page.limit, rows[: page.limit]
    cursor = _encode(getattr(rows[-1], moment.key), getattr(rows[-1], key.key)) if more and rows else None
    return Page(rows=rows, total=total, limit=page.limit, offset=page.offset, next_cursor=cursor)


async def paginate_episodes(call: Call, statement: sa.Select[EpisodeRequest], page: PageQuery) -> Page[EpisodeRequest]:
    """Read one page of episodes, newest first.

    Args:
        call: The request.
        statement: Selects episodes, filtered but not ordered.
        page: The page.

    Raises:
        Refusal: 400 for an invalid cursor.
    """
    moment, key = EpisodeRequest.created_at, EpisodeRequest.id
    return await paginate(call.db, statement, page, moment=moment, key=key, remembered=call.services.episodes)


def _encode(at: dt.datetime, last: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([at.isoformat(), last]).encode()).decode().rstrip("=")


def _decode(cursor: str) -> tuple[dt.datetime, str]:
    try:
        at, last = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        moment = dt.datetime.fromisoformat(at)
        if not isinstance(last, str) or moment.tzinfo is None or "\0" in last:
            raise ValueError(cursor)
    except (ValueError, TypeError, binascii.Error, RecursionError, OverflowError) as error:
        raise Refusal(
            400, "The cursor is invalid for this list. Start again without a cursor.", code="bad_cursor"
        ) from error
    return moment, last
