"""How a game's server shows a replay by each eye, and what viewers and replays of strangers can make of that."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from support.hidden_roles import Village, played
from support.served_game import hear, serving, sit, tell
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from coworld_core.rules import Rules, eye_views
from coworld_runner.kit.server import replay_feed as feed_module
from coworld_runner.kit.server.game_server import ReplayFeed, replay_server
from coworld_runner.kit.server.replay_feed import replay_feed

NONSENSE = [
    "",
    "{}",
    "[]",
    "null",
    '"all"',
    '{"eye":9}',
    '{"eye":-1}',
    '{"eye":[0]}',
    '{"eye":"1e9"}',
    "[" * 10**5,
    b"\xff",
]


@asynccontextmanager
async def watching(feed: ReplayFeed) -> AsyncGenerator[ClientConnection]:
    async def load(_: str) -> ReplayFeed:
        raise AssertionError("there is one replay")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with (
            replay_server(feed, load=load, listener=listener),
            connect(f"ws://127.0.0.1:{port}/replay", proxy=None) as viewer,
        ):
            yield viewer


async def seen(viewer: ClientConnection, eye: object) -> tuple[list[dict[str, Any]], str]:
    """Ask for an eye, and return its views and what is wrong with them."""
    await viewer.send(json.dumps({"type": "eye", "eye": eye}))
    views: list[dict[str, Any]] = []
    while True:
        message = await hear(viewer)
        assert (message["type"], message["eye"], message["from"]) == ("eye", str(eye), len(views))
        views += message["views"]
        if "problem" in message:
            return views, message["problem"]


@pytest.mark.parametrize("chunk", [1, 256 * 1024])
async def test_a_viewer_gets_what_the_eye_sees_that_it_asks_for(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "CHUNK", chunk)
    replay = played()
    async with watching(replay_feed(Village, replay)) as viewer:
        head = await hear(viewer)
        assert head["eyes"] == ["all", "public", "0", "1", "2", "3"]
        ticks: list[Any] = []
        while len(ticks) < head["count"]:
            ticks += (await hear(viewer))["ticks"]
        for message in NONSENSE:
            await viewer.send(message)
        for eye in ("all", "public", 0, "3", 0):
            views, problem = await seen(viewer, eye)
            there = list(eye_views(Village, replay, int(eye) if str(eye).isdigit() else eye))  # pyright: ignore[reportArgumentType]
            assert [view["drawing"] for view in views] == [view.drawing for view in there]
            assert [view.get("said", []) for view in views] == [list(view.said) for view in there]
            assert [view["known"] for view in views] == [{"day": day} for day in range(4)]
            assert problem == ""


async def test_a_seat_without_a_picture_or_text_sees_what_programs_see() -> None:
    plain = cast("type[Rules]", type("Village", (Village,), {"draw": Rules.draw, "text": Rules.text}))
    feed = replay_feed(plain, played(plain))
    first, *_ = json.loads((await feed.answer('{"eye":0}'))[0])["views"]
    assert (first["drawing"], first["observation"]["day"]) == ("", 0)


@pytest.mark.parametrize(("limit", "value"), [("EYE_SIZE", 1), ("EYE_SECONDS", -1.0)])
async def test_a_long_game_is_played_again_as_far_as_there_is_room(
    limit: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, limit, value)
    messages = [json.loads(message) for message in await replay_feed(Village, played()).answer('{"eye":"public"}')]
    assert [len(message["views"]) for message in messages] == [1, 0]
    assert messages[-1]["problem"] == "The game is too long to be played again for this page."


async def test_a_game_is_played_once_for_those_who_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def counted(rules: Any, replay: Any, eye: Any) -> Any:
        made.append(eye)
        return eye_views(rules, replay, eye)

    monkeypatch.setattr(feed_module, "eye_views", counted)
    monkeypatch.setattr(feed_module, "KEPT", 2)
    feed = replay_feed(Village, played())
    for eye in (0, 1, 1, 0, 2, 1, 0):
        assert await feed.answer(json.dumps({"eye": eye}))
    assert made == [0, 1, 2, 0], "the two newest are kept"


async def test_who_watches_a_game_is_the_public() -> None:
    """A spectator that asks for the eye of a seat, in the link or later, gets what everybody gets."""
    async with serving(Village, sticks=2) as table:
        roles = cast("Village", table.match._table.play.rules).roles  # pyright: ignore[reportPrivateUsage]
        link = f"ws://127.0.0.1:{table.port}/global"
        for eye in ("0", "1", "all", "public&eye=0"):
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{link}?eye={eye}", proxy=None)
            assert refused.value.response.status_code == 403
            assert b"what a seat sees needs its token" in (refused.value.response.body or b"")
        async with connect(f"{link}?eye=public", proxy=None) as viewer, sit(table, 0) as first, sit(table, 1) as second:
            for message in ({"type": "eye", "eye": 0}, {"type": "eye", "eye": "all"}, {"type": "picture"}):
                await viewer.send(json.dumps(message))
            for tick in range(2):
                await tell(first, tick, 1)
                await tell(second, tick, 0)
            frames = [str(frame) async for frame in viewer]
    assert {json.loads(frame)["type"] for frame in frames} == {"hello", "state", "over"}
    assert not [frame for frame in frames for role in roles if role in frame]
    assert json.loads(frames[-2])["known"] == {"day": 2}
