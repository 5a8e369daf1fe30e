"""Plays several players that share the seats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import blocks_for, mixture_lineups, shares
from coworld_core.evaluation.mixture import Mixture, MixturePlan, MixtureReport
from coworld_core.evaluation.ranking import player_labels
from coworld_core.hints import Hint

from ..episode.run_options import BatchArguments
from ..package.resolver import Package, PackageSource, resolve_package
from .entrants import Entrants
from .evaluation_rules import EvaluationRules
from .evaluation_run import play_evaluation, settled_rules

__all__ = ["mix", "plan_mixture"]


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
    plan, entrants = plan_mixture(
        await resolve_package(what), players, episodes=episodes, rules=settled_rules(rules, run)
    )
    return await play_evaluation(Mixture(plan), entrants, **run)


def plan_mixture(
    package: Package, players: Mapping[str, float], *, episodes: int, rules: EvaluationRules
) -> tuple[MixturePlan, Entrants]:
    """Plan a mixture; the arguments are those of `mix`.

    Raises:
        UsageError: No players, more players than seats, or proportions that leave a player without a seat.
        ManifestError: The config does not satisfy the game's schema.
    """
    if not players:
        raise UsageError(
            "There must be at least 1 player.", code="bad_count", hint=Hint("name_player", "Name one in players.")
        )
    labels = player_labels(len(players))
    entrants = Entrants(package, dict(zip(labels, players, strict=True)), rules)
    counts = shares(list(players), list(players.values()), entrants.seats)
    rows = entrants.rows()
    common = {**entrants.common(), "max_blocks": blocks_for(episodes, len(mixture_lineups(labels, counts, 1)))}
    plan = MixturePlan.model_validate({**common, "entrants": tuple(rows[label] for label in labels), "counts": counts})
    return plan, entrants
