"""Improves a player step by step: a program changes its files, and a comparison decides whether the change is kept.

Everything is kept in one directory as it happens, so that the same call goes on wherever an earlier one has ended.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import anyio
import anyio.to_thread

from coworld_core.episode.events import BaseEvent, Notice, RunFinished, RunStarted, StepFinished, StepStarted
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.evaluation.evaluation_files import MARKDOWN_NAME, REPORT_NAME
from coworld_core.roles.improvement import (
    ImprovedPlayer,
    ImprovementPlan,
    ImprovementState,
    ImprovementStep,
    StepComparison,
    read_improvement_steps,
)
from coworld_core.roles.improvement_budget import ImprovementBudget, ImprovementLeft, ImprovementSpent
from coworld_core.roles.improvement_report import (
    ImprovementEnd,
    ImprovementReport,
    improvement_markdown,
    improvement_report,
)

from ..backend import Backend
from ..backends.registry import BackendOptions, find_backend
from ..episode.run_context import entered_backend
from ..episode.run_options import BatchArguments, RunOptions
from ..episode.run_start import OpenRun, open_run
from ..episode.venue import Venue
from ..evaluation.entrants import Entrants
from ..evaluation.found_workers import check_cells, keep_workers
from ..package.locations import expand
from ..package.own_players.own_player import OwnPlayer
from ..package.player_names import files_player
from ..package.resolver import Package, resolve_package
from ..roles.optimizer_program import LOCAL_COMMAND, Optimizer, find_optimizer
from ..runs._append_log import AppendedFile
from ..runs.workspace import atomic_write
from .improvement_evidence import find_evidence_roles
from .improvement_folder import ImprovementFolder
from .improvement_rules import ImprovementRules
from .improvement_steps import EpisodesSpent, StepMaker

__all__ = ["Improvement", "improve_player", "improvement_workspace"]

_SECONDS = "seconds"
"""File of a step that has not ended: how long it has taken so far."""
_MAX_LOST_STEPS = 10
"""Lost steps in a row after which asking again is of no use."""


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """What became of an improvement."""

    workspace: Path
    """Its directory."""
    report: ImprovementReport

    @property
    def best(self) -> Path:
        """A copy of the best player: its file or its directory."""
        player = self.report.plan.player
        return self.workspace / "best" / player.entry if player.single else self.workspace / "best"


async def improve_player(
    game: Package | str | os.PathLike[str],
    player: str | os.PathLike[str],
    *,
    improver: str | Optimizer | None = None,
    budget: ImprovementBudget | None = None,
    rules: ImprovementRules | None = None,
    measuring: Backend | Venue | str | None = None,
    **run: Unpack[BatchArguments],
) -> Improvement:
    """Improve a player: let a program change a copy of it, compare the two, keep what is better, and again.

    ::

        improved = await improve_player("examples/nim", "bot.py", improver="./optimizer.py")
        print(improved.report.headline, improved.best)

    A changed player is kept only if `compare` finds it better than the best so far. At the end, the best player is
    compared with the first, on seeds of their own; this is not counted in the budget. The user's files are never
    changed. A call with the same workspace goes on where an earlier one has ended, whatever has ended it.

    Args:
        game: The Coworld: a package, or anything that `resolve_package` accepts.
        player: The player's file or directory.
        improver: What changes the player, as `find_optimizer` finds it: an optimizer of the manifest, a file with a
            function `optimize(task, player)`, an image, or a command line. None: the only optimizer of the manifest.
        budget: When to end; ten steps by default.
        rules: What to play, what counts, and how programs are run.
        measuring: Where comparisons are played, such as an entered venue; None: where everything else is, or as
            `compare` chooses if that is to be chosen (`auto`).
        run: Where and how to play. Without a workspace, it is one for this player and its content among the package's
            results, so that the same call goes on there.

    Returns:
        The report, which is also written to `report.json` and `report.md`, and where everything is.

    Raises:
        UsageError: There is no such variant, player or program, the player has changed since, or the workspace is of
            another improvement.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        CapabilityError: The backend cannot run a program, or the venue honour an option; nothing was started.
        ImageError: An image is not available.
        EnvironmentFault: The machine or the engine failed; the same call goes on.
    """
    rules, budget = rules or ImprovementRules(), budget or ImprovementBudget(steps=10)
    package = await resolve_package(game)
    own = files_player(player, package)
    optimizer = improver if isinstance(improver, Optimizer) else find_optimizer(package, improver)
    roles = find_evidence_roles(package, grader=rules.grader, diagnoser=rules.diagnoser)
    folder = ImprovementFolder(expand(os.fspath(run.get("workspace") or improvement_workspace(package, own))))
    plan = ImprovementPlan(
        coworld=package.manifest.game.name,
        version=package.manifest.game.version or "",
        variant=rules.evaluation.variant or "",
        config_changes=dict(rules.evaluation.config),
        player=ImprovedPlayer(name=own.name, entry=own.path.name, single=not own.path.is_dir(), digest=own.digest),
        seed=rules.evaluation.seed if rules.evaluation.seed is not None else folder.seed(),
        metric=rules.evaluation.metric,
        margin=rules.margin,
        evidence=rules.episodes,
    )
    folder.refuse_other(plan)
    options = replace(
        RunOptions.of(BatchArguments, run, resume=True), workspace=folder.path, latest=False, overwrite=False
    )
    nested: BatchArguments = {**run, "install": False, "latest": False, "overwrite": False, "run_id": None}
    comparing: BatchArguments = {**nested, "backend": "auto"}
    if isinstance(measuring, Venue):
        comparing["venue"] = measuring
        check_cells([Entrants(package, {own.name: player}, rules.evaluation).seat(own.name)], comparing)
    async with keep_workers(), entered_backend(options.backend, package, install=options.install) as backend:
        with (
            open_run(options, package, marker=folder.plan.name, keep=1000) as opened,
            AppendedFile(folder.log) as log,
        ):
            log.cut_unfinished()
            with suppress(OSError):
                opened.layout.logs.rmdir()  # Each program has its own logs
            await anyio.to_thread.run_sync(folder.begin, plan, own)
            if measuring is not None and not isinstance(measuring, Venue):
                comparing["backend"] = measuring
            elif measuring is None and (options.backend != "auto" or options.install):
                comparing["backend"] = backend
            async with _optimizing(optimizer, backend, folder) as optimizing:
                maker = StepMaker(
                    package=package,
                    plan=plan,
                    folder=folder,
                    optimizer=optimizer,
                    optimizing=optimizing,
                    backend=backend,
                    measuring=comparing,
                    roles=roles,
                    rules=rules,
                    publish=opened.bus.publish,
                    nested={**nested, "backend": backend},
                )
                return await _Loop(maker, opened, log).run(budget)


def improvement_workspace(package: Package, player: OwnPlayer) -> Path:
    """The directory of a player's improvement among a package's results: another one for another content."""
    return package.default_results_dir() / f"improve-{player.name}-{player.digest.partition(':')[2][:8]}"


@asynccontextmanager
async def _optimizing(optimizer: Optimizer, backend: Backend, folder: ImprovementFolder) -> AsyncGenerator[Backend]:
    """Yield the backend that the program runs on: for a command, this machine."""
    if not optimizer.local:
        yield backend
        return
    context = folder.path / "evidence"
    context.mkdir(exist_ok=True)
    async with find_backend("process")(BackendOptions(contexts={LOCAL_COMMAND: context})) as local:
        yield local


class _Loop:
    """The steps of an improvement, in an open workspace."""

    def __init__(self, maker: StepMaker, opened: OpenRun, log: AppendedFile) -> None:
        self._maker, self._plan, self._folder = maker, maker.plan, maker.folder
        self._opened, self._log = opened, log
        self._state = ImprovementState.of(self._plan, read_improvement_steps(self._folder.log))
        self._ended: ImprovementEnd = ""
        self._final: StepComparison | None = None

    async def run(self, budget: ImprovementBudget) -> Improvement:
        maker, plan = self._maker, self._plan
        start = RunStarted(
            what="improvement",
            coworld=plan.coworld,
            version=plan.version,
            variant=plan.variant,
            players=(plan.player.name,),
            player_ids=(None,),
        )
        self._opened.publish_start(start, maker.backend.name)
        for text in maker.roles.left_out:
            self._publish(Notice(level="info", message=f"{text} The evidence goes without it."))
        if not maker.optimizing.capabilities.network_isolation and maker.rules.optimizer.network == "none":
            message = f"{maker.optimizer} runs as you, and with this machine's network."
            self._publish(Notice(level="info", message=message))
        try:
            self._show_best()
            await self._steps(budget)
            self._final = await maker.against_the_first(self._state)
        finally:
            begun = self._folder.step(self._state.next).is_dir()
            report = improvement_report(
                self._state, spent=self._spent(), unfinished=begun, ended=self._ended, final=self._final
            )
            ok = bool(self._ended) and (self._final is not None or self._state.best == 0)
            status: EpisodeStatus = "completed" if ok else "interrupted"
            self._publish(RunFinished(status=status, ok=ok, seconds=self._opened.seconds()))
            self._opened.reserve.write(self._folder.path / REPORT_NAME, report.to_document())
            atomic_write(self._folder.path / MARKDOWN_NAME, improvement_markdown(report).encode())
        return Improvement(workspace=self._folder.path, report=report)

    async def _steps(self, budget: ImprovementBudget) -> None:
        """Make steps until a part of the budget is used up."""
        lost = 0
        while not self._ended:
            before = self._seconds_before()
            left = budget.left(self._spent())
            most = None if budget.episodes is None else max(0, budget.episodes - self._state.spent.episodes)
            if part := left.ended:
                self._ended = part
            elif lost == _MAX_LOST_STEPS:
                self._ended = "losses"
            else:
                lost = lost + 1 if await self._step(before, left, most) else 0

    async def _step(self, before: float, left: ImprovementLeft, most: int | None) -> bool:
        """Make a step within the time that is left; returns whether it was lost."""
        began, number, lost = time.monotonic(), self._state.next, False
        self._publish(StepStarted(step=f"step {number}", checks=f"by {self._maker.optimizer}"))
        deadline = math.inf if left.seconds is None else anyio.current_time() + left.seconds
        try:
            with anyio.CancelScope(deadline=deadline) as scope:
                step = await self._maker.make(self._state, left, most=most)
                step = step.model_copy(update={"seconds": round(before + time.monotonic() - began, 3)})
                self._enter(step)
                lost = step.status == "lost"
            if scope.cancelled_caught:
                self._ended = "seconds"
        except EpisodesSpent:
            self._ended = "episodes"
        finally:
            if self._state.next == number and (place := self._folder.step(number)).is_dir():
                atomic_write(place / _SECONDS, f"{before + time.monotonic() - began:.3f}\n".encode())
        return lost

    def _spent(self) -> ImprovementSpent:
        """What was spent, also on a step that has not ended."""
        spent = self._state.spent
        episodes = spent.episodes + self._maker.played(self._state)
        seconds = round(spent.seconds + self._seconds_before(), 3)
        return ImprovementSpent(steps=spent.steps, episodes=episodes, seconds=seconds)

    def _seconds_before(self) -> float:
        """Seconds that earlier runs have spent on the next step; those of one that was killed are not known."""
        try:
            return float((self._folder.step(self._state.next) / _SECONDS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0.0

    def _enter(self, step: ImprovementStep) -> None:
        """Enter a step that has ended into the log; everything else follows from it."""
        atomic_write(self._folder.step(step.step) / "step.json", step.to_document())
        self._log.append(step.to_line())
        self._state = ImprovementState.of(self._plan, (*self._state.steps, step))
        self._show_best()
        self._publish(
            StepFinished(step=f"step {step.step}", status=step.status, detail=_detail(step), seconds=step.seconds)
        )

    def _show_best(self) -> None:
        known = frozenset((0, *(step.step for step in self._state.kept)))
        if not self._folder.show_best(self._state.best, self._plan.player, known=known):
            message = f"Someone has changed {self._folder.best}, so it is left as it is."
            hint = f"The best player is in {self._folder.files_of(self._state.best, self._plan.player)}."
            self._publish(Notice(level="warning", message=message, hint=hint))

    def _publish(self, event: BaseEvent) -> None:
        self._opened.bus.publish(event)


def _detail(step: ImprovementStep) -> str:
    return " · ".join(filter(None, (step.message, step.change.partition("\n")[0])))
