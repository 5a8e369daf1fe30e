"""Serves what the environment asks for: one game with its results and replay, one replay, or replays by request."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, RulesError, read_config, read_replay

from ...package.transfers import Transfers, read_document
from .game_environment import (
    Stop,
    announce,
    heeding_signals,
    open_listener,
    read_config_document,
    read_countdown,
    results_and_replay,
    samples_asked_for,
    seat_events,
    show_replays,
)
from .game_server import ReplayFeed, serve_game, talked_out
from .match import Match
from .replay_feed import replay_feed

__all__ = ["serve_rules"]

MAX_REPLAY: Final = 256 * 1024 * 1024


async def serve_rules(rules: type[Rules]) -> int:
    """Serve what the environment asks for and return the exit code.

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
    threads = anyio.CapacityLimiter(1)

    async def load(uri: str) -> ReplayFeed:
        data = await read_document(uri, what="replay", limit=MAX_REPLAY, retry_timeout=0)
        return replay_feed(rules, read_replay(data, source="The replay"), threads=threads)

    if uri := os.environ.get("COGAME_LOAD_REPLAY_URI"):
        return await show_replays(await load(uri), load=load, say=_say)
    if os.environ.get("COGAME_REPLAY_SERVER") == "1":
        return await show_replays(None, load=load, say=_say)
    return await _play(rules)


async def _play(rules: type[Rules]) -> int:
    data = await read_config_document()
    to_results, to_replay = results_and_replay(replay_type="application/octet-stream")
    to_events = seat_events()
    try:
        raw: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The game config is not JSON: {error}.", code="config_invalid") from None
    if not isinstance(raw, dict):
        raise UsageError("The game config is not a JSON object.", code="config_invalid")
    config = read_config(rules, cast("dict[str, Any]", raw))
    seed = secrets.randbelow(2**31) if config.seed is None else config.seed
    samples = samples_asked_for()
    match = Match(rules, config, seed=seed, log=_say, countdown=read_countdown(), samples=samples)
    with open_listener() as listener:
        async with (
            serve_game(match, config.tokens, listener=listener, samples=samples) as server,
            Transfers() as transfers,
            heeding_signals() as stop,
        ):
            announce(listener, _say)
            ending, results = await _play_through(match, stop)
            # Signals are ignored from here on: writing the files does not take long.
            if results is not None:
                await to_results.write(json.dumps(results).encode(), transfers)
            if to_events is not None:
                await to_events.write(bytes(match.events), transfers)
            await to_replay.write(match.replay(reason=ending.reason, results=results), transfers)
            _say("results and replay are written" if results is not None else "the replay is written, without results")
            match.finish(reason=ending.reason, results=results)
            if samples is not None:
                await samples.wait_read()
            await talked_out(server)
    return ending.code


@dataclass(frozen=True)
class _Ending:
    """How a game ended: `over`, `failed`, `stopped` or `nobody came`; and the exit code."""

    reason: str
    code: int


async def _play_through(match: Match, stop: Stop) -> tuple[_Ending, dict[str, Any] | None]:
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


def _say(line: str) -> None:
    print(line, flush=True)
