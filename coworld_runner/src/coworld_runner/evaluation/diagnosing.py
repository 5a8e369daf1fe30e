"""Playing one player in all variants of a game, to see what is wrong with it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
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
    VariantPlan,
)
from coworld_core.evaluation.designs import Lineup
from coworld_core.evaluation.diagnosis import Diagnosis, DiagnosisReport
from coworld_core.wording import listed

from .._stage import find_package
from ..package.resolving import Package
from ..plan import EpisodePlan
from .lineups import Entrants
from .playing import RunArguments, play_evaluation, read_evaluation
from .rules import EvaluationRules

__all__ = ["diagnose"]


async def diagnose(
    what: Package | str | os.PathLike[str],
    player: str,
    *,
    baseline: str | None = None,
    strong: str | None = None,
    before: str | os.PathLike[str] | None = None,
    rules: EvaluationRules | None = None,
    **run: Unpack[RunArguments],
) -> DiagnosisReport:
    """Find out what is wrong with a player: faults, turns it let pass, times, seats, seeds, and its score on a scale.

    A battery over the variants of the game, which take turns. Each block is one seed: the player with itself in every
    seat, in the first blocks twice, and in one seat among the game's own players, where the baseline and the strong
    player take turns with it. A workspace that has this diagnosis already is gone on with.

    Args:
        what: The Coworld: a package, or whatever ``resolve_package`` finds one by.
        player: Who is diagnosed, as ``read_players`` reads it.
        baseline: The player that scores 0 on the normalised scale.
        strong: The player that scores 1 on it.
        before: Directory of an earlier diagnosis: the report says what has certainly changed since.
        rules: What is played, and what counts; ``max_blocks`` are those of each variant, and without a ``variant`` all
            of the game's are played, and a pattern (``small-*``) stands for those that it fits.
        run: Where and how to play.

    Returns:
        The report, which is in ``report.json`` and ``report.md`` too.

    Raises:
        UsageError: What is in ``before`` is no diagnosis of this game, or as ``compare``.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes there.
        EnvironmentFault: The machine or the engine failed; the report covers what had ended.
    """
    rules = rules or EvaluationRules()
    package = await find_package(what)
    said = {BOT: player, BASELINE: baseline, STRONG: strong}
    players = {label: word for label, word in said.items() if word is not None}
    ids = _battery_ids(rules.variant, [one.id for one in package.manifest.variants])
    battery = _Battery(package, players, rules, ids)
    rows = battery.rows()
    plan = DiagnosisPlan.model_validate(
        {
            **battery.common(),
            "variant": ", ".join(ids),
            "seats": max(each.seats for each in battery.each),
            "seeded": all(each.seeded for each in battery.each),
            "max_blocks": rules.max_blocks * len(ids),
            "player": rows[BOT],
            "baseline": rows.get(BASELINE),
            "strong": rows.get(STRONG),
            "variants": tuple(
                VariantPlan(id=variant, seats=each.seats, seeded=each.seeded)
                for variant, each in zip(ids, battery.each, strict=True)
            ),
            "before": _earlier(Path(before), package) if before is not None else None,
        }
    )
    return await play_evaluation(Diagnosis(plan), battery, **run)


def _battery_ids(word: str | None, known: Sequence[str]) -> Sequence[str]:
    """The variants that are meant: all, one by its id, or those that a pattern fits.

    Raises:
        UsageError: Code ``unknown_variant``: the pattern fits none.
    """
    if word is None:
        return known
    if word in known or not any(char in word for char in "*?["):
        return [word]
    found = [id for id in known if fnmatchcase(id, word)]
    if not found:
        raise UsageError(
            f"No variant fits {word!r}.", code="unknown_variant", hint=f"There is {listed(known) or 'none at all'}."
        )
    return found


class _Battery(Entrants):
    """Players in several variants of a game, which take turns block by block.

    Attributes:
        each: The same players in each variant.
    """

    def __init__(
        self, package: Package, players: Mapping[str, str], rules: EvaluationRules, variants: Sequence[str]
    ) -> None:
        super().__init__(package, players, dataclasses.replace(rules, variant=variants[0]))
        self.each: list[Entrants] = [
            Entrants(package, players, dataclasses.replace(rules, variant=variant)) for variant in variants
        ]

    def plan(self, lineup: Lineup, block: int, *, seed: int | None = None) -> EpisodePlan:
        """What an episode plays, in the variant whose turn it is."""
        return self.each[(block - 1) % len(self.each)].plan(lineup, block, seed=seed)


def _earlier(directory: Path, package: Package) -> EarlierDiagnosis:
    """What an earlier diagnosis had come to.

    Raises:
        UsageError: It is none, or one of another game.
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
