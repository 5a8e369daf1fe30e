"""Playing several players against each other until it is known who is better than whom."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.ranking import Ranking, RankingPlan, RankingReport, player_labels
from coworld_core.evaluation.ratings import RatingName

from .._stage import find_package
from ..package.resolving import Package
from .lineups import Entrants
from .playing import RunArguments, play_evaluation
from .rules import EvaluationRules, rating_for

__all__ = ["rank"]


async def rank(
    what: Package | str | os.PathLike[str],
    players: Sequence[str],
    *,
    rating: RatingName | None = None,
    rules: EvaluationRules | None = None,
    **run: Unpack[RunArguments],
) -> RankingReport:
    """Find out who is better than whom among several players.

    A round robin: each block is a group of as many players as there are seats, on one seed, with everybody in every
    seat. It ends when everybody is told apart from everybody else, or the blocks are used up. A workspace that has this
    ranking already is gone on with.

    Args:
        what: The Coworld: a package, or whatever ``resolve_package`` finds one by.
        players: Who is ranked, at least two, as ``players.read_players`` reads them: ids, files, directories, images.
        rating: How they are rated; None: by Plackett and Luce's model where there are more than two seats, otherwise by
            Bradley and Terry's. What was played may be rated otherwise at any time.
        rules: What is played, and what counts.
        run: Where and how to play.

    Returns:
        The report, which is in ``report.json`` and ``report.md`` too.

    Raises:
        UsageError: Fewer than two players, or as ``compare``.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes there.
        EnvironmentFault: The machine or the engine failed; the report covers what had ended.
    """
    if len(players) < 2:
        raise UsageError("There must be at least 2 players to rank.", code="bad_count")
    labels = player_labels(len(players))
    entrants = Entrants(await find_package(what), dict(zip(labels, players, strict=True)), rules or EvaluationRules())
    rows = entrants.rows()
    own = {"entrants": tuple(rows[label] for label in labels), "rating": rating or rating_for(entrants.seats)}
    plan = RankingPlan.model_validate({**entrants.common(), **own})
    return await play_evaluation(Ranking(plan), entrants, **run)
