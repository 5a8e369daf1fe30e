"""What a player is told of chance: a seed from which nothing follows about the deal or about anyone else's seed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.kit_packages import write_game

from coworld_core.episode.record import read_record, read_rows
from coworld_core.evaluation.designs import block_seed
from coworld_core.player_seeds import block_secret, player_seed
from coworld_core.rules import read_replay
from coworld_runner import certify
from coworld_runner.evaluation import EvaluationRules, compare, scrimmage
from coworld_runner.evaluation.entrants import Entrants
from coworld_runner.package.plan import EpisodePlan, plan_episode
from coworld_runner.package.resolver import resolve_package

NIM = Path(__file__).parents[2] / "examples" / "nim"
PENNIES = '''
"""Matching pennies: seat 0 wins if both show the same side."""

from typing import Any

from pydantic import BaseModel, Field

from coworld_core import Rules


class Pennies(Rules):
    """One move each, at the same time."""

    class Action(BaseModel):
        """A side."""

        side: int = Field(ge=0, le=1)

    seats = 2
    score_range = (0, 1)

    def start(self) -> None:
        self.shown: list[int] = []

    def to_act(self) -> list[int]:
        return [] if self.shown else [0, 1]

    def legal(self, seat: int) -> list[Any]:
        return [self.Action(side=side) for side in (0, 1)]

    def observe(self, seat: int) -> dict[str, int]:
        return {"seat": seat}

    def step(self, actions: Any) -> None:
        self.shown = [actions[seat].side if actions.get(seat) else 0 for seat in (0, 1)]

    def scores(self) -> list[float]:
        same = float(len(set(self.shown)) == 1)
        return [same, 1 - same]

    def draw(self) -> str:
        return str(self.shown)
'''
HONEST = "def act(observation, legal, rng):\n    return rng.choice(legal)\n"
CHEAT = '''
import os
import random

from coworld_core.evaluation.designs import block_seed
from coworld_core.player_seeds import block_secret, player_seed


def guessed():
    """The other seat's seed, if a small base seed explains the own one."""
    own = int(os.environ["COWORLD_PLAYER_SEED"])
    for base in range(3):
        for block in range(1, 40):
            seed = block_seed(base, block)
            for secret in ("", block_secret(base, block)):
                for slot in (0, 1):
                    if player_seed(seed, slot, secret=secret) == own:
                        return player_seed(seed, 1 - slot, secret=secret)
    return None


class Player:
    def __init__(self):
        found = guessed()
        self.other = None if found is None else random.Random(found)

    def act(self, observation, legal, rng):
        if self.other is None:
            return rng.choice(legal)
        theirs = self.other.choice(legal)
        return theirs if observation["seat"] == 0 else next(one for one in legal if one != theirs)
'''


def seeds_of(plan: EpisodePlan) -> list[int | None]:
    return [plan.player_seed(slot) for slot in range(len(plan.seats))]


async def test_nothing_that_a_player_is_told_follows_from_what_everybody_knows() -> None:
    package = await resolve_package(NIM)
    players, lineup = {"one": "counter", "two": "random-taker"}, ("one", "two")
    entrants, others = (Entrants(package, players, EvaluationRules()) for _ in range(2))
    base = entrants.common()["seed"]
    assert base.bit_length() > 40
    assert base != others.common()["seed"]
    for block in (1, 2):
        plan = entrants.plan(lineup, block)
        assert plan.seed == block_seed(base, block)
        # Not from the deal, nor from the base seed that used to be everybody's
        for seed, secret in ((plan.seed, ""), (block_seed(0, block), ""), (plan.seed, block_secret(0, block))):
            assert not {player_seed(seed, slot, secret=secret) for slot in (0, 1)} & {*seeds_of(plan)}
        assert not {*seeds_of(plan)} & {*seeds_of(others.plan(lineup, block))}
        assert plan.player_secret not in repr(plan)
    # The base seed repeats it all
    again = Entrants(package, players, EvaluationRules(seed=base))
    assert [seeds_of(again.plan(lineup, block)) for block in (1, 2)] == [
        seeds_of(entrants.plan(lineup, block)) for block in (1, 2)
    ]


async def test_a_seed_that_is_named_repeats_an_episode_and_one_of_the_package_does_not() -> None:
    package = await resolve_package(NIM)
    named = plan_episode(package, seed=7)
    for same in (plan_episode(package, config={"seed": 7}), plan_episode(package, seed=6).for_episode(1)):
        assert (same.seed, seeds_of(same)) == (7, seeds_of(named))
    assert seeds_of(named) == [player_seed(7, 0), player_seed(7, 1)]
    # As in a request, or in a variant whose author chose the seed
    fixed = [EpisodePlan(manifest=named.manifest, game_config={"seed": 7}, seats=named.seats, variant="x")] * 2
    drawn = [seeds_of(plan.for_episode(0)) for plan in fixed] + [seeds_of(named)]
    assert len({seed for seeds in drawn for seed in seeds}) == 6


@pytest.mark.slow
async def test_a_player_that_tries_small_base_seeds_knows_nothing(tmp_path: Path) -> None:
    game = write_game(tmp_path / "pennies", "pennies", PENNIES)
    bots = [tmp_path / "cheat.py", tmp_path / "honest.py"]
    for bot, source in zip(bots, (CHEAT, HONEST), strict=True):
        bot.write_text(source)
    how: dict[str, Any] = {"what": game, "new": str(bots[0]), "old": str(bots[1])}
    rules = EvaluationRules(max_blocks=16, count_starved=True)
    # Both draw from the same numbers in both orders, so that nobody wins a block
    for backend in ("auto", "process"):
        few = rules if backend == "auto" else EvaluationRules(max_blocks=2, count_starved=True)
        fair = await compare(**how, rules=few, workspace=tmp_path / backend, backend=backend)
        assert (fair.won, fair.lost, fair.drawn) == (0, 0, few.max_blocks)
    # It does know what a person has chosen to make guessable
    named = EvaluationRules(seed=1, max_blocks=16, count_starved=True)
    guessed = await compare(**how, rules=named, workspace=tmp_path / "named")
    assert (guessed.verdict, guessed.won, guessed.lost) == ("better", 15, 0)
    # The record of an episode has what its players' seeds came from
    row = next(iter(read_rows(tmp_path / "process")))
    record = read_record(tmp_path / "process" / row.workspace)
    assert record.player_secret == block_secret(fair.plan.seed, int(row.key[6:10]))


@pytest.mark.slow
async def test_a_game_without_a_seed_is_dealt_anew_each_time(tmp_path: Path) -> None:
    game = write_game(tmp_path / "pennies", "pennies", PENNIES)
    template = game / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text())
    del manifest["game"]["config_schema"]["properties"]["seed"]
    template.write_text(json.dumps(manifest))
    report = await scrimmage(game, "random", episodes=40, workspace=tmp_path / "run")
    assert not report.plan.seeded
    assert {row.scores for row in read_rows(tmp_path / "run")} == {(0.0, 1.0), (1.0, 0.0)}


@pytest.mark.slow
async def test_a_certification_repeats_what_players_draw_too(tmp_path: Path) -> None:
    game = shutil.copytree(NIM, tmp_path / "nim")
    template = game / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text())
    manifest["certification"]["game_config"]["seed"] = 7
    manifest["certification"]["players"] = [{"player_id": "random-taker"}] * 2
    template.write_text(json.dumps(manifest))
    await certify(game, backend="process", workspace=tmp_path / "out")
    first, again = (read_record(tmp_path / "out" / name) for name in ("episode", "same-seed"))
    assert first.player_secret == again.player_secret != ""
    assert read_replay((tmp_path / "out/episode/replay").read_bytes()).ticks == (
        read_replay((tmp_path / "out/same-seed/replay").read_bytes()).ticks
    )
