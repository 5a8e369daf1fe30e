"""Playing one player in the places of others, to see what it is worth."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.pickup import CANDIDATE, Pickup, PickupPlan, PickupReport, pool_labels

from .._stage import find_package
from ..package.resolving import Package
from .lineups import Entrants
from .playing import RunArguments, play_evaluation
from .rules import EvaluationRules, blocks_for

__all__ = ["pickup"]

_MOST = 8
"""Players that credit is dealt among: the episodes of a block grow with the square of them."""


async def pickup(
    what: Package | str | os.PathLike[str],
    candidate: str,
    pool: Sequence[str],
    *,
    episodes: int = 50,
    team: bool = False,
    credit: Literal["", "shapley"] = "",
    rules: EvaluationRules | None = None,
    **run: Unpack[RunArguments],
) -> PickupReport:
    """Find out what a player is worth beyond those of a pool, by how many seats it takes from them.

    Each block is one seed, played with no seat of the candidate, with one, and so on up to all. A workspace that has
    this pickup already is gone on with.

    Args:
        what: The Coworld: a package, or whatever ``resolve_package`` finds one by.
        candidate: Whose value is measured, as ``read_players`` reads it.
        pool: Whom it replaces.
        episodes: How many to play at least: the last block is played whole.
        team: Whether the mean of the whole table is what counts, for games that score a team with one number.
        credit: How to deal credit for the mean of the whole table among the candidate and the pool, if at all; whoever
            is left out is replaced by whom the game's own configuration seats.
        rules: What is played, and what counts; ``episodes`` says for how long.
        run: Where and how to play.

    Returns:
        The report, which is in ``report.json`` and ``report.md`` too.

    Raises:
        UsageError: An empty pool, a candidate in it, more players than seats or than eight to deal credit among, or as
            ``compare``.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes there.
        EnvironmentFault: The machine or the engine failed; the report covers what had ended.
    """
    if not pool:
        raise UsageError(
            "The pool is empty: there is nobody to replace.", code="empty_pool", hint="Name players with --pool."
        )
    if candidate in pool:
        raise UsageError(
            f"{candidate} is in its own pool: it would replace itself.",
            code="candidate_in_pool",
            hint="Leave it out of the pool. scrimmage shows how a player does with itself.",
        )
    labels = pool_labels(len(pool))
    players = {CANDIDATE: candidate, **dict(zip(labels, pool, strict=True))}
    entrants = Entrants(await find_package(what), players, rules or EvaluationRules())
    if credit and len(players) > min(entrants.seats, _MOST):
        raise UsageError(
            f"Credit is dealt among players that sit together, {_MOST} at most: there are {len(players)} of them and "
            f"{entrants.seats} seats.",
            code="too_few_seats",
            hint="Name a smaller pool, or do without credit.",
        )
    rows = entrants.rows()
    own = {
        "candidate": rows[CANDIDATE],
        "pool": tuple(rows[label] for label in labels),
        "team": team,
        "credit": credit,
    }
    plan = PickupPlan.model_validate({**entrants.common(), **own})
    size = len(Pickup(plan).lineups(1))
    plan = plan.model_copy(update={"max_blocks": blocks_for(episodes, size)})
    return await play_evaluation(Pickup(plan), entrants, **run)
