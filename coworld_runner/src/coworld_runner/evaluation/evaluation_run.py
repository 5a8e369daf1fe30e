"""Plays the episodes that an evaluation needs next, and keeps its plan and its report beside the rows."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, Unpack

import anyio.lowlevel

from coworld_core.episode.events import Notice, RunFinished, RunStarted
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import ROWS_NAME, EpisodeRow, read_record, read_rows
from coworld_core.errors import CapabilityError, HookError, ImageError, UsageError
from coworld_core.evaluation.comparison import Comparison
from coworld_core.evaluation.designs import Lineup, parse_key
from coworld_core.evaluation.evaluation_files import MARKDOWN_NAME, PLAN_NAME, REPORT_NAME, open_evaluation, read_plan
from coworld_core.evaluation.lost_blocks import read_loss_notes
from coworld_core.evaluation.markdown import report_markdown
from coworld_core.evaluation.metrics import known_metrics, measured
from coworld_core.evaluation.report_base import Evaluation, EvaluationPlan
from coworld_core.evaluation.report_contents import ShownReport
from coworld_core.hints import Hint
from coworld_core.text.phrases import listed

from ..episode.episode_rows import Rows
from ..episode.many import KeyedRun, open_keyed_run
from ..episode.run_options import BatchArguments, RunOptions
from ..kit.rollout.match_process import PLAY_PROGRAMS
from ..package.plan import EpisodePlan
from ..runs.workspace import atomic_write
from .entrants import Entrants
from .in_process import InProcess, find_in_process
from .in_process_run import InProcessRun

__all__ = [
    "PlayedEvaluation",
    "measure_row",
    "open_evaluation_run",
    "play_blocks",
    "play_evaluation",
    "read_evaluation",
    "refuse_changed",
    "write_report",
]

_MAY_DIFFER = ("max_blocks", "before", "rating", "lowest", "highest")
"""Fields of a plan that may change when a run resumes, as they do not affect episodes already played. Plans of older
versions do not have the lowest and the highest score."""

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
        options = replace(options, resume=_is_begun(Path(options.workspace), evaluation.plan))
    async with open_evaluation_run(evaluation, entrants, options) as keyed:
        await play_blocks(keyed, evaluation, entrants)
        if afterwards is not None:
            await afterwards(keyed)
    return evaluation.report()


@dataclass(frozen=True, kw_only=True)
class PlayedEvaluation:
    """An evaluation as it is stored in its directory."""

    workspace: Path
    report: ShownReport
    episodes: int
    """Number of episodes that have ended."""
    reread: Callable[[], Iterator[EpisodeRow]]

    def rows(self) -> Iterator[EpisodeRow]:
        """Return the episodes in the order in which they ended; each call reads them again, as there may be many."""
        return itertools.islice(self.reread(), self.episodes)


def read_evaluation(workspace: str | os.PathLike[str]) -> PlayedEvaluation:
    """Read the evaluation in a directory: its report so far, and its episodes.

    Args:
        workspace: The directory of `plan.json` and `episodes.jsonl`.

    Raises:
        UsageError: The directory has no evaluation.
        RecordError: Its files are broken.
    """
    directory = Path(workspace)
    plan = read_plan(directory)
    evaluation = open_evaluation(plan)
    episodes = 0

    def rows() -> Iterator[EpisodeRow]:
        return read_rows(directory) if (directory / ROWS_NAME).is_file() else iter(())

    for row in rows():
        evaluation.add(measure_row(row, plan, directory))
        episodes += 1
    if isinstance(evaluation, Comparison):
        evaluation.worst.notes = read_loss_notes(directory)
    report: ShownReport = evaluation.report()
    return PlayedEvaluation(workspace=directory, report=report, episodes=episodes, reread=rows)


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
    asked: set[str] = set()
    ledger, plan = evaluation.ledger, evaluation.plan
    fewer = Hint("fewer_episodes", "Fewer at a time may help (parallel).")
    at = 0
    spoilt: set[int] = set()
    told = -math.inf

    def needed() -> tuple[int, str, Lineup] | None:
        """Return the next episode: the first that is missing in the first incomplete block, possibly a replayed one."""
        nonlocal at
        at = max(at, ledger.judged + 1)
        for block in itertools.chain(sorted(spoilt), range(at, evaluation.last_block + 1)):
            for key, lineup in ledger.missing(block):
                if key not in asked:
                    return block, key, lineup
            spoilt.discard(block)
            # All of it is being played
            at = max(at, block + 1)
        return None

    def episodes() -> Iterator[tuple[str, EpisodePlan]]:
        while not evaluation.stopped and not held() and (found := needed()) is not None:
            block, key, lineup = found
            asked.add(key)
            yield key, entrants.plan(lineup, block, seed=evaluation.seed_of(block))

    def take_in(row: EpisodeRow) -> bool:
        nonlocal told
        judged = ledger.judged
        evaluation.add(measure_row(row, plan, keyed.run.layout.workspace))
        if ledger.judged > judged and ((now := time.monotonic()) - told >= keyed.hurried or evaluation.stopped):
            told = now
            keyed.run.bus.publish(evaluation.progress())
        if not row.ok or row.starved:
            spoilt.update(place[:1] if (place := parse_key(row.key)) is not None else ())
        if row.starved and not row.starved_by and not plan.count_starved and not evaluation.stopped:
            keyed.run.bus.publish(
                Notice(
                    level="warning",
                    message=f"{row.key}: the machine was short of processors, so its block is played again.",
                    hint=fewer if keyed.options.parallel != 1 else None,
                )
            )
        return bool(evaluation.stopped)

    await between()
    # The last running episodes may show that a block must be played again
    while not evaluation.stopped and needed() is not None:
        await keyed.play(episodes(), fatal=(CapabilityError, HookError, ImageError, UsageError), on_row=take_in)
        await between()
        at = 0


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

    With the backend `auto`, a game of the kit is played in worker processes if its players can be, and there are no
    hooks: these change one episode at a time, and not who plays in it.

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
        if options.backend == "auto" and not (options.install or options.hooks or programs):
            others = any(None in lineup for block in range(1, 3) for lineup in evaluation.lineups(block))
            workers = options.parallel if options.parallel != "auto" and options.parallel > 1 else None
            inside, _ = await stack.enter_async_context(
                find_in_process(entrants, others=others, options=options.options, workers=workers)
            )
            options = options if inside is None else replace(options, backend=inside)
        kind = InProcessRun if isinstance(options.backend, InProcess) else None
        if kind is not None and options.hooks:
            raise CapabilityError(
                "Games that are played in worker processes are played without hooks.", hint=PLAY_PROGRAMS
            )
        keyed = await stack.enter_async_context(open_keyed_run(options, entrants.package, start, rows=rows, kind=kind))
        if isinstance(keyed, InProcessRun):
            measured = entrants.seat(next(iter(plan.players())))
            keyed.focus = measured.player_id or measured.image
            keyed.keeps_results = bool(plan.metric)
        keyed.same_players = True
        run = keyed.run
        directory = directory or run.layout.workspace
        if rows is None:
            # First, since it shows that the directory is a run's
            atomic_write(directory / PLAN_NAME, _as_file(plan))
            for row in read_rows(directory):
                evaluation.add(measure_row(row, plan, directory))
        run.bus.publish(evaluation.progress())
        if (notice := _forecast(evaluation)) is not None:
            run.bus.publish(notice)
        try:
            yield keyed
        finally:
            report = evaluation.report()
            status: EpisodeStatus = "completed" if evaluation.stopped else "interrupted"
            keyed.finish(RunFinished(status=status, ok=bool(evaluation.stopped), seconds=run.seconds()))
            write_report(directory, report, write=run.reserve.write)


def _forecast(evaluation: Evaluation[_Plan, _Report]) -> Notice | None:
    """Say how many blocks are needed at least; None if there is nothing to say."""
    least, most = evaluation.least_blocks, evaluation.plan.max_blocks
    if least is None or evaluation.stopped or (least <= most and len(evaluation.plan.players()) <= 2):
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
    write(directory / REPORT_NAME, _as_file(report))
    atomic_write(directory / MARKDOWN_NAME, report_markdown(report).encode())


def _is_begun(workspace: Path, plan: EvaluationPlan) -> bool:
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
    # More blocks may be requested at any time: the evidence stays valid however often it is examined
    refuse_changed(found, plan)
    others = [
        name
        for name in type(plan).model_fields
        if name not in _MAY_DIFFER and getattr(found, name, None) != getattr(plan, name)
    ]
    others = ["kind"] if found.kind != plan.kind else others
    if others:
        raise UsageError(
            f"{path.parent} has an evaluation that differs from this one in: {listed(others)}.",
            code="another_evaluation",
            hint=Hint("repeat_evaluation", "Repeat the call that began it, or pass another workspace."),
        )
    return True


def refuse_changed(found: EvaluationPlan, plan: EvaluationPlan) -> None:
    """Refuse to resume with a player's file whose content has changed.

    Raises:
        UsageError: Code `player_changed`: a player's file has another digest than before.
    """
    before = found.players()
    for label, player in plan.players().items():
        file, _, content = player.image.rpartition("@")
        was = before[label].image if label in before else ""
        if file and player.image != was and was.rpartition("@")[0] == file and not content.startswith("sha"):
            raise UsageError(
                f"{file} has changed since the evaluation began: its digest was {was.rpartition('@')[2]} and is "
                f"{content} now.",
                code="player_changed",
                hint=Hint(
                    "restore_player",
                    "Restore the old content, or start again: in another workspace, or under another name.",
                ),
            )


def measure_row(row: EpisodeRow, plan: EvaluationPlan, workspace: Path) -> EpisodeRow:
    """Return the row with its scores replaced by the measured metric.

    Raises:
        UsageError: The results do not have this metric.
    """
    if not plan.metric or not row.scores:
        return row
    results = row.results if row.results is not None else read_record(workspace / row.workspace).results
    results = results or {}
    numbers = measured(results, plan.metric, plan.slot_count)
    if numbers is None:
        known = known_metrics(results, plan.slot_count)
        raise UsageError(
            f"The results have no list of {plan.slot_count} numbers at {plan.metric!r}.",
            code="metric_unknown",
            hint=f"There is {listed(known)}." if known else "They have no such list at all.",
        )
    return row.model_copy(update={"scores": numbers})


def _as_file(value: EvaluationPlan | ShownReport) -> bytes:
    return (value.model_dump_json(indent=2) + "\n").encode()
