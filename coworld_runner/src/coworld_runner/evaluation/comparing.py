"""Playing two players against each other until it is known which is better."""

from __future__ import annotations

import os
from typing import Unpack

from coworld_core.evaluation.comparison import NEW, OLD, Comparison, ComparisonPlan, ComparisonReport

from .._stage import find_package
from ..package.resolving import Package
from .lineups import Entrants
from .playing import RunArguments, play_evaluation
from .rules import EvaluationRules

__all__ = ["compare"]


async def compare(
    what: Package | str | os.PathLike[str],
    new: str,
    old: str,
    *,
    rules: EvaluationRules | None = None,
    margin: float | None = None,
    **run: Unpack[RunArguments],
) -> ComparisonReport:
    """Find out whether one player is better than another, in as few episodes as that takes.

    Each block is both orders of the two on one seed; with more than two seats, first the one and then the other in the
    same seat among the game's own players. The comparison ends as soon as the evidence decides. A workspace that has
    this comparison already is gone on with: only what it lacks is played.

    Args:
        what: The Coworld: a package, or whatever ``resolve_package`` finds one by.
        new: The player that is to be better, as ``players.read_players`` reads it: an id, a file, an image, …
        old: The player that it is compared with.
        rules: What is played, and what counts.
        margin: Differences of mean scores up to this are not worth having.
        run: Where and how to play.

    Returns:
        The report, which is in ``report.json`` and ``report.md`` too.

    Raises:
        UsageError: An unknown variant, a metric that the results do not have, an image that has changed since the
            comparison began, or a workspace of another evaluation.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes there.
        EnvironmentFault: The machine or the engine failed; the report covers what had ended.
    """
    entrants = Entrants(await find_package(what), {NEW: new, OLD: old}, rules or EvaluationRules())
    rows = entrants.rows()
    plan = ComparisonPlan.model_validate({**entrants.common(), "new": rows[NEW], "old": rows[OLD], "margin": margin})
    return await play_evaluation(Comparison(plan), entrants, **run)
