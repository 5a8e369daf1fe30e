"""Following episodes: through a change feed with all its moods, and without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest
from support.fake_platform import NOW
from support.fake_server import Ask, Say, json_say, serve
from support.flaky_transport import Fault, FlakyTransport

import coworld_client.watch as watching
from coworld_client import (
    ApiConnectionError,
    ApiShapeError,
    ApiTimeoutError,
    Backoff,
    Change,
    CoworldClient,
    Gone,
    NotFound,
    ServerError,
)
from coworld_core.errors import UsageError

AT_ONCE = Backoff(base=0.0, cap=0.0)
XREQ = "xreq_1"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(watching, "_LONGEST_PAUSE", 0.0)


def api_of(server: str, *faults: Fault, **options: Any) -> CoworldClient:
    return CoworldClient(server, **{"transport": FlakyTransport(*faults), "backoff": AT_ONCE, **options})


class Feed:
    """A platform with a change feed over a script of episodes' states."""

    def __init__(self, *history: tuple[str, str], page: int = 100) -> None:
        self.history = list(history)
        """Episode and status, one change after the other."""
        self.page = page
        self.known = 1
        """How many changes have happened."""
        self.asked: list[dict[str, list[str]]] = []
        self.override: list[Callable[[dict[str, list[str]]], Say | None]] = []

    async def __call__(self, ask: Ask) -> Say:
        query = parse_qs(ask.target.partition("?")[2])
        assert ask.path == "/observatory/v2/episode-requests/changes"
        self.asked.append(query)
        for override in self.override:
            if (say := override(query)) is not None:
                return say
        cursor = query.get("cursor", [""])[0]
        start = int(cursor.removeprefix("c") or 0)
        if cursor and start >= self.known:
            self.known += 1  # The call is held until something happens
        end = min(start + self.page, self.known, len(self.history))
        states = dict(self.history[: self.known])
        over = self.known >= len(self.history)
        return json_say(
            {
                "batches": [{"id": XREQ, "status": "completed" if over else "running", "episode_count": len(states)}],
                "phase": "changes" if cursor else "snapshot",
                "entries": [
                    {
                        "id": name,
                        "experience_request_id": XREQ,
                        "revision": start + index + 1,
                        "removed": status == "removed",
                        "episode": None if status == "removed" else {"id": name, "created_at": NOW, "status": status},
                    }
                    for index, (name, status) in enumerate(self.history[start:end])
                ],
                "next_cursor": f"c{end}",
                "has_more": end < min(self.known, len(self.history)),
            }
        )


HISTORY = [
    ("ereq_1", "pending"),
    ("ereq_2", "pending"),
    ("ereq_1", "running"),
    ("ereq_1", "completed"),
    ("ereq_2", "failed"),
]


def told(changes: list[Change]) -> list[tuple[str, str]]:
    return [(change.id, str(change.episode.status) if change.episode else "removed") for change in changes]


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_every_change_is_reported_once_in_order(page: int) -> None:
    feed = Feed(*HISTORY, page=page)
    async with serve(feed) as server, api_of(server.url) as api, api.watch(XREQ) as changes:
        assert told([change async for change in changes]) == HISTORY
        assert changes.cursor == "c5"
    assert feed.asked[0] == {"ids": [XREQ], "view": ["progress"]}
    assert feed.asked[1]["wait_seconds"] == ["20"]


async def test_several_ids_and_the_other_view() -> None:
    feed = Feed(*HISTORY)
    async with (
        serve(feed) as server,
        api_of(server.url) as api,
        api.watch(["xreq_1", "xreq_2", "xreq_1"], view="results", wait_seconds=99) as changes,
    ):
        assert len([change async for change in changes]) == 5
    assert feed.asked[0] == {"ids": ["xreq_1", "xreq_2"], "view": ["results"]}
    assert feed.asked[1]["wait_seconds"] == ["25"]


@pytest.mark.parametrize("seen", range(1, 6))
@pytest.mark.parametrize("page", [1, 2, 100])
async def test_watch_resumes_from_a_cursor(seen: int, page: int) -> None:
    feed = Feed(*HISTORY, page=page)
    feed.known = 3
    first: list[Change] = []
    async with serve(feed) as server, api_of(server.url) as api:
        async with api.watch(XREQ) as changes:
            async for change in changes:
                first.append(change)
                if len(first) == seen:
                    break
        assert changes.cursor == first[-1].cursor
        async with api.watch(XREQ, cursor=changes.cursor) as changes:
            rest = [change async for change in changes]
    # What came together with the last change may come again, but nothing is missed
    assert told(first)[:seen] == HISTORY[:seen]
    assert told(rest) == HISTORY[len(HISTORY) - len(rest) :]
    assert len(rest) >= len(HISTORY) - seen
    if page == 1:
        assert len(rest) == len(HISTORY) - seen


async def test_watch_of_finished_episodes_ends_at_once() -> None:
    feed = Feed(*HISTORY)
    feed.known = len(HISTORY)
    async with serve(feed) as server, api_of(server.url) as api, api.watch(XREQ, cursor="c5") as changes:
        assert [change async for change in changes] == []
    assert feed.asked == [{"ids": [XREQ], "view": ["progress"], "cursor": ["c5"]}]


@pytest.mark.parametrize("status", [404, 409, 410])
async def test_expired_cursor_restarts_without_repeats(status: int) -> None:
    feed = Feed(*HISTORY, page=1)
    lost = iter([True])
    feed.override.append(
        lambda query: (
            json_say({"detail": "gone"}, status) if query.get("cursor") == ["c3"] and next(lost, False) else None
        )
    )
    async with serve(feed) as server, api_of(server.url) as api, api.watch(XREQ) as changes:
        found = told([change async for change in changes])
    assert found[-2:] == HISTORY[-2:]
    assert len(feed.asked) > len(HISTORY)
    assert sum("cursor" not in asked for asked in feed.asked) == 2


async def test_feed_that_keeps_restarting_is_abandoned() -> None:
    feed = Feed(*HISTORY, page=1)
    feed.override.append(lambda query: json_say({"detail": "gone"}, 410) if "cursor" in query else None)
    feed.override.append(lambda query: json_say({"next_cursor": "c1", "entries": [], "phase": "snapshot"}))
    async with serve(feed) as server, api_of(server.url) as api, api.watch(XREQ) as changes:
        with pytest.raises(Gone):
            async for _ in changes:
                pass


async def test_feed_that_does_not_advance_is_an_error() -> None:
    async def stuck(ask: Ask) -> Say:
        return json_say({"next_cursor": "c1", "entries": [], "has_more": True, "phase": "snapshot", "batches": []})

    async with serve(stuck) as server, api_of(server.url) as api, api.watch(XREQ) as changes:
        with pytest.raises(ApiShapeError) as raised:
            async for _ in changes:
                pass
    assert raised.value.code == "repeated_cursor"


async def test_removed_episode_is_reported() -> None:
    feed = Feed(("ereq_1", "pending"), ("ereq_1", "removed"))
    async with serve(feed) as server, api_of(server.url) as api, api.watch(XREQ) as changes:
        found = [change async for change in changes]
    assert told(found) == [("ereq_1", "pending"), ("ereq_1", "removed")]
    assert found[1].removed
    assert found[1].episode is None


async def test_watch_without_until_done_continues() -> None:
    feed = Feed(("ereq_1", "completed"))
    async with serve(feed) as server, api_of(server.url) as api, api.watch(XREQ, until_done=False) as changes:
        assert (await anext(changes)).id == "ereq_1"
        feed.history.append(("ereq_2", "pending"))
        assert (await anext(changes)).id == "ereq_2"


async def test_an_outage_is_waited_out_and_one_without_end_is_not() -> None:
    feed = Feed(*HISTORY)
    async with serve(feed) as server:
        faults = Fault("refused", times=5), Fault("status", times=5)
        async with api_of(server.url, *faults) as api, api.watch(XREQ) as changes:
            assert told([change async for change in changes]) == HISTORY
        async with (
            api_of(server.url, Fault("refused", times=10**9)) as api,
            api.watch(XREQ, retry_timeout=0.05) as changes,
        ):
            with pytest.raises(ApiConnectionError):
                await anext(changes)
        async with (
            api_of(server.url, Fault("status", times=10**9)) as api,
            api.watch(XREQ, retry_timeout=0.0) as changes,
        ):
            with pytest.raises(ServerError):
                await anext(changes)


@pytest.mark.parametrize(
    "ids", [[], ["cow_1"], ["xreq_1", "ereq_1"], [f"xreq_{number}" for number in range(51)], ["xreq_"], [""]]
)
async def test_invalid_ids_cannot_be_watched(ids: list[str]) -> None:
    async with CoworldClient("http://127.0.0.1:9", transport=FlakyTransport()) as api:
        with pytest.raises(UsageError):
            async with api.watch(ids):
                raise AssertionError


# --- a server without a feed


class Plain:
    """A platform without a change feed, on which time passes with every look."""

    def __init__(self, *states: dict[str, str]) -> None:
        self.states = states
        self.looks = -1

    def _row(self, name: str, state: dict[str, str]) -> dict[str, Any]:
        return {"id": name, "created_at": NOW, "status": state[name], "participants": [], "scores": []}

    async def __call__(self, ask: Ask) -> Say:
        if ask.path.endswith("/changes"):
            return json_say({"detail": [{"loc": ["path", "id"], "msg": "no id"}]}, 422)
        name = ask.path.rpartition("/")[2]
        if name == XREQ:
            self.looks += 1
            state = self.states[min(self.looks, len(self.states) - 1)]
            over = self.looks >= len(self.states) - 1
            row = {"id": XREQ, "created_at": NOW, "status": "completed" if over else "running"}
            return json_say({**row, "episodes": [self._row(name, state) for name in state]})
        if name in self.states[-1]:
            self.looks += 1
            return json_say(self._row(name, self.states[min(self.looks, len(self.states) - 1)]))
        return json_say({"detail": "no such episode"}, 404)


STATES = (
    {"ereq_1": "pending"},
    {"ereq_1": "pending"},
    {"ereq_1": "running", "ereq_2": "pending"},
    {"ereq_1": "completed", "ereq_2": "failed"},
)


async def test_without_a_feed_status_is_polled() -> None:
    async with serve(Plain(*STATES)) as server, api_of(server.url) as api, api.watch(XREQ) as changes:
        found = [change async for change in changes]
    assert told(found) == [
        ("ereq_1", "pending"),
        ("ereq_1", "running"),
        ("ereq_2", "pending"),
        ("ereq_1", "completed"),
        ("ereq_2", "failed"),
    ]
    assert {change.experience_request_id for change in found} == {XREQ}


async def test_single_episodes_without_a_feed() -> None:
    plain = Plain({"ereq_1": "pending"}, {"ereq_1": "completed"})
    async with serve(plain) as server, api_of(server.url) as api, api.watch("ereq_1") as changes:
        assert told([change async for change in changes]) == [("ereq_1", "pending"), ("ereq_1", "completed")]


async def test_without_a_feed_it_can_be_resumed_too() -> None:
    async with serve(Plain(*STATES)) as server, api_of(server.url) as api:
        async with api.watch(XREQ) as changes:
            await anext(changes)
            await anext(changes)
        cursor = changes.cursor
        async with api.watch(XREQ, cursor=cursor) as changes:
            rest = told([change async for change in changes])
    # The second change was one of two that were found together
    assert rest == [("ereq_1", "completed"), ("ereq_2", "failed")]


async def test_removed_episode_is_reported_without_a_feed() -> None:
    plain = Plain({"ereq_1": "pending", "ereq_2": "pending"}, {"ereq_2": "completed"})
    async with serve(plain) as server, api_of(server.url) as api, api.watch(XREQ) as changes:
        found = told([change async for change in changes])
    assert found[2:] == [("ereq_2", "completed"), ("ereq_1", "removed")]


async def test_unknown_episode_is_not_found() -> None:
    async with serve(Plain({})) as server, api_of(server.url) as api, api.watch("ereq_9") as changes:
        with pytest.raises(NotFound, match="no such episode"):
            await anext(changes)


async def test_feed_cursor_is_accepted_without_a_feed() -> None:
    plain = Plain(*STATES)
    async with serve(plain) as server, api_of(server.url) as api, api.watch(XREQ, cursor="c3") as changes:
        assert told([change async for change in changes])[-1] == ("ereq_2", "failed")


@pytest.mark.parametrize("cursor", ["asked.", "asked.!!!", "asked.aGVsbG8", "asked." + "A" * 5000])
async def test_foreign_cursor_is_refused(cursor: str) -> None:
    async with CoworldClient("http://127.0.0.1:9", transport=FlakyTransport()) as api:
        with pytest.raises(UsageError) as raised:
            async with api.watch(XREQ, cursor=cursor):
                raise AssertionError
    assert raised.value.code == "bad_cursor"


# --- waiting


async def test_waiting_gives_the_request_and_tells_of_its_changes() -> None:
    seen: list[Change] = []
    async with serve(Plain(*STATES)) as server, api_of(server.url) as api:
        detail = await api.experience.wait(XREQ, on_change=seen.append)
    assert [str(row.status) for row in detail.episodes] == ["completed", "failed"]
    assert len(seen) == 5


async def test_waiting_has_an_end_when_told_so() -> None:
    async def never(ask: Ask) -> Say:
        if ask.path.endswith("/changes"):
            return json_say({"detail": "no"}, 404)
        return json_say({"id": XREQ, "status": "running", "created_at": NOW, "episodes": []})

    async with serve(never) as server, api_of(server.url) as api:
        with pytest.raises(ApiTimeoutError) as raised:
            await api.experience.wait(XREQ, timeout=0.1)
    assert json.loads(json.dumps(raised.value.to_dict()))["context"] == {"id": XREQ}


async def test_a_role_is_waited_for_through_outages() -> None:
    states = iter(["pending", "running", "running", "completed"])

    async def platform(ask: Ask) -> Say:
        return json_say({"id": "role_1", "status": next(states), "answer": {"score": 1}})

    seen: list[str] = []
    async with (
        serve(platform) as server,
        api_of(server.url, Fault("status", times=4, status=503), max_retries=0) as api,
    ):
        done = await api.role_runs.wait("role_1", on_change=lambda run: seen.append(str(run.status)))
    assert (seen, done.answer) == (["pending", "running", "completed"], {"score": 1})
