"""Playing several players that share the seats."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Unpack

from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import mixture_lineups, shares
from coworld_core.evaluation.mixture import Mixture, MixturePlan, MixtureReport
from coworld_core.evaluation.ranking import player_labels

from .._stage import find_package
from ..package.resolving import Package
from .lineups import Entrants
from .playing import RunArguments, play_evaluation
from .rules import EvaluationRules, blocks_for

__all__ = ["mix"]


async def mix(
    what: Package | str | os.PathLike[str],
    players: Mapping[str, float],
    *,
    episodes: int = 50,
    rules: EvaluationRules | None = None,
    **run: Unpack[RunArguments],
) -> MixtureReport:
    """Find out how several players do that share the seats, each its proportion of them.

    Each block is one full rotation on one seed, so everybody sits equally often in every seat. A workspace that has
    this mixture already is gone on with.

    Args:
        what: The Coworld: a package, or whatever ``resolve_package`` finds one by.
        players: Who plays, as ``read_players`` reads it, and its proportion of the seats.
        episodes: How many to play at least: the last block is played whole.
        rules: What is played, and what counts; ``episodes`` says for how long.
        run: Where and how to play.

    Returns:
        The report, which is in ``report.json`` and ``report.md`` too.

    Raises:
        UsageError: Nobody, more players than seats, proportions by which somebody gets no seat, or as ``compare``.
        ManifestError: The config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes there.
        EnvironmentFault: The machine or the engine failed; the report covers what had ended.
    """
    if not players:
        raise UsageError("There must be at least 1 player.", code="bad_count", hint="Name one with --player.")
    labels = player_labels(len(players))
    entrants = Entrants(await find_package(what), dict(zip(labels, players, strict=True)), rules or EvaluationRules())
    counts = shares(list(players), list(players.values()), entrants.seats)
    rows = entrants.rows()
    common = {**entrants.common(), "max_blocks": blocks_for(episodes, len(mixture_lineups(labels, counts, 1)))}
    plan = MixturePlan.model_validate({**common, "entrants": tuple(rows[label] for label in labels), "counts": counts})
    return await play_evaluation(Mixture(plan), entrants, **run)
