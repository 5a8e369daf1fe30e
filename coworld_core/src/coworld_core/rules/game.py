"""`Rules`: what an author writes."""

from __future__ import annotations

import abc
import importlib
import importlib.util
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict

from ..errors import UsageError
from .pace import Pace, Turns

__all__ = ["RESERVED", "Rules", "RulesConfig", "load_rules"]

RESERVED: Final = frozenset(
    {"tokens", "players", "seed", "player_connect_timeout_seconds", "seconds_per_move", "ticks_per_second"}
)
"""Fields of every game config, which therefore no rules may have."""


class RulesConfig(BaseModel):
    """The config of rules: a model whose fields have defaults or must be in every variant."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Rules(abc.ABC):
    """A game. Its state is the instance; a subclass writes what is below, and nothing else.

    Nothing may be read but `config`, `seats`, `rng` and the state: no clock, file, socket or other random numbers. The
    same seed and actions then give the same game, which replays, training and tests rely on; `audit_rules` checks it.

    The docstring of the class is the game's description: its first line in lists, all of it on the page of rules.

    Args:
        config: An instance of `Config`.
        seats: How many seats there are.
        rng: The only chance that there is.
    """

    Config: ClassVar[type[RulesConfig]] = RulesConfig
    """The config's type; its fields are the fields of the game config."""

    Action: ClassVar[Any] = str
    """The type of an action: a pydantic model, or anything else that pydantic can read from JSON."""

    Observation: ClassVar[Any] = object
    """The type of an observation, for its schema; `object` where it is not said."""

    Results: ClassVar[type[BaseModel] | None] = None
    """The type of what `results` returns; None where it returns nothing."""

    seats: int = 2
    """How many seats there are: in the class the least, in a game those of the game."""

    most_seats: ClassVar[int | None] = None
    """The most seats, for games that differ in them; None where there are always as many."""

    pace: ClassVar[Pace] = Turns()
    """How time passes."""

    max_ticks: ClassVar[int] = 100_000
    """A game that is not over after so many ticks is never over, which is an error of its rules."""

    live_scores: ClassVar[bool] = False
    """Whether `scores` means something before the game is over, too. Rewards of environments are then its differences
    from tick to tick; else all of them come at the end."""

    version: ClassVar[str] = "0"
    """The version of the rules; a replay of another is shown, and not played again."""

    # The author of the rules knows the type given above.
    config: Any
    rng: random.Random

    def __init__(self, config: RulesConfig, *, seats: int, rng: random.Random) -> None:
        self.config = config
        self.seats = seats
        self.rng = rng

    @abc.abstractmethod
    def start(self) -> None:
        """Set up the state of a new game."""

    @abc.abstractmethod
    def to_act(self) -> Sequence[int]:
        """The seats whose action is awaited: one for turns, several that act at once, none when the game is over."""

    def legal(self, seat: int) -> Sequence[Any] | None:
        """What `seat`, which is to act, may do; None where it may do anything that its type allows."""
        return None

    @abc.abstractmethod
    def observe(self, seat: int) -> Any:
        """What `seat` sees, as JSON or a pydantic model."""

    @abc.abstractmethod
    def step(self, actions: Mapping[int, Any]) -> None:
        """Advance by one tick.

        Args:
            actions: What each seat of `to_act` does, by seat and in ascending order; legal, or None where a seat has
                missed its time and has no `default`.
        """

    @abc.abstractmethod
    def scores(self) -> Sequence[float]:
        """The score of each seat, more is better; asked for once the game is over, with `live_scores` at any time."""

    def default(self, seat: int) -> Any | None:
        """What `seat` does when it has missed its time."""
        return None

    def draw(self) -> str:
        """The board as text or as one `<svg>` element, for spectators and replays.

        Spectators need no token, so whatever is drawn is known to players too.
        """
        return ""

    def text(self, seat: int) -> str | None:
        """What `seat` sees in words, for people and language models: what is drawn, unless that is a picture."""
        drawn = self.draw()
        return None if not drawn or drawn.lstrip().startswith("<svg") else drawn

    def results(self) -> dict[str, Any] | BaseModel | None:
        """What the results hold beside scores and ticks."""
        return None


def load_rules(name: str) -> type[Rules]:
    """The rules with a name such as `nim:Nim`: a module or a file, and the class in it.

    Args:
        name: `module:Class` or `nim.py:Nim`; the class may be left out where it is the only one there.

    Raises:
        UsageError: Code `rules_unknown`: there is no such module, file or class, or it is not one of whole rules.
            Whatever the module itself raises comes through.
    """
    place, _, class_name = name.partition(":")
    if not place:
        raise UsageError(f"{name!r} names no rules.", code="rules_unknown", hint="Write MODULE:CLASS, such as nim:Nim.")
    module = _module_of(place, name)
    known = {key: value for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Rules)}
    known.pop("Rules", None)
    own = [key for key, value in known.items() if value.__module__ == module.__name__]
    found = known.get(class_name or (own[0] if len(own) == 1 else ""))
    if found is None:
        which = f"no rules {class_name!r}" if class_name else "not one class of rules"
        raise UsageError(
            f"{place} has {which}; it has {', '.join(known) or 'none'}.",
            code="rules_unknown",
            hint=f"Say which: {place}:{own[0]}." if own and not class_name else None,
        )
    rules_class = found
    if missing := sorted(rules_class.__abstractmethods__):
        raise UsageError(
            f"{rules_class.__name__} lacks {', '.join(missing)}.",
            code="rules_unknown",
            hint="Every game has these; see coworld_core.rules.Rules.",
        )
    if taken := sorted(RESERVED & rules_class.Config.model_fields.keys()):
        raise UsageError(
            f"{name}: the config has {', '.join(taken)}, which every game has already.", code="rules_unknown"
        )
    return rules_class


def _module_of(place: str, name: str) -> ModuleType:
    """The module of rules, imported by its name or from its file."""
    if place.endswith(".py"):
        path = Path(place).resolve()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise UsageError(f"There is no file {place}.", code="rules_unknown")
        # beside it may be what it imports
        sys.path.insert(0, str(path.parent))
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"There is no module {error.name!r}, which {name!r} needs.",
            code="rules_unknown",
            hint="Modules are looked for in the current directory and among what is installed.",
        ) from error
