"""Games of PettingZoo as rules: arrays that an agent sees, actions by number, and a seed from the rules' own `rng`."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from coworld_core.rules import RulesConfig

from .libraries import imported, loaded_extras, read_call
from .trial import Trials
from .wrappable import LibraryRules, Wrappable, WrappedGame, flaw, not_wrappable, rules_of

__all__ = ["AgentView", "PettingZoo", "PettingZooConfig", "find", "listed", "names"]

MOST_NUMBERS: Final = 10_000
"""Of an observation; pixels are more, and a frame of text for each would be megabytes."""

TRIED: Final = 40
"""Ticks of the audit that a game must pass."""


class PettingZooConfig(RulesConfig):
    """Which game of PettingZoo is played."""

    game: str = Field(description="A game of PettingZoo, with arguments if there are any: hanabi_v5(colors=3).")


class AgentView(BaseModel):
    """What a seat sees."""

    model_config = ConfigDict(frozen=True)

    game: str = Field(description="The game's name in PettingZoo, with its arguments.")
    view: Any = Field(description="The array that the agent observes, as lists of numbers.")


class PettingZoo(LibraryRules):
    """A game of PettingZoo; a subclass has its name as the default of `Config.game`, and its number of seats.

    Where PettingZoo has a parallel form of the game, all seats act at once.
    """

    library = "pettingzoo"
    Config = PettingZooConfig
    Action = int
    Observation = AgentView
    live_scores = True

    @classmethod
    def look_up(cls, game: str) -> None:
        """Make it once, so that what it lacks is said in its package's words."""
        try:
            _environment(game)
        except ValueError as error:
            raise not_wrappable(f"pettingzoo:{game}", str(error)) from None

    def start(self) -> None:
        """Reset the environment."""
        # A new one each time: not every environment forgets all when it is reset.
        self._env, self._parallel = _environment(self.config.game)
        # Read, not drawn: whether the game has chance at all is not known, and a drawn number says that it has.
        begun = self._env.reset(seed=self.rng.getstate()[1][1] >> 1)
        self._agents: list[str] = list(self._env.possible_agents)
        if len(self._agents) != self.seats:
            raise ValueError(f"{self.config.game} has {len(self._agents)} seats, not {self.seats}")
        seen: Any = begun if self._parallel else ({}, {})
        self._seen, self._infos = seen
        self._totals = [0.0] * self.seats
        self._last = ""
        self._look()

    def to_act(self) -> list[int]:
        """Whose actions are awaited: all in a parallel game."""
        return self._turn

    def legal(self, seat: int) -> Sequence[int]:
        """The actions that the mask allows, or all where there is none."""
        mask = _part(self._array(seat), "action_mask")
        if mask is None:
            infos: Any = self._infos if self._parallel else self._env.infos
            mask = infos[self._agents[seat]].get("action_mask")
        space = self._env.action_space(self._agents[seat])
        first = int(space.start)
        return [first + n for n in range(int(space.n)) if mask is None or mask[n]]

    def default(self, seat: int) -> int:
        """The first of the actions."""
        return self.legal(seat)[0]

    def observe(self, seat: int) -> dict[str, Any]:
        """What PettingZoo shows to an agent."""
        seen = self._array(seat)
        board = _part(seen, "observation")
        return {"game": self.config.game, "view": _plain(seen if board is None else board)}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Act, and pass over the agents that are out."""
        env = self._env
        self._last = ", ".join(f"{self._agents[seat]} {action}" for seat, action in actions.items())
        if self._parallel:
            self._seen, rewards, _, _, self._infos = env.step({self._agents[s]: act for s, act in actions.items()})
        else:
            (action,) = actions.values()
            env.step(action)
            rewards = dict(env.rewards)
            if all(env.terminations.values()):
                # Who is passed over below is forgotten.
                self._seen = {agent: env.observe(agent) for agent in self._agents}
            while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
                env.step(None)
        for agent, reward in rewards.items():
            self._totals[self._agents.index(agent)] += float(reward)
        self._look()

    def scores(self) -> list[float]:
        """The sums of rewards."""
        return list(self._totals)

    def draw(self) -> str:
        """The board where PettingZoo has one as text or as planes; else what was done last, and the scores."""
        if self._env.render_mode == "ansi":
            return str(self._env.render())
        board = _board(self._array(0))
        scores = ", ".join(f"{agent} {total:g}" for agent, total in zip(self._agents, self._totals, strict=True))
        return f"{board}Last: {self._last or 'nothing yet'}\nScores: {scores}"

    def _array(self, seat: int) -> Any:
        agent = self._agents[seat]
        return self._env.observe(agent) if self._env.agents and not self._parallel else self._seen.get(agent)

    def _look(self) -> None:
        if self._parallel:
            self._turn = [seat for seat, agent in enumerate(self._agents) if agent in self._env.agents]
        else:
            self._turn = [self._agents.index(self._env.agent_selection)] if self._env.agents else []


def _part(seen: Any, name: str) -> Any:
    """A part of what an agent observes where that has parts; else None."""
    return seen.get(name) if hasattr(seen, "keys") else None


def _plain(seen: Any) -> Any:
    """An array as lists, and a flag as a number."""
    if hasattr(seen, "keys"):
        return {name: _plain(seen[name]) for name in seen}
    if hasattr(seen, "dtype"):
        return (seen.astype("int8") if seen.dtype == bool else seen).tolist()
    return seen


def _board(seen: Any) -> str:
    """Rows of a board whose first two planes are the pieces of the two sides; empty where it is none."""
    planes = _part(seen, "observation")
    if getattr(planes, "ndim", 0) != 3 or planes.dtype not in (bool, "int8"):
        return ""
    return "".join(" ".join("x" if cell[0] else "o" if cell[1] else "." for cell in row) + "\n" for row in planes)


# --- which there are ------------------------------------------------------------------------------------------------


def names() -> list[str]:
    """The names of all games, such as `connect_four_v3`."""
    return list(_specs())


def listed() -> list[Wrappable]:
    """All of them, each tried."""
    with Trials() as trials:
        return [
            Wrappable(source=source, title=_title(name), refused=trials.refusal(source))
            for name in sorted(_specs())
            for source in (f"pettingzoo:{name}",)
        ]


def find(game: str) -> WrappedGame:
    """One of them, with arguments if there are any.

    Raises:
        UsageError: Code `not_wrappable` with the reason.
    """
    if reason := _refused(game):
        raise not_wrappable(f"pettingzoo:{game}", reason)
    name = read_call(game)[0]
    count = len(_environment(game)[0].possible_agents)
    return WrappedGame(
        library="pettingzoo",
        game=game,
        title=_title(name),
        default_seats=count,
        seats=count,
        most_seats=count,
        live_scores=True,
        second="practised",
        needs=loaded_extras("pettingzoo", _specs()[name].namespace),
    )


def _title(name: str) -> str:
    return _specs()[name].name.replace("_", " ").capitalize()


@cache
def _specs() -> dict[str, Any]:
    return {f"{spec.name}_v{spec.version}": spec for spec in imported("pettingzoo").aec_registry.values()}


def _environment(game: str) -> tuple[Any, bool]:
    """A new environment of a game, and whether all agents act at once.

    Raises:
        ValueError: The library cannot make it; the message says why.
    """
    zoo = imported("pettingzoo")
    # Nothing is shown here, and where there is no screen the library that draws must not look for one.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    name, parameters = read_call(game)
    spec = _specs().get(name)
    if spec is None:
        raise ValueError(f"PettingZoo has no game {name}")
    kind = "parallel" if spec.id in zoo.parallel_registry else "aec"
    try:
        with warnings.catch_warnings():
            # About the precision of its own spaces.
            warnings.simplefilter("ignore")
            env = zoo.make(kind, spec.id, **parameters)
            if "ansi" in env.metadata.get("render_modes", ()):
                env = zoo.make(kind, spec.id, **parameters, render_mode="ansi")
    except Exception as error:
        # The environment's own code runs here, so anything may be raised.
        missing = getattr(error.__cause__ or error, "name", None)
        needs = f"it needs {missing}, which is not installed: pip install 'pettingzoo[{spec.namespace}]'"
        why = needs if missing else f"PettingZoo cannot make it: {str(error).splitlines()[0].rstrip('.')}"
        raise ValueError(why) from error
    return env, kind == "parallel"


def _refused(game: str) -> str | None:
    """Why a game cannot be wrapped, found by making and playing it."""
    if _specs()[game.partition("(")[0]].namespace == "atari":
        return "it is a cartridge, which the library does not have and which is licensed apart"
    try:
        env, _ = _environment(game)
    except ValueError as error:
        return str(error)
    for agent in env.possible_agents:
        space, seen = env.action_space(agent), env.observation_space(agent)
        if type(space).__name__ != "Discrete":
            return f"its actions are no list, but {space}"
        shape = getattr(seen["observation"] if hasattr(seen, "spaces") else seen, "shape", None) or ()
        if (numbers := math.prod(shape)) > MOST_NUMBERS:
            return f"what a seat sees is {numbers:,} numbers, pixels say, which is too much for a frame of text"
    return flaw(rules_of(PettingZoo, game, seats=len(env.possible_agents)), ticks=TRIED)
