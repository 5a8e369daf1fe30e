"""`python -m coworld_runner.kit.server.audit_program MODULE:CLASS`: audit the rules of a game where the game runs.

It reads the game config at `COGAME_CONFIG_URI` and, if there is one, a replay of the same rules at
`COGAME_LOAD_REPLAY_URI`, and writes a `Report` to `COGAME_RESULTS_URI`. It takes at most `COWORLD_AUDIT_SECONDS`: if a
call of the rules never returns, it ends with a traceback that shows where they were.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coworld_core.time_limits import RULES_AUDIT

from ...runs.processors import usable_processors
from .server_process import run_server

if TYPE_CHECKING:
    import anyio

    from coworld_core.issues import Issue, Severity
    from coworld_core.rules import EpisodeConfig, Rules
    from coworld_core.rules.audit import AuditArguments

__all__ = ["main"]

GAMES: Final = 5
"""Number of games, each with a seed of its own, that are compared with those of other processes."""

PROCESSES: Final = 7
"""Number of other processes, each with its own seed of string hashes: two of them put a set of two texts into the same
order as often as not."""


def main() -> int:
    """Audit and return the exit code: 0 if the report is written, whatever it says."""
    # A game's module gets a command line of its own.
    name, *more = sys.argv[1:] or ("",)
    if not name or len(more) > 1:
        print("usage: python -m coworld_runner.kit.server.audit_program MODULE:CLASS [TRANSCRIPT]", file=sys.stderr)
        return 2
    faulthandler.dump_traceback_later(_seconds(), exit=True)
    return run_server(partial(_write_transcript, name, *more) if more else partial(_audit, name))


def _seconds() -> float:
    return float(os.environ.get("COWORLD_AUDIT_SECONDS", RULES_AUDIT))


async def _loaded(name: str) -> tuple[type[Rules], EpisodeConfig]:
    from coworld_core.rules import load_rules, read_config

    from .game_environment import read_config_document

    rules = load_rules(name, alone=True)
    return rules, read_config(rules, json.loads(await read_config_document()))


async def _audit(name: str) -> int:
    from coworld_core.issues import Report
    from coworld_core.rules import audit_rules

    from ...package.transfers import Transfers
    from .game_environment import Target

    target = Target.named("COGAME_RESULTS_URI", what="audit", content_type="application/json")
    rules, config = await _loaded(name)
    report = audit_rules(rules, **_options(rules, config))
    found = [*report.issues, *await _other_processes(name, rules, config), *await _played_again(rules)]
    from coworld_core.rules import Rules

    if rules.secret_attributes is Rules.secret_attributes:
        message = "Leaks between seats were not looked for, because the rules name no secrets (secret_attributes)."
        found.append(_issue("secrets_not_named", message, severity="info"))
    async with Transfers() as transfers:
        await target.write(Report(source=rules.__name__, issues=tuple(found)).model_dump_json().encode(), transfers)
    return 0


def _options(rules: type[Rules], config: EpisodeConfig, *, share: float = 1.0) -> AuditArguments:
    from coworld_core.rules import action_schema

    from ...package.random_player import sample

    schema = action_schema(rules)

    def sampled(rng: random.Random) -> Any:
        return sample(schema, rng)

    return {
        "config": config.rules,
        "seats": config.seats,
        # The audit plays as long as about fifteen games, other processes as one each, and half is in reserve
        "seconds": share * _seconds() / 40,
        "sample": sampled,
    }


# --- other processes ------------------------------------------------------------------------------------------------


async def _write_transcript(name: str, path: str) -> int:
    import anyio

    rules, config = await _loaded(name)
    text = json.dumps(_transcripts(rules, config))
    await anyio.Path(path).write_text(text, encoding="utf-8")
    return 0


def _transcripts(rules: type[Rules], config: EpisodeConfig) -> list[list[dict[str, Any]]]:
    from coworld_core.rules.audit import game_transcript

    options = _options(rules, config, share=1 / GAMES)
    return [game_transcript(rules, **{**options, "seed": seed}) for seed in range(1, GAMES + 1)]


async def _other_processes(name: str, rules: type[Rules], config: EpisodeConfig) -> list[Issue]:
    """Play games here and in other processes, and compare what is seen."""
    import anyio

    from coworld_core.rules import RulesError

    from ...runs.scratch import open_scratch

    try:
        ours = _transcripts(rules, config)
    except RulesError:
        return []  # The audit has found it, or finds it with other missed turns
    found: dict[int, Issue] = {}
    gate = anyio.CapacityLimiter(usable_processors())
    async with open_scratch() as scratch:

        async def compare(hash_seed: int) -> None:
            async with gate:
                path = anyio.Path(scratch.path) / f"{hash_seed}.json"
                difference = await _difference(name, ours, hash_seed, path)
            if difference is not None:
                hint = "Sort what comes from a set, and do not use hash() or id(): they differ between processes."
                found[hash_seed] = _issue("rules_differ_between_processes", difference, hint=hint)

        async with anyio.create_task_group() as tasks:
            for hash_seed in range(1, PROCESSES + 1):
                tasks.start_soon(compare, hash_seed)
    ticks = sum(len(game) - 1 for game in ours)
    message = f"{GAMES} games with missed turns ({ticks} ticks) were the same in {PROCESSES + 1} processes."
    same = _issue("rules_same_in_other_processes", message, severity="info")
    return [found[min(found)] if found else same]


async def _difference(name: str, ours: list[list[dict[str, Any]]], hash_seed: int, path: anyio.Path) -> str | None:
    """Describe the first difference between our games and those of another process."""
    import anyio

    from coworld_core.rules.audit import transcript_difference

    command = [sys.executable, "-m", __spec__.name, name, str(path)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = await anyio.run_process(command, env=environment, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-1000:]
        return f"Another process, with PYTHONHASHSEED={hash_seed}, ended with status {done.returncode}: {said}"
    theirs: list[list[dict[str, Any]]] = json.loads(await path.read_text("utf-8"))
    for seed, (one, other) in enumerate(zip(ours, theirs, strict=True), start=1):
        if difference := transcript_difference(one, other):
            return f"Seed {seed} in another process, with PYTHONHASHSEED={hash_seed}: {difference}."
    return None


async def _played_again(rules: type[Rules]) -> list[Issue]:
    """Play the replay again: it was recorded by another process."""
    from coworld_core.errors import CoworldError
    from coworld_core.rules import play_again, read_replay

    from ...package.transfers import read_document
    from .game_host import MAX_REPLAY

    uri = os.environ.get("COGAME_LOAD_REPLAY_URI")
    if not uri:
        return [_issue("replay_not_played", "There was no replay to play again.", severity="info")]
    data = await read_document(uri, what="replay", limit=MAX_REPLAY, retry_timeout=0)
    try:
        play = play_again(rules, read_replay(data, source="The replay"))
    except CoworldError as error:
        message = f"The replay of the smoke episode, played again in another process: {error.message}"
        hint = "Let only the config, `self.rng` and the actions decide what happens."
        return [_issue("replay_plays_differently", message, hint=hint)]
    message = f"The replay of the smoke episode is the same game when it is played again ({play.tick} ticks)."
    return [_issue("replay_plays_again", message, severity="info")]


def _issue(code: str, message: str, *, severity: Severity = "error", hint: str | None = None) -> Issue:
    from coworld_core.issues import Issue

    return Issue(code=code, severity=severity, message=message, hint=hint)


if __name__ == "__main__":
    sys.exit(main())
