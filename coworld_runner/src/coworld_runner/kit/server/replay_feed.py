"""The messages that show a replay on its page: as it was recorded, and by each eye, played again for it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import anyio
import anyio.from_thread
import anyio.to_thread

from coworld_core.errors import UsageError
from coworld_core.rules import EyeView, ReplayFormatError, Rules, RulesReplay, Turns, eye_views
from coworld_core.rules.game import fixed_pace
from coworld_core.rules.replay_eyes import Eye, eyes_of, read_eye
from coworld_core.rules.rules_schemas import rules_text

from ..table.compact_json import compact
from .game_server import ReplayFeed

__all__ = ["replay_feed"]

CHUNK: Final = 256 * 1024
"""The approximate number of characters of ticks in one message of a replay."""

EYE_SECONDS: Final = 30.0
"""Time to play a game again for one eye: a replay may come from a stranger."""

EYE_SIZE: Final = 64 * 1024 * 1024
"""Maximum number of characters of what one eye sees."""

KEPT: Final = 4
"""Number of eyes of a replay whose views are kept, because others may ask for them."""


def replay_feed(rules: type[Rules], replay: RulesReplay, *, threads: anyio.CapacityLimiter | None = None) -> ReplayFeed:
    """Show a replay: `replay` with its header, then `ticks` in chunks, and in chunks each `eye` that is asked for.

    Args:
        rules: The game.
        replay: The replay.
        threads: Limits the threads in which games are played again; rules may have state that these would share.
    """
    known: dict[Eye, list[str]] = {}
    gate = anyio.Lock()

    async def answer(message: str | bytes) -> Sequence[str]:
        try:
            asked: Any = json.loads(message)
            eye = read_eye(asked["eye"], replay.header.seats)
        except (ValueError, RecursionError, TypeError, LookupError, UsageError):
            return ()
        async with gate:
            if eye not in known:
                made = await anyio.to_thread.run_sync(partial(_eye_messages, rules, replay, eye), limiter=threads)
                for oldest in list(known)[: len(known) + 1 - KEPT]:
                    del known[oldest]
                known[eye] = made
            return known[eye]

    return ReplayFeed(_recorded(replay, rules), answer)


def _recorded(replay: RulesReplay, rules: type[Rules]) -> list[str]:
    head = {
        "type": "replay",
        "about": rules_text(rules),
        # Earlier replays do not say how the game advanced.
        "pace": replay.header.pace or (fixed_pace(rules) or Turns()).describe(),
        "header": replay.header.model_dump(mode="json"),
        "eyes": [str(eye) for eye in eyes_of(rules, replay.header)],
        "count": len(replay.ticks),
        "results": replay.results,
        "reason": replay.reason,
    }
    ticks = _pieces(tick.model_dump_json() for tick in replay.ticks)
    return [json.dumps(head), *(f'{{"type":"ticks","from":{start},"ticks":[{piece}]}}' for start, piece in ticks)]


def _eye_messages(rules: type[Rules], replay: RulesReplay, eye: Eye) -> list[str]:
    """What an eye sees, and why that is not the whole replay, if it is not. Runs in a thread."""
    problem, views, size, until = "", list[str](), 0, time.monotonic() + EYE_SECONDS
    try:
        for view in eye_views(rules, replay, eye):
            views.append(_fields(view))
            size += len(views[-1])
            if size > EYE_SIZE or time.monotonic() > until:
                problem = "The game is too long to be played again for this page."
                break
            anyio.from_thread.check_cancelled()
    except ReplayFormatError as error:
        problem = error.message
    messages = [f'{{"type":"eye","eye":"{eye}","from":{start},"views":[{piece}]}}' for start, piece in _pieces(views)]
    return [*messages, compact({"type": "eye", "eye": str(eye), "from": len(views), "views": [], "problem": problem})]


def _fields(view: EyeView) -> str:
    said = {"said": view.said} if view.said else {}
    text = {"text": view.text} if view.text and view.text != view.drawing else {}
    plain = {} if view.drawing or view.text or view.observation is None else {"observation": view.observation}
    return compact({"drawing": view.drawing, **text, **plain, **view.standing, **said})


def _pieces(items: Iterable[str]) -> Iterable[tuple[int, str]]:
    """Join items to pieces of about the size of a message, each with the number of its first item."""
    piece: list[str] = []
    start = size = 0
    for item in items:
        piece.append(item)
        size += len(item)
        if size > CHUNK:
            yield start, ",".join(piece)
            start, piece, size = start + len(piece), [], 0
    if piece:
        yield start, ",".join(piece)
