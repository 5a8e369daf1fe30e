"""What an evaluation plays and what it counts, whatever it is to find out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coworld_core.errors import UsageError
from coworld_core.evaluation.ratings import RatingName

__all__ = ["EvaluationRules", "blocks_for", "rating_for"]


@dataclass(frozen=True, kw_only=True)
class EvaluationRules:
    """What is played, and what counts."""

    variant: str | None = None
    """Id of a variant; None: the certification fixture."""
    command: tuple[str, ...] = ()
    """Command for players given as images."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets for every player."""
    seed: int = 0
    """The base seed: every block has one of its own, made of it."""
    max_blocks: int = 200
    """How many blocks to play at most: enough to see a difference of a quarter of a standard deviation, most often."""
    metric: str = ""
    """JSON pointer to a list of one number a seat in the results; empty: the scores."""
    forfeit: float | None = None
    """The score of whoever fails without results; None: the worst that was shown by then."""
    starved: bool = False
    """Whether to count episodes in which the machine was short of processors: for games in which time does not
    matter."""

    def __post_init__(self) -> None:
        if self.max_blocks < 1:
            raise UsageError("There must be at least 1 block.", code="bad_count")


def rating_for(seats: int) -> RatingName:
    """How players of a game of so many seats are rated unless somebody says otherwise."""
    return "plackett-luce" if seats > 2 else "bradley-terry"


def blocks_for(episodes: int, size: int) -> int:
    """How many blocks of so many episodes it takes to play this many or more.

    Raises:
        UsageError: A count below 1.
    """
    if episodes < 1:
        raise UsageError("There must be at least 1 episode.", code="bad_count")
    return -(-episodes // size)
