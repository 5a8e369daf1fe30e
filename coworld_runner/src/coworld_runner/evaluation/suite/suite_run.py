"""Plays a suite: one mixture after the other, each in its own directory, and the report over all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.evaluation_files import MARKDOWN_NAME, PLAN_NAME, read_plan
from coworld_core.evaluation.markdown import report_markdown
from coworld_core.evaluation.mixture import Mixture, MixturePlan, MixtureReport
from coworld_core.evaluation.suite_report import SUITE_NAME, SuiteCell, SuiteReport, read_suite_file
from coworld_core.hints import Hint
from coworld_core.ids import new_run_id
from coworld_core.text.phrases import listed

from ...episode.episode_rows import require_same_hooks
from ...episode.many import directory_of
from ...episode.plan_hooks import EpisodeHook, find_hooks
from ...episode.run_options import BatchArguments
from ...package.resolver import Package, resolve_package
from ...package.variant_plans import variant_ids
from ...runs.workspace import atomic_write, default_workspace, prepare_workspace
from ..entrants import Entrants
from ..evaluation_rules import EvaluationRules
from ..evaluation_run import PlayedEvaluation, play_evaluation, read_evaluation
from ..mixture import plan_mixture
from .suite_settings import CANDIDATE, EntrySettings, SuiteSettings, read_suite_settings

__all__ = ["play_suite", "read_suite"]


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """What is measured at once: a line-up in a variant."""

    record: SuiteCell
    plan: MixturePlan
    entrants: Entrants


async def play_suite(
    suite: SuiteSettings | str | os.PathLike[str],
    *,
    package: Package | None = None,
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
        package = await resolve_package(settings.game)
    cells = list(_cells(settings, package, players, command, secret_env or {}))
    workspace = run.pop("workspace", None)
    place = Path(workspace) if workspace is not None else default_workspace(package.default_results_dir(), new_run_id())
    place = place.expanduser().absolute()
    hooks = find_hooks(run.get("hooks", ()))
    run["hooks"] = hooks
    report = _begun(place, settings, package, cells, hooks)
    records = {cell.directory: cell for cell in report.cells}
    _write(place, report)
    for cell in cells:
        if records[cell.record.directory].stopped and read_plan(place / cell.record.directory) == cell.plan:
            continue
        measured = await play_evaluation(
            Mixture(cell.plan), cell.entrants, **{**run, "workspace": place / cell.record.directory}
        )
        records[cell.record.directory] = cell.record.measured(measured)
        report = report.with_cells([*records.values()])
        _write(place, report)
    return report


def read_suite(directory: str | os.PathLike[str]) -> tuple[SuiteReport, tuple[PlayedEvaluation, ...]]:
    """Read the suite in a directory: its report so far, from the episodes that have ended, and its measurements.

    Raises:
        UsageError: The directory has no suite.
        RecordError: Its files are broken.
    """
    place = Path(directory)
    report = read_suite_file(place)
    cells: list[SuiteCell] = []
    played: list[PlayedEvaluation] = []
    for cell in report.cells:
        if not (place / cell.directory / PLAN_NAME).is_file():
            cells.append(cell)
            continue
        found = read_evaluation(place / cell.directory)
        played.append(found)
        cells.append(cell.measured(found.report) if isinstance(found.report, MixtureReport) else cell)
    return report.with_cells(cells), tuple(played)


def _cells(
    settings: SuiteSettings,
    package: Package,
    players: Sequence[str],
    command: tuple[str, ...],
    secret_env: Mapping[str, str],
) -> Iterator[_Cell]:
    wants = any(CANDIDATE in lineup for entry in settings.entry for lineup in entry.lineups)
    if wants and not players:
        raise UsageError(
            f"The line-ups of {settings.name!r} have {CANDIDATE}, and no player is named.",
            code="no_candidate",
            hint=Hint("name_player", "Name one in players."),
        )
    if players and not wants:
        raise UsageError(
            f"No line-up of {settings.name!r} has {CANDIDATE}, so there is no seat for {listed(players)}.",
            code="no_candidate",
            hint=f"Put {CANDIDATE} into a line-up, or name no player.",
        )
    for entry in settings.entry:
        lineups = list(_lineups(entry, players))
        for variant in _variants(entry, package):
            rules = EvaluationRules(
                variant=variant,
                config={**settings.config, **entry.config},
                command=command,
                secret_env=secret_env,
                seed=entry.seed if entry.seed is not None else settings.seed,
                metric=settings.metric,
                forfeit=settings.forfeit,
                count_starved=settings.count_starved,
            )
            for number, lineup in enumerate(lineups, 1):
                episodes = entry.episodes or settings.episodes
                shares = {word: float(lineup.count(word)) for word in lineup}
                try:
                    plan, entrants = plan_mixture(package, shares, episodes=episodes, rules=rules)
                except UsageError as error:
                    raise UsageError(
                        f"Entry {entry.name!r}, line-up {number} ({', '.join(lineup)}): {error.message}",
                        code=error.code,
                        hint=error.hint,
                        context=error.context,
                    ) from error
                record = SuiteCell(
                    entry=entry.name,
                    variant=plan.variant,
                    lineup=lineup,
                    directory=directory_of(f"{entry.name}.{plan.variant}.{number}"),
                    episodes=episodes,
                )
                yield _Cell(record=record, plan=plan, entrants=entrants)


def _lineups(entry: EntrySettings, players: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The line-ups of an entry; one with `{player}` once for each player."""
    for lineup in entry.lineups:
        for player in players if CANDIDATE in lineup else ("",):
            yield tuple(player if word == CANDIDATE else word for word in lineup)


def _variants(entry: EntrySettings, package: Package) -> tuple[str | None, ...]:
    if entry.variants is None:
        return (None,)
    try:
        found = [one for word in entry.variants for one in variant_ids(package.manifest, word)]
    except UsageError as error:
        raise UsageError(
            f"Entry {entry.name!r}: {error.message}", code=error.code, hint=error.hint, context=error.context
        ) from error
    return tuple(dict.fromkeys(found))


def _begun(
    place: Path, settings: SuiteSettings, package: Package, cells: Sequence[_Cell], hooks: Sequence[EpisodeHook]
) -> SuiteReport:
    """The report to go on with: what the workspace has of these cells already.

    Raises:
        UsageError: The workspace has a suite with measurements that this one does not have, or of another game, or one
            that was played with other hooks.
        WorkspaceError: It has something else.
    """
    game = package.manifest.game
    report = SuiteReport(
        name=settings.name,
        coworld=game.name,
        version=game.version,
        seed=settings.seed,
        hooks=tuple(hook.record() for hook in hooks),
        cells=tuple(cell.record for cell in cells),
    )
    if not (place / SUITE_NAME).is_file():
        prepare_workspace(place)
        return report
    found, _ = read_suite(place)
    told = {cell.record.directory: cell.record for cell in cells}
    names = {cell.record.directory: tuple(one.name for one in cell.plan.players().values()) for cell in cells}
    before = {cell.directory: cell for cell in found.cells}
    gone = [cell.directory for cell in found.cells if cell.names and names.get(cell.directory) != cell.names]
    if gone or found.coworld != report.coworld:
        what = f"episodes of {found.coworld}"
        what = f"measurements that this one has not: {listed(gone, limit=5)}" if gone else what
        raise UsageError(
            f"{place} has a suite with {what}.",
            code="another_suite",
            hint=Hint("repeat_evaluation", "Repeat the call that began it, or pass another workspace."),
        )
    require_same_hooks(found.hooks, hooks)
    return report.with_cells([before.get(directory, record) for directory, record in told.items()])


def _write(place: Path, report: SuiteReport) -> None:
    atomic_write(place / SUITE_NAME, (report.model_dump_json(indent=2) + "\n").encode())
    atomic_write(place / MARKDOWN_NAME, report_markdown(report).encode())
