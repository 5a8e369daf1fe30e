"""What a suite measures, one line-up in one variant after the other, wherever it is played; and its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..episode.layout import directory_of
from ..errors import UsageError
from ..hints import Hint
from ..manifest.game_config import matching_variants
from ..manifest.models import Manifest
from ..secret_seeds import fresh_seed
from ..text.phrases import listed
from .evaluation_files import MARKDOWN_NAME, PLAN_NAME
from .markdown import report_markdown
from .mixture import MixturePlan, MixtureReport
from .played_evaluation import PlayedEvaluation, read_evaluation
from .suite_report import SUITE_NAME, SuiteCell, SuiteReport, read_suite_file
from .suite_settings import CANDIDATE, EntrySettings, SuiteSettings

__all__ = [
    "PlannedCell",
    "SuiteCombination",
    "plan_cells",
    "read_suite",
    "resumed_suite",
    "suite_files",
    "suite_seed",
]

_Seating = TypeVar("_Seating")


@dataclass(frozen=True, kw_only=True)
class SuiteCombination:
    """A line-up in a variant, as the file of the suite says it."""

    entry: str
    """Name of the entry."""
    variant: str | None
    """Id of the variant; None: the entry names none."""
    lineup: tuple[str, ...]
    """The players; one that is named twice has twice the seats."""
    episodes: int
    """How many episodes there are to be, at least."""
    config: dict[str, Any]
    """Changes to the game config."""
    seed: int
    """The base seed."""

    @property
    def shares(self) -> dict[str, float]:
        """The proportion of the seats that each player gets."""
        return {word: float(self.lineup.count(word)) for word in self.lineup}


@dataclass(frozen=True, kw_only=True)
class PlannedCell(Generic[_Seating]):
    """What is measured at once: a line-up in a variant."""

    record: SuiteCell
    plan: MixturePlan
    seating: _Seating
    """What turns a lineup into an episode, where it is played."""


def suite_seed(settings: SuiteSettings, place: Path) -> int:
    """The base seed of a suite: its own, that of the suite in its directory, or a fresh one.

    Raises:
        RecordError: The suite in the directory is broken.
    """
    if settings.seed is not None:
        return settings.seed
    return read_suite_file(place).seed if (place / SUITE_NAME).is_file() else fresh_seed()


def plan_cells(
    settings: SuiteSettings,
    manifest: Manifest,
    players: Sequence[str],
    seed: int,
    plan: Callable[[SuiteCombination], tuple[MixturePlan, _Seating]],
) -> Iterator[PlannedCell[_Seating]]:
    """Plan everything that a suite measures, in the order of its file.

    Args:
        settings: The suite.
        manifest: The game.
        players: The players that `{player}` stands for; each is measured by itself.
        seed: The base seed (`suite_seed`).
        plan: Plans the measurement of one of them.

    Raises:
        UsageError: A line-up or a variant is wrong, players are named for a suite without `{player}`, or not for one
            that has it.
        ManifestError: The changed config does not satisfy the game's schema.
    """
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
        for variant in _variants(entry, manifest):
            for number, lineup in enumerate(lineups, 1):
                combination = SuiteCombination(
                    entry=entry.name,
                    variant=variant,
                    lineup=lineup,
                    episodes=entry.episodes or settings.episodes,
                    config={**settings.config, **entry.config},
                    seed=entry.seed if entry.seed is not None else seed,
                )
                try:
                    planned, seating = plan(combination)
                except UsageError as error:
                    raise _in(f"Entry {entry.name!r}, line-up {number} ({', '.join(lineup)})", error) from error
                record = SuiteCell(
                    entry=entry.name,
                    variant=planned.variant,
                    lineup=lineup,
                    directory=directory_of(f"{entry.name}.{planned.variant}.{number}"),
                    episodes=combination.episodes,
                )
                yield PlannedCell(record=record, plan=planned, seating=seating)


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


def resumed_suite(place: Path, report: SuiteReport, plans: Sequence[MixturePlan]) -> SuiteReport:
    """The report to go on with: what the suite in a directory has of these measurements already.

    Args:
        place: The directory of a suite.
        report: The report of the suite that is to be played, in which nothing is measured yet.
        plans: The plans of its measurements.

    Raises:
        UsageError: Code `another_suite`: the suite there has measurements that this one does not have, or is of another
            game.
        RecordError: Its files are broken.
    """
    found, _ = read_suite(place)
    before = {cell.directory: cell for cell in found.cells}
    names = {
        cell.directory: tuple(one.name for one in plan.players().values())
        for cell, plan in zip(report.cells, plans, strict=True)
    }
    gone = [cell.directory for cell in before.values() if cell.names and names.get(cell.directory) != cell.names]
    if gone or found.coworld != report.coworld:
        what = f"episodes of {found.coworld}"
        what = f"measurements that this one has not: {listed(gone, limit=5)}" if gone else what
        raise UsageError(
            f"{place} has a suite with {what}.",
            code="another_suite",
            hint=Hint("repeat_evaluation", "Repeat the call that began it, or pass another workspace."),
        )
    return report.with_cells([before.get(cell.directory, cell) for cell in report.cells])


def suite_files(report: SuiteReport) -> dict[str, bytes]:
    """The contents of `suite.json` and `report.md`, by name."""
    return {
        SUITE_NAME: (report.model_dump_json(indent=2) + "\n").encode(),
        MARKDOWN_NAME: report_markdown(report).encode(),
    }


def _lineups(entry: EntrySettings, players: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The line-ups of an entry; one with `{player}` once for each player."""
    for lineup in entry.lineups:
        for player in players if CANDIDATE in lineup else ("",):
            yield tuple(player if word == CANDIDATE else word for word in lineup)


def _variants(entry: EntrySettings, manifest: Manifest) -> tuple[str | None, ...]:
    if entry.variants is None:
        return (None,)
    try:
        found = [one.id for word in entry.variants for one in matching_variants(manifest, word)]
    except UsageError as error:
        raise _in(f"Entry {entry.name!r}", error) from error
    return tuple(dict.fromkeys(found))


def _in(where: str, error: UsageError) -> UsageError:
    """The error with the place in the file."""
    return UsageError(f"{where}: {error.message}", code=error.code, hint=error.hint, context=error.context)
