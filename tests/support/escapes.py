"""Evaluations of equal players, one of which escapes whenever it is losing, for a user who looks after every block."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coworld_core.episode.record import SlotRow
from coworld_core.evaluation.comparison import NEW, Comparison
from coworld_core.evaluation.mixture import Mixture
from coworld_core.evaluation.pickup import CANDIDATE, Pickup
from coworld_core.evaluation.ranking import Ranking, pair_records
from coworld_core.evaluation.report_base import Evaluation
from coworld_core.evaluation.scrimmage import PLAYER, Scrimmage

from .simulated import comparison_plan, hostile_run, mixture_plan, pickup_plan, ranking_plan, scrimmage_plan

__all__ = ["COMMANDS", "ESCAPES", "FEW", "alarmed"]

ESCAPES = ("stay", "crash", "absent", "burn", "slow", "break")
"""How the player escapes (`hostile_rows`)."""

FEW = ("pickup", "scrimmage")
"""Commands that usually play few blocks."""


@dataclass(frozen=True)
class _Command:
    start: Callable[[dict[str, Any]], Evaluation[Any, Any]]
    """Makes an evaluation with these terms."""
    hostile: str
    """Label of the player that escapes."""
    alarm: Callable[[Any, bool], bool]
    """Whether an evaluation says that the players are not equal; if the second argument is true, in favour of that one
    (in a scrimmage: of the seat in which it escapes)."""


def alarmed(command: str, how: str, seed: int, blocks: int) -> bool:
    """Whether an evaluation ever says that equal players are not.

    If one of them escapes, only what favours it is an alarm.

    Args:
        command: The command.
        how: How the player escapes; `stay`: not at all.
        seed: The luck of the game.
        blocks: Most blocks.
    """
    what, said = COMMANDS[command], False

    def look(evaluation: Any) -> bool:
        nonlocal said
        said = said or what.alarm(evaluation, how != "stay")
        return said

    # Every other game says what its scores can be
    bounds = {"lowest": 0.0, "highest": 1.0} if seed % 2 else {}
    evaluation = what.start({"max_blocks": blocks, **bounds})
    return look(hostile_run(evaluation, what.hostile, random.Random(seed), how=how, until=look))


def _compared(comparison: Comparison, favoured: bool) -> bool:
    return comparison.verdict == "better" or (comparison.verdict == "worse" and not favoured)


def _told_apart(evaluation: Ranking | Mixture, favoured: bool) -> bool:
    plan = evaluation.plan
    pairs = pair_records(evaluation.rankings, players=len(plan.entrants), alpha=plan.alpha)
    better = [pair.first if pair.won > pair.lost else pair.second for pair in pairs if pair.apart]
    return "player-2" in better if favoured else bool(better)


def _valued(pickup: Pickup, favoured: bool) -> bool:
    return pickup.verdict == "better" or (pickup.verdict == "worse" and not favoured)


def _seat_favoured(scrimmage: Scrimmage, favoured: bool) -> bool:
    return any(seat.slot == 0 or not favoured for seat in scrimmage.favoured_seats())


def _test_passed(comparison: Comparison, favoured: bool) -> bool:
    del favoured  # Equal players are to fail
    return comparison.verdict == "better"


THREE: dict[str, Any] = {"entrants": tuple(SlotRow(name=name) for name in "ABC")}

COMMANDS = {
    "compare": _Command(lambda terms: Comparison(comparison_plan(**terms)), NEW, _compared),
    "compare --elo1": _Command(
        lambda terms: Comparison(comparison_plan(elo0=0.0, elo1=60.0, **terms)), NEW, _test_passed
    ),
    "rank": _Command(lambda terms: Ranking(ranking_plan(**THREE, **terms)), "player-2", _told_apart),
    "mix": _Command(lambda terms: Mixture(mixture_plan(1, 1, **terms)), "player-2", _told_apart),
    "pickup": _Command(lambda terms: Pickup(pickup_plan(1, **terms)), CANDIDATE, _valued),
    "scrimmage": _Command(lambda terms: Scrimmage(scrimmage_plan(**terms)), PLAYER, _seat_favoured),
}
"""The commands whose results say whether players, or seats, are equal."""
