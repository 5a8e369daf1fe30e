"""Plays several players against each other until their order is clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.ranking import Ranking, RankingPlan, RankingReport, least_ranking_blocks, player_labels
from coworld_core.evaluation.ratings import RatingName

from ..episode.run_options import BatchArguments
from ..package.player_names import SeatPlayer
from ..package.resolver import PackageSource
from .entrants import find_entrants
from .evaluation_rules import EvaluationRules, rating_for
from .evaluation_run import play_evaluation

__all__ = ["rank"]


async def rank(
    what: PackageSource,
    players: Sequence[SeatPlayer],
    *,
    rating: RatingName | None = None,
    rules: EvaluationRules | None = None,
    **run: Unpack[BatchArguments],
) -> RankingReport:
    """Rank several players by strength.

    The ranking is a round robin: each block plays a group of as many players as there are seats on one seed, with every
    player in every seat. It ends when every two players are told apart, or when the blocks are used up:
    by default three times as many as that takes if the same player of each pair always wins. A workspace
    that already contains this ranking is resumed.

    Args:
        what: The Coworld, as `resolve_package` takes it.
        players: At least two players, as `players.read_players` reads them: ids, files, directories, images.
        rating: The rating model; None: Plackett–Luce for more than two seats, otherwise Bradley–Terry. It may change
            when a run resumes.
        rules: What to play and what counts.
        run: Where and how to play.

    Returns:
        The report, which is also written to `report.json` and `report.md`.

    Raises:
        UsageError: Fewer than two players, or as `compare`.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; the report covers the episodes that had ended.
    """
    if len(players) < 2:
        raise UsageError("There must be at least 2 players to rank.", code="bad_count")
    labels = player_labels(len(players))
    entrants = await find_entrants(what, dict(zip(labels, players, strict=True)), rules, run)
    plan = entrants.planned(
        RankingPlan,
        least=least_ranking_blocks(len(players), entrants.seats),
        entrants=tuple(entrants.rows().values()),
        rating=rating or rating_for(entrants.seats),
    )
    return await play_evaluation(Ranking(plan), entrants, **run)
