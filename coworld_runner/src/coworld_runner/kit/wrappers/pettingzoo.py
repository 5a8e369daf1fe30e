"""Games of PettingZoo as rules: agents see arrays, actions are numbers, and the rules' own `rng` gives the seed."""

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
"""Limit of numbers in an observation. Pixels would be more, and would take megabytes of text for each frame."""

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
    """A game of PettingZoo. A subclass sets the game's name as the default of `Config.game`, and its number of seats.

    If PettingZoo has a parallel form of the game, all seats act at once.
    """

    library = "pettingzoo"
    Config = PettingZooConfig
    Action = int
    Observation = AgentView
    live_scores = True

    @classmethod
    def look_up(cls, game: str) -> None:
        """Make the environment once, so that a failure is reported as `not_wrappable`, with the reason."""
        try:
            _environment(game)
        except ValueError as error:
            raise not_wrappable(f"pettingzoo:{game}", str(error)) from None

    def start(self) -> None:
        """Reset the environment."""
        # Make a new one each time: not every environment clears all its state on a reset.
        self._env, self._parallel = _environment(self.config.game)
        # Read the state instead of drawing: a draw would mark the game as one with chance, which it may not be.
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
        """Return the seats that have to act: all agents that are left in a parallel game."""
        return self._turn

    def legal(self, seat: int) -> Sequence[int]:
        """Return the actions that the mask allows, or all if there is no mask."""
        mask = _part(self._array(seat), "action_mask")
        if mask is None:
            infos: Any = self._infos if self._parallel else self._env.infos
            mask = infos[self._agents[seat]].get("action_mask")
        space = self._env.action_space(self._agents[seat])
        first = int(space.start)
        return [first + n for n in range(int(space.n)) if mask is None or mask[n]]

    def default(self, seat: int) -> int:
        """Return the first legal action."""
        return self.legal(seat)[0]

    def observe(self, seat: int) -> dict[str, Any]:
        """Return what PettingZoo shows to an agent."""
        seen = self._array(seat)
        board = _part(seen, "observation")
        return {"game": self.config.game, "view": _plain(seen if board is None else board)}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Take the actions, and skip the agents that are out."""
        env = self._env
        self._last = ", ".join(f"{self._agents[seat]} {action}" for seat, action in actions.items())
        if self._parallel:
            self._seen, rewards, _, _, self._infos = env.step({self._agents[s]: act for s, act in actions.items()})
        else:
            (action,) = actions.values()
            env.step(action)
            rewards = dict(env.rewards)
            if all(env.terminations.values()):
                # Keep the last observations: the environment forgets the agents skipped below.
                self._seen = {agent: env.observe(agent) for agent in self._agents}
            while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
                env.step(None)
        for agent, reward in rewards.items():
            self._totals[self._agents.index(agent)] += float(reward)
        self._look()

    def scores(self) -> list[float]:
        """Return the sums of rewards."""
        return list(self._totals)

    def draw(self) -> str:
        """Return PettingZoo's text rendering, or else the board (if it has planes), the last actions and the scores."""
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
    """Return a part of an observation; None if there is no such part."""
    return seen.get(name) if hasattr(seen, "keys") else None


def _plain(seen: Any) -> Any:
    """Convert arrays to lists, and flags to numbers."""
    if hasattr(seen, "keys"):
        return {name: _plain(seen[name]) for name in seen}
    if hasattr(seen, "dtype"):
        return (seen.astype("int8") if seen.dtype == bool else seen).tolist()
    return seen


def _board(seen: Any) -> str:
    """Draw a board whose first two planes are the pieces of the two sides; empty if it is not one."""
    planes = _part(seen, "observation")
    if getattr(planes, "ndim", 0) != 3 or planes.dtype not in (bool, "int8"):
        return ""
    return "".join(" ".join("x" if cell[0] else "o" if cell[1] else "." for cell in row) + "\n" for row in planes)


# --- list of games -------------------------------------------------------------------------------------------------


def names() -> list[str]:
    """Return the names of all games, such as `connect_four_v3`."""
    return list(_specs())


def listed() -> list[Wrappable]:
    """Try all games, and return them with the reason for each that cannot be wrapped."""
    with Trials() as trials:
        return [
            Wrappable(source=source, title=_title(name), refused=trials.refusal(source))
            for name in sorted(_specs())
            for source in (f"pettingzoo:{name}",)
        ]


def find(game: str) -> WrappedGame:
    """Return one game, given its name with arguments if there are any.

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
    """Make a new environment of a game; also returns whether all agents act at once.

    Raises:
        ValueError: The library cannot make it; the message says why.
    """
    zoo = imported("pettingzoo")
    # Nothing is displayed here, and on a machine without a screen SDL must not look for one.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    name, parameters = read_call(game)
    spec = _specs().get(name)
    if spec is None:
        raise ValueError(f"PettingZoo has no game {name}")
    kind = "parallel" if spec.id in zoo.parallel_registry else "aec"
    try:
        with warnings.catch_warnings():
            # The library warns about the precision of its own spaces.
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
    """Return why a game cannot be wrapped, found by making and playing it; None if it can."""
    if _specs()[game.partition("(")[0]].namespace == "atari":
        return "it needs a cartridge, which the library does not include and which has its own licence"
    try:
        env, _ = _environment(game)
    except ValueError as error:
        return str(error)
    for agent in env.possible_agents:
        space, seen = env.action_space(agent), env.observation_space(agent)
        if type(space).__name__ != "Discrete":
            return f"its actions are not a list but {space}"
        shape = getattr(seen["observation"] if hasattr(seen, "spaces") else seen, "shape", None) or ()
        if (numbers := math.prod(shape)) > MOST_NUMBERS:
            return f"what a seat sees is {numbers:,} numbers (pixels, say), which is too much for a frame of text"
    return flaw(rules_of(PettingZoo, game, seats=len(env.possible_agents)), ticks=TRIED)
