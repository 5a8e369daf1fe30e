"""Online ratings, updated after each game: Weng and Lin's model, from the library openskill.

Blocks are processed in order, and the ratings depend on that order, as all online ratings do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Any

from ..lazy import load_library
from .rating_fit import POINTS, Rating

__all__ = ["rate_online"]


def rate_online(blocks: Iterable[Mapping[str, float]], *, level: float = 0.95) -> list[Rating]:
    """Rate all players that played, block by block.

    Points are on Elo's scale as in `ratings`, with a mean of 0: a difference of `beta` times the square root of two
    is one natural unit of strength between players whose ratings are settled.

    Args:
        blocks: Each player's score in a block, by label; higher is better.
        level: How often an interval contains the true rating, according to the model.

    Raises:
        EnvironmentFault: Code `not_installed` if openskill is not installed.
    """
    model: Any = load_library("openskill.models", "pip install 'coworld-core[rating]'").PlackettLuce()
    known: dict[str, Any] = {}
    for block in blocks:
        labels = sorted(block)
        if len(labels) < 2:
            continue
        teams = [[known.setdefault(label, model.rating(name=label))] for label in labels]
        rated = model.rate(teams, scores=[block[label] for label in labels])
        known.update({label: team[0] for label, team in zip(labels, rated, strict=True)})
    if not known:
        return []
    scale = POINTS / (math.sqrt(2) * model.beta)
    middle = math.fsum(one.mu for one in known.values()) / len(known)
    wide = NormalDist().inv_cdf((1 + level) / 2)
    return [
        Rating(
            label=label,
            points=(one.mu - middle) * scale,
            low=(one.mu - middle - wide * one.sigma) * scale,
            high=(one.mu - middle + wide * one.sigma) * scale,
        )
        for label, one in known.items()
    ]
