"""Plays a suite: one mixture after the other, each in its own directory, and the report over all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.evaluation_files import read_plan
from coworld_core.evaluation.mixture import Mixture
from coworld_core.evaluation.suite_plan import (
    read_suite,
    resumed_suite,
    suite_files,
    suite_seed,
)
from coworld_core.evaluation.suite_report import SUITE_NAME, SuiteReport, read_suite_file
from coworld_core.evaluation.suite_settings import SuiteSettings, read_suite_settings
from coworld_core.ids import new_run_id

from ...episode.episode_rows import require_same_hooks
from ...episode.plan_hooks import EpisodeHook, find_hooks
from ...episode.run_options import BatchArguments
from ...package.resolver import Package, PackageSource, resolve_package
from ...runs.workspace import atomic_write, default_workspace, prepare_workspace
from ..evaluation_run import play_evaluation
from ..found_workers import check_cells, keep_workers, open_cell
from .suite_cells import PlannedCell, plan_cells

__all__ = ["SuiteSettings", "play_suite", "read_suite", "read_suite_settings"]


async def play_suite(
    suite: SuiteSettings | str | os.PathLike[str],
    *,
    package: PackageSource | None = None,
    players: Sequence[str] = (),
    command: tuple[str, ...] = (),
    secret_env: Mapping[str, str] | None = None,
    **run: Unpack[BatchArguments],
) -> SuiteReport:
    """Measure every line-up of a suite in every variant; a workspace that already contains this suite is resumed.

    Everything is planned, and so checked, before the first game starts. `suite.json` and `report.md` are written after
    each measurement, whose own report is in its directory.

    Args:
        suite: The suite, or its file.
        package: The game; None: the one that the file names.
        players: The players that `{player}` stands for; each is measured by itself.
        command: Command for players given as images.
        secret_env: Secrets for every player.
        run: How to play; without `overwrite`, `run_id` and `latest`.

    Raises:
        UsageError: There is no game, a line-up or a variant is wrong, players are named for a suite without
            `{player}`, or not for one that has it, or the workspace has another suite.
        ManifestError: The changed config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; what was measured is kept.
    """
    for name in ("overwrite", "run_id", "latest"):
        if name in run:
            raise TypeError(f"Unexpected keyword argument {name!r}.")
    settings = suite if isinstance(suite, SuiteSettings) else read_suite_settings(suite)
    if package is None:
        if not settings.game:
            raise UsageError(
                f"The suite {settings.name!r} names no game.",
                code="no_game",
                hint="Name it in the file (game), or pass the package.",
            )
        package = settings.game
    game = await resolve_package(package)

    workspace = run.pop("workspace", None)
    place = Path(workspace) if workspace is not None else default_workspace(game.default_results_dir(), new_run_id())
    place = place.expanduser().absolute()
    seed = suite_seed(settings, place)
    cells = list(plan_cells(settings, game, players, seed, command=command, secret_env=secret_env or {}))
    hooks = find_hooks(run.get("hooks", ()))
    run["hooks"] = hooks
    check_cells([cell.entrants.seat(label) for cell in cells for label in cell.entrants.rows()], run)
    report = _started(place, settings.name, seed, game, cells, hooks)
    records = {cell.directory: cell for cell in report.cells}
    await _write(place, report, run)
    async with keep_workers():
        for cell in cells:
            if records[cell.record.directory].stopped and read_plan(place / cell.record.directory) == cell.plan:
                continue
            async with open_cell(run, cell.record.directory) as own:
                here: BatchArguments = {
                    **own,
                    "workspace": place / cell.record.directory,
                    "labels": {**run.get("labels", {}), "suite": settings.name, "cell": cell.record.directory},
                }
                measured = await play_evaluation(Mixture(cell.plan), cell.entrants, **here)
            records[cell.record.directory] = cell.record.measured(measured)
            report = report.with_cells([*records.values()])
            await _write(place, report, run)
    return report


def _started(
    directory: Path,
    name: str,
    seed: int,
    package: Package,
    cells: Sequence[PlannedCell],
    hooks: Sequence[EpisodeHook],
) -> SuiteReport:
    """The report to go on with: what the workspace has of these cells already.

    Raises:
        UsageError: The workspace has a suite with measurements that this one does not have, or of another game, or one
            that was played with other hooks.
        WorkspaceError: It has something else.
    """
    game = package.manifest.game
    report = SuiteReport(
        name=name,
        coworld=game.name,
        version=game.version,
        seed=seed,
        hooks=tuple(hook.record() for hook in hooks),
        cells=tuple(cell.record for cell in cells),
    )
    if not (directory / SUITE_NAME).is_file():
        prepare_workspace(directory)
        return report
    resumed = resumed_suite(directory, report, [cell.plan for cell in cells])
    require_same_hooks(read_suite_file(directory).hooks, hooks)
    return resumed


async def _write(directory: Path, report: SuiteReport, run: BatchArguments) -> None:
    for name, content in suite_files(report).items():
        atomic_write(directory / name, content)
        if (venue := run.get("venue")) is not None:
            await venue.keep(name, content)
