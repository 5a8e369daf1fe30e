"""Playing one player with itself."""

from __future__ import annotations

import os
from typing import Unpack

from coworld_core.evaluation.scrimmage import PLAYER, Scrimmage, ScrimmagePlan, ScrimmageReport

from .._stage import find_package
from ..package.resolving import Package
from .lineups import Entrants
from .playing import RunArguments, play_evaluation
from .rules import EvaluationRules, blocks_for

__all__ = ["scrimmage"]


async def scrimmage(
    what: Package | str | os.PathLike[str],
    player: str,
    *,
    episodes: int = 50,
    rules: EvaluationRules | None = None,
    **run: Unpack[RunArguments],
) -> ScrimmageReport:
    """Find out how one player does with itself in every seat: its mean, how scores spread, what a seat is worth.

    Each block is one episode on a seed of its own. A workspace that has this scrimmage already is gone on with.

    Args:
        what: The Coworld: a package, or whatever ``resolve_package`` finds one by.
        player: Who plays, as ``read_players`` reads it.
        episodes: How many to play.
        rules: What is played, and what counts; ``episodes`` says for how long.
        run: Where and how to play.

    Returns:
        The report, which is in ``report.json`` and ``report.md`` too.

    Raises:
        UsageError: A count below 1, or as ``compare``.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes there.
        EnvironmentFault: The machine or the engine failed; the report covers what had ended.
    """
    entrants = Entrants(await find_package(what), {PLAYER: player}, rules or EvaluationRules())
    common = {**entrants.common(), "max_blocks": blocks_for(episodes, 1)}
    plan = ScrimmagePlan.model_validate({**common, "player": entrants.rows()[PLAYER]})
    return await play_evaluation(Scrimmage(plan), entrants, **run)
