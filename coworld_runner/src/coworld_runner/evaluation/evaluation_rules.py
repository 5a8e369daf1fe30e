"""The rules that evaluations of all kinds share: what to play and what counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import require_block_seeds
from coworld_core.evaluation.ratings import RatingName

from ..package.player_names import SeatPlayer

__all__ = ["EvaluationRules", "rating_for"]

_USUAL_BLOCKS = 200
"""Usually enough to tell a player apart that wins two of three decided blocks."""
_ROOM = 3
"""How many times the least number of blocks may be played."""


@dataclass(frozen=True, kw_only=True)
class EvaluationRules:
    """What to play and what counts."""

    variant: str | None = None
    """Id of a variant, or a pattern (`small-*`) for several, in which blocks are played in turn; None: the
    certification fixture."""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Changes to the game config, as for `plan_episode`. The blocks' seeds are the measurement's."""
    others: SeatPlayer | None = None
    """The player in the seats that no measured player has; None: the game's own players."""
    command: tuple[str, ...] = ()
    """Command for players given as images."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets for every player."""
    seed: int | None = None
    """The base seed, from which the seed of each block is derived; None: that of the evaluation that is resumed, or a
    fresh one, which nobody can guess. The report has it, and it repeats the evaluation."""
    seed_secret: bytes | None = field(default=None, repr=False)
    """A secret from which the seeds are derived instead of the base seed (`coworld_core.secret_seeds`)."""
    max_blocks: int | None = None
    """Maximum number of blocks; None: 200, and at least three times as many as the clearest possible outcome needs."""
    max_cost: float | None = None
    """US dollars: once the language models of the finished episodes have cost as much, no further block is begun; None:
    no limit. Each model needs a price."""
    metric: str = ""
    """JSON pointer to a list of numbers in the results, one per seat; empty: the scores."""
    forfeit: float | None = None
    """The score of a player that forfeits; None: the lowest that the game allows, or else that was seen so far."""
    count_starved: bool = False
    """Whether to count episodes in which the machine was short of processors, for games in which time does not
    matter."""

    def __post_init__(self) -> None:
        if self.max_blocks is not None and self.max_blocks < 1:
            raise UsageError("There must be at least 1 block.", code="bad_count")
        if self.max_cost is not None and not 0 < self.max_cost < math.inf:
            raise UsageError("The most that models may cost must be above 0.", code="bad_cost")
        require_block_seeds(self.config)

    def most_blocks(self, least: int = 0) -> int:
        """Return the maximum number of blocks.

        Args:
            least: The number that the clearest possible outcome needs.
        """
        return self.max_blocks if self.max_blocks is not None else max(_USUAL_BLOCKS, _ROOM * least)


def rating_for(seats: int) -> RatingName:
    """Return the default rating model for a game with this number of seats."""
    return "plackett-luce" if seats > 2 else "bradley-terry"
