"""The rules of an improvement: what is to be achieved, what is played, and how programs are run."""

from __future__ import annotations

from dataclasses import dataclass, field

from coworld_core.roles.improvement import ImprovementPlan

from ..evaluation.evaluation_rules import EvaluationRules
from ..roles.optimizer_work import PlayerLimits
from ..roles.role_run import RoleOptions

__all__ = ["ImprovementRules", "default_goal"]


@dataclass(frozen=True, kw_only=True)
class ImprovementRules:
    """How a player is improved."""

    goal: str = ""
    """What the changed player is to achieve, in words; empty: to win more against the player as it is."""
    evaluation: EvaluationRules = field(default_factory=EvaluationRules)
    """What to play, and what counts."""
    margin: float | None = None
    """The largest difference of mean scores that is still considered negligible."""
    episodes: int = 6
    """Number of episodes that show how the best player plays."""
    grader: str | None = None
    """A grader, as `find_role` finds it; None: the manifest's, if it has exactly one."""
    diagnoser: str | None = None
    """A diagnoser, in the same way."""
    optimizer: RoleOptions = field(default_factory=lambda: RoleOptions(timeout=1800.0))
    """How the program that changes the player is run."""
    looking: RoleOptions = field(default_factory=RoleOptions)
    """How graders and diagnosers are run."""
    limits: PlayerLimits = field(default_factory=PlayerLimits)
    """How large a changed player may be."""


def default_goal(plan: ImprovementPlan) -> str:
    """What a changed player is to achieve, if nothing else is said."""
    what = f"by what the results have at {plan.metric}" if plan.metric else "by their scores"
    return (
        f"Make the player play {plan.coworld} better. The changed player is compared with the player as it is, in "
        f"pairs of games on the same seed, and is kept only if it certainly wins more pairs, {what}."
    )
