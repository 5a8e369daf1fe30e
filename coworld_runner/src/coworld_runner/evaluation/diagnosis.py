"""Plays one player in all variants of a game to find out what is wrong with it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.battery import (
    BASELINE,
    BOT,
    STRONG,
    DiagnosisPlan,
    EarlierDiagnosis,
    EarlierNumber,
)
from coworld_core.evaluation.diagnosis import Diagnosis, DiagnosisReport

from ..episode.run_options import BatchArguments
from ..package.player_names import SeatPlayer
from ..package.resolver import Package, PackageSource
from .entrants import Entrants, find_entrants
from .evaluation_rules import EvaluationRules
from .evaluation_run import play_evaluation, read_evaluation

__all__ = ["diagnose", "play_battery"]


async def diagnose(
    what: PackageSource,
    player: SeatPlayer,
    *,
    baseline: SeatPlayer | None = None,
    strong: SeatPlayer | None = None,
    before: str | os.PathLike[str] | None = None,
    rules: EvaluationRules | None = None,
    **run: Unpack[BatchArguments],
) -> DiagnosisReport:
    """Find out what is wrong with a player: faults, missed turns, times, seats, seeds, and its normalised score.

    The blocks cycle through the variants of the game. Each block plays one seed: with the player in every seat (twice
    in the first blocks), and with the player in one seat among the game's own players, where the baseline and the
    strong player each take its place in turn. A workspace that already contains this diagnosis is resumed.

    Args:
        what: The Coworld, as `resolve_package` takes it.
        player: The player to diagnose, as `read_players` reads it.
        baseline: The player that scores 0 on the normalised scale.
        strong: The player that scores 1 on the normalised scale.
        before: Directory of an earlier diagnosis; the report lists what has certainly changed since.
        rules: What to play and what counts. `max_blocks` applies to each variant. Without a `variant`, all variants
            of the game are played; a pattern (`small-*`) selects the variants that match it.
        run: Where and how to play.

    Returns:
        The report, which is also written to `report.json` and `report.md`.

    Raises:
        UsageError: `before` contains no diagnosis of this game, or as `compare`.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; the report covers the episodes that had ended.
    """
    rules = rules or EvaluationRules()
    said = {BOT: player, BASELINE: baseline, STRONG: strong}
    players = {label: word for label, word in said.items() if word is not None}
    rules = dataclasses.replace(rules, variant=rules.variant or "*")
    battery = await find_entrants(what, players, rules, run, any_seats=True)
    earlier = _earlier(Path(before), battery.package) if before is not None else None
    return await play_battery(battery, blocks=rules.most_blocks(), before=earlier, **run)


async def play_battery(
    entrants: Entrants, *, blocks: int, before: EarlierDiagnosis | None = None, **run: Unpack[BatchArguments]
) -> DiagnosisReport:
    """Diagnose the player with the label `BOT`.

    Args:
        entrants: The player, and perhaps a `BASELINE` and a `STRONG` one.
        blocks: Number of blocks of each variant.
        before: An earlier diagnosis.
        run: Where and how to play.

    Raises:
        CoworldError: As `diagnose`.
    """
    rows, variants = entrants.rows(), entrants.variants()
    plan = entrants.planned(
        DiagnosisPlan,
        max_blocks=blocks * len(variants),
        player=rows[BOT],
        baseline=rows.get(BASELINE),
        strong=rows.get(STRONG),
        variants=variants,
        before=before,
    )
    return await play_evaluation(Diagnosis(plan), entrants, **run)


def _earlier(directory: Path, package: Package) -> EarlierDiagnosis:
    """Read the numbers of an earlier diagnosis.

    Raises:
        UsageError: The directory has no diagnosis, or one of another game.
    """
    report = read_evaluation(directory).report
    if not isinstance(report, DiagnosisReport):
        raise UsageError(
            f"{directory} has no diagnosis: it is what {report.plan.kind} wrote.",
            code="no_evaluation",
            hint="Name a directory that diagnose wrote.",
        )
    if report.plan.coworld != package.manifest.game.name:
        raise UsageError(
            f"{directory} has a diagnosis of {report.plan.coworld}, and this is {package.manifest.game.name}.",
            code="another_evaluation",
            hint="Compare with a diagnosis of the same game.",
        )
    return EarlierDiagnosis(
        name=str(directory),
        player=report.plan.player.name,
        numbers=tuple(
            EarlierNumber(quantity=one.quantity, of=one.of, value=one.value, interval=one.interval)
            for one in report.estimates()
            if one.interval is not None
        ),
    )
