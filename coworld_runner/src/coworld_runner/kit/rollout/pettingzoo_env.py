"""PettingZoo environments made from rules."""

from __future__ import annotations

import operator
import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from coworld_core.rules import ActionRefused, Play, Rules, RulesConfig, action_schema, rules_config
from coworld_core.rules.plain_values import to_plain
from coworld_core.rules.rules_schemas import observation_schema

from ._env_extra import env_missing
from .seat_spaces import MaskPlace, Observe, SeatEncoding

try:
    from gymnasium import Space
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils.env_logger import EnvLogger
except ModuleNotFoundError as error:
    raise env_missing(error) from error

__all__ = ["RulesAECEnv", "RulesParallelEnv", "as_aec_env", "as_parallel_env"]


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
        mask: MaskPlace,
    ) -> None:
        self.rules = rules
        self.config = rules_config(rules, config)
        self.play = Play(rules, config=self.config, seats=seats)
        self.max_cycles = max_cycles
        self.agents = [f"seat_{seat}" for seat in range(self.play.seats)]
        self.seat = {agent: seat for seat, agent in enumerate(self.agents)}
        self.encoding = SeatEncoding.of(
            action_schema(rules),
            observation_schema(rules),
            lambda: self.play.observation(0),
            name=rules.__name__,
            actions=actions,
            observe=observe,
            space=space,
            mask=mask,
        )
        self._seeds = random.Random()
        # Each agent has its own spaces, because each space has its own random generator.
        self.action_spaces = {agent: deepcopy(self.encoding.actions.space) for agent in self.agents}
        self.observation_spaces = {agent: self.encoding.observation_space() for agent in self.agents}
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
        seen = self.encoding.seen(self.play, seat)
        return {"observation": seen, "action_mask": self.mask(agent)} if self.encoding.mask_observed else seen

    def mask(self, agent: str) -> Any:
        return self.encoding.mask(self.play.named_options(self.seat[agent]))

    def info(self, agent: str) -> dict[str, Any]:
        """What an agent's info has besides refusals."""
        asked = self.encoding.actions.masks and not self.encoding.mask_observed
        return {"action_mask": self.mask(agent)} if asked else {}

    def action(self, agent: str, element: Any) -> tuple[Any, dict[str, Any]]:
        """Return the action that an element stands for, or None if it is refused, and the agent's info about it."""
        seat = self.seat[agent]
        if element is None or seat not in self.play.to_act:
            return None, {}
        value = self.encoding.actions.decode(element, lambda: self._legal(seat))
        try:
            return self.play.read(seat, value), {}
        except ActionRefused as refused:
            return None, {"refused": refused.message}

    def _legal(self, seat: int) -> list[Any]:
        return to_plain(list(self.play.named_options(seat) or ()))

    def leaves(self, agent: str) -> bool:
        """Whether an agent is out for good, and its reward is known."""
        return self.play.over or (self.rules.live_scores and self.seat[agent] in self.play.eliminated())

    def step(self, actions: Mapping[int, Any]) -> list[float]:
        """Play one tick. Returns what each seat gained in it."""
        self.play.step(actions, named=False)
        if (rewards := self.play.rewards()) is not None:
            return [reward or 0.0 for reward in rewards]
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
        self.rewards = {agent: gained[self._arena.seat[agent]] for agent in self.agents}
        self._accumulate_rewards()
        self.terminations = {agent: self._arena.leaves(agent) for agent in self.agents}
        self.truncations = dict.fromkeys(self.agents, self._arena.truncated)
        self._ask()
        # Those that are out say so before anybody acts.
        self._deads_step_first()

    def _ask(self) -> None:
        self._chosen = {}
        self._waiting = [self.possible_agents[seat] for seat in self._arena.play.to_act]
        self.agent_selection = self._waiting[0] if self._waiting else self.agents[0]
        self.infos[self.agent_selection] |= self._arena.info(self.agent_selection)


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
        return self._seen(), {agent: self._arena.info(agent) for agent in self.agents}

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
        gained = self._arena.step(chosen)
        rewards = {agent: gained[self._arena.seat[agent]] for agent in self.agents}
        truncated = self._arena.truncated
        out = {agent: self._arena.leaves(agent) for agent in self.agents}
        seen, everybody = self._seen(), list(self.agents)
        for agent in everybody:
            infos[agent] |= self._arena.info(agent)
        self.agents = [] if truncated else [agent for agent in everybody if not out[agent]]
        return seen, rewards, out, dict.fromkeys(everybody, truncated), infos

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
    mask: MaskPlace = "observation",
    render_mode: str | None = None,
) -> RulesAECEnv:
    """Make a PettingZoo environment in which agents act one after another.

    Agents are `seat_0`, `seat_1`, …. They see `{"observation": …, "action_mask": …}` if the actions can be numbered, as
    in PettingZoo's own games, and otherwise only the observation. A refused action counts as none in time;
    `infos[agent]["refused"]` has the reason. The reward of a tick is that of the rules; if they give no `rewards`, it
    is the change of the score: without `live_scores` in the rules, the whole score comes at the end. With them, a seat
    that is out leaves at once; without, it stays to the end, as its score is not known before.

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
        mask: `observation`, or `info` for observations without a mask, which is then in `infos[agent]["action_mask"]`.
        render_mode: `ansi` for text.

    Raises:
        UsageError: The config is invalid, or a space cannot be determined.
        RulesError: The rules fail. Any method may raise it.
    """
    arena = _Arena(
        rules,
        config=config,
        seats=seats,
        actions=actions,
        observe=observe,
        space=space,
        max_cycles=max_cycles,
        mask=mask,
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
    mask: MaskPlace = "observation",
    render_mode: str | None = None,
) -> RulesParallelEnv:
    """Make a PettingZoo environment in which all agents act at once; otherwise like `as_aec_env`.

    In a turn-based game, only the actions of agents whose turn it is count.
    """
    arena = _Arena(
        rules,
        config=config,
        seats=seats,
        actions=actions,
        observe=observe,
        space=space,
        max_cycles=max_cycles,
        mask=mask,
    )
    return RulesParallelEnv(arena, render_mode)
