"""Plays a quick comparison at each save of a bot, which shows how it stands and decides nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import anyio
import anyio.to_thread

from coworld_core.errors import CoworldError
from coworld_core.evaluation.gate_decision import again_note
from coworld_core.evaluation.gate_history import GatedPlayer
from coworld_core.evaluation.report_contents import ShownReport
from coworld_core.secret_seeds import fresh_seed

from ...episode.run_options import BatchArguments
from ...errors import unwrapped
from ...kit.dev.file_watch import changes
from ...package.player_names import files_player
from ...package.resolver import Package, resolve_package
from ...runs.scratch import open_scratch
from ..comparison import compare
from ..evaluation_rules import EvaluationRules
from ..found_workers import keep_workers
from ..measurements import scrimmage
from .gate_entry import find_gate_folder, read_opponents

__all__ = ["GateLook", "watch_player"]

_BLOCKS = 40
_EPISODES = 4


@dataclass(frozen=True, kw_only=True)
class GateLook:
    """How a version that was just saved stands."""

    version: GatedPlayer | None = None
    """The version; None: its files cannot be read as a player."""
    against: GatedPlayer | None = None
    """Whom it met: the accepted version, or else the first opponent; None: itself."""
    report: ShownReport | None = None
    """What was measured; None: nothing, for `problem`."""
    problem: str = ""
    hint: str = ""
    note: str = ""
    """What is known of the version besides: that it is an earlier one again."""


async def watch_player(
    game: Package | str | os.PathLike[str],
    bot: str | os.PathLike[str],
    *,
    say: Callable[[GateLook], object],
    opponents: Sequence[str] | None = None,
    rules: EvaluationRules | None = None,
    **run: Unpack[BatchArguments],
) -> None:
    """Compare a bot with its accepted version now, and again each time that it is saved, until cancelled.

    Every comparison has fresh seeds, and at most 40 blocks unless the rules say otherwise. Nothing is entered into the
    history: versions that are tried one after the other until one looks better would often be accepted by luck. A save
    during a comparison ends it.

    Args:
        game: The Coworld: a package, or anything that `resolve_package` accepts.
        bot: The bot's file or directory.
        say: Called with each result.
        opponents: Whom it meets, the first of them, if there is no accepted version; None: the folder's other bots.
        rules: What to play and what counts; its seed is not used.
        run: Where and how to play; a workspace has no meaning.

    Raises:
        UsageError: The folder cannot be watched.
    """
    package = await resolve_package(game)
    watch = _Watch(package, bot, say, opponents, rules or EvaluationRules(), run)
    with unwrapped():
        async with keep_workers(), anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()
            async for _ in changes(find_gate_folder(bot).directory, lambda: (), at_once=True):
                scope.cancel()
                scope = anyio.CancelScope()
                tasks.start_soon(watch.look, scope)


class _Watch:
    def __init__(
        self,
        package: Package,
        bot: str | os.PathLike[str],
        say: Callable[[GateLook], object],
        opponents: Sequence[str] | None,
        rules: EvaluationRules,
        run: BatchArguments,
    ) -> None:
        self._package = package
        self._bot = bot
        self._say = say
        self._opponents = opponents
        self._rules = replace(rules, max_blocks=rules.max_blocks or _BLOCKS)
        self._run: BatchArguments = {**run, "overwrite": False, "latest": False, "run_id": None}
        self._seen = ""
        self._one = anyio.Lock()

    async def look(self, scope: anyio.CancelScope) -> None:
        """Measure the files as they are now, unless they were measured last."""
        with scope:
            # The one before must have stopped what it started
            async with self._one:
                try:
                    await self._measured()
                except CoworldError as error:
                    self._seen = ""
                    self._say(GateLook(problem=error.message, hint=str(error.hint or "")))

    async def _measured(self) -> None:
        own = await anyio.to_thread.run_sync(
            lambda: files_player(self._bot, self._package, why="only files have versions")
        )
        if own.digest == self._seen:
            return
        version = GatedPlayer(name=own.path.name, digest=own.digest)
        folder = find_gate_folder(self._bot)
        history = await anyio.to_thread.run_sync(folder.history)
        last = history.accepted_of(version.name)
        word: str | None = None
        against: GatedPlayer | None = None
        if last is not None and last.bot == version:
            self._seen = own.digest
            self._say(GateLook(version=version, against=last.bot, problem="This is the accepted version."))
            return
        if last is not None and folder.version(last.bot).exists():
            word, against = str(folder.version(last.bot)), last.bot
        elif found := read_opponents(folder, history, self._package, own, self._opponents)[0]:
            word, against = found[0][0].word, found[0][0].player
        async with open_scratch() as scratch:
            bot = scratch.path / "bot" / own.path.name
            # As it is now, whatever is saved meanwhile
            own.put(bot if own.path.is_dir() else bot.parent)
            rules = replace(self._rules, seed=fresh_seed(), seed_secret=None)
            run: BatchArguments = {**self._run, "workspace": scratch.path / "measured"}
            report: ShownReport
            if word is None:
                report = await scrimmage(self._package, str(bot), episodes=_EPISODES, rules=rules, **run)
            else:
                report = await compare(self._package, str(bot), word, rules=rules, **run)
        self._seen = own.digest
        self._say(GateLook(version=version, against=against, report=report, note=again_note(history, version)))
