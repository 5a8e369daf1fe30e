"""Games of PettingZoo as rules: agents see arrays, actions are numbers, and the rules' own `rng` gives the seed.

An environment of one's own is a game, too: `pettingzoo:./myenv.py` or, for a module, `pettingzoo:myenv`, with what
makes it if that has a name of its own: `pettingzoo:./myenv.py:make`.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from pydantic import BaseModel, ConfigDict, Field

from coworld_core.rules import RulesConfig

from .env_actions import action_type, default_action, element_of, refused_space
from .env_spaces import SeatSpaces, board_space, of_agents
from .libraries import imported, loaded_extras, read_call
from .own_modules import OwnModule, is_own
from .trial import tried_games
from .wrappable import LibraryRules, Wrappable, WrappedGame, flaw, not_wrappable, rules_of

# Nothing is displayed here, and on a machine without a screen SDL must not look for one.
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

__all__ = ["AgentView", "PettingZoo", "PettingZooConfig", "find", "is_own", "listed", "names"]

MOST_NUMBERS: Final = 10_000
"""Limit of numbers in an observation. Pixels would be more, and would take megabytes of text for each frame."""

FACTORIES: Final = ("parallel_env", "env", "raw_env")
"""What the module of an environment defines, as PettingZoo's own modules do; the first of them is taken."""

MARKED: Final = re.compile(r"(?:\x1b\[[0-9;]+m)+(.*?)(?:\x1b\[0m)+")
"""What is coloured or highlighted at a terminal."""

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

    If PettingZoo has a parallel form of the game, all seats act at once. An action is a number, or a list of numbers
    if the space of actions is no list of them.

    Attributes:
        environment: An environment of one's own: its module, or what makes it. None for those of PettingZoo.
    """

    library = "pettingzoo"
    environment: ClassVar[Any] = None
    Config = PettingZooConfig
    Action = int
    Observation = AgentView
    live_scores = True

    @classmethod
    def look_up(cls, game: str) -> None:
        """Make the environment once, so that a failure is reported as `not_wrappable`, with the reason."""
        try:
            env, _ = cls.make(game)
        except ValueError as error:
            raise not_wrappable(f"{cls.library}:{game}", str(error)) from None
        cls.Action = action_type(env.action_space(env.possible_agents[0]))

    @classmethod
    def make(cls, game: str) -> tuple[Any, bool]:
        """Make a new environment; also returns whether all agents act at once.

        Raises:
            ValueError: It cannot be made; the message says why.
        """
        return _environment(game, cls.environment)

    @classmethod
    def seat_spaces(cls, config: RulesConfig) -> list[SeatSpaces]:
        """Return the environment's own spaces for each seat, which environments for training then have."""
        env, _ = cls.make(cast("PettingZooConfig", config).game)
        agents = env.possible_agents
        return of_agents([env.action_space(one) for one in agents], [env.observation_space(one) for one in agents])

    def start(self) -> None:
        """Reset the environment."""
        # Make a new one each time: not every environment clears all its state on a reset.
        self._env, self._parallel = self.make(self.config.game)
        # Read the state instead of drawing: a draw would mark the game as one with chance, which it may not be.
        begun = self._env.reset(seed=self.rng.getstate()[1][1] >> 1)
        self._agents: list[str] = list(self._env.possible_agents)
        if len(self._agents) != self.seats:
            raise ValueError(f"{self.config.game} has {len(self._agents)} seats, not {self.seats}")
        seen: Any = begun if self._parallel else ({}, {})
        self._seen, self._infos = seen
        self._totals = [0.0] * self.seats
        self._out: list[int] = []
        self._last = ""
        self._look()

    def to_act(self) -> list[int]:
        """Return the seats that have to act: all agents that are left in a parallel game."""
        return self._turn

    def legal(self, seat: int) -> Sequence[int] | None:
        """Return the actions that the mask allows, or all if there is no mask; None if they are lists of numbers."""
        space = self._space(seat)
        if type(space).__name__ != "Discrete":
            return None
        mask = _part(self._array(seat), "action_mask")
        if mask is None:
            infos: Any = self._infos if self._parallel else self._env.infos
            mask = infos[self._agents[seat]].get("action_mask")
        first = int(space.start)
        return [first + n for n in range(int(space.n)) if mask is None or mask[n]]

    def default(self, seat: int) -> Any:
        """Return the first legal action, or zeros if actions are lists of numbers."""
        legal = self.legal(seat)
        return default_action(self._space(seat)) if legal is None else legal[0]

    def observe(self, seat: int) -> dict[str, Any]:
        """Return what PettingZoo shows to an agent."""
        seen = self._array(seat)
        board = _part(seen, "observation")
        return {"game": self.config.game, "view": _plain(seen if board is None else board)}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Take the actions, and skip the agents that are out."""
        env = self._env
        elements = {seat: element_of(self._space(seat), action) for seat, action in actions.items()}
        self._last = ", ".join(f"{self._agents[seat]} {action}" for seat, action in actions.items())
        if self._parallel:
            seen, rewards, _, _, self._infos = env.step({self._agents[s]: element for s, element in elements.items()})
            # An agent that is out keeps what it saw last.
            self._seen = {**self._seen, **seen}
        else:
            (element,) = elements.values()
            env.step(element)
            rewards = dict(env.rewards)
            # Keep the last observations: the environment forgets the agents skipped below.
            out = [agent for agent in env.agents if env.terminations[agent] or env.truncations[agent]]
            self._seen = {**self._seen, **{agent: env.observe(agent) for agent in out}}
            while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
                env.step(None)
        for agent, reward in rewards.items():
            self._totals[self._agents.index(agent)] += float(reward)
        self._look()

    def eliminated(self) -> list[int]:
        """Return the seats whose agents have left before the others."""
        return self._out

    def scores(self) -> list[float]:
        """Return the sums of rewards."""
        return list(self._totals)

    def draw(self) -> str:
        """Return PettingZoo's text rendering, or else the board (if it has planes), the last actions and the scores."""
        if getattr(self._env, "render_mode", None) == "ansi":
            # Pages show text as it is: what a terminal would mark stands in brackets.
            return MARKED.sub(r"[\1]", str(self._env.render()))
        board = _board(self._array(0))
        scores = ", ".join(f"{agent} {total:g}" for agent, total in zip(self._agents, self._totals, strict=True))
        return f"{board}Last: {self._last or 'nothing yet'}\nScores: {scores}"

    def _space(self, seat: int) -> Any:
        return self._env.action_space(self._agents[seat])

    def _array(self, seat: int) -> Any:
        agent = self._agents[seat]
        return self._env.observe(agent) if agent in self._env.agents and not self._parallel else self._seen.get(agent)

    def _look(self) -> None:
        left = [seat for seat, agent in enumerate(self._agents) if agent in self._env.agents]
        if left:
            self._out = [seat for seat in range(self.seats) if seat not in left]
        if self._parallel:
            self._turn = left
        else:
            self._turn = [self._agents.index(self._env.agent_selection)] if self._env.agents else []


def _part(seen: Any, name: str) -> Any:
    """Return a part of an observation; None if there is no such part."""
    return seen.get(name) if hasattr(seen, "keys") else None


def _plain(seen: Any) -> Any:
    """Convert arrays to lists, and flags to numbers."""
    if hasattr(seen, "keys"):
        return {name: _plain(seen[name]) for name in seen}
    if isinstance(seen, tuple | list):
        return [_plain(one) for one in cast("Sequence[Any]", seen)]
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
    return tried_games("pettingzoo", {name: _title(name) for name in names()})


def find(game: str) -> WrappedGame:
    """Return one game, given its name with arguments if there are any.

    Raises:
        UsageError: Code `not_wrappable` with the reason.
    """
    name, bracket, arguments = game.partition("(")
    try:
        own = None if name in _specs() else OwnModule.load(name)
    except ValueError as error:
        raise not_wrappable(f"pettingzoo:{game}", str(error)) from error
    made_by = None if own is None else own.made_by
    if reason := _refused(game, made_by):
        raise not_wrappable(f"pettingzoo:{game}", reason)
    env, _ = _environment(game, made_by)
    spaces = [env.action_space(agent) for agent in env.possible_agents]
    count = len(spaces)
    found = WrappedGame(
        library="pettingzoo",
        game=game,
        title=_title(name),
        default_seats=count,
        seats=count,
        most_seats=count,
        live_scores=True,
        second="practised",
    )
    if own is None:
        return replace(found, needs=loaded_extras("pettingzoo", _specs()[name].namespace))
    return found.of_module(own, f"{bracket}{arguments}")


def _title(name: str) -> str:
    known = _specs().get(name)
    if known:
        return readable(known.name)
    place = name.partition(":")[0]
    return readable(Path(place).stem if place.endswith(".py") else place.rpartition(".")[2])


def readable(plain: str) -> str:
    """Return a name in code as a title."""
    return plain.replace("_", " ").capitalize()


@cache
def _specs() -> dict[str, Any]:
    return {f"{spec.name}_v{spec.version}": spec for spec in imported("pettingzoo").aec_registry.values()}


def _environment(game: str, own: Any = None) -> tuple[Any, bool]:
    """Make a new environment of a game; also returns whether all agents act at once.

    Args:
        game: Its name, with arguments if there are any.
        own: The module or the maker of an environment of one's own, of which only the arguments are in the name.

    Raises:
        ValueError: It cannot be made; the message says why.
    """
    zoo = imported("pettingzoo")
    name, parameters = read_call(game)
    spec = _specs().get(name) if own is None else None
    make: Any
    if own is not None:
        make = own if callable(own) else next((getattr(own, one) for one in FACTORIES if hasattr(own, one)), None)
        if make is None:
            raise ValueError(f"{name} defines none of {', '.join(FACTORIES)}")
    elif spec is not None:
        make = partial(zoo.make, "parallel" if spec.id in zoo.parallel_registry else "aec", spec.id)
    else:
        raise ValueError(f"PettingZoo has no game {name}")
    try:
        with warnings.catch_warnings():
            # The library warns about the precision of its own spaces.
            warnings.simplefilter("ignore")
            env = make(**parameters)
            if "ansi" in getattr(env, "metadata", {}).get("render_modes", ()):
                env = make(**parameters, render_mode="ansi")
    except Exception as error:
        # The environment's own code runs here, so anything may be raised.
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        if spec is None:
            raise ValueError(f"it cannot be made: {type(error).__name__}: {said}") from error
        missing = getattr(error.__cause__ or error, "name", None)
        needs = f"it needs {missing}, which is not installed: pip install 'pettingzoo[{spec.namespace}]'"
        raise ValueError(needs if missing else f"PettingZoo cannot make it: {said}") from error
    return env, isinstance(env, zoo.ParallelEnv)


def refused_view(space: Any) -> str | None:
    """Return why a space is too large for that of observations; None if it is not."""
    numbers = math.prod(getattr(space, "shape", None) or ())
    if numbers > MOST_NUMBERS:
        return f"what a seat sees is {numbers:,} numbers (pixels, say), which is too much for a frame of text"
    return None


def _refused(game: str, own: Any) -> str | None:
    """Return why a game cannot be wrapped, found by making and playing it; None if it can."""
    if own is None and _specs()[game.partition("(")[0]].namespace == "atari":
        return "it needs a cartridge, which the library does not include and which has its own licence"
    try:
        env, _ = _environment(game, own)
    except ValueError as error:
        return str(error)
    spaces = [env.action_space(agent) for agent in env.possible_agents]
    for agent, space in zip(env.possible_agents, spaces, strict=True):
        if reason := refused_space(space) or refused_view(board_space(env.observation_space(agent))):
            return reason
    kinds = {type(space).__name__ if type(space).__name__ == "Discrete" else str(space) for space in spaces}
    if len(kinds) > 1:
        return f"its agents have actions of different kinds: {', '.join(sorted(kinds))}"
    # `library` makes it an adapter, which names no game yet.
    adapter = PettingZoo
    if own is not None:
        adapter = type("Own", (PettingZoo,), {"library": PettingZoo.library, "environment": own})
    return flaw(rules_of(adapter, game, seats=len(env.possible_agents)), ticks=TRIED)
