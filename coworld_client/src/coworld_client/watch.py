"""Follows episodes as they change, through the server's change feed or by polling."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import anyio

from coworld_core.api import (
    ChangeEntry,
    ChangePage,
    EpisodeProgress,
    EpisodeRequest,
    EpisodeView,
)
from coworld_core.errors import UsageError
from coworld_core.retries import Backoff, Tries

from ._many_ids import many_ids
from .errors import ApiError, ApiShapeError, ApiStatusError, ApiTimeoutError
from .transport._replies import read
from .transport._retry import worth_retrying

if TYPE_CHECKING:
    from .client import CoworldClient

__all__ = ["Change", "Changes", "Outage", "next_pause", "until_ended", "wait_at_most", "watch"]

_T = TypeVar("_T")

_LONGEST_WAIT = 25.0
_FEED = "/v2/episode-requests/changes"
_NO_FEED = frozenset({400, 404, 405, 422, 501})
"""Statuses of servers without a change feed: the path is unknown, or taken for an id."""
_NO_CURSOR = frozenset({400, 404, 409, 410, 422})
"""Statuses for a cursor that is too old or not the server's own."""
_MAX_RESTARTS = 5
"""How often in a row a feed may restart without reporting anything."""
_OWN_CURSOR = "asked."
"""Prefix of the client's own cursors, which hold the last seen state of each episode."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0


@dataclass(frozen=True, kw_only=True)
class Change:
    """An episode that was added, changed or removed."""

    id: str
    """`ereq_…`."""
    experience_request_id: str | None
    """The experience request it belongs to, if any."""
    episode: EpisodeProgress | None
    """Its current state; None when removed."""
    removed: bool = False
    """Whether it was removed."""
    cursor: str | None = field(repr=False)
    """Pass this to `watch` to resume after this change; changes of the same batch may be repeated."""


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """Changes that a source reported together, and the cursor after them."""

    entries: Sequence[ChangeEntry]
    cursor: str | None


class Changes:
    """Changes of episodes as they happen; iterate over it once.

    Attributes:
        cursor: The position after the changes yielded so far; pass it to `watch` to resume.
    """

    def __init__(self, feed: _Feed | None, asking: _Asking, *, cursor: str | None) -> None:
        self.cursor = cursor
        self._feed = feed
        self._asking = asking
        self._ready: deque[Change] = deque()
        self._last: dict[str, str] = {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._ready:
            source = self._feed or self._asking
            if source.done:
                raise StopAsyncIteration
            batch = await source.next()
            if batch is None:
                self._feed = None
            else:
                self._take(batch)
        change = self._ready.popleft()
        self.cursor = change.cursor
        return change

    def _take(self, batch: _Batch) -> None:
        fresh: list[ChangeEntry] = []
        for entry in batch.entries:
            mark = f"r{entry.revision}" if entry.revision else _digest(entry.episode)
            # A feed that restarts reports everything again
            if self._last.get(entry.id) != f"{entry.removed}{mark}":
                self._last[entry.id] = f"{entry.removed}{mark}"
                fresh.append(entry)
        if not fresh:
            self.cursor = batch.cursor or self.cursor
        for entry in fresh:
            self._ready.append(
                Change(
                    id=entry.id,
                    experience_request_id=entry.experience_request_id,
                    episode=None if entry.removed else entry.episode,
                    removed=entry.removed,
                    # The batch is complete only with its last change
                    cursor=batch.cursor if entry is fresh[-1] else self.cursor,
                )
            )


@asynccontextmanager
async def watch(
    client: CoworldClient,
    ids: Sequence[str],
    *,
    view: EpisodeView,
    cursor: str | None,
    until_done: bool,
    wait_seconds: float,
    retry_timeout: float,
) -> AsyncGenerator[Changes]:
    """Follow episodes; see `CoworldClient.watch`."""
    unique = many_ids(ids)
    asked = cursor is not None and cursor.startswith(_OWN_CURSOR)
    outage = Outage(retry_timeout)
    asking = _Asking(client, unique, _seen(cursor) if asked else {}, outage, until_done=until_done)
    wait = min(max(wait_seconds, 0.0), _LONGEST_WAIT)
    feed = None if asked else _Feed(client, unique, view, cursor, outage, wait, until_done=until_done)
    yield Changes(feed, asking, cursor=cursor)


async def until_ended(
    ask: Callable[[], Awaitable[_T]],
    *,
    ended: Callable[[_T], bool],
    on_change: Callable[[_T], object] | None = None,
    retry_timeout: float = 300,
) -> _T:
    """Ask for something's state, with growing pauses while it does not change, until it has ended.

    Args:
        ask: Returns the state.
        ended: Whether a state is the last one.
        on_change: Called with the first state and with each other one that differs from that before it.
        retry_timeout: Seconds to keep retrying while the server is unavailable.

    Returns:
        The last state.
    """
    outage = Outage(retry_timeout)
    before: _T | None = None
    pause = 0.0
    while True:
        now = await outage.survive(ask)
        changed = now != before
        if changed and on_change is not None:
            on_change(now)
        if ended(now):
            return now
        before = now
        pause = next_pause(pause, changed=changed)
        await anyio.sleep(pause)


async def wait_at_most(
    timeout: float | None, wait: Callable[[], Awaitable[_T]], *, id: str, hint: str | None = None
) -> _T:
    """Wait, but not longer than some seconds; None: as long as it takes.

    Raises:
        ApiTimeoutError: It has not ended in that time; `id` is what was waited for.
    """
    with anyio.move_on_after(timeout) as scope:
        return await wait()
    assert scope.cancelled_caught
    raise ApiTimeoutError(
        f"{id} has not ended within {timeout:g} s.", hint=hint or "It continues; wait again.", context={"id": id}
    )


def next_pause(pause: float, *, changed: bool) -> float:
    """Seconds until the next look, after a pause and what the look after it has shown."""
    return _FIRST_PAUSE if changed else min(max(pause, _FIRST_PAUSE) * 1.5, _LONGEST_PAUSE)


class Outage:
    """Retries while a server is unavailable, for a limited time."""

    def __init__(self, retry_timeout: float) -> None:
        self._retry_timeout = retry_timeout

    async def survive(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Return the answer of the call. Raises its error if that is permanent or lasts too long."""
        backoff = Backoff(base=2 * _FIRST_PAUSE, cap=_LONGEST_PAUSE, longest_wait=self._retry_timeout)
        tries = Tries(backoff, retry_timeout=self._retry_timeout, clock=anyio.current_time)
        while True:
            try:
                return await call()
            except ApiError as error:
                pause = tries.again(error.retry_after) if worth_retrying(error, "GET", keyed=False) else None
                if pause is None:
                    raise
            await anyio.sleep(pause)


class _Feed:
    """The server's change feed."""

    def __init__(
        self,
        client: CoworldClient,
        ids: Sequence[str],
        view: EpisodeView,
        cursor: str | None,
        outage: Outage,
        wait_seconds: float,
        *,
        until_done: bool,
    ) -> None:
        self.done = False
        self._client = client
        self._ids = ids
        self._view: EpisodeView = view
        self._cursor: str | None = cursor
        self._outage = outage
        self._wait = wait_seconds
        self._until_done = until_done
        self._restarts = 0
        self._first = True
        self._idle = 0.0
        """Seconds to wait before the next call, because the server had nothing to report."""

    async def next(self) -> _Batch | None:
        """The next changes, possibly none; None when the server has no feed."""
        if self._idle:
            await anyio.sleep(self._idle)
        began = anyio.current_time()
        try:
            page = await self._outage.survive(self._page)
        except ApiStatusError as error:
            if self._cursor is not None and error.status in _NO_CURSOR and self._restarts < _MAX_RESTARTS:
                self._restarts += 1
                self._cursor = None
                return _Batch(entries=(), cursor=None)
            if self._cursor is None and error.status in _NO_FEED:
                return None
            raise
        self._first = False
        if page.entries:
            self._restarts = 0
        repeated = page.next_cursor == self._cursor
        if repeated and page.has_more:
            raise ApiShapeError(
                "The change feed says that there is more, but does not advance.", code="repeated_cursor"
            )
        self._cursor = page.next_cursor or self._cursor
        over = bool(page.batches) and all(batch.status.is_terminal for batch in page.batches)
        self.done = self._until_done and over and not page.has_more
        took = anyio.current_time() - began
        self._idle = 0.0
        if not page.entries and not page.has_more:
            # Pause between calls to a server that does not hold them open
            least = _FIRST_PAUSE if took < _FIRST_PAUSE else 0.0
            self._idle = min(max(page.poll_after_seconds or 0.0, least), _LONGEST_PAUSE)
        return _Batch(entries=page.entries, cursor=self._cursor)

    async def _page(self) -> ChangePage:
        # The first page reports the current state: do not wait for episodes that are already over
        wait = 0 if self._first or self._cursor is None else math.ceil(self._wait)
        params = {"ids": self._ids, "view": self._view, "cursor": self._cursor, "wait_seconds": wait or None}
        connection = self._client.connection
        reply = await connection.call("GET", _FEED, params=params, timeout=connection.timeout + wait)
        return read(ChangePage, reply)


class _Asking:
    """Polls all episodes and compares their states."""

    def __init__(
        self, client: CoworldClient, ids: Sequence[str], seen: Mapping[str, str], outage: Outage, *, until_done: bool
    ) -> None:
        self.done = False
        self._client = client
        self._ids = ids
        self._seen = dict(seen)
        self._outage = outage
        self._until_done = until_done
        self._pause = 0.0

    async def next(self) -> _Batch:
        """The changes since the last poll, possibly none."""
        await anyio.sleep(self._pause)
        now: dict[str, tuple[EpisodeProgress, str | None]] = {}
        terminal = True
        for one in self._ids:
            if one.startswith("xreq_"):
                detail = await self._outage.survive(lambda one=one: self._client.experience.get(one))
                terminal &= detail.status.is_terminal
                now |= {row.id: (_in_short(row, one), one) for row in detail.episodes}
            else:
                row = await self._outage.survive(lambda one=one: self._client.episodes.get(one))
                terminal &= row.status.is_terminal
                now[row.id] = (_in_short(row, row.experience_request_id), row.experience_request_id)
        marks = {name: _digest(episode) for name, (episode, _) in now.items()}
        entries = [
            ChangeEntry(id=name, experience_request_id=request, revision=0, episode=episode)
            for name, (episode, request) in now.items()
            if self._seen.get(name) != marks[name]
        ]
        entries += [ChangeEntry(id=name, revision=0, removed=True) for name in self._seen if name not in now]
        self._seen = marks
        self.done = self._until_done and terminal
        self._pause = next_pause(self._pause, changed=bool(entries))
        return _Batch(entries=entries, cursor=_cursor(marks))


def _in_short(row: EpisodeRequest, request: str | None) -> EpisodeProgress:
    data = row.to_wire()
    names = ("id", "created_at", "status", "error_type", "scores", "participants", "replay_url", "error")
    return EpisodeProgress.read({**{name: data[name] for name in names}, "experience_request_id": request})


def _digest(episode: EpisodeProgress | None) -> str:
    data: Any = None if episode is None else episode.to_wire()
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]


def _cursor(marks: Mapping[str, str]) -> str:
    packed = zlib.compress(json.dumps(marks, separators=(",", ":")).encode(), 9)
    return _OWN_CURSOR + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _seen(cursor: str | None) -> dict[str, str]:
    text = (cursor or "").removeprefix(_OWN_CURSOR)
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        value: object = json.loads(zlib.decompressobj().decompress(packed, 1 << 24))
    except (ValueError, zlib.error):
        value = None
    if not isinstance(value, dict):
        raise UsageError("The cursor is not one of these changes.", code="bad_cursor", hint="Begin without one.")
    return {str(key): str(mark) for key, mark in cast("dict[str, Any]", value).items()}
