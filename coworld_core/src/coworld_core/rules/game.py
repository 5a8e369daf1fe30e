"""`Rules`, the base class of a game's rules."""

from __future__ import annotations

import abc
import inspect
import math
import random
import sys
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from pydantic import BaseModel, ConfigDict

from ..errors import CoworldError, UsageError
from ..scopes import load_alone, load_file, load_module
from .pace import Pace, Ticks, Turns
from .rules_errors import pointed_out
from .spectator_views import Delayed, Hidden, Open, Spectating
from .talk_limits import TalkLimits

__all__ = ["RESERVED", "Rules", "RulesConfig", "load_rules", "rules_directory", "wrong_rules"]

RESERVED: Final = frozenset(
    {"tokens", "players", "seed", "player_connect_timeout_seconds", "seconds_per_move", "ticks_per_second"}
)
"""Fields of every game config, which rules must therefore not define."""


class RulesConfig(BaseModel):
    """The config of rules: a model whose fields have defaults or are given in every variant."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Names:
    """`Rules.names`: an attribute of the same name that a game sets itself takes its place."""

    def __get__(self, rules: Rules | None, owner: type[Rules]) -> tuple[str, ...]:
        return tuple(f"Seat {seat}" for seat in range(owner.seats if rules is None else rules.seats))


class Rules(abc.ABC):
    """A game. The instance is its state; a subclass defines the methods and attributes below.

    Rules may read only `config`, `seats`, `rng` and their state: no clock, file, socket or other random numbers. The
    same seed and actions then give the same game, which replays, training and tests rely on; `audit_rules` checks this.

    The docstring of the class is the game's description: the first line in lists, all of it on the page of rules.

    Args:
        config: An instance of `Config`.
        seats: Number of seats.
        rng: The only source of randomness; or its seed, as seeding takes longer than some games and few need it.
    """

    Config: ClassVar[type[RulesConfig]] = RulesConfig
    """The type of the config; its fields become fields of the game config."""

    Action: ClassVar[Any] = str
    """The type of an action: a pydantic model, or anything else that pydantic can parse from JSON."""

    Observation: ClassVar[Any] = object
    """The type of an observation, for its schema; `object` if unspecified."""

    Results: ClassVar[type[BaseModel] | None] = None
    """The type that `results` returns; None if it returns nothing."""

    seats: int = 2
    """Number of seats: the minimum on the class, the actual number on an instance."""

    most_seats: ClassVar[int | None] = None
    """Maximum number of seats, for games in which it varies; None if it is always the same."""

    # Any, because a subclass may have a method of this name instead.
    pace: Any = Turns()
    """How the game advances: `Turns(…)` or `Ticks(…)`. In a game with phases it is a method `pace(self)`, which returns
    one of them for the present state; like all views it changes nothing. A config then has neither `seconds_per_move`
    nor `ticks_per_second`: the rules take such times from fields of their own."""

    spectators: ClassVar[Spectating] = Open()
    """What spectators may see before the game is over: `Open()`, `Delayed(ticks=…)` or `Hidden()`. The replay contains
    everything that `draw()` returned."""

    public: ClassVar[Sequence[str]] = ()
    """What everybody may know at once, whatever `spectators` is, such as `("eliminated", "pot")`: `scores`, `to_act`,
    `eliminated`, and attributes of the state, which are JSON values. Pages of seats and spectators show it."""

    talk: ClassVar[TalkLimits | None] = None
    """Whether seats may send messages to each other, such as `TalkLimits(length=200)`. Rules never see them; those who
    are addressed hear them with their next observation, and everybody reads them in the replay."""

    max_ticks: ClassVar[int] = 100_000
    """Maximum number of ticks. A game that is not over by then counts as endless, which is an error in its rules."""

    live_scores: ClassVar[bool] = False
    """Whether `scores` is meaningful before the game is over. If so, environments reward the change of score at each
    tick; otherwise the whole reward comes at the end. Rules with `rewards` say themselves what is rewarded."""

    tell_rewards: ClassVar[bool] = False
    """Whether the next observation of a seat comes with its reward, in games with `rewards`."""

    score_range: ClassVar[tuple[float | None, float | None] | None] = None
    """The lowest and the highest score of any seat, with every config; None for an end that has no limit. It becomes
    part of the schema of results, so that evaluations know how much a few games can say."""

    keys: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Keys for people on pages: a key's name as in `KeyboardEvent.key`, such as `"a"` or `"ArrowUp"`, and its action.
    Without them, arrows choose directions, such as `"left"` or `"north"`, and digits choose the other actions: by the
    number in them, such as that of `{"take": 2}`, or, where actions have none, by the place of the button. An action
    may leave out fields that have defaults: in games of `Ticks` without `legal`, keys that are held down add up."""

    version: ClassVar[str] = "0"
    """The version of the rules; a replay of another version can be shown but not played again."""

    names: Sequence[str] = cast("Sequence[str]", _Names())
    """The names of the seats, for pictures and texts: those of who sits there while `draw` and `text` are asked, and
    `Seat 0`, `Seat 1` … in all other methods, because a game must not depend on who plays it."""

    # Any, because each subclass has its own config type.
    config: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        named = cast("object", cls.spectators)
        if not isinstance(named, Open | Delayed | Hidden):
            raise UsageError(
                f"{cls.__name__}.spectators is {named!r}, not Open(), Delayed(ticks=…) or Hidden().",
                code="rules_unknown",
                hint="Import one of them from coworld_core.rules.",
            )
        pace = cast("object", cls.pace)
        if not isinstance(pace, Turns | Ticks) and not inspect.isfunction(pace):
            raise UsageError(
                f"{cls.__name__}.pace is {pace!r}, not Turns(…), Ticks(…) or a method.",
                code="rules_unknown",
                hint="Write pace = Turns(per_move=30) or Ticks(hz=10), or define pace(self), which returns one.",
            )
        talk = cast("object", cls.talk)
        if talk is not None and not isinstance(talk, TalkLimits):
            raise UsageError(
                f"{cls.__name__}.talk is {talk!r}, not TalkLimits(…) or None.",
                code="rules_unknown",
                hint="Write talk = TalkLimits(), with TalkLimits from coworld_core.rules.",
            )
        if talk is not None and "team" in talk.to and cls.team is Rules.team:
            raise UsageError(
                f"{cls.__name__} lets seats talk to their team, and does not say which that is.",
                code="rules_unknown",
                hint="Define team(self, seat), which returns the seats on its side.",
            )
        if not _is_range(scores := cast("object", cls.score_range)):
            raise UsageError(
                f"{cls.__name__}.score_range is {scores!r}, not the lowest and the highest score.",
                code="rules_unknown",
                hint="Write for example score_range = (0, 1), or (0, None) if there is no highest score.",
            )
        public = cast("object", cls.public)
        if not isinstance(public, tuple | list) or not all(isinstance(name, str) for name in cast("Any", public)):
            raise UsageError(
                f"{cls.__name__}.public is {public!r}, not the names of what everybody may know.",
                code="rules_unknown",
                hint='Write for example public = ("eliminated",).',
            )
        if "scores" in public and not cls.live_scores:
            raise UsageError(
                f"{cls.__name__}.public has scores, which mean nothing before the game is over.",
                code="rules_unknown",
                hint="Set live_scores = True if they do, or leave them out.",
            )
        keys = cast("object", cls.keys)
        if not isinstance(keys, Mapping) or not all(isinstance(key, str) and key for key in cast("Any", keys)):
            raise UsageError(
                f"{cls.__name__}.keys is {keys!r}, not a mapping from the names of keys to actions.",
                code="rules_unknown",
                hint='Write for example keys = {"ArrowLeft": "left"}.',
            )

    def __init__(self, config: RulesConfig, *, seats: int, rng: random.Random | int) -> None:
        self.config = config
        self.seats = seats
        if isinstance(rng, int):
            self.__seed = rng
        else:
            self.rng = rng

    @cached_property
    def rng(self) -> random.Random:
        """The only source of randomness."""
        return random.Random(self.__seed)

    @abc.abstractmethod
    def start(self) -> None:
        """Set up the state of a new game."""

    @abc.abstractmethod
    def to_act(self) -> Sequence[int]:
        """The seats whose action is awaited: one for turns, several to act at once, none once the game is over."""

    def legal(self, seat: int) -> Sequence[Any] | None:
        """The legal actions of a seat in `to_act`; None if any action of its type is legal."""
        return None

    def name_action(self, seat: int, action: Any) -> Any:
        """The form in which players know an action of `legal` or `default`, of type `Action`; by default the action.

        Override it if making that form takes long: `legal` and `default` may then return, say, the numbers of actions,
        which `step` gets, and only those that somebody looks at are named, before the tick in which they are done. All
        legal actions must then be listed, and have different names.
        """
        return action

    @abc.abstractmethod
    def observe(self, seat: int) -> Any:
        """What `seat` sees, as JSON or a pydantic model."""

    @abc.abstractmethod
    def step(self, actions: Mapping[int, Any]) -> None:
        """Advance by one tick.

        Args:
            actions: The action of each seat in `to_act`, by seat in ascending order; legal, or None if a seat missed
                its turn and has no `default`.
        """

    @abc.abstractmethod
    def scores(self) -> Sequence[float]:
        """The score of each seat, higher is better; called once the game is over, or with `live_scores` at any time."""

    def rewards(self) -> Mapping[int, float]:
        """What seats have gained in the tick that was just played, by seat; a seat that is left out has no reward.

        Defining it gives training and records the rewards of the rules in place of the changes of scores. Like all
        views it changes nothing; it may be asked after any tick, and is not asked before the first.
        """
        return {}

    def eliminated(self) -> Sequence[int]:
        """The seats that are out of the game and will not act again; pages say so."""
        return []

    def team(self, seat: int) -> Sequence[int]:
        """The seats on the side of `seat` at present, for games in which messages may be for a team."""
        return [seat]

    def default(self, seat: int) -> Any | None:
        """The action of a seat that missed its turn."""
        return None

    if TYPE_CHECKING:
        # Type checkers accept an override with or without the seat.
        def draw(self, *args: Any, **kwargs: Any) -> str: ...  # noqa: D102

    else:

        def draw(self, seat: int | None = None) -> str:
            """The board as text or as one `<svg>` element, as `seat` sees it.

            A game in which everybody sees the same may define `draw(self)` instead, and one that also draws what is
            secret, for replays, `draw(self, eye=None)`. A seat is drawn only while a page shows it.

            Args:
                seat: A seat; None for the public. Spectators need no token, so during the game players can see
                    whatever `spectators` lets spectators see. If the parameter is called `eye`, it may also be `"all"`:
                    everything, as replays show it.
            """
            return ""

    def text(self, seat: int) -> str | None:
        """What `seat` sees as text, for people and language models; by default its drawing, unless it is a picture."""
        return drawing_as_text(draw_for(self, seat))

    def secret_attributes(self) -> Sequence[str]:
        """The attributes that hold secrets at present, by name; `audit_rules` then looks for leaks.

        Of a list with an item for each seat, or a dictionary by seat, such as `hands`, each seat may see only its own
        item. Of anything else, such as `deck`, no seat may see anything. How many items a list, a set or a dictionary
        has may be known to all, but neither the length of a text nor whether there is a value: keep a word whose length
        is known as a list of letters. A secret that has been revealed is no longer named here.
        """
        return []

    def results(self) -> dict[str, Any] | BaseModel | None:
        """Fields of the results besides scores and ticks."""
        return None


def _is_range(value: object) -> bool:
    """Whether a value is None, or two ends in ascending order, of which some may be None."""
    if value is None:
        return True
    ends = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    known = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end)]
    return len(ends) == 2 and len(known) == sum(end is not None for end in ends) and known == sorted(set(known))


def fixed_pace(rules: type[Rules]) -> Pace | None:
    """The pace of a game; None if that depends on the phase."""
    return rules.pace if isinstance(rules.pace, Turns | Ticks) else None


@cache
def draws_seats(rules: type[Rules]) -> bool:
    """Whether a game draws what each seat sees, that is, whether its `draw` takes a seat."""
    return bool(_drawn_for(rules))


@cache
def draws_all(rules: type[Rules]) -> bool:
    """Whether a game also draws everything that is secret, that is, whether its `draw` takes an `eye`."""
    return _drawn_for(rules) == "eye"


def _drawn_for(rules: type[Rules]) -> str:
    """The name of the parameter of `draw` that says who looks; empty if there is none."""
    if rules.draw is Rules.draw:
        return ""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [one for one in inspect.signature(rules.draw).parameters.values() if one.kind in positional]
    # Another optional parameter is the game's own.
    return taken[1].name if len(taken) > 1 and taken[1].default in (None, inspect.Parameter.empty) else ""


def draw_for(rules: Rules, seat: int) -> str:
    """The drawing for a seat: its own, or else the spectators' if they may see the present state."""
    if draws_seats(type(rules)):
        return rules.draw(seat)
    return rules.draw() if isinstance(rules.spectators, Open) else ""


def is_picture(drawing: str) -> bool:
    """Whether a drawing is an `<svg>` element."""
    return drawing.lstrip().startswith("<svg")


def drawing_as_text(drawing: str) -> str | None:
    """The text that seats get by default: the drawing, or None if it is a picture or empty."""
    return None if not drawing or is_picture(drawing) else drawing


def load_rules(name: str, *, directory: Path | None = None, alone: bool = False) -> type[Rules]:
    """Load rules by a name such as `nim:Nim`: a module or a file, and a class in it.

    A file may import what lies beside it. Each load of a file is independent: it shares no modules with players or
    other games, and leaves `sys.path` as it is.

    Args:
        name: `module:Class` or `nim.py:Nim`; the class may be omitted if it is the only one.
        directory: Where to look for a module first; it is then loaded like a file.
        alone: Whether the process is for this game alone. It is then loaded as its program, with its directory on
            `sys.path`.

    Raises:
        UsageError: Code `rules_unknown` if there is no such module, file or class, if the class is incomplete, or if
            its config defines a field of `RESERVED`; `rules_wrong` if it cannot be imported. The message has the line.
    """
    place, _, class_name = name.partition(":")
    if not place:
        raise UsageError(
            f"{name!r} does not name a Rules class.", code="rules_unknown", hint="Write MODULE:CLASS, such as nim:Nim."
        )
    module = _module_of(place, name, directory, alone=alone)
    known = {key: value for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Rules)}
    known.pop("Rules", None)
    own = [key for key, value in known.items() if value.__module__ == module.__name__]
    found = known.get(class_name or (own[0] if len(own) == 1 else ""))
    if found is None:
        which = f"no rules {class_name!r}" if class_name else "not exactly one class of rules"
        raise UsageError(
            f"{place} has {which}; it has {', '.join(known) or 'none'}.",
            code="rules_unknown",
            hint=f"Say which: {place}:{own[0]}." if own and not class_name else None,
        )
    rules_class = found
    if missing := sorted(rules_class.__abstractmethods__):
        lacks = UsageError(
            f"{rules_class.__name__} lacks {', '.join(missing)}.",
            code="rules_unknown",
            hint="Every game needs these; see coworld_core.rules.Rules.",
        )
        raise wrong_rules(lacks, directory=rules_directory(rules_class), at=rules_class)
    if taken := sorted(RESERVED & rules_class.Config.model_fields.keys()):
        twice = UsageError(
            f"{name}: the config has {', '.join(taken)}, which every game already has.", code="rules_unknown"
        )
        raise wrong_rules(twice, directory=rules_directory(rules_class), at=rules_class.Config)
    return rules_class


def rules_directory(rules: type[Rules]) -> Path:
    """The directory of the file that defines rules; the current one if there is none."""
    file = getattr(sys.modules.get(rules.__module__), "__file__", None)
    return Path(file).parent if file else Path()


def wrong_rules(error: Exception, *, directory: Path, at: Any = None) -> UsageError:
    """The error that says in which line rules are wrong; its arguments are those of `pointed_out`."""
    code, hint = (error.code, error.hint) if isinstance(error, CoworldError) else ("rules_wrong", None)
    return UsageError(pointed_out(error, directory=directory, at=at), code=code, hint=hint)


def _module_of(place: str, name: str, directory: Path | None, *, alone: bool) -> ModuleType:
    """The module of rules, imported by name or from a file."""
    if place.endswith(".py") and not Path(place).is_file():
        raise UsageError(f"There is no file {place}.", code="rules_unknown")
    home = Path(place).parent if place.endswith(".py") else directory or Path()
    try:
        if place.endswith(".py") and not alone:
            return load_file(Path(place))
        return load_alone(place) if alone else load_module(place, directory=directory)
    except ModuleNotFoundError as error:
        if place.endswith(".py") or not place.startswith(error.name or place):
            raise wrong_rules(error, directory=home) from error
        raise UsageError(
            f"There is no module {error.name!r}, which {name!r} needs.",
            code="rules_unknown",
            hint="Modules are looked up in the current directory and among installed packages.",
        ) from error
    except Exception as error:
        raise wrong_rules(error, directory=home) from error
