"""Environments with one seat, and actions that are lists of numbers: as rules, and as packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from gymnasium import spaces

from coworld_core.errors import UsageError
from coworld_core.rules import Play, action_schema, audit_rules, load_rules
from coworld_runner.kit.rollout import as_gym_env, rollout
from coworld_runner.kit.wrappers import Gymnasium, wrap_game
from coworld_runner.kit.wrappers.game_catalogue import find_game
from coworld_runner.kit.wrappers.practice import Practised
from coworld_runner.kit.wrappers.wrappable import rules_of

STEERING = """
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from pettingzoo import ParallelEnv

SPACES = {
    "wheel": Box(np.array([-1, 0], np.float32), np.array([1, 0.3], np.float32)),
    "levers": MultiDiscrete([[3, 2]], start=[[-1, 0]]),
    "words": Dict({"a": Discrete(2)}),
}


class Steering(ParallelEnv):
    metadata = {"name": "steering_v0", "render_modes": []}

    def __init__(self, by="wheel", moves=3, mixed=False, render_mode=None):
        self.possible_agents = ["a", "b"]
        self.moves, self.space, self.mixed = moves, SPACES[by], mixed

    def observation_space(self, agent):
        return Box(-10, 10, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(3) if self.mixed and agent == "b" else self.space

    def reset(self, seed=None, options=None):
        self.left, self.agents = self.moves, self.possible_agents[:]
        self.at = {agent: np.zeros(2, np.float32) for agent in self.agents}
        return dict(self.at), {agent: {} for agent in self.agents}

    def step(self, actions):
        for agent, move in actions.items():
            assert self.action_space(agent).contains(move), move
            self.at[agent] = self.at[agent] + move.ravel()
        self.left -= 1
        rewards = {agent: float(self.at[agent][0]) for agent in actions}
        over, cut = (dict.fromkeys(self.agents, flag) for flag in (not self.left, False))
        infos = {agent: {} for agent in self.agents}
        self.agents = self.agents if self.left else []
        return dict(self.at), rewards, over, cut, infos
"""
CARTS = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Cart(gymnasium.Env):
    action_space = Discrete(2, start=-1)
    observation_space = Box(-9, 9, (1,), np.int64)

    def __init__(self, far=3):
        self.far = far

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(3))
        return np.array([self.at]), {"action_mask": np.array([1, self.at < 2])}

    def step(self, action):
        self.at += int(action)
        return np.array([self.at]), float(action), abs(self.at) >= self.far, False, {}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "steering.py").write_text(STEERING)
    (tmp_path / "carts.py").write_text(CARTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("by", "schema", "missed"),
    [
        ("wheel", [{"minimum": -1.0, "maximum": 1.0}, {"minimum": 0.0, "maximum": pytest.approx(0.3)}], (0, 0)),
        ("levers", [{"minimum": -1, "exclusiveMaximum": 2}, {"minimum": 0, "exclusiveMaximum": 2}], (-1, 0)),
    ],
)
def test_actions_are_lists_of_numbers(here: Path, by: str, schema: Any, missed: Any) -> None:
    made = wrap_game(f"pettingzoo:./steering.py:Steering(by={by!r})", directory=here / "made", measure=False)
    assert "    environment = steering.Steering\n" in (made.directory / "made.py").read_text()
    rules = load_rules("made:Made", directory=made.directory)
    items = action_schema(rules)["prefixItems"]
    assert [{key: item[key] for key in item if key != "type"} for item in items] == schema
    play = Play(rules)
    assert play.legal(0) is None
    # The first says nothing, and the second what its bounds do not permit.
    with pytest.raises(Exception, match="less than"):
        play.read(1, [5, 0])
    play.step({1: play.read(1, [1, 0])})
    assert play.observation(0)["view"] == list(missed)
    done = rollout(rules, "random", seed=3)
    assert done.refused == (0, 0)
    assert done.scores != rollout(rules, "random", seed=4).scores
    assert isinstance(as_gym_env(rules).action_space, spaces.Box if by == "wheel" else spaces.MultiDiscrete)


@pytest.mark.slow
def test_players_of_a_package_without_a_list_of_moves(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = wrap_game("pettingzoo:./steering.py:Steering", directory=here / "made", measure=False)
    rules = load_rules("made:Made", directory=made.directory)
    monkeypatch.chdir(made.directory)
    monkeypatch.syspath_prepend(made.directory)
    act = Practised(rules, moves=400, seconds=20).act
    assert rollout(rules, [act, "players/random_player.py"], seed=1).scores[0] > 3


@pytest.mark.slow
def test_an_environment_with_one_seat(here: Path) -> None:
    for source in ("./carts.py", "carts:Cart(far=2)"):
        directory = here / f"made{len(source)}"
        made = wrap_game(f"gymnasium:{source}", directory=directory, measure=False)
        rules = load_rules(directory.name, directory=made.directory)
        assert rules.seats == 1
        assert audit_rules(rules, ticks=30).ok
        assert rollout(rules, lambda seen, legal, rng: legal[0], seed=1).scores[0] <= -2
        players = json.loads((directory / "coworld_manifest_template.json").read_text())["player"]
        assert players[0]["id"] == "practised", "the seat of certification"


def test_environments_of_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    # What other tests of this process have loaded is none of its needs
    monkeypatch.delitem(sys.modules, "pygame", raising=False)
    game = find_game("gymnasium:CartPole-v1")
    assert (game.title, game.seats, game.needs) == ("CartPole", 1, ())
    pole = rules_of(Gymnasium, "CartPole-v1", seats=1)
    assert rollout(pole, "random", seed=1).scores[0] > 5
    blackjack = Play(rules_of(Gymnasium, "Blackjack-v1", seats=1), seed=1)
    assert len(blackjack.observation(0)["view"]) == 3
    lake = Play(rules_of(Gymnasium, "FrozenLake-v1(is_slippery=False)", seats=1))
    assert "[S]FFF" in lake.frame().drawing
    assert "\x1b" not in lake.frame().drawing


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("gymnasium:CartPole-v0x", "has no such game"),
        ("gymnasium:CartPole-v1(n=2)", "it cannot be made: TypeError"),
        ("gymnasium:./steering.py", "defines no environment: say which"),
        ("gymnasium:carts:Car", "has nothing to call by the name of Car"),
        ("pettingzoo:./steering.py:Steering(by='words')", "its actions are not numbers"),
        ("pettingzoo:./steering.py:Steering(mixed=True)", "actions of different kinds"),
    ],
)
def test_what_cannot_be_wrapped_says_why(here: Path, source: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        find_game(source)
