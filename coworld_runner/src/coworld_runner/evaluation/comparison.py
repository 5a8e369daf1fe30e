"""Plays two players against each other until it is clear which is better."""

from __future__ import annotations

import os
from typing import Unpack

from coworld_core.evaluation.comparison import NEW, OLD, Comparison, ComparisonPlan, ComparisonReport

from ..episode.run_options import BatchArguments
from ..package.resolver import Package, resolve_package
from .entrants import Entrants
from .evaluation_rules import EvaluationRules
from .evaluation_run import play_evaluation

__all__ = ["compare"]


async def compare(
    what: Package | str | os.PathLike[str],
    new: str,
    old: str,
    *,
    rules: EvaluationRules | None = None,
    margin: float | None = None,
    **run: Unpack[BatchArguments],
) -> ComparisonReport:
    """Find out whether one player is better than another, in as few episodes as possible.

    Each block plays both seat orders of the two players on one seed. In a game with more than two seats, each of the
    two plays in turn in the same seat among the game's own players. The comparison stops as soon as the evidence
    decides. If the workspace already contains this comparison, only the missing episodes are played.

    Args:
        what: The Coworld: a package, or anything that `resolve_package` accepts.
        new: The player expected to be better, as `players.read_players` reads it: an id, a file, an image, …
        old: The player it is compared with.
        rules: What to play and what counts.
        margin: The largest difference of mean scores that is still considered negligible.
        run: Where and how to play.

    Returns:
        The report, which is also written to `report.json` and `report.md`.

    Raises:
        UsageError: An unknown variant, a metric that the results do not have, an image that has changed since the
            comparison began, or a workspace of another evaluation.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; the report covers the episodes that had ended.
    """
    entrants = Entrants(await resolve_package(what), {NEW: new, OLD: old}, rules or EvaluationRules())
    rows = entrants.rows()
    plan = ComparisonPlan.model_validate({**entrants.common(), "new": rows[NEW], "old": rows[OLD], "margin": margin})
    return await play_evaluation(Comparison(plan), entrants, **run)
