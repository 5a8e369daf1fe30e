"""Plays one player in the seats of others to measure its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import blocks_for
from coworld_core.evaluation.pickup import CANDIDATE, Pickup, PickupPlan, PickupReport, pool_labels
from coworld_core.hints import Hint

from ..episode.run_options import BatchArguments
from ..package.player_names import SeatPlayer
from ..package.resolver import PackageSource, resolve_package
from .entrants import Entrants
from .evaluation_rules import EvaluationRules
from .evaluation_run import play_evaluation, settled_rules

__all__ = ["pickup"]

_MOST = 8
"""Maximum number of players that share credit: the episodes of a block grow with the square of their number."""


async def pickup(
    what: PackageSource,
    candidate: SeatPlayer,
    pool: Sequence[SeatPlayer],
    *,
    episodes: int = 50,
    team: bool = False,
    credit: Literal["", "shapley"] = "",
    rules: EvaluationRules | None = None,
    **run: Unpack[BatchArguments],
) -> PickupReport:
    """Find out how much better a candidate is than the players of a pool, by the number of seats it takes from them.

    Each block plays one seed with the candidate in no seat, in one seat, and so on up to all seats. A workspace that
    already contains this pickup is resumed.

    Args:
        what: The Coworld, as `resolve_package` takes it.
        candidate: The player to measure, as `read_players` reads it.
        pool: The players that it replaces.
        episodes: Minimum number of episodes to play; the last block is always completed.
        team: Whether the mean score of all seats counts, for games that score a team with one number.
        credit: How to divide credit for the mean score of all seats among the candidate and the pool, if at all. A
            player that is left out is replaced by the player of the game's own configuration.
        rules: What to play and what counts; `episodes` replaces `max_blocks`.
        run: Where and how to play.

    Returns:
        The report, which is also written to `report.json` and `report.md`.

    Raises:
        UsageError: An empty pool; a pool that contains the candidate; credit among more players than seats, or among
            more than eight; or as `compare`.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; the report covers the episodes that had ended.
    """
    if not pool:
        raise UsageError(
            "The pool is empty: there is no player to replace.",
            code="empty_pool",
            hint=Hint("name_pool", "Name players in pool."),
        )
    if candidate in pool:
        raise UsageError(
            f"{candidate} is in its own pool: it would replace itself.",
            code="candidate_in_pool",
            hint="Leave it out of the pool. scrimmage shows how a player does with itself.",
        )
    labels = pool_labels(len(pool))
    players = {CANDIDATE: candidate, **dict(zip(labels, pool, strict=True))}
    entrants = Entrants(await resolve_package(what), players, settled_rules(rules, run))
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
