"""Turns a replay into one file: the game's own page, with the messages of its websocket recorded in it.

The file opens without a game, a server or a network. This works for every game whose replay page is one document and
whose socket sends everything when it is opened, such as games of the kit and Paint Arena.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any, cast

import anyio

from coworld_core.errors import EpisodeError
from coworld_core.hints import Hint

from ..web import http_requests
from .replay_session import ReplayOptions, ReplaySession

__all__ = ["ReplayPage", "record_page"]

_PAGE_LIMIT = 32 << 20
"""Size limit of a page in bytes."""
_LIMIT = 256 << 20
"""Size limit of all messages together in bytes."""
_QUIET_SECONDS = 1.0
"""A socket that is silent for this long has sent everything."""
_TIMEOUT = 60.0
"""Time limit for all messages of a socket."""
_EYES_LIMIT = 32 << 20
"""Size of all messages beyond which a page is not made larger by what further eyes see."""
_EYES_SECONDS = 20.0
"""Time beyond which no further eye is asked for."""
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
)
"""The page comes from a game and may be shared: its scripts may run, but make no requests."""


@dataclass(frozen=True)
class ReplayPage:
    """A page that shows a replay by itself; in a notebook it is shown inline."""

    html: str = field(repr=False)
    """The whole document."""

    def _repr_html_(self) -> str:
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:640px;border:0" '
            f'title="Replay" srcdoc="{html.escape(self.html)}"></iframe>'
        )


async def record_page(session: ReplaySession, *, options: ReplayOptions | None = None) -> ReplayPage:
    """Record the page of a game that shows a replay, with the messages of its socket.

    Raises:
        EpisodeError: As for `replay_page`.
    """
    options = options or ReplayOptions()
    try:
        with anyio.fail_after(options.message_timeout):
            text = await _document(session)
    except (OSError, TimeoutError, http_requests.NotHttpError, UnicodeDecodeError) as error:
        raise EpisodeError(
            f"The replay page {session.link} cannot be read: {error or 'no answer in time'}.", code="replay_unloadable"
        ) from error
    reader = _References()
    reader.feed(text)
    if reader.found:
        raise EpisodeError(
            f"The game's replay page cannot stand alone: it loads {', '.join(reader.found[:3])}"
            f"{' and more' if len(reader.found) > 3 else ''}.",
            code="replay_page_not_alone",
            hint=Hint(
                "whole_page", "The page must contain its scripts, styles and pictures. open_replay shows this one."
            ),
        )
    messages = await _messages(session, options)
    packed = base64.b64encode(zlib.compress(json.dumps(messages, ensure_ascii=False).encode(), 9)).decode()
    script = (files("coworld_runner.replay") / "recorded.js").read_text("utf-8")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<script type="application/octet-stream" id="coworld-recorded">{packed}</script>\n<script>{script}</script>'
    )
    # First in the page, so that the page's own scripts find the socket replaced
    place = re.search(r"<head[^>]*>|<html[^>]*>|<!doctype[^>]*>", text, re.IGNORECASE)
    place = re.search(r"<head[^>]*>", text, re.IGNORECASE) or place
    at = place.end() if place is not None else 0
    return ReplayPage(f"{text[:at]}{head}{text[at:]}")


async def _document(session: ReplaySession) -> str:
    address, _, path = session.link.removeprefix("http://").partition("/")
    async with http_requests.asking(address, f"/{path}") as answer:
        if answer.status != 200:
            raise OSError(f"HTTP {answer.status}")
        return (await answer.read(_PAGE_LIMIT)).decode()


class _References(HTMLParser):
    """Collects what a page loads from elsewhere."""

    _LOADING = frozenset({"script", "img", "iframe", "audio", "video", "source", "embed", "object"})

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads."""
        given = dict(attrs)
        loaded = given.get("src") or given.get("data") if tag in self._LOADING else None
        if tag == "link" and "stylesheet" in (given.get("rel") or "").split():
            loaded = given.get("href")
        if loaded and not loaded.startswith(("data:", "#")):
            self.found.append(loaded)


def _told(message: str | bytes) -> dict[str, Any]:
    """What a message says, if it is an object of JSON."""
    try:
        value: Any = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _eyes_offered(head: str | bytes) -> list[str]:
    """The eyes by which a game can show its replay, as its first message says."""
    eyes: Any = _told(head).get("eyes")
    return [str(eye) for eye in cast("list[Any]", eyes)] if isinstance(eyes, list) else []


def _left_out(eye: str) -> str:
    problem = "The game was not played again for this page."
    return json.dumps({"type": "eye", "eye": eye, "from": 0, "views": [], "problem": problem})


async def _messages(session: ReplaySession, options: ReplayOptions) -> list[str | dict[str, str]]:
    """Read all messages of the replay's socket; text is kept as it is."""
    from websockets.exceptions import ConnectionClosed, WebSocketException

    from ..web.game_socket import REPLAY_LIMIT, connect_to_game, failure_text

    heard: list[str | dict[str, str]] = []
    eyes: list[str] = []
    """Those by which the game, one of the kit, has yet to show the replay."""
    size, until = 0, anyio.current_time() + _EYES_SECONDS
    time_limit = anyio.move_on_after(_TIMEOUT)
    try:
        with time_limit:
            async with connect_to_game(
                session.unit.endpoint().here, session.socket_path, close_timeout=0.5, max_size=REPLAY_LIMIT
            ) as socket:
                while size <= _LIMIT:
                    wait = _QUIET_SECONDS if heard and not eyes else options.message_timeout
                    with anyio.move_on_after(wait) as waited:
                        message = await socket.recv()
                        size += len(message)
                        heard.append(
                            message if isinstance(message, str) else {"base64": base64.b64encode(message).decode()}
                        )
                        if len(heard) == 1:
                            eyes = _eyes_offered(message)
                        elif eyes and _told(message).keys() >= {"eye", "problem"}:
                            eyes = eyes[1:]
                        else:
                            continue
                        if size > _EYES_LIMIT or anyio.current_time() > until:
                            heard += [_left_out(eye) for eye in eyes]
                            eyes = []
                        if eyes:
                            await socket.send(json.dumps({"type": "eye", "eye": eyes[0]}))
                    if waited.cancelled_caught:
                        break
    except ConnectionClosed:
        pass
    except (WebSocketException, OSError, EOFError, TimeoutError) as error:
        raise EpisodeError(
            f"The game does not play the replay: {failure_text(error)}.", code="replay_unloadable"
        ) from error
    if time_limit.cancelled_caught or size > _LIMIT:
        raise EpisodeError(
            f"The game's replay cannot be one file: it did not end after {len(heard)} messages.",
            code="replay_endless",
            hint=Hint(
                "whole_replay", "The whole replay must be sent when its socket is opened. open_replay shows this one."
            ),
        )
    if not heard:
        raise EpisodeError("The game does not play the replay: its socket says nothing.", code="replay_unloadable")
    return heard
