"""A game as an environment of verifiers, in which a language model has one seat."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, Unpack

from pydantic import create_model

from coworld_core.rules import Rules

from ..wrappers.libraries import imported
from .seat_in_words import SeatArguments, SeatInWords

__all__ = ["as_verifiers"]

NEEDS: Final = "verifiers>=0.4,<0.5"


def as_verifiers(
    rules: type[Rules] | str,
    *,
    episodes: int | None = None,
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
        seated: As for `SeatInWords`.

    Returns:
        The class of the taskset, and that of the environment.

    Raises:
        UsageError: verifiers is not installed (`library_missing`); or as for `SeatInWords`.
    """
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
                interaction.trace.record_reward("score", results["scores"][seat])
                interaction.trace.record_metrics({"refused": played.refused, "ticks": results["ticks"]})

    return GameTaskset, GameEnv
