"""Serving as the environment says: one game with its results and replay, one replay, or replays by request."""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, RulesError, RulesReplay, read_config, read_replay

from ..package._sources import read_source
from ..worker.transfer import Transfers, read_document
from .match import Match
from .server import game_server, replay_server, talked_out

__all__ = ["replay_messages", "serve_rules"]

MAX_CONFIG: Final = 4 * 1024 * 1024
MAX_REPLAY: Final = 256 * 1024 * 1024
MAX_COUNTDOWN: Final = 60.0
CHUNK: Final = 256 * 1024
"""The approximate number of characters of ticks in one message of a replay."""


async def serve_rules(rules: type[Rules]) -> int:
    """Serve as the environment says and return the exit code.

    `COGAME_CONFIG_URI` with `COGAME_RESULTS_URI` and `COGAME_SAVE_REPLAY_URI` plays one game. `COGAME_LOAD_REPLAY_URI`
    shows a replay until a signal arrives. `COGAME_REPLAY_SERVER=1`, the older way, shows a replay for each request.

    Args:
        rules: The game.

    Returns:
        0 when the game is over and its files are written, or a replay has been shown; 1 when the rules failed or no
        player connected; 130 or 143 when a signal ended the game early. The replay has the ticks so far in any case.

    Raises:
        UsageError: The environment or the config is invalid.
        CoworldError: A file cannot be read or written.
    """
    if uri := os.environ.get("COGAME_LOAD_REPLAY_URI"):
        return await _show(await _load(uri))
    if os.environ.get("COGAME_REPLAY_SERVER") == "1":
        return await _show(None)
    return await _play(rules)


async def _play(rules: type[Rules]) -> int:
    data = await read_document(_required("COGAME_CONFIG_URI"), what="game config", limit=MAX_CONFIG)
    # Refuse invalid addresses now rather than at the end of the game.
    results_uri, replay_uri = _target("COGAME_RESULTS_URI"), _target("COGAME_SAVE_REPLAY_URI")
    # older runners do not ask for events
    events_uri = _target("COGAME_EVENTS_URI") if os.environ.get("COGAME_EVENTS_URI") else None
    try:
        raw: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The game config is no JSON: {error}.", code="config_invalid") from None
    if not isinstance(raw, dict):
        raise UsageError("The game config is no JSON object.", code="config_invalid")
    config = read_config(rules, cast("dict[str, Any]", raw))
    seed = secrets.randbelow(2**31) if config.seed is None else config.seed
    match = Match(rules, config, seed=seed, log=_say, countdown=_countdown())
    with _listener() as listener:
        async with (
            game_server(match, config.tokens, listener=listener) as server,
            Transfers() as transfers,
            _heeding_signals() as stop,
        ):
            _announce(listener)
            ending, results = await _play_through(match, stop)
            # Signals are ignored from here on: writing the files does not take long.
            if results is not None:
                text = json.dumps(results).encode()
                await transfers.put(results_uri, text, content_type="application/json", what="results")
            if events_uri is not None:
                await transfers.put(events_uri, bytes(match.events), content_type="application/x-ndjson", what="events")
            replay = match.replay(reason=ending.reason, results=results)
            await transfers.put(replay_uri, replay, content_type="application/octet-stream", what="replay")
            _say("results and replay are written" if results is not None else "the replay is written, without results")
            match.finish(reason=ending.reason, results=results)
            await talked_out(server)
    return ending.code


def _countdown() -> float:
    """Seconds to count down before the first tick, if people play."""
    text = os.environ.get("COWORLD_COUNTDOWN_SECONDS", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MAX_COUNTDOWN:
        words = f"COWORLD_COUNTDOWN_SECONDS is {text!r}; it must be a number from 0 to {MAX_COUNTDOWN:g}."
        raise UsageError(words, code="environment_invalid")
    return seconds


@dataclass(frozen=True)
class _Ending:
    """How a game ended: `over`, `failed`, `stopped` or `nobody came`; and the exit code."""

    reason: str
    code: int


class _Stop:
    """The first signal received, and the scope that it cancels."""

    def __init__(self) -> None:
        self.playing = anyio.CancelScope()
        self.number: signal.Signals | None = None


@asynccontextmanager
async def _heeding_signals() -> AsyncGenerator[_Stop]:
    stop = _Stop()

    async def heed() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                stop.number = stop.number or number
                stop.playing.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heed)
        yield stop
        tasks.cancel_scope.cancel()


async def _play_through(match: Match, stop: _Stop) -> tuple[_Ending, dict[str, Any] | None]:
    """Play, and return the ending and the results, if there are any."""
    try:
        with stop.playing:
            await match.play()
            return _Ending("over", 0), match.results()
    except RulesError as error:
        for line in error.lines:
            print(line, file=sys.stderr)
        print(f"the rules failed: {error.message}", file=sys.stderr, flush=True)
        return _Ending("failed", 1), None
    except TimeoutError as error:
        print(f"not played: {error}", file=sys.stderr, flush=True)
        return _Ending("nobody came", 1), None
    number = stop.number or signal.SIGTERM
    print(f"stopped by {number.name} before the end of the game", file=sys.stderr, flush=True)
    return _Ending("stopped", 128 + number), None


async def _show(messages: Sequence[str] | None) -> int:
    with _listener() as listener:
        async with replay_server(messages, load=_load, listener=listener):
            _announce(listener)
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    break
    return 0


async def _load(uri: str) -> list[str]:
    data = await read_document(uri, what="replay", limit=MAX_REPLAY, patience=0)
    return replay_messages(read_replay(data, source="The replay"))


def replay_messages(replay: RulesReplay) -> list[str]:
    """The messages that show a replay to a page: `replay` with its header, then `ticks` in chunks."""
    head = {
        "type": "replay",
        "header": replay.header.model_dump(mode="json"),
        "count": len(replay.ticks),
        "results": replay.results,
        "reason": replay.reason,
    }
    messages = [json.dumps(head)]
    piece: list[str] = []
    start = size = 0
    for number, tick in enumerate(replay.ticks):
        piece.append(tick.model_dump_json())
        size += len(piece[-1])
        if size > CHUNK or number == len(replay.ticks) - 1:
            messages.append(f'{{"type":"ticks","from":{start},"ticks":[{",".join(piece)}]}}')
            piece, start, size = [], number + 1, 0
    return messages


def _listener() -> socket.socket:
    host = os.environ.get("COGAME_HOST") or "0.0.0.0"  # noqa: S104 - a container is reached from outside
    word = os.environ.get("COGAME_PORT") or "8080"
    if not (word.isascii() and word.isdigit() and int(word) < 65536):
        raise UsageError(f"COGAME_PORT must be the number of a port, not {word!r}.", code="bad_port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(word)), family=family, backlog=socket.SOMAXCONN)
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {host}, port {word}: {error.strerror or error}.", code="port_taken"
        ) from None


def _announce(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    _say(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}")


def _say(line: str) -> None:
    print(line, flush=True)


def _target(variable: str) -> str:
    uri = _required(variable)
    read_source(uri, what=variable)
    return uri


def _required(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise UsageError(
            f"{variable} is not set.",
            code="variable_missing",
            hint="A game needs COGAME_CONFIG_URI, COGAME_RESULTS_URI and COGAME_SAVE_REPLAY_URI; a replay needs "
            "COGAME_LOAD_REPLAY_URI. `coworld run-episode` sets them.",
        )
    return value
