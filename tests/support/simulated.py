"""Simulated evaluations with known true values: rows as `run_many` writes them, with random scores."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coworld_core.episode.record import ROWS_NAME, EpisodeRow, PlayerFault, SlotRow
from coworld_core.evaluation.battery import DiagnosisPlan, VariantPlan
from coworld_core.evaluation.comparison import ComparisonPlan
from coworld_core.evaluation.designs import Lineup, episode_key
from coworld_core.evaluation.evaluation_files import PLAN_NAME, open_evaluation
from coworld_core.evaluation.mixture import MixturePlan
from coworld_core.evaluation.pickup import PickupPlan
from coworld_core.evaluation.ranking import RankingPlan
from coworld_core.evaluation.report_base import Evaluation, EvaluationPlan
from coworld_core.evaluation.scrimmage import ScrimmagePlan
from coworld_core.tournament.tournament_log import TournamentRules

__all__ = [
    "ADDS",
    "DIFFERENCES",
    "TOGETHER",
    "added",
    "comparison_plan",
    "diagnosis_plan",
    "episode_row",
    "hostile_rows",
    "hostile_run",
    "leave",
    "mixture_plan",
    "pair_rows",
    "pickup_plan",
    "played",
    "ranking_plan",
    "scrimmage_plan",
    "strength_blocks",
    "strengths",
    "tournament_rules",
]

DIFFERENCES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda chance: chance.gauss(0, 1),
    "win, draw, loss": lambda chance: chance.choice((-2.0, 0.0, 2.0)),
    "90 % draws": lambda chance: chance.choice((-1.0, 1.0)) if chance.random() < 0.1 else 0.0,
    "heavy tails": lambda chance: chance.gauss(0, 1) / max(1e-9, chance.gammavariate(1, 1)) ** 0.5,
    "five values": lambda chance: float(chance.choice((-2, -1, 0, 1, 2))),
}
"""Differences in a block between exchangeable players."""


_GAME: dict[str, Any] = {
    "coworld": "game",
    "version": "1",
    "variant": "default",
    "slot_count": 2,
    "seed": 0,
    "seeded": True,
    "max_blocks": 400,
}


def comparison_plan(**values: Any) -> ComparisonPlan:
    return ComparisonPlan.model_validate({**_GAME, "new": SlotRow(name="New"), "old": SlotRow(name="Old"), **values})


def tournament_rules(**values: Any) -> TournamentRules:
    return TournamentRules.model_validate({**_GAME, "rating": "bradley-terry", **values})


def ranking_plan(**values: Any) -> RankingPlan:
    return RankingPlan.model_validate({**_GAME, **values})


def diagnosis_plan(*variants: tuple[str, int], **values: Any) -> DiagnosisPlan:
    """A plan for a player in variants, each given as id and number of seats; by default, one variant of two seats."""
    battery = tuple(VariantPlan(id=name, slot_count=seats, seeded=True) for name, seats in variants or [("default", 2)])
    own = {"player": SlotRow(name="Player"), "variants": battery, "slot_count": max(one.slot_count for one in battery)}
    return DiagnosisPlan.model_validate({**_GAME, **own, **values})


def scrimmage_plan(**values: Any) -> ScrimmagePlan:
    return ScrimmagePlan.model_validate({**_GAME, "player": SlotRow(name="Player"), **values})


def mixture_plan(*counts: int, **values: Any) -> MixturePlan:
    """A plan for players A, B, … with the given numbers of seats."""
    entrants = tuple(SlotRow(name=name) for name in "ABCDEFGH"[: len(counts)])
    return MixturePlan.model_validate(
        {**_GAME, "entrants": entrants, "counts": counts, "slot_count": sum(counts), **values}
    )


def pickup_plan(pool: int = 1, **values: Any) -> PickupPlan:
    """A plan for the candidate C and a pool of A, B, …"""
    others = tuple(SlotRow(name=name) for name in ("A", "B", "D", "E", "F", "G", "H")[:pool])
    return PickupPlan.model_validate({**_GAME, "candidate": SlotRow(name="C"), "pool": others, **values})


def played(
    plan: EvaluationPlan, table: Callable[[Lineup, random.Random], Sequence[float]], *, seed: int = 0
) -> Iterator[EpisodeRow]:
    """The rows of a simulated evaluation.

    Args:
        plan: The plan of the evaluation.
        table: Returns the scores of a lineup; its generator starts from the same state in all episodes of a block.
        seed: The seed of all randomness.
    """
    evaluation = open_evaluation(plan)
    for block in range(1, plan.max_blocks + 1):
        for number, lineup in enumerate(evaluation.lineups(block), 1):
            scores = table(lineup, random.Random(f"{seed} {block}"))
            yield episode_row(episode_key(block, 1, number), *scores)


ADDS = {"candidate": 0.6, "pool-1": 0.3, "pool-2": 0.0}
"""What each player adds to the team's score; the first two add TOGETHER more when both are seated."""
TOGETHER = 0.5


def added(noise: float) -> Callable[[Lineup, random.Random], list[float]]:
    """A team game: the score is what the players add, singly and together, plus luck of block and episode."""

    def table(lineup: Lineup, luck: random.Random) -> list[float]:
        seated = {label for label in lineup if label is not None}
        total = sum(ADDS[label] for label in seated) + TOGETHER * ({"candidate", "pool-1"} <= seated)
        common = luck.gauss(0, 1)
        own = random.Random(f"{common} {lineup}").gauss(0, noise)
        return [total + common + own] * len(lineup)

    return table


def strengths(
    of: Mapping[str, float], *, noise: float = 1.0, seat: float = 0.0
) -> Callable[[Lineup, random.Random], list[float]]:
    """A game in which each player scores its strength plus luck, and the first seat scores `seat` more."""

    def table(lineup: Lineup, luck: random.Random) -> list[float]:
        own = random.Random(f"{luck.random()} {lineup}")
        return [
            of.get(label or "", 0.0) + own.gauss(0, noise) + (seat if slot == 0 else 0.0)
            for slot, label in enumerate(lineup)
        ]

    return table


def leave(directory: Path, plan: EvaluationPlan, rows: Iterable[EpisodeRow]) -> Path:
    """Write the files of an evaluation, without the episodes' evidence."""
    directory.mkdir(parents=True)
    (directory / PLAN_NAME).write_text(plan.model_dump_json())
    (directory / ROWS_NAME).write_text("".join(f"{row.model_dump_json()}\n" for row in rows))
    return directory


def episode_row(key: str, *scores: float, **values: Any) -> EpisodeRow:
    status = "completed" if scores else "failed"
    return EpisodeRow.model_validate(
        {
            "index": 1,
            "key": key,
            "run_id": "r",
            "workspace": key,
            "status": status,
            "ok": bool(scores),
            "scores": scores,
            "seconds": 1.0,
            **values,
        }
    )


def pair_rows(block: int, difference: float, *, seat: float = 0.0, attempt: int = 1) -> list[EpisodeRow]:
    """Two episodes, one in each order; the new player scores `difference` more, the first seat `seat` more."""
    return [
        episode_row(episode_key(block, attempt, 1), 10 + difference + seat, 10.0),
        episode_row(episode_key(block, attempt, 2), 10.0 + seat, 10 + difference),
    ]


def hostile_rows(
    lineups: Sequence[Lineup],
    block: int,
    hostile: str,
    chance: random.Random,
    *,
    how: str = "crash",
    steps: int = 1,
    results: bool = True,
    attempt: int = 1,
) -> Iterator[EpisodeRow]:
    """The episodes of a block of a fair game, in which one player escapes as soon as it is losing.

    Args:
        lineups: The lineups of the block.
        block: Its number.
        hostile: Label of that player.
        chance: The luck of the game.
        how: How it escapes: `stay`, not at all; `crash`; `absent`, exiting before it connects, as if it knew; `burn`,
            taking the processors so that the others are late; `slow`, slowing the machine in a way that cannot be seen;
            `break`, making the game fail, such as by scores that are not numbers.
        steps: Points to be had one by one, each by any player; 1: a win or a loss.
        results: Whether the game still writes results, and calls it a draw.
        attempt: Which attempt at the block it is.
    """
    good = episode_row("", 0.0, 0.0)
    alone = all(set(lineup) == {hostile} for lineup in lineups)
    for number, lineup in enumerate(lineups, 1):
        # With itself in all seats, there is nothing to escape from, unless one seat is to look better than the others
        escapes = how != "stay" and hostile in lineup and (alone or set(lineup) != {hostile})
        slot = lineup.index(hostile) if escapes else None
        scores, fault = [0.0] * len(lineup), dict[str, object]()
        for _ in range(steps):
            scores[chance.randrange(len(lineup))] += 1
            if slot is not None and scores[slot] < max(scores):
                fault = _escape(how, slot, results=results)
                if how in ("crash", "absent", "break"):
                    scores = [min(scores)] * len(lineup) if results and how != "break" else []
                    break
        key = episode_key(block, attempt, number)
        yield good.model_copy(update={"key": key, "workspace": key, "scores": tuple(scores), **fault})


def _escape(how: str, slot: int, *, results: bool) -> dict[str, object]:
    if how == "slow":
        return {"starved": True}
    if how == "break":
        return {"ok": False, "status": "failed", "party": "game", "error_type": "game_contract_violation"}
    bad: dict[str, object] = {
        "ok": False,
        "party": "player",
        "error_type": "player_error",
        "message": "Exit 1.",
        "fault_slot": slot,
    }
    if how == "burn":
        late = PlayerFault(slot=1 - slot, error_type="player_timeout", message="It was late.")
        return {**bad, "fault_slot": 1 - slot, "player_faults": (late,), "starved": True, "starved_by": (slot,)}
    if how == "absent":
        bad["player_faults"] = (PlayerFault(slot=slot, message="Exit 1.", connected=False),)
    return {**bad, "status": "completed" if results else "failed"}


def hostile_run(
    evaluation: Evaluation[Any, Any],
    hostile: str,
    chance: random.Random,
    *,
    until: Callable[[Any], bool] = lambda _: False,
    **game: Any,
) -> Evaluation[Any, Any]:
    """An evaluation in which one player escapes (`hostile_rows`), with all attempts that its blocks need.

    Args:
        evaluation: The evaluation, without rows.
        hostile: Label of that player.
        chance: The luck of the game.
        until: Whether the user, who looks after every block, stops.
        game: As for `hostile_rows`.
    """
    for block in range(1, evaluation.plan.max_blocks + 1):
        if until(evaluation):
            break
        lineups = evaluation.lineups(block)
        for attempt in (1, 2, 3):
            if evaluation.stopped or not evaluation.ledger.missing(block):
                break
            for row in hostile_rows(lineups, block, hostile, chance, attempt=attempt, **game):
                evaluation.add(row)
    return evaluation


def strength_blocks(
    chance: random.Random, strengths: Sequence[float], lineups: Callable[[int], Sequence[Lineup]], blocks: int
) -> Iterator[dict[str, float]]:
    """Blocks by the Bradley-Terry model: the seated players finish in a random order by strength (natural units)."""
    for block in range(1, blocks + 1):
        labels = sorted({label for lineup in lineups(block) for label in lineup if label is not None})
        # Exponential times with these rates finish in an order of the Plackett-Luce model.
        yield {label: -chance.expovariate(2.718281828459045 ** strengths[int(label)]) for label in labels}
