"""PettingZoo environments made from rules."""

from __future__ import annotations

import json
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from coworld_core.errors import UsageError
from coworld_core.rules import (
    ActionRefused,
    Play,
    Rules,
    RulesConfig,
    RulesError,
    action_schema,
    rules_config,
)
from coworld_core.rules.plain_values import to_json
from coworld_core.rules.rules_schemas import observation_schema

from ._env_extra import env_missing
from .spaces import Codec, NoSpaceError, codec, every_value, like

try:
    import numpy as np
    from gymnasium import Space, spaces
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils.env_logger import EnvLogger
except ModuleNotFoundError as error:
    raise env_missing(error) from error

__all__ = ["ActionSpace", "ObservationSpace", "RulesAECEnv", "RulesParallelEnv", "as_aec_env", "as_parallel_env"]

Observe = Callable[[Any], Any]
"""Turns an observation (as JSON) into an element of a space."""


@dataclass(frozen=True)
class ActionSpace:
    """The space of actions, and what its elements mean.

    Attributes:
        space: The space; `Discrete` wherever the actions can be numbered.
        every: The actions by number as JSON; None if actions have no numbers of their own.
        masks: Whether there is a mask, with 1 for each legal action.
    """

    space: Space[Any]
    every: Sequence[Any] | None
    masks: bool
    _index: Mapping[str, int]
    _codec: Codec | None

    @classmethod
    def of(cls, schema: Mapping[str, Any], *, actions: Sequence[Any] | int | None, name: str) -> ActionSpace:
        """The space of actions.

        Args:
            schema: What an action is, as JSON Schema.
            actions: All actions as JSON, in the order of their numbers; or the largest number of legal actions at a
                time, so that number n is the n-th legal one; or None: what the schema says.
            name: The game's name.

        Raises:
            UsageError: The schema says neither how many actions there are nor which numbers they consist of.
        """
        if isinstance(actions, int):
            return cls(spaces.Discrete(actions), None, True, {}, None)
        every = every_value(schema) if actions is None else list(actions)
        if every:
            index = {to_json(value): number for number, value in enumerate(every)}
            return cls(spaces.Discrete(len(every)), every, True, index, None)
        try:
            made = codec(schema)
        except NoSpaceError:
            made = None
        if made is None or isinstance(made.space, spaces.Text):
            raise UsageError(
                f"The actions of {name} cannot be numbered: their type does not bound them.",
                code="no_space",
                hint="Give actions=[…] with all of them, or actions=N where at most N are legal at a time.",
            )
        return cls(made.space, None, False, {}, made)

    def mask(self, legal: Sequence[str] | None) -> Any:
        """1 for each legal action, 0 for the others; legal actions are JSON texts, and None means all."""
        count = int(cast("spaces.Discrete", self.space).n)
        if legal is None:
            return np.ones(count, np.int8)
        found = np.zeros(count, np.int8)
        if self.every is None:
            if len(legal) > count:
                raise UsageError(f"There are {len(legal)} legal actions, and actions={count}.", code="no_space")
            found[: len(legal)] = 1
            return found
        for text in legal:
            number = self._index.get(text)
            if number is None:
                raise UsageError(
                    f"{text} is legal, but is not one of the {count} actions.",
                    code="no_space",
                    hint="Give actions=[…] with all of them, or actions=N where at most N are legal at a time.",
                )
            found[number] = 1
        return found

    def decode(self, element: Any, legal: Callable[[], Sequence[Any] | None]) -> Any:
        """The action as JSON; None if no action has that number."""
        if self._codec is not None:
            return self._codec.decode(element)
        number = int(element)
        several = self.every if self.every is not None else legal()
        return several[number] if several is not None and 0 <= number < len(several) else None


@dataclass(frozen=True)
class ObservationSpace:
    """The space of observations, and how an observation becomes an element of it.

    Attributes:
        space: The space, without a mask.
    """

    space: Space[Any]
    _how: Codec | Observe

    def encode(self, seen: Any) -> Any:
        """Turn an observation (as JSON) into an element of the space."""
        return self._how.encode(seen) if isinstance(self._how, Codec) else self._how(seen)

    @classmethod
    def of(
        cls,
        schema: Mapping[str, Any],
        example: Callable[[], Any],
        *,
        observe: Observe | None,
        space: Space[Any] | None,
        name: str,
    ) -> ObservationSpace:
        """The space of observations.

        Args:
            schema: What an observation is, as JSON Schema; `{}` if unknown.
            example: Returns an example, used if the schema is empty.
            observe: Turns an observation into an element of `space`.
            space: The space; give both this and `observe`, or neither.
            name: The game's name.

        Raises:
            UsageError: The space cannot be determined.
        """
        if (observe is None) != (space is None):
            raise UsageError("observe= and space= belong together.", code="no_space")
        if observe is not None and space is not None:
            return cls(space, observe)
        try:
            made = codec(schema or like(example()))
        except NoSpaceError as error:
            raise UsageError(
                f"The type of an observation of {name} is not known at {error}.",
                code="no_space",
                hint="Give the rules an Observation type that declares it, or give observe= and space=.",
            ) from None
        return cls(made.space, made)

    def with_mask(self, actions: ActionSpace) -> Space[Any]:
        """Return the space of an agent's observations, with a mask if the actions have one."""
        own = deepcopy(self.space)
        if not actions.masks:
            return own
        count = int(cast("spaces.Discrete", actions.space).n)
        return spaces.Dict({"observation": own, "action_mask": spaces.Box(0, 1, (count,), np.int8)})


class _Arena:
    """The part shared by both kinds of environment: a play, and the conversion to and from spaces."""

    def __init__(
        self,
        rules: type[Rules],
        *,
        config: RulesConfig | Mapping[str, Any] | None,
        seats: int | None,
        actions: Sequence[Any] | int | None,
        observe: Observe | None,
        space: Space[Any] | None,
        max_cycles: int | None,
    ) -> None:
        self.rules = rules
        self.config = rules_config(rules, config)
        self.play = Play(rules, config=self.config, seats=seats)
        self.max_cycles = max_cycles
        self.agents = [f"seat_{seat}" for seat in range(self.play.seats)]
        self.seat = {agent: seat for seat, agent in enumerate(self.agents)}
        self.actions = ActionSpace.of(action_schema(rules), actions=actions, name=rules.__name__)
        self.observations = ObservationSpace.of(
            observation_schema(rules),
            lambda: self.play.observation(0),
            observe=observe,
            space=space,
            name=rules.__name__,
        )
        self._seeds = random.Random()
        # Each agent has its own spaces, because each space has its own random generator.
        self.action_spaces = {agent: deepcopy(self.actions.space) for agent in self.agents}
        self.observation_spaces = {agent: self.observations.with_mask(self.actions) for agent in self.agents}
        self.last = [0.0] * len(self.agents)

    def reset(self, seed: int | None) -> None:
        if seed is not None:
            self._seeds.seed(seed := operator.index(seed))
        self.play = Play(
            self.rules,
            config=self.config,
            seats=len(self.agents),
            seed=self._seeds.randrange(2**32) if seed is None else seed,
        )
        self.last = self.play.scores_now() or [0.0] * len(self.agents)

    @property
    def truncated(self) -> bool:
        return not self.play.over and self.max_cycles is not None and self.play.tick >= self.max_cycles

    def observe(self, agent: str) -> Any:
        seat = self.seat[agent]
        value = self.play.observation(seat)
        try:
            seen = self.observations.encode(value)
        except (LookupError, TypeError, ValueError) as error:
            raise RulesError(
                f"{value!r} does not fit the space of observations: {type(error).__name__}: {error}",
                where="observe",
                tick=self.play.tick,
                seat=seat,
            ) from error
        return {"observation": seen, "action_mask": self.actions.mask(self.play.legal(seat))} if self.masks else seen

    @property
    def masks(self) -> bool:
        return self.actions.masks

    def action(self, agent: str, element: Any) -> tuple[Any, dict[str, Any]]:
        """Return the action that an element stands for, or None if it is refused, and the agent's info about it."""
        seat = self.seat[agent]
        if element is None or seat not in self.play.to_act:
            return None, {}
        value = self.actions.decode(element, lambda: self._legal(seat))
        try:
            return self.play.read(seat, value), {}
        except ActionRefused as refused:
            return None, {"refused": refused.message}

    def _legal(self, seat: int) -> list[Any]:
        return [json.loads(text) for text in self.play.legal(seat) or ()]

    def step(self, actions: Mapping[int, Any]) -> list[float]:
        """Play one tick. Returns what each seat gained in it."""
        self.play.step(actions, named=False)
        scores = self.play.scores_now() or self.last
        gained = [now - before for now, before in zip(scores, self.last, strict=True)]
        self.last = scores
        return gained

    def render(self) -> str:
        return self.play.frame().drawing


class _ArenaEnv:
    """The part of the PettingZoo interface that both kinds of environment share."""

    def __init__(self, arena: Any, render_mode: str | None) -> None:
        self.metadata = {
            "name": f"{arena.rules.__name__}_v{arena.rules.version}",
            "render_modes": ["ansi"],
            "is_parallelizable": True,
        }
        self.render_mode = render_mode
        self.possible_agents = list(arena.agents)
        self.agents: list[str] = []
        self.observation_spaces = arena.observation_spaces
        self.action_spaces = arena.action_spaces
        self._arena: _Arena = arena

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's actions."""
        return self.action_spaces[agent]

    def render(self) -> str | None:
        """Return the board as spectators see it, as text; None unless the render mode is `ansi`."""
        return self._arena.render() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Do nothing: the environment holds no resources."""


class RulesAECEnv(_ArenaEnv, AECEnv[str, Any, Any]):
    """A PettingZoo environment of rules in which agents act one after another; `as_aec_env` makes it.

    Seats that act in the same tick are asked in ascending order; the tick is played once the last of them has acted.
    """

    def __init__(self, arena: Any, render_mode: str | None) -> None:
        super().__init__(arena, render_mode)
        self._chosen: dict[int, Any] = {}
        self._waiting: list[str] = []

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a new episode; without a seed, use one derived from the last seed."""
        self._arena.reset(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: dict[str, Any]() for agent in self.agents}
        self._ask()

    def observe(self, agent: str) -> Any:
        """Return an agent's observation and, if the actions can be numbered, the mask of its legal actions."""
        return self._arena.observe(agent)

    def step(self, action: Any) -> None:
        """Take the action of the selected agent; an illegal action counts as none in time."""
        if not hasattr(self, "agent_selection"):
            EnvLogger.error_step_before_reset()
        if not self.agents:
            EnvLogger.warn_step_after_terminated_truncated()
            return
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        chosen, self.infos[agent] = self._arena.action(agent, action)
        self._chosen[self._arena.seat[agent]] = chosen
        self._waiting.remove(agent)
        if self._waiting:
            self.agent_selection = self._waiting[0]
            return
        gained = self._arena.step(self._chosen)
        self.rewards = dict(zip(self.possible_agents, gained, strict=True))
        self._accumulate_rewards()
        over = self._arena.play.over
        self.terminations = dict.fromkeys(self.agents, over)
        self.truncations = dict.fromkeys(self.agents, self._arena.truncated)
        self._ask()

    def _ask(self) -> None:
        self._chosen = {}
        self._waiting = [self.possible_agents[seat] for seat in self._arena.play.to_act]
        self.agent_selection = self._waiting[0] if self._waiting else self.agents[0]


class RulesParallelEnv(_ArenaEnv, ParallelEnv[str, Any, Any]):
    """A PettingZoo environment of rules in which all agents act at once; `as_parallel_env` makes it.

    The action of an agent that is not to act is ignored, and its mask is all zeros.
    """

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin a new episode; without a seed, use one derived from the last seed."""
        self._arena.reset(seed)
        self.agents = list(self.possible_agents)
        return self._seen(), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one tick; an illegal action counts as none in time."""
        if not self.agents:
            return {}, {}, {}, {}, {}
        chosen: dict[int, Any] = {}
        infos: dict[str, dict[str, Any]] = {}
        for agent in self.agents:
            chosen[self._arena.seat[agent]], infos[agent] = self._arena.action(agent, actions.get(agent))
        rewards = dict(zip(self.agents, self._arena.step(chosen), strict=True))
        over, truncated = self._arena.play.over, self._arena.truncated
        seen, everybody = self._seen(), list(self.agents)
        if over or truncated:
            self.agents = []
        return seen, rewards, dict.fromkeys(everybody, over), dict.fromkeys(everybody, truncated), infos

    def _seen(self) -> dict[str, Any]:
        return {agent: self._arena.observe(agent) for agent in self.agents}


def as_aec_env(
    rules: type[Rules],
    *,
    config: RulesConfig | Mapping[str, Any] | None = None,
    seats: int | None = None,
    actions: Sequence[Any] | int | None = None,
    observe: Observe | None = None,
    space: Space[Any] | None = None,
    max_cycles: int | None = None,
    render_mode: str | None = None,
) -> RulesAECEnv:
    """Make a PettingZoo environment in which agents act one after another.

    Agents are `seat_0`, `seat_1`, …. They see `{"observation": …, "action_mask": …}` if the actions can be numbered, as
    in PettingZoo's own games, and otherwise only the observation. A refused action counts as none in time;
    `infos[agent]["refused"]` has the reason. The reward of a tick is the change of the score: without `live_scores` in
    the rules, the whole score comes at the end.

    Args:
        rules: The game.
        config: The rules' config, or its fields as JSON; defaults if omitted.
        seats: How many seats; by default the smallest number that the game allows.
        actions: All actions as JSON in the order of their numbers, for types that do not bound them; or the largest
            number of legal actions at a time, so that number n is the n-th legal one.
        observe: Turns an observation (as JSON) into an element of `space`.
        space: The space of observations. By default derived from `rules.Observation` (`spaces.codec`) or, if that is
            not declared, from the first observation (`spaces.like`).
        max_cycles: Ticks after which an episode is truncated.
        render_mode: `ansi` for text.

    Raises:
        UsageError: The config is invalid, or a space cannot be determined.
        RulesError: The rules fail. Any method may raise it.
    """
    arena = _Arena(
        rules, config=config, seats=seats, actions=actions, observe=observe, space=space, max_cycles=max_cycles
    )
    return RulesAECEnv(arena, render_mode)


def as_parallel_env(
    rules: type[Rules],
    *,
    config: RulesConfig | Mapping[str, Any] | None = None,
    seats: int | None = None,
    actions: Sequence[Any] | int | None = None,
    observe: Observe | None = None,
    space: Space[Any] | None = None,
    max_cycles: int | None = None,
    render_mode: str | None = None,
) -> RulesParallelEnv:
    """Make a PettingZoo environment in which all agents act at once; otherwise like `as_aec_env`.

    In a turn-based game, only the actions of agents whose turn it is count.
    """
    arena = _Arena(
        rules, config=config, seats=seats, actions=actions, observe=observe, space=space, max_cycles=max_cycles
    )
    return RulesParallelEnv(arena, render_mode)
