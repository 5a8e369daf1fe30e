"""Rewards of rules where players and learners meet them: rollouts, environments, and served games."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from support.games import Gather, Prizes
from support.served_game import hear, serving, tell
from websockets.asyncio.client import connect

from coworld_core.rules import read_replay
from coworld_runner.kit.rollout import SeatEnv, as_aec_env, as_gym_env, as_parallel_env, as_vector_env, rollout
from coworld_runner.kit.table.seat_news import SeatNews


class Second(Prizes):
    """The second seat gains something in each tick."""

    def rewards(self) -> Mapping[int, float]:
        return {1: 1.0}


def left(*_: Any) -> str:
    return "left"


def gained(seed: int) -> list[float]:
    """What each seat gains if all walk to the left."""
    replay = rollout(Prizes, left, seed=seed, record=True).replay
    assert replay is not None
    given = [tick.rewards or [None, None] for tick in read_replay(replay).ticks]
    return [sum(rewards[seat] or 0.0 for rewards in given) for seat in range(2)]


def test_a_rollout_has_the_sum_of_rewards() -> None:
    done = rollout(Prizes, left, seed=2)
    assert [reward or 0.0 for reward in done.rewards or ()] == gained(2)
    assert done.rewards != done.scores
    assert rollout(Second, left, config={"rounds": 3}).rewards == (None, 3.0)
    assert rollout(Gather, left).rewards is None


@pytest.mark.parametrize("seed", [2, 5])
def test_environments_give_the_rewards_of_the_rules(seed: int) -> None:
    want = gained(seed)
    assert any(want)
    parallel = as_parallel_env(Prizes)
    parallel.reset(seed=seed)
    total = dict.fromkeys(parallel.possible_agents, 0.0)
    action = dict.fromkeys(parallel.possible_agents, 0)
    while parallel.agents:
        for agent, reward in parallel.step(action)[1].items():
            total[agent] += reward
    assert list(total.values()) == pytest.approx(want)

    turns = as_aec_env(Prizes)
    turns.reset(seed=seed)
    told = dict.fromkeys(turns.possible_agents, 0.0)
    for agent in turns.agent_iter():
        _, reward, over, cut, _ = turns.last()
        told[agent] += reward
        turns.step(None if over or cut else 0)
    assert list(told.values()) == pytest.approx(want)

    single = as_gym_env(Prizes, seat=1, opponents=left)
    single.reset(seed=seed)
    mine, over = 0.0, False
    while not over:
        _, reward, over, _, _ = single.step(0)
        mine += reward
    assert mine == pytest.approx(want[1])


@pytest.mark.parametrize("processes", [1, 2])
def test_rows_of_vectors_gain_the_same(processes: int) -> None:
    with as_vector_env(Prizes, 4, seat="all", processes=processes) as envs:
        envs.reset(seed=2)
        total, over, infos = np.zeros(4), np.zeros(4, np.bool_), dict[str, Any]()
        while not over.any():
            _, rewards, over, _, infos = envs.step(np.zeros(4, np.int64))
            total += rewards
    assert over.all()
    assert total == pytest.approx([*gained(2), *gained(3)])
    assert infos["scores"][0].tolist() == list(rollout(Prizes, left, seed=2).scores)


async def test_a_served_game_tells_each_seat_its_own_reward_and_writes_events() -> None:
    async with serving(Prizes, rounds=3) as table:
        told: list[list[Any]] = [[], []]

        async def sit(slot: int) -> None:
            async with connect(table.url(slot), proxy=None) as seat:
                assert (await hear(seat))["tells_rewards"] is True
                while (message := await hear(seat))["type"] != "over":
                    if message["tick"] == len(told[slot]):
                        told[slot].append(message["reward"])
                    if message["your_turn"]:
                        await tell(seat, message["tick"], "left")

        async with anyio.create_task_group() as tasks:
            for slot in range(2):
                tasks.start_soon(sit, slot)
        await table.over.wait()
    replay = read_replay(table.match.replay(reason="over"))
    want = [[(tick.rewards or [None, None])[seat] for tick in replay.ticks] for seat in range(2)]
    assert told == want
    events = [json.loads(line) for line in bytes(table.match.events).splitlines()]
    assert [event for event in events if event["kind"] == "reward" and event["agent"] == 0] == [
        {"tick": tick - 1, "kind": "reward", "agent": 0, "value": value}
        for tick, value in enumerate(want[0])
        if value is not None
    ]


def test_what_was_not_sent_is_told_later_and_what_was_sent_is_repeated_only_in_its_tick() -> None:
    news = SeatNews(0, rewards=True, talk=None)
    assert news.fields() == {"reward": None}
    news.next_tick(1.0)
    news.next_tick(None)
    news.next_tick(2.0)
    assert news.fields() == {"reward": 3.0}
    news.sent()
    assert news.fields() == {"reward": 3.0}
    news.next_tick(None)
    assert news.fields() == {"reward": None}


@pytest.mark.slow
def test_a_seat_of_a_program_gains_what_the_game_tells(tmp_path: Path) -> None:
    game = tmp_path / "nim"
    shutil.copytree(Path(__file__).parents[2] / "examples" / "nim", game)
    rules = game / "nim.py"
    text = rules.read_text().replace("    def draw(self)", f"{TAKEN}\n    def draw(self)")
    rules.write_text(text)
    gained, over = list[float](), False
    with SeatEnv(game, 1, ["counter"], backend="process") as env:
        env.reset(seed=1)
        while not over:
            _, reward, over, _, _ = env.step(0)
            gained.append(reward)
    assert env.record is not None
    assert env.record.results is not None
    # One reward for each tick, those of the first move with the first step
    assert sum(gained) == env.record.results["ticks"]
    assert gained[0] in (3.0, 2.0)
    assert len(gained) > 2


TAKEN = """
    tell_rewards = True

    def rewards(self):
        return {0: -1.0, 1: 1.0}
"""
