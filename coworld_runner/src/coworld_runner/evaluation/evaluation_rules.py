"""The rules that evaluations of all kinds share: what to play and what counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coworld_core.errors import UsageError
from coworld_core.evaluation.ratings import RatingName

__all__ = ["EvaluationRules", "blocks_for", "rating_for"]


@dataclass(frozen=True, kw_only=True)
class EvaluationRules:
    """What to play and what counts."""

    variant: str | None = None
    """Id of a variant; None: the certification fixture."""
    command: tuple[str, ...] = ()
    """Command for players given as images."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets for every player."""
    seed: int = 0
    """The base seed, from which the seed of each block is derived."""
    seed_secret: bytes | None = field(default=None, repr=False)
    """A secret from which the seeds are derived instead of the base seed (`coworld_core.secret_seeds`)."""
    max_blocks: int = 200
    """Maximum number of blocks: usually enough to detect a difference of a quarter of a standard deviation."""
    metric: str = ""
    """JSON pointer to a list of numbers in the results, one per seat; empty: the scores."""
    forfeit: float | None = None
    """The score of a player that forfeits; None: the lowest that the game allows, or else that was seen so far."""
    count_starved: bool = False
    """Whether to count episodes in which the machine was short of processors, for games in which time does not
    matter."""

    def __post_init__(self) -> None:
        if self.max_blocks < 1:
            raise UsageError("There must be at least 1 block.", code="bad_count")


def rating_for(seats: int) -> RatingName:
    """Return the default rating model for a game with this number of seats."""
    return "plackett-luce" if seats > 2 else "bradley-terry"


def blocks_for(episodes: int, size: int) -> int:
    """Return the number of blocks of `size` episodes needed to play at least `episodes`.

    Raises:
        UsageError: `episodes` is below 1.
    """
    if episodes < 1:
        raise UsageError("There must be at least 1 episode.", code="bad_count")
    return -(-episodes // size)
