"""A game as an environment of verifiers, in which a language model has one seat."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Unpack, cast

import anyio.to_thread
from pydantic import create_model

from coworld_core.errors import UsageError
from coworld_core.roles.finished_episode import FinishedEpisode
from coworld_core.rules import Rules
from coworld_core.text.phrases import listed

from ..wrappers.libraries import imported
from .seat_in_words import SeatArguments, SeatInWords

__all__ = ["GameReward", "as_verifiers"]

GameReward = Callable[[FinishedEpisode], Any]
"""What grades a game: a function as `grade` of a grader, which returns a number or an object with a `score`, or an
asynchronous one."""

NEEDS: Final = "verifiers>=0.4,<0.5"


def as_verifiers(
    rules: type[Rules] | str,
    *,
    episodes: int | None = None,
    rewards: Mapping[str, GameReward] | None = None,
    weights: Mapping[str, float] | None = None,
    **seated: Unpack[SeatArguments],
) -> tuple[Any, Any]:
    """Make a taskset and an environment of verifiers from one seat of a game, for a module that exports both.

    ::

        # nim_env.py, which `vf-eval nim_env` runs
        NimTaskset, NimEnv = as_verifiers("nim.py:Nim", opponents="players/counter.py")
        __all__ = ["NimEnv", "NimTaskset"]

    A task is a game, whose seed is its number. The reward `score` is the seat's score in the results, and the metrics
    `refused` and `ticks` say how many answers were refused, and how long the game was. A model that ends before its
    game does misses the turns that are left. Its role is `player`, and by default runs verifiers' `null` harness on
    this machine.

    Args:
        rules: As for `SeatInWords`.
        episodes: How many tasks there are; None: as many as are asked for.
        rewards: Further rewards by name: functions as `grade` of a grader's file, or programs by
            `coworld_runner.roles.graded_by`. One that fails is an error of the episode.
        weights: The weights of rewards by name, that of `score` too; 1 by default.
        seated: As for `SeatInWords`.

    Returns:
        The class of the taskset, and that of the environment.

    Raises:
        UsageError: verifiers is not installed (`library_missing`), or a weight is for no reward (`no_such_reward`);
            or as for `SeatInWords`.
    """
    graders, weigh = dict(rewards or {}), dict(weights or {})
    if unknown := weigh.keys() - {"score", *graders}:
        raise UsageError(f"There is no reward {listed(sorted(unknown))}.", code="no_such_reward")
    vf = imported("verifiers.v1", NEEDS)

    sit = partial(SeatInWords, rules, **seated)
    with sit() as known:
        name, system_prompt, seat = known.rules.__name__, known.instructions, known.seat
    data: Any = create_model("GameData", __base__=vf.TaskData, seed=(int, ...))
    role = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())
    env_config: Any = create_model("GameEnvConfig", __base__=vf.EnvConfig, player=(vf.AgentConfig, role))

    class GameTask(vf.Task[data]):
        pass

    class GameTaskset(vf.Taskset[GameTask, vf.TasksetConfig]):
        INFINITE = episodes is None

        def load(self) -> Iterator[Any]:
            for seed in itertools.count() if episodes is None else range(episodes):
                yield GameTask(data(name=f"{name}#{seed}", system_prompt=system_prompt, seed=seed), self.config.task)

    class GameEnv(vf.Env[env_config]):
        async def run(self, task: Any, agents: Any) -> None:
            with sit() as played:
                played.begin(task.data.seed)
                async with agents.player.interaction(task) as interaction:
                    while not played.over:
                        segment = await interaction.turn(played.question)
                        if segment.terminated:
                            break
                        played.answer(segment.last_reply)
                if interaction.trace.has_error:
                    return
                played.leave()
                results = played.results or {}
                gained = {"score": results["scores"][seat]}
                for graded, grade in graders.items():
                    gained[graded] = await _reward(grade, played.episode)
                for rewarded, value in gained.items():
                    interaction.trace.record_reward(rewarded, value, weigh.get(rewarded, 1.0))
                interaction.trace.record_metrics({"refused": played.refused, "ticks": results["ticks"]})

    return GameTaskset, GameEnv


async def _reward(grade: GameReward, episode: FinishedEpisode) -> float:
    """What a grader gives for a game; it may take its time, and other games go on."""
    told = await anyio.to_thread.run_sync(grade, episode)
    if inspect.isawaitable(told):
        told = await told
    return float(cast("Mapping[str, Any]", told)["score"] if isinstance(told, Mapping) else told)
