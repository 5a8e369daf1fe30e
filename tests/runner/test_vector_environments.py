"""Rules as environments of Gymnasium, one game or many at once, in this process or in several."""

from __future__ import annotations

import gc
import json
import pickle
from typing import Any, cast

import numpy as np
import psutil
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from support.games import Gather, Leaving, Steer, dies, fails, first_legal, last_legal, last_or_stay, no_view
from support.served_game import Sticks

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.rules import Rules
from coworld_runner.kit.rollout import PolicyError, as_gym_env, as_parallel_vector_env, as_vector_env, rollout
from coworld_runner.kit.rollout.seat_spaces import ActionSpace


def all_of_it(envs: Any, *, seed: int = 5, steps: int = 40) -> tuple[list[Any], list[int]]:
    """Play on by the first legal action of each row; returns all that was seen, and the seeds of games that ended."""
    told, seeds = [envs.reset(seed=seed)], list[int]()
    for _ in range(steps):
        told.append(envs.step(envs.action_masks().argmax(axis=1)))
        infos = told[-1][4]
        infos = infos.get("final_info", infos)
        seeds += infos["seed"][infos["_seed"]].tolist() if "seed" in infos else []
    return told, seeds


def plain(values: Any) -> str:
    return str([sorted(one.items()) if isinstance(one, dict) else one for one in values])


def same(first: Any, second: Any) -> bool:
    return pickle.dumps(first) == pickle.dumps(second)


@pytest.mark.filterwarnings("ignore:.*A Box observation space:UserWarning")
@pytest.mark.parametrize(("rules", "opponents"), [(Sticks, "random"), (Gather, last_or_stay)])
@pytest.mark.parametrize("mask", ["observation", "info"])
def test_gymnasiums_own_check_passes(rules: type[Rules], opponents: Any, mask: Any) -> None:
    env = as_gym_env(rules, seat=1, opponents=opponents, mask=mask, render_mode="ansi")
    # Random actions, of which some are refused, as the check knows no mask.
    check_env(env, skip_render_check=True)
    env.reset(seed=1)
    assert env.render()
    assert env.action_masks().dtype == np.bool_
    env.close()


@pytest.mark.parametrize(
    ("seat", "mode"),
    [
        (0, "NextStep"),
        ("all", "SameStep"),
        *(
            pytest.param(seat, mode, marks=pytest.mark.slow)
            for seat, mode in ((1, "NextStep"), ("all", "NextStep"), (0, "SameStep"))
        ),
    ],
)
def test_processes_change_nothing(seat: Any, mode: str) -> None:
    made = {"seat": seat, "opponents": last_or_stay, "autoreset_mode": mode, "max_cycles": 5}
    with as_vector_env(Gather, 6, **made) as alone, as_vector_env(Gather, 6, processes=2, **made) as together:
        here, there = all_of_it(alone), all_of_it(together)
        assert same(here, there)
        assert len(set(here[1])) == len(here[1]) // alone._spec.rows, "games that follow one another differ"


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_rows_are_what_gymnasium_makes_of_single_environments(mode: AutoresetMode) -> None:
    theirs = SyncVectorEnv([lambda: as_gym_env(Sticks, opponents="random")] * 3, autoreset_mode=mode)
    ours = as_vector_env(Sticks, 3, opponents="random", autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    pairs = [(ours.reset(seed=7), theirs.reset(seed=7))]
    actions = np.zeros(3, np.int64)
    for _ in range(30):
        pairs.append((ours.step(actions), theirs.step(actions)))
        ended = pairs[-1][0][2]
        if mode is AutoresetMode.DISABLED and ended.any():
            pairs.append((ours.reset(options={"reset_mask": ended}), theirs.reset(options={"reset_mask": ended})))
    for mine, yours in pairs:
        assert str(sorted(mine[0].items())) == str(sorted(yours[0].items()))
        assert str(mine[1:-1]) == str(yours[1:-1])
        infos = {name: value for name, value in mine[-1].items() if name.removeprefix("_") != "to_act"}
        assert set(infos) == set(yours[-1])
        # Where a flag is not set, a value says nothing.
        for name in infos.keys() & {"scores", "seed", "refused", "final_obs"}:
            flags = infos[f"_{name}"]
            assert np.array_equal(flags, yours[-1][f"_{name}"])
            assert plain(infos[name][flags]) == plain(yours[-1][name][flags])
    assert pairs[5][0][0]["observation"].dtype == np.float32


def test_a_row_is_the_game_of_a_rollout() -> None:
    with as_vector_env(Gather, 3, seat=1, opponents=last_or_stay) as envs:
        envs.reset(seed=[4, 5, 6])
        total = np.zeros(3)
        while True:
            _, rewards, over, _, infos = envs.step(np.zeros(3, np.int64))
            total += rewards
            if over.any():
                break
    done = [rollout(Gather, [last_or_stay, first_legal], seed=seed) for seed in (4, 5, 6)]
    assert infos["scores"].tolist() == [list(one.scores) for one in done]
    assert total.tolist() == [one.scores[1] for one in done]
    assert infos["seed"].tolist() == [4, 5, 6]


def test_all_seats_take_turns_in_their_rows() -> None:
    envs = as_vector_env(Sticks, 4, seat="all", config={"sticks": 4})
    _, infos = envs.reset(seed=1)
    assert infos["to_act"].tolist() == [True, False] * 2
    assert infos["action_mask"].tolist() == [[1, 1, 1], [0, 0, 0]] * 2
    # The second game's first seat wants what there is not.
    _, rewards, over, _, infos = envs.step(np.array([2, 0, 7, 0]))
    assert infos["to_act"].tolist() == [False, True] * 2
    assert infos["refused"].tolist()[:2] == [None, None]
    assert "no action" in infos["refused"][2]
    assert infos["action_mask"].tolist()[1::2] == [[1, 0, 0], [1, 1, 1]]
    seen, rewards, over, _, infos = envs.step(np.zeros(4, np.int64))
    assert (rewards.tolist(), over.tolist()) == ([0.0, 1.0, 0.0, 0.0], [True, True, False, False])
    assert infos["scores"][infos["_scores"]].tolist() == [[0.0, 1.0]] * 2
    seen, rewards, over, _, infos = envs.step(np.zeros(4, np.int64))
    assert (seen["observation"].ravel().tolist(), rewards.any(), over.any()) == ([4, 4, 1, 1], False, False)
    with pytest.raises(UsageError, match="multiple of 2"):
        as_vector_env(Sticks, 3, seat="all")


@pytest.mark.parametrize("processes", [1, 2])
def test_seats_that_end_at_different_times(processes: int) -> None:
    """Their rows stay, do not act, and get no more; a learner whose seat is out gets to the end of its game at once."""
    with as_vector_env(Leaving, 6, seat="all", processes=processes) as envs:
        _, infos = envs.reset(seed=4)
        acting, gained = [infos["to_act"][:3].tolist()], np.zeros((8, 6))
        for step in range(8):
            _, gained[step], over, _, infos = envs.step(np.full(6, 2))
            acting.append(infos["to_act"][:3].tolist())
            assert not infos["action_mask"][~infos["to_act"]].any()
            assert over.all() == (step == 7)
        assert acting == [[True] * 3] * 2 + [[True, False, True]] * 2 + [[True, False, False]] * 4 + [[False] * 3]
        assert not gained[2:, 1::3].any()
        assert not gained[4:, 2::3].any()
        assert infos["scores"][0].tolist() == gained.sum(axis=0)[:3].tolist()
        assert gained.any()
    alone = as_gym_env(Leaving, seat=1, opponents="random")
    alone.reset(seed=4)
    ends = [alone.step(2)[2] for _ in range(2)]
    assert ends == [False, True]


def test_opponents_are_exchanged_where_that_is_wanted() -> None:
    first = {"opponents": first_legal, "seat": 1, "config": {"sticks": 20}}
    for processes in (1, 2):
        with as_vector_env(Sticks, 2, processes=processes, **cast("Any", first)) as envs:
            left = envs.reset(seed=1)[0]["observation"]
            assert left.ravel().tolist() == [19, 19]
            options = {"opponents": last_legal, "reset_mask": np.array([False, True])}
            assert envs.reset(options=options)[0]["observation"].ravel().tolist() == [19, 17]
            for wrong in ({"reset_mask": np.array([True])}, {"opponent": first_legal}):
                with pytest.raises(UsageError):
                    envs.reset(options=wrong)
            assert envs.render() == ("|" * 19, "|" * 17)


def test_masks_are_where_libraries_look() -> None:
    envs = as_vector_env(Sticks, 2, mask="info", config={"sticks": 2})
    seen, infos = envs.reset(seed=1)
    assert (seen.shape, infos["action_mask"].tolist()) == ((2, 1), [[1, 1, 0]] * 2)
    assert envs.has_attr("action_masks")
    assert np.stack(envs.env_method("action_masks")).tolist() == [[True, True, False]] * 2
    for wrapped in (RecordEpisodeStatistics(envs), DictInfoToList(envs)):
        wrapped.reset(seed=1)
        _, _, over, _, told = wrapped.step(np.array([1, 1]))
        assert over.all()
        assert told
    _, infos = as_gym_env(Sticks, mask="info").reset()
    assert infos["action_mask"].tolist() == [1, 1, 1]


def test_what_was_trained_is_played_with_the_same_numbers() -> None:
    with as_vector_env(Gather, 1) as envs:
        copy = pickle.loads(pickle.dumps(envs.encoding))
        seen, infos = envs.reset(seed=3)
    message = {"own": 0, "others": [1], "berry": [False, False, True, False, False], "near": "far", "last": None}
    assert copy.observation(message).shape == seen["observation"][0].shape
    assert copy.mask(None).tolist() == infos["action_mask"][0].tolist() == [1, 1, 1]
    assert [copy.action(number) for number in range(3)] == ["left", "right", "stay"]


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ({"enum": ["a", "b", 1, 1.5]}, [1, "b"]),
        ({"enum": [1, True]}, [True]),
        ({"type": "array", "items": {"enum": [0, 1]}, "minItems": 2, "maxItems": 2}, [[1, 0], (0, 1)]),
        ({"type": "object", "properties": {"x": {"enum": [1, 2]}, "y": {"enum": [[1], [2]]}}}, [{"x": 2, "y": [1]}]),
    ],
)
def test_numbers_of_moves_are_those_of_their_texts(schema: Any, options: Any) -> None:
    space = ActionSpace.of(schema, actions=None, name="Game")
    assert space.every is not None
    texts = [json.dumps(one) for one in space.every]
    for _ in range(2):
        assert [texts[number] for number in space.offered(options)[0] or ()] == [json.dumps(one) for one in options]


def test_actions_without_numbers() -> None:
    for processes in (1, 2):
        with as_vector_env(Steer, 2, processes=processes) as envs:
            seen, infos = envs.reset(seed=1)
            assert "action_mask" not in infos
            assert seen.shape == (2, 1)
            act = {"turn": np.array([0.5, -1.0]), "gears": np.array([[1, 2], [3, 4]])}
            envs.step(act)
            _, rewards, over, _, _ = envs.step(act)
            assert (rewards.tolist(), over.tolist()) == ([1.0, -2.0], [True, True])
    env = as_gym_env(Steer)
    env.reset()
    env.step(env.action_space.sample())


@pytest.mark.slow
def test_failures_of_processes_have_words_and_close() -> None:
    for failing, error, words in (
        (dies, EnvironmentFault, "ended with status 7"),
        (fails, PolicyError, "seat 1 failed in tick 1: IndexError"),
    ):
        envs = as_vector_env(Sticks, 4, opponents=failing, processes=2)
        envs.reset(seed=1)
        with pytest.raises(error, match=words):
            envs.step(np.zeros(4, np.int64))
        with pytest.raises(UsageError, match="closed"):
            envs.reset()
    with pytest.raises(EnvironmentFault, match=r"has failed: RuntimeError: no view"):
        as_vector_env(Sticks, 2, observe=no_view, space=spaces.Box(0, 1, (1,), np.float32), processes=2).reset()
    with pytest.raises(UsageError, match="cannot be sent to another process"):
        as_vector_env(Sticks, 2, opponents=lambda *_: None, processes=2)
    with pytest.raises(UsageError, match="no fixed size"):
        as_vector_env(Sticks, 2, observe=str, space=spaces.Text(9))
    with pytest.raises(UsageError, match="There is no seat 2"):
        as_vector_env(Sticks, 2, seat=2)


@pytest.mark.slow
def test_nothing_is_left_of_an_environment_that_is_forgotten() -> None:
    before = {child.pid for child in psutil.Process().children()}
    envs = as_vector_env(Sticks, 2, processes=2)
    assert len({child.pid for child in psutil.Process().children()} - before) == 2
    del envs
    gc.collect()
    assert {child.pid for child in psutil.Process().children()} <= before


def test_pettingzoos_parallel_interface_to_many_games() -> None:
    with as_parallel_vector_env(Gather, 3, seats=3, processes=2) as envs:
        seen, infos = envs.reset(seed=1)
        for agent in envs.agents:
            assert envs.observation_space(agent).contains(seen[agent])
            assert infos[agent]["to_act"].all()
        rows = as_vector_env(Gather, 9, seat="all", seats=3)
        rows.reset(seed=1)
        _, rewards, over, _, infos = envs.step({"seat_0": np.zeros(3, np.int64), "seat_2": np.ones(3, np.int64)})
        wanted = rows.step(np.array([0, -1, 1] * 3))
        assert [rewards[agent].tolist() for agent in envs.agents] == wanted[1].reshape(3, 3).T.tolist()
        assert over["seat_1"].shape == (3,)
        assert "refused" not in infos["seat_1"]
