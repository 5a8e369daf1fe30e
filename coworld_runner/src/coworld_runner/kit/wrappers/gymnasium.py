"""Environments of Gymnasium as rules of a game with one seat.

An environment of one's own is a game, too: `gymnasium:./myenv.py:MyEnv` or, for a module, `gymnasium:myenv:MyEnv`. The
name in the file may be left out if it defines one environment only.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, cast

from pydantic import Field

from .env_actions import refused_space
from .libraries import imported, loaded_extras, read_call
from .own_modules import OwnModule, is_own
from .pettingzoo import TRIED, PettingZoo, PettingZooConfig, readable, refused_view
from .trial import tried_games
from .wrappable import Wrappable, WrappedGame, flaw, not_wrappable, rules_of

__all__ = ["Gymnasium", "GymnasiumConfig", "find", "listed", "names"]

AGENT = "player"


class GymnasiumConfig(PettingZooConfig):
    """Which environment of Gymnasium is played."""

    game: str = Field(description="An environment of Gymnasium, with arguments if there are any: CartPole-v1(x=1).")


class Gymnasium(PettingZoo):
    """An environment of Gymnasium. A subclass sets its name as the default of `Config.game`.

    Attributes:
        environment: An environment of one's own: its class or what makes it. None for those of Gymnasium.
    """

    library = "gymnasium"
    environment: ClassVar[Any] = None
    Config = GymnasiumConfig
    seats = 1

    @classmethod
    def make(cls, game: str) -> tuple[Any, bool]:
        """Make a new environment, whose only agent is its player.

        Raises:
            ValueError: It cannot be made; the message says why.
        """
        return _OneAgent(_environment(game, cls.environment)), True


class _OneAgent:
    """An environment with PettingZoo's parallel interface and one agent."""

    possible_agents = (AGENT,)

    def __init__(self, env: Any) -> None:
        self.agents: list[str] = []
        self.render_mode = getattr(env, "render_mode", None)
        self._env = env

    def action_space(self, agent: str) -> Any:
        return self._env.action_space

    def observation_space(self, agent: str) -> Any:
        return self._env.observation_space

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents = [AGENT]
        seen, info = self._env.reset(seed=seed)
        return {AGENT: seen}, {AGENT: info}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        seen, reward, over, cut, info = self._env.step(actions[AGENT])
        if over or cut:
            self.agents = []
        return {AGENT: seen}, {AGENT: reward}, {AGENT: over}, {AGENT: cut}, {AGENT: info}

    def render(self) -> Any:
        return self._env.render()


def names() -> list[str]:
    """Return the names of all environments, such as `CartPole-v1`."""
    return list(imported("gymnasium").registry)


def listed() -> list[Wrappable]:
    """Try all environments, and return them with the reason for each that cannot be wrapped."""
    return tried_games("gymnasium", {name: _title(name) for name in names()})


def find(game: str) -> WrappedGame:
    """Return one environment, given its name with arguments if there are any.

    Raises:
        UsageError: Code `not_wrappable` with the reason.
    """
    name, bracket, arguments = game.partition("(")
    known = name in imported("gymnasium").registry
    try:
        own = None if known else _only_one(OwnModule.load(name))
        made_by = None if own is None else own.made_by
        env = _environment(game, made_by)
    except ValueError as error:
        raise not_wrappable(f"gymnasium:{game}", str(error)) from error
    reason = refused_space(env.action_space) or refused_view(env.observation_space)
    if reason is None:
        # `library` makes it an adapter, which names no game yet.
        adapter = (
            type("Own", (Gymnasium,), {"library": Gymnasium.library, "environment": made_by}) if own else Gymnasium
        )
        reason = flaw(rules_of(adapter, game, seats=1), ticks=TRIED)
    if reason is not None:
        raise not_wrappable(f"gymnasium:{game}", reason)
    found = WrappedGame(
        library="gymnasium",
        game=game,
        title=_title(name),
        default_seats=1,
        seats=1,
        most_seats=1,
        live_scores=True,
        second="practised",
    )
    if own is not None:
        return found.of_module(own, f"{bracket}{arguments}")
    # gymnasium.envs.classic_control.cartpole:CartPoleEnv, and the extra classic-control
    kind = type(env.unwrapped).__module__.split(".")
    extra = kind[2].replace("_", "-") if kind[:2] == ["gymnasium", "envs"] else ""
    return replace(found, needs=loaded_extras("gymnasium", extra))


def _title(name: str) -> str:
    place = name.partition(":")[0]
    if place.endswith(".py") or is_own(name):
        return readable(place.removesuffix(".py").rpartition("/")[2].rpartition(".")[2])
    return place.rpartition("/")[2].rpartition("-v")[0] or place


def _only_one(own: OwnModule) -> OwnModule:
    """Name the environment of a module that defines only one."""
    if own.maker:
        return own
    base: type = imported("gymnasium").Env
    defined = cast("dict[str, Any]", vars(own.module))
    here = own.module.__name__
    found = [name for name, value in defined.items() if _is_subclass(value, base) and value.__module__ == here]
    if len(found) != 1:
        raise ValueError(f"{own.name} defines {', '.join(found) or 'no environment'}: say which, as in {own.name}:NAME")
    return replace(own, maker=found[0])


def _is_subclass(value: Any, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)


def _environment(game: str, made_by: Any) -> Any:
    gym = imported("gymnasium")
    name, parameters = read_call(game)
    if made_by is None and name not in gym.registry:
        raise ValueError(f"Gymnasium has no environment {name}")
    make: Any = partial(gym.make, name, disable_env_checker=True) if made_by is None else made_by
    try:
        with warnings.catch_warnings():
            # The library warns about versions and about the precision of its own spaces.
            warnings.simplefilter("ignore")
            env = make(**parameters)
            if "ansi" in (getattr(env, "metadata", None) or {}).get("render_modes", ()):
                env.close()
                env = make(**parameters, render_mode="ansi")
    except Exception as error:
        # The environment's own code runs here, so anything may be raised.
        said = (str(error).splitlines() or [""])[0].rstrip(".")
        raise ValueError(f"it cannot be made: {type(error).__name__}: {said}") from error
    return env
