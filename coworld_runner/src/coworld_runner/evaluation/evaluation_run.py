"""Plays the episodes that an evaluation needs next, and keeps its plan and its report beside the rows."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, Unpack

import anyio.lowlevel

from coworld_core.episode.events import Notice, RunFinished, RunStarted
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import ROWS_NAME, EpisodeRow, read_rows
from coworld_core.errors import CapabilityError, HookError, ImageError, UsageError
from coworld_core.evaluation.evaluation_files import (
    MARKDOWN_NAME,
    PLAN_NAME,
    REPORT_NAME,
    measure_row,
    plan_file,
    read_plan,
    report_files,
    require_same_plan,
)
from coworld_core.evaluation.needed_episodes import NeededEpisodes
from coworld_core.evaluation.played_evaluation import PlayedEvaluation, read_evaluation
from coworld_core.evaluation.report_base import Evaluation, EvaluationPlan
from coworld_core.evaluation.report_contents import ShownReport
from coworld_core.hints import Hint

from ..episode.episode_rows import Rows
from ..episode.many import KeyedRun, open_keyed_run
from ..episode.run_options import BatchArguments, RunOptions
from ..package.plan import EpisodePlan
from ..runs.workspace import atomic_write
from .entrants import Entrants
from .found_workers import find_workers

__all__ = [
    "PlayedEvaluation",
    "open_evaluation_run",
    "play_blocks",
    "play_evaluation",
    "read_evaluation",
    "write_report",
]

_Plan = TypeVar("_Plan", bound=EvaluationPlan)
_Report = TypeVar("_Report", bound=ShownReport)


async def play_evaluation(
    evaluation: Evaluation[_Plan, _Report],
    entrants: Entrants,
    *,
    afterwards: Callable[[KeyedRun], Awaitable[None]] | None = None,
    **run: Unpack[BatchArguments],
) -> _Report:
    """Play until the evaluation is over, or resume the one in the workspace.

    `plan.json`, `report.json` and `report.md` are written beside the rows however the run ends; the report
    covers the episodes that had ended.

    Args:
        evaluation: The evaluation, without rows.
        entrants: The players.
        afterwards: Called once the evaluation is over, before its report is written.
        run: Where and how to play.

    Raises:
        UsageError: The workspace has another evaluation, or the metric is not in the results.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed.
    """
    options = RunOptions.of(BatchArguments, run)
    if options.workspace is not None and not options.overwrite:
        options = replace(options, resume=_is_started(Path(options.workspace), evaluation.plan))
    async with open_evaluation_run(evaluation, entrants, options) as keyed:
        await play_blocks(keyed, evaluation, entrants)
        if afterwards is not None:
            await afterwards(keyed)
    return evaluation.report()


async def play_blocks(
    keyed: KeyedRun,
    evaluation: Evaluation[_Plan, _Report],
    entrants: Entrants,
    *,
    between: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
    held: Callable[[], bool] = lambda: False,
) -> None:
    """Play the missing episodes of an evaluation until it is over; void blocks are played again.

    Args:
        keyed: The run to play in.
        evaluation: The evaluation, with its existing rows.
        entrants: The players.
        between: Called when no episode is running; it may raise `Evaluation.last_block` to have more played.
        held: Whether to begin no more episodes until `between` has been called.

    Raises:
        UsageError: A player differs from the one that played before, or the metric is not in the results.
        EnvironmentFault: The machine or the engine failed.
    """
    ledger, plan = evaluation.ledger, evaluation.plan
    fewer = Hint("fewer_episodes", "Fewer at a time may help (parallel).")
    needed = NeededEpisodes(evaluation)
    told = -math.inf

    def episodes() -> Iterator[tuple[str, EpisodePlan]]:
        while not evaluation.stopped and not held() and (found := needed.take()) is not None:
            block, key, lineup = found
            yield key, entrants.plan(lineup, block, seed=evaluation.seed_of(block))

    def take_in(row: EpisodeRow) -> bool:
        nonlocal told
        judged = ledger.judged
        evaluation.add(measure_row(row, plan, keyed.run.layout.workspace))
        if ledger.judged > judged and ((now := time.monotonic()) - told >= keyed.venue.hurried or evaluation.halted):
            told = now
            keyed.run.bus.publish(evaluation.progress())
        needed.note(row)
        if row.starved and not row.starved_by and not plan.count_starved and not evaluation.stopped:
            keyed.run.bus.publish(
                Notice(
                    level="warning",
                    message=f"{row.key}: the machine was short of processors, so its block is played again.",
                    hint=fewer if keyed.options.parallel not in (None, 1) else None,
                )
            )
        return bool(evaluation.stopped)

    await between()
    # The last running episodes may show that a block must be played again
    while not evaluation.stopped and needed.next() is not None:
        await keyed.play(episodes(), fatal=(CapabilityError, HookError, ImageError, UsageError), on_row=take_in)
        await between()
        needed.restart()


@asynccontextmanager
async def open_evaluation_run(
    evaluation: Evaluation[_Plan, _Report],
    entrants: Entrants,
    options: RunOptions,
    *,
    rows: Rows | None = None,
    directory: Path | None = None,
    programs: bool = False,
) -> AsyncGenerator[KeyedRun]:
    """Open the run of an evaluation, which leaves its report however it ends.

    With the backend `auto`, a game of the kit is played in worker processes if its players can be (`find_workers`).

    Args:
        evaluation: The evaluation.
        entrants: The players.
        options: Where and how to play.
        rows: The rows, if they are kept elsewhere, together with the plan; the evaluation has them already.
        directory: The directory of the report, if it is not the workspace.
        programs: Whether to start programs in any case.

    Raises:
        UsageError: The metric is not in the results.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed.
    """
    plan, seated = evaluation.plan, entrants.rows().values()
    start = RunStarted(
        what="batch",
        coworld=plan.coworld,
        version=plan.version,
        variant=plan.variant,
        players=tuple(row.name for row in seated),
        player_ids=tuple(row.player_id for row in seated),
    )
    async with AsyncExitStack() as stack:
        others = any(
            None in lineup
            for block in range(1, min(evaluation.last_block, 2) + 1)
            for lineup in evaluation.lineups(block)
        )
        if others and entrants.package.policies is not None and plan.others is None:
            raise UsageError(
                f"{plan.coworld}'s own players have seats in this, and a platform plays policies alone.",
                code="no_own_players",
                hint=Hint("name_others", "Name the policy that is to sit there (others)."),
            )
        if plan.others is not None and not others:
            raise UsageError(
                f"Measured players have all seats, so there is none for {plan.others.name}.",
                code="no_other_seats",
                hint=Hint("leave_others_out", "Leave the others out."),
            )
        workers = find_workers(entrants, options, others=others, programs=programs)
        venue, _ = await stack.enter_async_context(workers)
        options = options if venue is None else replace(options, venue=venue)
        keyed = await stack.enter_async_context(open_keyed_run(options, entrants.package, start, rows=rows))
        measured = entrants.seat(next(iter(plan.players())))
        keyed.terms = replace(
            keyed.terms,
            same_players=True,
            measured=measured.player_id or measured.image,
            keeps_results=bool(plan.metric),
        )
        run = keyed.run
        directory = directory or run.layout.workspace
        if rows is None:
            # First, since it shows that the directory is a run's
            atomic_write(directory / PLAN_NAME, plan_file(plan))
            for row in read_rows(directory):
                evaluation.add(measure_row(row, plan, directory))
        run.bus.publish(evaluation.progress())
        if (notice := _forecast(evaluation)) is not None:
            run.bus.publish(notice)
        try:
            yield keyed
        finally:
            report = evaluation.report()
            status: EpisodeStatus = "completed" if evaluation.halted else "interrupted"
            keyed.finish(RunFinished(status=status, ok=bool(evaluation.halted), seconds=run.seconds()))
            write_report(directory, report, write=run.reserve.write)


def _forecast(evaluation: Evaluation[_Plan, _Report]) -> Notice | None:
    """Say how many blocks are needed at least; None if there is nothing to say."""
    least, most = evaluation.least_blocks, evaluation.plan.max_blocks
    if least is None or evaluation.halted or (least <= most and len(evaluation.plan.players()) <= 2):
        return None
    needs = f"This needs at least {least} blocks for the clearest possible outcome"
    if least <= most:
        return Notice(message=f"{needs}, and ends after {most} at the latest.")
    return Notice(
        level="warning",
        message=f"{needs}, but ends after {most}.",
        hint=Hint("more_blocks", "Allow more blocks (max_blocks)."),
    )


def write_report(directory: Path, report: ShownReport, *, write: Callable[[Path, bytes], None] = atomic_write) -> None:
    """Write `report.json` and `report.md`.

    Args:
        directory: The evaluation's directory.
        report: The report.
        write: What writes the first.
    """
    files = report_files(report)
    write(directory / REPORT_NAME, files[REPORT_NAME])
    atomic_write(directory / MARKDOWN_NAME, files[MARKDOWN_NAME])


def _is_started(workspace: Path, plan: EvaluationPlan) -> bool:
    """Return whether the workspace already contains this evaluation.

    Raises:
        UsageError: The workspace contains another evaluation.
    """
    path = workspace.expanduser().absolute() / PLAN_NAME
    if not path.is_file():
        # A run that was killed before it wrote its plan
        rows = path.with_name(ROWS_NAME)
        return rows.is_file() and rows.stat().st_size == 0
    found = read_plan(path.parent)
    require_same_plan(found, plan, path.parent)
    return True
