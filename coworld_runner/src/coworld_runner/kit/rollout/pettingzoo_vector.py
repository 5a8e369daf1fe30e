"""PettingZoo's parallel interface to many games at once: everything is an array with an item for each game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, RulesConfig

from ._env_extra import env_missing
from .gymnasium_env import RulesVectorEnv, as_vector_env
from .seat_spaces import MaskPlace, Observe, SeatEncoding
from .vector_games import MISSED, tree_map

try:
    import numpy as np
    from gymnasium import Space
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise env_missing(error) from error

__all__ = ["RulesParallelVectorEnv", "as_parallel_vector_env"]


class RulesParallelVectorEnv(ParallelEnv[str, Any, Any]):
    """Many games at once, by agent; `as_parallel_vector_env` makes it.

    Attributes:
        num_envs: Number of games.
        encoding: The conversion of observations and actions, for players of what was trained.
    """

    def __init__(self, envs: RulesVectorEnv) -> None:
        self.metadata = {**envs.metadata, "is_parallelizable": True}
        self.render_mode = envs.render_mode
        self.possible_agents = [f"seat_{seat}" for seat in range(envs.seats)]
        self.agents: list[str] = []
        self.num_envs = envs.num_envs // envs.seats
        self.encoding: SeatEncoding = envs.encoding
        self.observation_spaces = {
            agent: batch_space(self.encoding.observation_space(), self.num_envs) for agent in self.possible_agents
        }
        self.action_spaces = {
            agent: batch_space(self.encoding.actions.space, self.num_envs) for agent in self.possible_agents
        }
        self._envs = envs

    def __enter__(self) -> RulesParallelVectorEnv:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's observations in all games."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's actions in all games."""
        return self.action_spaces[agent]

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride] - a seed for each game, too
        self, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin all games; game g gets `seed` + g, or one seed each. Without one, it follows from the last."""
        self.agents = list(self.possible_agents)
        seen, infos = self._envs.reset(seed=seed, options=options)
        return self._by_agent(seen), self._by_agent(infos)

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
        """Play one tick of each game; an agent without actions, or the number -1, does not act."""
        given = [actions.get(agent) for agent in self.possible_agents]
        if not self.encoding.actions.masks and any(one is None for one in given):
            raise UsageError("All agents need actions, as these have no numbers.", code="bad_actions")
        nothing = np.full(self.num_envs, MISSED)
        rows = _interleaved([nothing if one is None else one for one in given])
        return tuple(self._by_agent(one) for one in self._envs.step(rows))  # pyright: ignore[reportReturnType]

    def render(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The board of each game as spectators see it, as text."""
        return self._envs.render()[:: len(self.possible_agents)]

    def close(self) -> None:
        """End the processes."""
        self._envs.close()

    def _by_agent(self, tree: Any) -> dict[str, Any]:
        count = len(self.possible_agents)
        return {
            agent: tree_map(lambda rows: np.ascontiguousarray(rows[seat::count]), tree)  # noqa: B023 - called at once
            for seat, agent in enumerate(self.possible_agents)
        }


def _interleaved(given: Sequence[Any]) -> Any:
    """Return the rows of batches of elements, one of each batch in turn."""
    first = given[0]
    if isinstance(first, Mapping):
        return {name: _interleaved([one[name] for one in given]) for name in cast("Mapping[str, Any]", first)}
    if isinstance(first, tuple):
        return tuple(_interleaved(parts) for parts in zip(*given, strict=True))
    stacked = np.stack(given, axis=1)
    return stacked.reshape(-1, *stacked.shape[2:])


def as_parallel_vector_env(
    rules: type[Rules],
    num_envs: int,
    *,
    processes: int = 1,
    config: RulesConfig | Mapping[str, Any] | None = None,
    seats: int | None = None,
    actions: Sequence[Any] | int | None = None,
    observe: Observe | None = None,
    space: Space[Any] | None = None,
    max_cycles: int | None = None,
    mask: MaskPlace = "observation",
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
) -> RulesParallelVectorEnv:
    """Make an environment with PettingZoo's parallel interface to many games at once.

    What `reset` and `step` return is by agent, as from `as_parallel_env`, in arrays with an item for each game.
    Observations, infos and autoreset are those of `as_vector_env` with `seat="all"`. All agents are there all the time:
    `infos[agent]["to_act"]` says in which games an agent acts.

    Args:
        rules: The game.
        num_envs: Number of games.
        processes: As for `as_vector_env`, as is the rest.
        config: The rules' config.
        seats: How many seats.
        actions: All actions, or how many are legal at most.
        observe: Turns an observation into an element of `space`.
        space: The space of observations.
        max_cycles: Ticks after which an episode is truncated.
        mask: Where the masks are.
        autoreset_mode: When the next game begins.

    Raises:
        UsageError: As for `as_vector_env`.
        RulesError: As for `as_vector_env`.
        EnvironmentFault: As for `as_vector_env`.
    """
    count = rules.seats if seats is None else seats
    envs = as_vector_env(
        rules,
        num_envs * count,
        seat="all",
        processes=processes,
        config=config,
        seats=count,
        actions=actions,
        observe=observe,
        space=space,
        max_cycles=max_cycles,
        mask=mask,
        autoreset_mode=autoreset_mode,
    )
    return RulesParallelVectorEnv(envs)
