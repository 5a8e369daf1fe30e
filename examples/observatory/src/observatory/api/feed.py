"""The feed of changes: updates of some episodes since a cursor, with long polling."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Literal

import anyio
import sqlalchemy as sa
from fastapi import Query
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api

from ..episodes.access import view_of, visible
from ..errors import Refusal
from ..identity.auth import Caller
from ..services import Services
from ..store.change_notifier import last_revision
from ..store.columns import JsonObject, now
from ..store.models import EpisodeRequest, ExperienceRequest
from .episodes import split_ids
from .routing import Anyone, ApiRouter, Json, QueryModel, refusals

__all__ = ["lifespan", "router", "wait_for_changes"]

router = ApiRouter(tags=["Episodes"])

LONGEST_WAIT = 25
"""The most seconds that a call may wait for a change."""

_GOOD_FOR = dt.timedelta(hours=24)


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Watch for changes on behalf of all waiting calls."""
    changes = services.runtime.changes
    async with anyio.create_task_group() as group:
        group.start_soon(changes.watch, services.database)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


class ChangesQuery(QueryModel):
    """The episodes to follow, and the cursor."""

    ids: list[str] = Field(description="1 to 50 ids, either all of episode requests or all of experience requests.")
    view: Literal["progress", "results"] = Field(default="progress", description="How much detail to return for each.")
    limit: int = Field(default=100, ge=1, le=200, description="Maximum number of entries in a response.")
    cursor: str | None = Field(default=None, max_length=400, description="`next_cursor` of the previous response.")
    wait_seconds: float = Field(default=0, ge=0, le=LONGEST_WAIT, description="How many seconds to wait for a change.")


@dataclass(frozen=True)
class _Cursor:
    """The position of a reader."""

    seen: int
    """Number of the last change that the reader knows."""
    snapshot: int
    """Number of the last change when the reader began: it gets the state up to here, and then changes."""
    what: str
    """Digest of the ids that it follows."""
    begun: int
    """Its start, in seconds since 1970."""

    def text(self) -> str:
        packed = json.dumps([self.seen, self.snapshot, self.what, self.begun], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")


@router.get("/v2/episode-requests/changes", response_model=api.ChangePage, responses=refusals(404, 409, 410))
async def get_changes(call: Anyone, query: Annotated[ChangesQuery, Query()]) -> Json:
    """Changes of some episodes since a cursor, or their state without one. May wait for a change."""
    ids, kind = split_ids(query.ids)
    what = hashlib.sha256("\n".join((query.view, *sorted(ids))).encode()).hexdigest()[:16]
    cursor = await _begin(call.services, query.cursor, what)
    page = await wait_for_changes(
        call.services, call.caller, ids, kind, after=cursor.seen, limit=query.limit, seconds=query.wait_seconds
    )
    if page is None:
        raise Refusal(404, "None of these requests exists, or you may not see them.", code="not_found")
    view = view_of(call.services, call.caller)
    following = _Cursor(page.seen, cursor.snapshot, cursor.what, cursor.begun)
    return Json(
        {
            "batches": page.batches,
            "phase": "snapshot" if cursor.seen < cursor.snapshot else "changes",
            "entries": [
                {
                    "id": row.id,
                    "experience_request_id": row.experience_request_id,
                    "revision": row.revision,
                    "removed": False,
                    "episode": view.progress(row, results=query.view == "results"),
                }
                for row in page.rows
            ],
            "next_cursor": following.text(),
            "has_more": page.more,
            "poll_after_seconds": 0 if page.more or page.rows else 1,
            "expires_at": dt.datetime.fromtimestamp(cursor.begun, dt.UTC) + _GOOD_FOR,
        }
    )


@dataclass(frozen=True)
class Changes:
    """Changes after a given one."""

    rows: Sequence[EpisodeRequest]
    """Episodes that changed, by the number of their last change."""
    batches: list[JsonObject]
    seen: int
    """All changes up to this number are included."""
    more: bool


async def wait_for_changes(
    services: Services,
    caller: Caller,
    ids: Sequence[str],
    kind: Literal["ereq", "xreq"],
    *,
    after: int,
    limit: int,
    seconds: float,
) -> Changes | None:
    """Read changes of some requests after a given change; None if the caller may see none of them.

    Args:
        services: The Observatory.
        caller: The caller.
        ids: The ids to follow.
        kind: The kind of the ids.
        after: The last known change.
        limit: Most episodes to return.
        seconds: How long to wait if there is no change.
    """
    deadline = anyio.current_time() + seconds
    while True:
        newest = await last_revision(services.database)
        async with services.database.reading() as session:
            changes = await _changes(session, services, caller, ids, kind, after=after, limit=limit)
        if changes is None or changes.rows or changes.seen > after:
            return changes
        left = deadline - anyio.current_time()
        if left <= 0 or services.runtime.changes.closed:
            return changes
        await services.runtime.changes.wait_beyond(newest, timeout=left)


async def _changes(
    session: AsyncSession,
    services: Services,
    caller: Caller,
    ids: Sequence[str],
    kind: Literal["ereq", "xreq"],
    *,
    after: int,
    limit: int,
) -> Changes | None:
    seen = visible(caller, public=services.settings.public)
    column = EpisodeRequest.id if kind == "ereq" else EpisodeRequest.experience_request_id
    batches, newest = await _batches(session, ids, kind, seen)
    if not batches:
        return None
    rows = (
        await session.scalars(
            sa.select(EpisodeRequest)
            .where(column.in_(ids), seen, EpisodeRequest.revision > after)
            .order_by(EpisodeRequest.revision)
            .limit(limit + 1)
        )
    ).all()
    more, rows = len(rows) > limit, rows[:limit]
    last = rows[-1].revision if rows else after
    return Changes(rows=rows, batches=batches, seen=last if more else max(last, newest, after), more=more)


async def _batches(
    session: AsyncSession, ids: Sequence[str], kind: Literal["ereq", "xreq"], seen: sa.ColumnElement[bool]
) -> tuple[list[JsonObject], int]:
    """The states of the followed requests, and the number of the last change of a whole request."""
    if kind == "ereq":
        found = await session.execute(
            sa.select(EpisodeRequest.id, EpisodeRequest.status).where(EpisodeRequest.id.in_(ids), seen)
        )
        return [{"id": key, "status": status, "episode_count": 1} for key, status in found], 0
    mine = sa.select(EpisodeRequest.experience_request_id).where(EpisodeRequest.experience_request_id.in_(ids), seen)
    rows = (
        await session.execute(
            sa.select(
                ExperienceRequest.id,
                ExperienceRequest.status,
                ExperienceRequest.episode_count,
                ExperienceRequest.revision,
            ).where(ExperienceRequest.id.in_(mine))
        )
    ).all()
    return (
        [{"id": row.id, "status": row.status, "episode_count": row.episode_count} for row in rows],
        max((row.revision for row in rows), default=0),
    )


async def _begin(services: Services, text: str | None, what: str) -> _Cursor:
    newest = await last_revision(services.database)
    moment = int(now().timestamp())
    if text is None:
        return _Cursor(0, newest, what, moment)
    try:
        seen, snapshot, digest, begun = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not all(type(number) is int and 0 <= number < 1 << 53 for number in (seen, snapshot, begun)):
            raise ValueError(text)
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise Refusal(400, "The cursor is invalid. Start again without a cursor.", code="bad_cursor") from error
    if digest != what:
        raise Refusal(
            409,
            "The cursor belongs to different ids or a different view. Start again without a cursor.",
            code="other_cursor",
        )
    if seen > newest or moment - begun > _GOOD_FOR.total_seconds():
        raise Refusal(410, "The cursor has expired. Start again without a cursor.", code="cursor_expired")
    return _Cursor(seen, snapshot, what, begun)
