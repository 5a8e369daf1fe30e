"""Rules as environments of the libraries that people train with, by those libraries' own tests."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import flatten, flatten_space
from pettingzoo.test import api_test, parallel_api_test, seed_test
from pettingzoo.test.seed_test import parallel_seed_test
from pettingzoo.utils.env_logger import EnvLogger
from support.games import Gather
from support.served_game import Sticks

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, RulesError
from coworld_runner.kit.rollout import as_aec_env, as_parallel_env
from coworld_runner.kit.rollout.spaces import NoSpaceError, codec, every_value, like

# An observation that is no array, which is told so, is what these games have.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def changed(rules: type[Rules], **attributes: Any) -> type[Rules]:
    return cast("type[Rules]", type("Changed", (rules,), attributes))


@pytest.mark.parametrize("rules", [Sticks, Gather])
def test_pettingzoo_api_tests_pass(rules: type[Rules]) -> None:
    api_test(as_aec_env(rules), num_cycles=60)
    parallel_api_test(as_parallel_env(rules), num_cycles=30)
    seed_test(lambda: as_aec_env(rules), num_cycles=30)
    parallel_seed_test(lambda: as_parallel_env(rules), num_cycles=30)


@pytest.mark.parametrize("rules", [Sticks, Gather])
@pytest.mark.parametrize("make", [as_aec_env, as_parallel_env])
def test_a_pickled_environment_goes_on_where_it_was(rules: type[Rules], make: Any) -> None:
    env = make(rules)
    pickle.loads(pickle.dumps(env)).reset(seed=1)
    env.reset(seed=4)
    act = next(iter(env.action_spaces.values())).sample() if make is as_aec_env else {}
    env.step(act)
    copy = pickle.loads(pickle.dumps(env))
    for one in (env, copy):
        one.step(act)
    seen, seen_too = ([one.observe(agent) for agent in one.agents] for one in (env._arena, copy._arena))
    assert str(seen) == str(seen_too)
    assert env._arena.last == copy._arena.last


def test_a_step_out_of_order_gets_the_words_of_pettingzoo() -> None:
    env = as_aec_env(Sticks, config={"sticks": 1})
    with pytest.raises(AssertionError, match="reset"):
        env.step(0)
    env.reset()
    env.step(0)
    for _ in env.possible_agents:
        env.step(None)
    assert env.agents == []
    EnvLogger.mqueue.clear()
    EnvLogger.suppress_output()
    env.step(0)
    EnvLogger.unsuppress_output()
    assert "after all agents are terminated" in str(EnvLogger.mqueue)


def test_turns_one_after_another() -> None:
    env = as_aec_env(Sticks, config={"sticks": 4}, render_mode="ansi")
    env.reset(seed=1)
    assert (env.agent_selection, env.render()) == ("seat_0", "||||")
    env.step(2)
    seen, reward, terminated, truncated, info = env.last()
    assert (env.agent_selection, reward, terminated, truncated, info) == ("seat_1", 0.0, False, False, {})
    assert seen["action_mask"].tolist() == [1, 0, 0]
    assert seen["observation"]["left"] == 1
    assert env.observe("seat_0")["action_mask"].tolist() == [0, 0, 0]
    env.step(2)
    assert "not legal" in env.infos["seat_1"]["refused"], "and its default takes one stick"
    assert env.terminations == {"seat_0": True, "seat_1": True}
    assert env.rewards == {"seat_0": 0.0, "seat_1": 1.0}


def test_all_at_once_with_rewards_as_they_come() -> None:
    env = as_parallel_env(Gather, seats=3, max_cycles=5)
    env.reset(seed=4)
    total = dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        _, rewards, terminated, truncated, _ = env.step({"seat_0": 0, "seat_2": 2})
        assert set(rewards) == set(total)
        total = {agent: total[agent] + reward for agent, reward in rewards.items()}
    assert (set(terminated.values()), set(truncated.values())) == ({False}, {True})
    assert total == dict(zip(env.possible_agents, cast("Any", env)._arena.last, strict=True))
    assert sum(total.values()) > 0
    first, second = (as_parallel_env(Gather) for _ in range(2))
    for one in (first, second):
        one.reset(seed=9)
    assert str(first.reset()) == str(second.reset()), "episodes after a seed follow from it"


def test_a_seat_that_is_out_leaves_if_its_score_is_known() -> None:
    def to_act(self: Any) -> list[int]:
        return [] if len(self.berries) > 8 else [0, 2] if len(self.berries) > 3 else [0, 1, 2]

    known, unknown = (
        changed(Gather, live_scores=live, seats=3, to_act=to_act, eliminated=lambda self: [1] * (len(self.berries) > 3))
        for live in (True, False)
    )
    api_test(as_aec_env(known), num_cycles=60)
    parallel_api_test(as_parallel_env(known), num_cycles=30)
    env = as_parallel_env(known, mask="info")
    _, infos = env.reset(seed=1)
    assert infos["seat_1"]["action_mask"].tolist() == [1, 1, 1]
    left = [(list(env.agents), env.step({})[2]) for _ in range(4)]
    assert left[2][1] == {"seat_0": False, "seat_1": True, "seat_2": False}
    assert left[3][0] == ["seat_0", "seat_2"]
    one = as_aec_env(known)
    one.reset(seed=1)
    agents = [agent for agent in one.agent_iter() if not one.step(None)]
    assert agents[9:12] == ["seat_1", "seat_0", "seat_2"], "it says so before anybody acts"
    env = as_parallel_env(unknown)
    env.reset(seed=1)
    assert all(len(env.step({})[1]) == 3 for _ in range(8))


def test_an_authors_own_spaces() -> None:
    env = as_aec_env(
        Sticks, observe=lambda seen: np.array([seen["left"]], np.float32), space=spaces.Box(0, 6, (1,), np.float32)
    )
    env.reset()
    assert env.observe("seat_0")["observation"].tolist() == [6.0]
    assert env.observation_space("seat_0").contains(env.observe("seat_0"))
    listed = changed(
        Sticks,
        Action=str,
        legal=lambda self, seat: ["b", "a"][: self.left],
        step=lambda self, _: Sticks.step(self, {0: None, 1: None}),
    )
    env = as_aec_env(listed, actions=["a", "b"])
    env.reset()
    assert env.observe("seat_0")["action_mask"].tolist() == [1, 1]
    env = as_aec_env(listed, actions=3)
    env.reset()
    assert env.observe("seat_0")["action_mask"].tolist() == [1, 1, 0]
    with pytest.raises(UsageError, match=r"legal, but is not one of the 1 actions"):
        as_aec_env(listed, actions=["a"]).observe("seat_0")
    with pytest.raises(UsageError, match=r"2 legal actions, and actions=1"):
        as_aec_env(listed, actions=1).observe("seat_0")
    with pytest.raises(UsageError, match="cannot be numbered"):
        as_aec_env(listed)
    with pytest.raises(UsageError, match="belong together"):
        as_aec_env(Sticks, space=spaces.Discrete(2))


def test_an_observation_that_is_not_what_it_was() -> None:
    with pytest.raises(UsageError, match="The type of an observation of Changed is not known at /seen"):
        as_aec_env(changed(Sticks, observe=lambda *_: {"seen": []}))
    grows = changed(Sticks, observe=lambda self, seat: {"list": [1] * self.left})
    env = as_parallel_env(grows)
    env.reset()
    with pytest.raises(RulesError, match=r"observe, tick 1, seat 0: .*does not fit the space.* a list of 5"):
        env.step({"seat_0": 0})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": ["a", None, 3]}, 3),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": "integer", "minimum": -2, "exclusiveMaximum": 3}, -2),
        ({"type": "integer", "minimum": 0}, 12345),
        ({"type": "number", "minimum": 1}, 2.5),
        ({"type": "string", "maxLength": 5}, "a b\n"),
        ({"type": ["integer", "null"], "minimum": 0, "maximum": 9}, None),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "word"),
        ({"anyOf": [{"const": "a"}, {"type": "boolean"}]}, False),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 3}, [True, False, True]),
        (
            {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 3}, "minItems": 2, "maxItems": 2},
            [3, 1],
        ),
        ({"type": "array", "items": {"type": "number"}, "maxItems": 4}, [1.5, -1.0]),
        ({"type": "array", "items": {"type": "string"}}, ["a", "b"]),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}]}, ["a", True]),
        (
            {
                "$ref": "#/$defs/Pair",
                "$defs": {
                    "Pair": {
                        "type": "object",
                        "required": ["a"],
                        "properties": {"a": {"$ref": "#/$defs/Row"}, "b": {"type": "integer"}},
                    },
                    "Row": {
                        "type": "array",
                        "minItems": 2,
                        "maxItems": 2,
                        "items": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
                    },
                },
            },
            {"a": [[1, 2], [3, 4]]},
        ),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_a_value_goes_into_its_space_and_comes_back(schema: Mapping[str, Any], value: Any) -> None:
    made = codec(schema)
    element = made.encode(value)
    assert made.space.contains(element), (made.space, element)
    assert made.space.contains(made.zero), (made.space, made.zero)
    assert made.decode(element) == value
    made.decode(made.space.sample())
    assert str(pickle.loads(pickle.dumps(made)).encode(value)) == str(element)
    flat: Any = flatten_space(made.space)
    assert flat.contains(flatten(made.space, element)), (flat, element)
    # A list of any length has no fixed number of parts
    assert isinstance(flat, spaces.Sequence if isinstance(made.space, spaces.Sequence) else spaces.Box)
    if value is not None and not isinstance(value, list | dict):
        assert codec(like(value)).decode(codec(like(value)).encode(value)) == value


def test_values_of_finite_types_are_enumerated() -> None:
    two = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 1}, "y": {"enum": ["a"]}}}
    assert every_value(two) == [{"x": 0, "y": "a"}, {"x": 1, "y": "a"}]
    assert every_value({"type": "array", "items": {"type": "boolean"}, "maxItems": 1}) == [[], [False], [True]]
    assert every_value({"anyOf": [two, {"type": "null"}]}) == [{"x": 0, "y": "a"}, {"x": 1, "y": "a"}, None]
    for endless in ({"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "array", "items": two}, {}):
        assert every_value(endless) is None
    assert every_value({"type": "integer", "minimum": 0, "maximum": 10}, most=5) is None
    with pytest.raises(NoSpaceError, match="/a/1"):
        like({"a": [1, None]})


def test_without_the_libraries_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["gymnasium"] = None
from coworld_runner.kit.rollout import rollout
from coworld_core.errors import UsageError
try:
    from coworld_runner.kit.rollout import as_aec_env
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == (
        'Environments need gymnasium, which is not installed. Install it: pip install "coworld-runner[env]".\n'
    )
