"""Plays players alone, in mixtures, and in the seats of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import blocks_for, mixture_lineups, shares
from coworld_core.evaluation.mixture import Mixture, MixturePlan, MixtureReport
from coworld_core.evaluation.pickup import CANDIDATE, Pickup, PickupPlan, PickupReport, pool_labels
from coworld_core.evaluation.ranking import player_labels
from coworld_core.evaluation.scrimmage import PLAYER, Scrimmage, ScrimmagePlan, ScrimmageReport
from coworld_core.hints import Hint

from ..episode.run_options import BatchArguments
from ..package.player_names import SeatPlayer
from ..package.resolver import PackageSource
from .entrants import Entrants, find_entrants
from .evaluation_rules import EvaluationRules
from .evaluation_run import play_evaluation

__all__ = ["mix", "mixed_players", "pickup", "plan_mixture", "scrimmage"]

_MOST = 8
"""Maximum number of players that share credit: the episodes of a block grow with the square of their number."""


async def scrimmage(
    what: PackageSource,
    player: SeatPlayer,
    *,
    episodes: int = 50,
    rules: EvaluationRules | None = None,
    **run: Unpack[BatchArguments],
) -> ScrimmageReport:
    """Find out how a player scores with itself in every seat: the mean, the spread of scores, the value of each seat.

    Each block is one episode with its own seed. A workspace that already contains this scrimmage is resumed.

    Args:
        what: The Coworld, as `resolve_package` takes it.
        player: The player, as `read_players` reads it.
        episodes: Number of episodes to play.
        rules: What to play and what counts; `episodes` replaces `max_blocks`.
        run: Where and how to play.

    Returns:
        The report, which is also written to `report.json` and `report.md`.

    Raises:
        UsageError: `episodes` is below 1, or as `compare`.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; the report covers the episodes that had ended.
    """
    entrants = await find_entrants(what, {PLAYER: player}, rules, run)
    plan = entrants.planned(ScrimmagePlan, player=entrants.rows()[PLAYER], max_blocks=blocks_for(episodes, 1))
    return await play_evaluation(Scrimmage(plan), entrants, **run)


async def mix(
    what: PackageSource,
    players: Mapping[str, float],
    *,
    episodes: int = 50,
    rules: EvaluationRules | None = None,
    **run: Unpack[BatchArguments],
) -> MixtureReport:
    """Find out how several players score when they share the seats in given proportions.

    Each block is one full rotation on one seed, so every player plays each seat in proportion to its share. A workspace
    that already contains this mixture is resumed.

    Args:
        what: The Coworld, as `resolve_package` takes it.
        players: The players, as `read_players` reads them, and the proportion of the seats that each gets.
        episodes: Minimum number of episodes to play; the last block is always completed.
        rules: What to play and what counts; `episodes` replaces `max_blocks`.
        run: Where and how to play.

    Returns:
        The report, which is also written to `report.json` and `report.md`.

    Raises:
        UsageError: No players, more players than seats, proportions that leave a player without a seat, or as
            `compare`.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; the report covers the episodes that had ended.
    """
    if not players:
        raise UsageError(
            "There must be at least 1 player.", code="bad_count", hint=Hint("name_player", "Name one in players.")
        )
    entrants = await find_entrants(what, mixed_players(players), rules, run)
    plan = plan_mixture(entrants, players, episodes=episodes)
    return await play_evaluation(Mixture(plan), entrants, **run)


def mixed_players(players: Mapping[str, float]) -> dict[str, str]:
    """The players of a mixture, by label."""
    return dict(zip(player_labels(len(players)), players, strict=True))


def plan_mixture(entrants: Entrants, players: Mapping[str, float], *, episodes: int) -> MixturePlan:
    """Plan a mixture.

    Args:
        entrants: Its players, by the labels of `mixed_players`.
        players: As for `mix`.
        episodes: As for `mix`.

    Raises:
        UsageError: More players than seats, or proportions that leave a player without a seat.
    """
    rows = entrants.rows()
    counts = shares(list(players), list(players.values()), entrants.seats)
    size = len(mixture_lineups(list(rows), counts, 1))
    return entrants.planned(
        MixturePlan, entrants=tuple(rows.values()), counts=counts, max_blocks=blocks_for(episodes, size)
    )


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
    entrants = await find_entrants(what, players, rules, run)
    if credit and len(players) > min(entrants.seats, _MOST):
        raise UsageError(
            f"Credit is dealt among players that sit together, {_MOST} at most: there are {len(players)} of them and "
            f"{entrants.seats} seats.",
            code="too_few_seats",
            hint="Name a smaller pool, or do without credit.",
        )
    rows = entrants.rows()
    plan = entrants.planned(
        PickupPlan,
        candidate=rows[CANDIDATE],
        pool=tuple(rows[label] for label in labels),
        team=team,
        credit=credit,
    )
    size = len(Pickup(plan).lineups(1))
    plan = plan.model_copy(update={"max_blocks": blocks_for(episodes, size)})
    return await play_evaluation(Pickup(plan), entrants, **run)
