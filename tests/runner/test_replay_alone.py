"""A replay as one file: what is recorded of a game's page and socket, and what cannot be."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.hidden_roles import Village, played
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from coworld_core.errors import EpisodeError, UsageError
from coworld_runner.kit.server.game_server import Answer
from coworld_runner.kit.server.replay_feed import replay_feed
from coworld_runner.package.viewer_bundle import ViewerBundle, read_bundle
from coworld_runner.replay import bundle_page, recorded_page
from coworld_runner.replay.bundle_page import bundled_page
from coworld_runner.replay.recorded_page import record_page
from coworld_runner.replay.replay_file import last_replay
from coworld_runner.replay.replay_session import ReplayOptions, ReplaySession

PAGE = "<!doctype html><html><head lang='en'><title>A</title></head><body><script>new WebSocket('x')</script></body>"
OPTIONS = ReplayOptions(message_timeout=5)


@asynccontextmanager
async def shown(
    page: str, *messages: str | bytes, status: int = 200, closes: bool = True, answer: Answer | None = None
) -> AsyncGenerator[ReplaySession]:
    """A game that shows a replay with this page, says this on its socket, and answers so."""

    async def play(socket: ServerConnection) -> None:
        for message in messages:
            await socket.send(message)
        if answer is not None:
            async for asked in socket:
                for message in await answer(asked):
                    await socket.send(message)
        if not closes:
            await socket.wait_closed()

    async def route(connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/replay":
            return None
        body = page.encode()
        return Response(status, "Said", Headers({"Content-Length": str(len(body)), "Connection": "close"}), body)

    async with serve(play, "127.0.0.1", 0, process_request=route) as server:
        here = f"127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        unit = SimpleNamespace(endpoint=lambda: SimpleNamespace(here=here))
        yield ReplaySession(
            link=f"http://{here}/client/replay",
            run_id="1",
            backend="fake",
            unit=cast("Any", unit),
            local_ports={},
            socket_path="/replay",
        )


def recorded(page: str) -> list[Any]:
    found = re.search(r'id="coworld-recorded">([^<]*)<', page)
    assert found is not None
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


@pytest.mark.parametrize("closes", [True, False])
async def test_socket_messages_are_recorded_in_the_page(closes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_page, "_QUIET_SECONDS", 0.2)
    async with shown(PAGE, '{"a": "</script><b>"}', b"\0\xff", closes=closes) as session:
        page = await record_page(session, options=OPTIONS)
    assert recorded(page.html) == ['{"a": "</script><b>"}', {"base64": "AP8="}]
    before, policy, after = page.html.partition('<meta http-equiv="Content-Security-Policy"')
    assert before.endswith("<head lang='en'>")
    assert policy
    assert after.index("window.WebSocket = ") < after.index("new WebSocket('x')")
    inline = page._repr_html_()
    found = re.search(r'srcdoc="([^"]*)"', inline)
    assert found is not None
    assert unescape(found[1]) == page.html


@pytest.mark.parametrize(("room", "ticks"), [(32 << 20, 4), (0, 0)])
async def test_a_page_has_what_each_eye_sees_as_far_as_there_is_room(
    room: int, ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_page, "_EYES_LIMIT", room)
    monkeypatch.setattr(recorded_page, "_QUIET_SECONDS", 0.2)
    feed = replay_feed(Village, played())
    async with shown(PAGE, *feed.messages, closes=False, answer=feed.answer) as session:
        messages = [json.loads(text) for text in recorded((await record_page(session, options=OPTIONS)).html)]
    eyes = [message for message in messages if message["type"] == "eye"]
    for eye in ("all", "public", "0", "1", "2", "3"):
        mine = [message for message in eyes if message["eye"] == eye]
        assert sum(len(message["views"]) for message in mine) == ticks
        assert mine[-1]["problem"] == ("" if ticks else "The game was not played again for this page.")


@pytest.mark.parametrize("eyes", [5, ["all"], {"all": 1}, None])
async def test_a_game_that_does_not_answer_by_eyes_is_recorded_without(eyes: Any) -> None:
    head = json.dumps({"type": "replay", "eyes": eyes})
    async with shown(PAGE, head, closes=False) as session:
        page = await record_page(session, options=ReplayOptions(message_timeout=0.3))
    assert recorded(page.html) == [head]


@pytest.mark.parametrize(
    ("page", "named"),
    [
        ('<script src="/client/app.js"></script>', "/client/app.js"),
        ('<link rel="stylesheet" href="a.css">', "a.css"),
        ('<img src="data:,"><img src="https://example.org/a.png">', "https://example.org/a.png"),
    ],
)
async def test_page_loading_external_files_is_refused(page: str, named: str) -> None:
    async with shown(page, "x") as session:
        with pytest.raises(EpisodeError, match=f"loads {re.escape(named)}") as raised:
            await record_page(session, options=OPTIONS)
    assert raised.value.code == "replay_page_not_alone"


async def test_missing_replay_page_is_reported() -> None:
    async with shown("", "x", status=404) as session:
        with pytest.raises(EpisodeError, match="HTTP 404"):
            await record_page(session, options=OPTIONS)


async def test_silent_replay_socket_is_reported() -> None:
    async with shown(PAGE) as session:
        with pytest.raises(EpisodeError, match="says nothing"):
            await record_page(session, options=OPTIONS)


async def test_endless_replay_socket_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_page, "_LIMIT", 1000)
    async with shown(PAGE, *["more"] * 300, closes=False) as session:
        with pytest.raises(EpisodeError) as raised:
            await record_page(session, options=OPTIONS)
    assert raised.value.code == "replay_endless"


@pytest.mark.parametrize(
    ("page", "named"),
    [
        ('<script src="./app.js"></script>', "./app.js"),
        ('<script type="module" src="https://example.org/app.js"></script>', "https://example.org/app.js"),
        ('<link rel="stylesheet" href="../look.css">', "../look.css"),
    ],
)
def test_a_viewer_that_needs_more_than_its_bundle(page: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(EpisodeError, match=f"loads {re.escape(named)}, which is not in its bundle") as raised:
        bundled_page(bundle_of(tmp_path, page), tmp_path / "replay")
    assert (raised.value.code, bool(raised.value.hint)) == ("replay_page_not_alone", True)


def test_a_viewer_that_is_too_large_for_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_page, "_MOST_BYTES", 100)
    with pytest.raises(EpisodeError, match="too much for one page") as raised:
        bundled_page(bundle_of(tmp_path, "x" * 96), tmp_path / "replay")
    assert raised.value.code == "replay_endless"


def test_a_page_of_any_shape_is_written_again(tmp_path: Path) -> None:
    text = "<!DOCTYPE html><!-- a <b> --><p title='a &lt; b'>5 &lt; 6 &#65; <br/>&nbsp;"
    text += "<a href=elsewhere>x</a><script>a<b</script>"
    page = bundled_page(bundle_of(tmp_path, text), tmp_path / "replay")
    assert page.startswith('<!DOCTYPE html><meta http-equiv="Content-Security-Policy"')
    assert page.endswith(text.removeprefix("<!DOCTYPE html>"))
    assert f'"replay": ["application/octet-stream", "{base64.b64encode(b"moves").decode()}"]' in page


def bundle_of(directory: Path, page: str) -> ViewerBundle:
    """A viewer that is a page alone, beside a replay."""
    (directory / "viewer").mkdir()
    (directory / "viewer" / "index.html").write_text(page, encoding="utf-8")
    (directory / "replay").write_bytes(b"moves")
    return read_bundle(directory / "viewer")


def test_the_last_replay_of_a_package_and_of_all_below(tmp_path: Path) -> None:
    def leave(place: str, time: int) -> Path:
        path = tmp_path / place / "replay"
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (time, time))
        return path

    with pytest.raises(UsageError, match="no replay"):
        last_replay(tmp_path, below=True)
    old = leave("games/nim/results/1", 10)
    new = leave("chess/results/2/episode-0001", 20)
    (tmp_path / "chess/results/3/logs").mkdir(parents=True)
    leave("a/b/c/results/1", 30)
    assert last_replay(tmp_path, below=True) == (tmp_path / "chess", new)
    assert last_replay(tmp_path / "games/nim") == (tmp_path / "games/nim", old)
    with pytest.raises(UsageError, match="in"):
        last_replay(tmp_path)
