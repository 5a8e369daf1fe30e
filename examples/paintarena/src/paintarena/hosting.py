"""Runs the server as its environment says: one game, one replay, or replays by request.

The kit (`coworld_runner.kit.server`) provides all that games have in common: connections, tokens, input and output
files, signals.
"""

import os

import anyio

from coworld_core.errors import UsageError
from coworld_runner.kit.server import (
    announce,
    heeding_signals,
    open_listener,
    read_config_document,
    read_countdown,
    results_and_replay,
    seat_events,
    serve_game,
    show_replays,
    talked_out,
)
from coworld_runner.package import Transfers
from paintarena.config import parse_config
from paintarena.logs import Log
from paintarena.match import Match
from paintarena.pages import render
from paintarena.replay import load_replay


async def serve() -> int:
    """Play or show what the environment asks for, and return the exit code: 130 or 143 if a signal ended a game early.

    Raises:
        ConfigError: The config is invalid.
        ReplayError: The replay is not a Paint Arena replay.
        CoworldError: A variable is missing or invalid, or a file cannot be read or written.
    """
    log, code = Log(_log_uri()), 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.ship)
        try:
            code = await _serve(log)
        except Exception as error:
            log.note(f"the game failed: {error}")
            raise
        finally:
            tasks.cancel_scope.cancel()
            await log.flush()
    return code


async def _serve(log: Log) -> int:
    if uri := os.environ.get("COGAME_LOAD_REPLAY_URI"):
        return await show_replays(await load_replay(uri), load=load_replay, say=log.line, pages=render)
    if os.environ.get("COGAME_REPLAY_SERVER") == "1":
        return await show_replays(None, load=load_replay, say=log.line, pages=render)
    config = parse_config(await read_config_document())
    to_results, to_replay = results_and_replay(replay_type="application/json")
    to_events = seat_events()
    match = Match(config, log=log, countdown=read_countdown())
    # The admin page and socket have no sign-in, so they exist only on request.
    operators = {"admin": match.hear_admin} if os.environ.get("COWORLD_ADMIN") == "1" else {}
    with open_listener() as listener:
        async with (
            serve_game(match, config.tokens, listener=listener, pages=render, operators=operators) as server,
            Transfers() as transfers,
            heeding_signals() as stop,
        ):
            announce(listener, log.line)
            with stop.playing:
                await match.play()
            if stop.number is not None:
                log.complain(f"stopped by {stop.number.name} before the end of the game")
                return 128 + stop.number
            # Signals are ignored from here on: writing the files is quick.
            if match.lateness.ticks:
                worst = match.lateness.worst * 1000
                log.complain(f"late ticks: {match.lateness.ticks} of {config.max_ticks}, worst {worst:.0f} ms")
            for target, content in ((to_results, match.results()), (to_replay, match.replay())):
                await target.write(content, transfers)
                log.line(f"{target.what} written")
            if to_events is not None:
                await to_events.write(bytes(match.events), transfers)
            match.finish()
            await talked_out(server)
    return 0


def _log_uri() -> str | None:
    uri = os.environ.get("COGAME_LOG_URI")
    if uri and not uri.startswith(("http://", "https://")):
        raise UsageError("COGAME_LOG_URI must be an http:// or https:// address", code="bad_scheme")
    return uri or None
