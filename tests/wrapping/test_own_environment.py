"""Environments of PettingZoo's interface of one's own, by file and by module: what the library's own games get."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coworld_core.errors import UsageError
from coworld_core.rules import audit_rules, load_rules
from coworld_runner.kit.rollout import rollout
from coworld_runner.kit.wrappers import PettingZoo, wrap_game
from coworld_runner.kit.wrappers.game_catalogue import find_game
from coworld_runner.kit.wrappers.pettingzoo import PettingZooConfig

DYING = '''
"""Agents die one after another, and the masks are in infos."""
import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from lives import last_day


class parallel_env(ParallelEnv):
    metadata = {"name": "dying_v0", "render_modes": []}

    def __init__(self, n=3, render_mode=None):
        self.possible_agents = [f"a_{number}" for number in range(n)]

    def observation_space(self, agent):
        return Box(0, 100, (1,), np.int64)

    def action_space(self, agent):
        return Discrete(2)

    def _seen(self):
        masks = {agent: {"action_mask": np.array([1, self.day % 2], np.int8)} for agent in self.agents}
        return {agent: np.array([self.day]) for agent in self.agents}, masks

    def reset(self, seed=None, options=None):
        self.day, self.agents = 0, self.possible_agents[:]
        return self._seen()

    def step(self, actions):
        self.day += 1
        seen, infos = self._seen()
        rewards = {agent: float(actions[agent]) for agent in self.agents}
        dead = {agent: self.day == last_day(self.possible_agents.index(agent)) for agent in self.agents}
        cut = dict.fromkeys(self.agents, False)
        self.agents = [agent for agent in self.agents if not dead[agent]]
        return seen, rewards, dead, cut, infos
'''
IN_TURN = "\n\ndef env(**more):\n    return parallel_to_aec(_parallel(**more))\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dying.py").write_text(DYING)
    (tmp_path / "in_turn.py").write_text(DYING.replace("class parallel_env", "class _parallel") + IN_TURN)
    (tmp_path / "lives.py").write_text("def last_day(index):\n    return 2 + index\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("source", ["./dying.py", "dying", "dying(n=2)", "./in_turn.py"])
def test_a_package_of_its_own_is_played_like_any_other(here: Path, source: str) -> None:
    made = wrap_game(f"pettingzoo:{source}", directory=here / "mortals", measure=False)
    module = "in_turn" if "in_turn" in source else "dying"
    assert {f"{module}.py", "lives.py", "mortals.py"} <= set(made.paths)
    assert (made.directory / "lives.py").read_bytes() == (here / "lives.py").read_bytes()
    rules = load_rules("mortals:Mortals", directory=made.directory)
    assert rules.seats == (2 if "n=2" in source else 3)
    assert audit_rules(rules, ticks=30).ok
    done = rollout(rules, "random", seed=3)
    assert done.refused == (0,) * rules.seats
    assert sum(done.scores) > 0
    # Where only its own files are
    code = "import mortals, sys; sys.exit(mortals.Mortals.environment.__file__ != sys.argv[1])"
    away = [sys.executable, "-c", code, str(made.directory / f"{module}.py")]
    subprocess.run(away, cwd=made.directory, check=True, timeout=60)


def test_rules_name_their_environment(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(here)
    import dying  # type: ignore[import-not-found]

    config = type("Config", (PettingZooConfig,), {"__annotations__": {"game": str}, "game": "dying(n=4)"})
    rules = type("Mine", (PettingZoo,), {"environment": dying.parallel_env, "Config": config, "seats": 4})
    done = rollout(rules, lambda observation, legal, rng: legal[-1], seed=1)
    assert done.scores == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("./nowhere.py", "there is no file ./nowhere.py"),
        ("./lives.py", "defines none of parallel_env, env, raw_env"),
        ("./broken.py", "cannot be imported: ZeroDivisionError"),
        ("dying(m=2)", "it cannot be made: TypeError"),
        ("./two words.py", "cannot be named two words"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_with_the_reason(here: Path, source: str, why: str) -> None:
    (here / "broken.py").write_text("1 / 0\n")
    (here / "two words.py").write_text(DYING)
    with pytest.raises(UsageError, match=why):
        find_game(f"pettingzoo:{source}")


def test_rules_do_not_take_the_name_of_the_environment(here: Path) -> None:
    with pytest.raises(UsageError, match=r"dying\.py would be both"):
        wrap_game("pettingzoo:./dying.py", directory=here / "made" / "dying", measure=False)
    assert not (here / "made").exists()
