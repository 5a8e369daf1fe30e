"""Wrapped environments for training: the spaces of their own library, what these show, and masks."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, load_rules
from coworld_runner.kit.rollout import (
    as_aec_env,
    as_gym_env,
    as_parallel_env,
    as_parallel_vector_env,
    as_vector_env,
    rollout,
)
from coworld_runner.kit.wrappers import wrap_game

from .test_own_environment import DYING

with warnings.catch_warnings():
    # Where it can, it imports the library's games by names of before
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import api_test, parallel_api_test

COUNTING = '''
"""Counts up what is done, in spaces that are given."""
import copy

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

SPACES = {
    "box": Box(-2, 2, (2, 3), np.float32),
    "whole": Box(0, 200, (3,), np.int16),
    "discrete": Discrete(7, start=3),
    "several": MultiDiscrete([3, 4]),
    "flags": MultiBinary(4),
    "dict": Dict({"place": Box(0, 1, (2,), np.float64), "kind": Discrete(3), "flags": MultiBinary([2, 2])}),
}


class Counting(gymnasium.Env):
    metadata = {"render_modes": []}

    def __init__(self, seen="box", done="discrete"):
        self.observation_space, self.action_space = copy.deepcopy(SPACES[seen]), copy.deepcopy(SPACES[done])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(11)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        return self.observation_space.sample(), float(np.sum(action)), self.steps == 4, False, {}
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("counting", "dying", "lives", "differing"):
        sys.modules.pop(name, None)
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "dying.py").write_text(DYING)
    (tmp_path / "lives.py").write_text("def last_day(index):\n    return 2 + index\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wrapped(here: Path, source: str) -> type[Rules]:
    made = wrap_game(source, directory=here / "made", measure=False)
    (path,) = [name for name in made.paths if name == "made.py"]
    return load_rules(str(made.directory / path))


KINDS = ["box", "whole", "discrete", "several", "flags"]


@pytest.mark.parametrize(
    ("seen", "done"),
    [
        ("dict", "discrete"),
        ("box", "several"),
        *(pytest.param(kind, "discrete", marks=pytest.mark.slow) for kind in KINDS),
        *(pytest.param("box", kind, marks=pytest.mark.slow) for kind in KINDS if kind not in ("discrete", "several")),
    ],
)
def test_spaces_are_those_of_the_environment(here: Path, seen: str, done: str) -> None:
    rules = wrapped(here, f"gymnasium:./counting.py(seen={seen!r}, done={done!r})")
    alone: dict[str, Any] = {}
    exec(COUNTING, alone)
    bare = alone["Counting"](seen, done)
    env = as_gym_env(rules, mask="info")
    assert env.observation_space == bare.observation_space
    numbered = isinstance(bare.action_space, spaces.Discrete)
    assert env.action_space == (spaces.Discrete(7) if numbered else bare.action_space)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*WARN.*")
        check_env(env, skip_render_check=True)
    env.action_space.seed(5)
    (first, info), (other, _) = env.reset(seed=1), bare.reset(seed=1)
    assert gymnasium.utils.env_checker.data_equivalence(first, other)
    assert not numbered or info["action_mask"].tolist() == [1] * 7
    over, steps = False, 0
    while not over:
        action = env.action_space.sample()
        first, reward, over, _, info = env.step(action)
        other, earned, *_ = bare.step(np.int64(action + 3) if numbered else action)
        assert gymnasium.utils.env_checker.data_equivalence(first, other)
        assert (reward, info.get("refused")) == (pytest.approx(earned), None)
        steps += 1
    assert steps == 4


@pytest.mark.slow
def test_many_games_in_processes_have_the_same_spaces(here: Path) -> None:
    rules = wrapped(here, "gymnasium:./counting.py(seen='dict', done='several')")
    with as_vector_env(rules, 4, processes=2) as envs:
        assert envs.single_action_space == spaces.MultiDiscrete([3, 4])
        seen, _ = envs.reset(seed=1)
        assert seen["flags"].shape == (4, 2, 2)
        assert envs.observation_space.contains(seen)
        envs.action_space.seed(1)
        _, rewards, *_ = envs.step(action := envs.action_space.sample())
        assert rewards.tolist() == action.sum(axis=1).tolist()


def test_masks_and_agents_of_a_parallel_environment(here: Path) -> None:
    """Agents leave one after another, each with what it saw; masks are those of the environment."""
    rules = wrapped(here, "pettingzoo:./dying.py")
    env = as_parallel_env(rules)
    own = env.observation_space("seat_0")
    assert own["observation"] == spaces.Box(0, 100, (1,), np.int64)
    seen, _ = env.reset(seed=1)
    assert {agent: one["action_mask"].tolist() for agent, one in seen.items()} == {
        agent: [1, 0] for agent in env.agents
    }
    lives: list[list[str]] = []
    while env.agents:
        lives.append([agent.removeprefix("seat_") for agent in env.agents])
        seen, _, over, _, _ = env.step({agent: int(seen[agent]["action_mask"][1]) for agent in env.agents})
        assert [one["observation"].tolist() for one in seen.values()] == [[len(lives)]] * len(seen)
        assert [agent for agent, ended in over.items() if not ended] == env.agents
    assert lives == [["0", "1", "2"], ["0", "1", "2"], ["1", "2"], ["2"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parallel_api_test(as_parallel_env(rules), num_cycles=50)
        api_test(as_aec_env(rules), num_cycles=50)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_agents_that_have_left_stay_in_their_rows_and_do_not_act(here: Path, processes: int) -> None:
    rules = wrapped(here, "pettingzoo:./dying.py")
    with as_vector_env(rules, 6, seat="all", processes=processes) as envs:
        seen, infos = envs.reset(seed=1)
        lives, gained = [infos["to_act"].tolist()], np.zeros(6)
        for _ in range(3):
            seen, rewards, over, _, infos = envs.step(seen["action_mask"][:, 1].astype(int))
            gained += rewards
            lives.append(infos["to_act"].tolist())
            assert not seen["action_mask"][~infos["to_act"]].any()
        assert not over.any()
        assert lives == [[at >= out for at in range(3)] * 2 for out in (0, 0, 1, 2)]
        _, rewards, over, *_ = envs.step(seen["action_mask"][:, 1].astype(int))
        assert over.all()
        # What the bare environment gives for the same actions: each agent is paid on odd days that it lives
        assert (gained + rewards).tolist() == [1, 1, 2] * 2
    with as_parallel_vector_env(rules, 2, processes=processes) as many:
        many.reset(seed=1)
        assert many.possible_agents == ["seat_0", "seat_1", "seat_2"]


def test_seats_that_observe_different_things_are_trained_one_at_a_time(here: Path) -> None:
    (here / "differing.py").write_text(
        DYING.replace(
            "return Box(0, 100, (1,), np.int64)",
            "return Box(0, 100 + self.possible_agents.index(agent), (1,), np.int64)",
        )
    )
    rules = wrapped(here, "pettingzoo:./differing.py")
    for seat in range(3):
        assert as_gym_env(rules, seat=seat, mask="info").observation_space == spaces.Box(0, 100 + seat, (1,), np.int64)
    with pytest.raises(UsageError, match="observe different things") as refused:
        as_parallel_env(rules)
    assert refused.value.hint == "Give observe= and space= for all of them, or train one seat at a time."
    assert sum(rollout(rules, "random", seed=1).scores) > 0
