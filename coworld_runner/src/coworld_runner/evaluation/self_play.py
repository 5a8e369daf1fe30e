"""Plays one player against itself."""

from __future__ import annotations

from typing import Unpack

from coworld_core.evaluation.designs import blocks_for
from coworld_core.evaluation.scrimmage import PLAYER, Scrimmage, ScrimmagePlan, ScrimmageReport

from ..episode.run_options import BatchArguments
from ..package.player_names import SeatPlayer
from ..package.resolver import PackageSource, resolve_package
from .entrants import Entrants
from .evaluation_rules import EvaluationRules
from .evaluation_run import play_evaluation, settled_rules

__all__ = ["scrimmage"]


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
    entrants = Entrants(await resolve_package(what), {PLAYER: player}, settled_rules(rules, run))
    common = {**entrants.common(), "max_blocks": blocks_for(episodes, 1)}
    plan = ScrimmagePlan.model_validate({**common, "player": entrants.rows()[PLAYER]})
    return await play_evaluation(Scrimmage(plan), entrants, **run)
