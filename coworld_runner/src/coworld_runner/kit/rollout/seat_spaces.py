"""The spaces of a seat's actions and observations, and how both are converted: the same in every environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from coworld_core.errors import UsageError
from coworld_core.rules import Play, RulesError
from coworld_core.rules.plain_values import to_json

from ._env_extra import env_missing
from .own_spaces import OwnSpaces
from .spaces import Codec, NoSpaceError, codec, every_value, like

try:
    import numpy as np
    from gymnasium import Space, spaces
except ModuleNotFoundError as error:
    raise env_missing(error) from error

__all__ = [
    "ActionSpace",
    "MaskPlace",
    "ObservationSpace",
    "Observe",
    "SeatEncoding",
    "misfit",
]

Observe = Callable[[Any], Any]
"""Turns an observation (as JSON) into an element of a space."""

MaskPlace = Literal["observation", "info"]
"""Where the mask of legal actions is: in the observation, beside what is seen, or only in `info["action_mask"]`."""

MOST_KEPT: Final = 10_000
"""Maximum number of sets of legal actions whose masks are kept."""


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
    _moves: _MoveNumbers | None
    _codec: Codec | OwnSpaces | None
    _kept: dict[Any, tuple[tuple[int, ...] | None, bytes]] = dataclasses.field(
        default_factory=dict[Any, tuple[tuple[int, ...] | None, bytes]], compare=False
    )

    @classmethod
    def of(
        cls,
        schema: Mapping[str, Any],
        *,
        actions: Sequence[Any] | int | None,
        name: str,
        own: OwnSpaces | None = None,
    ) -> ActionSpace:
        """The space of actions.

        Args:
            schema: What an action is, as JSON Schema.
            actions: All actions as JSON, in the order of their numbers; or the largest number of legal actions at a
                time, so that number n is the n-th legal one; or None: what the schema says.
            name: The game's name.
            own: The spaces of an environment that the rules wrap, which come before the schema.

        Raises:
            UsageError: The schema says neither how many actions there are nor which numbers they consist of.
        """
        if isinstance(actions, int):
            return cls(spaces.Discrete(actions), None, True, None, None)
        if own is not None and actions is None:
            if not isinstance(own.action, spaces.Discrete):
                return cls(own.action, None, False, None, own)
            actions = range(int(own.action.start), int(own.action.start) + int(own.action.n))
        every = every_value(schema) if actions is None else list(actions)
        if every:
            return cls(spaces.Discrete(len(every)), every, True, _MoveNumbers(every), None)
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
        return cls(made.space, None, False, None, made)

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return int(cast("spaces.Discrete", self.space).n)

    def offered(self, options: Sequence[Any] | None) -> tuple[tuple[int, ...] | None, bytes]:
        """The numbers of legal actions, which may be JSON or the rules' own values, and their mask.

        Args:
            options: The legal actions; None: any.

        Returns:
            The numbers in this order, or None, and one byte for each action: 1 if it is legal.

        Raises:
            UsageError: An action is none of those that have numbers, or there are too many.
        """
        key: Any = None
        if options is not None:
            key = len(options) if self._moves is None else self._moves.keys(options)
        try:
            return self._kept[key]
        except (KeyError, TypeError):
            pass
        numbers = None if options is None else self._numbers(options)
        made = bytearray(self.count) if numbers is not None else bytearray(b"\1") * self.count
        for number in numbers or ():
            made[number] = 1
        found = numbers, bytes(made)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        # Not all actions can be keys.
        with suppress(TypeError):
            self._kept[key] = found
        return found

    def _numbers(self, options: Sequence[Any]) -> tuple[int, ...]:
        if self._moves is not None:
            return tuple([self._moves.number(option) for option in options])
        if len(options) > self.count:
            raise UsageError(f"There are {len(options)} legal actions, and actions={self.count}.", code="no_space")
        return tuple(range(len(options)))

    def mask(self, options: Sequence[Any] | None) -> Any:
        """1 for each legal action, 0 for the others, as an array of int8; None means that all are legal."""
        return np.frombuffer(self.offered(options)[1], np.int8).copy()

    def encode(self, action: Any) -> Any:
        """An action (as JSON) as an element of the space.

        Raises:
            UsageError: It is none of those that have numbers, or numbers depend on what is legal.
        """
        if self._codec is not None:
            return self._codec.encode(action)
        if self._moves is None:
            raise UsageError("Actions have no numbers of their own here: give all of them.", code="no_space")
        return np.int64(self._moves.number(action))

    def decode(self, element: Any, legal: Callable[[], Sequence[Any] | None]) -> Any:
        """The action as JSON; None if no action has that number."""
        if self._codec is not None:
            return self._codec.decode(element)
        number = int(element)
        several = self.every if self.every is not None else legal()
        return several[number] if several is not None and 0 <= number < len(several) else None


class _MoveNumbers:
    """The numbers of actions by their JSON text, and keys by which several of them are found again without it."""

    def __init__(self, every: Sequence[Any]) -> None:
        self._every = every
        self._by_text = {to_json(value): number for number, value in enumerate(every)}
        # 1 equals True and 1.0 in Python and not in JSON.
        self._tells_apart = len({_frozen(value) for value in every}) == len(self._by_text)
        self._ways: dict[type, Callable[[Any], Any]] = {}

    def __reduce__(self) -> Any:
        return _MoveNumbers, (self._every,)

    def keys(self, options: Sequence[Any]) -> tuple[Any, ...]:
        ways = self._ways
        try:
            return tuple([ways[type(option)](option) for option in options])
        except KeyError:
            for kind in {cast("type[Any]", type(option)) for option in options}:
                ways.setdefault(kind, _way(kind) if self._tells_apart else to_json)
            return self.keys(options)

    def number(self, option: Any) -> int:
        text = to_json(option)
        number = self._by_text.get(text)
        if number is None:
            raise UsageError(
                f"{text} is legal, but is not one of the {len(self._every)} actions.",
                code="no_space",
                hint="Give actions=[…] with all of them, or actions=N where at most N are legal at a time.",
            )
        return number


def _way(kind: Any) -> Callable[[Any], Any]:
    """How actions of this type become keys of a dictionary."""
    if kind in (str, int, bool, float):
        return lambda action: action
    if hasattr(kind, "model_fields") and kind.model_config.get("extra") != "allow":
        return lambda action: (kind, *action.__dict__.values())
    if kind in (list, tuple):
        return lambda action: (list, *action)
    if kind is dict:
        return lambda action: (dict, *action, *action.values())
    return to_json


def _frozen(value: Any) -> Any:
    """A JSON value as a key of a dictionary that equals those of equal values."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return tuple(sorted((name, _frozen(item)) for name, item in named.items()))
    return tuple(_frozen(item) for item in cast("list[Any]", value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class ObservationSpace:
    """The space of observations, and how an observation becomes an element of it.

    Attributes:
        space: The space, without a mask.
        flat: Whether an element of a declared type is one vector.
    """

    space: Space[Any]
    _how: Codec | Observe
    flat: bool = False

    @property
    def write(self) -> Callable[[Any, list[float]], None] | None:
        """Appends the numbers of an observation (as JSON) to a list; None if an element is no vector of them."""
        return self._how.flat if self.flat and isinstance(self._how, Codec) else None

    def encode(self, seen: Any) -> Any:
        """Turn an observation (as JSON) into an element of the space."""
        if not isinstance(self._how, Codec):
            return self._how(seen)
        if not self.flat:
            return self._how.encode(seen)
        numbers: list[float] = []
        self._how.flat(seen, numbers)
        return np.array(numbers, np.float32)

    @classmethod
    def of(
        cls,
        schema: Mapping[str, Any],
        example: Callable[[], Any],
        *,
        observe: Observe | None,
        space: Space[Any] | None,
        name: str,
        flat: bool = False,
        own: OwnSpaces | None = None,
    ) -> ObservationSpace:
        """The space of observations.

        Args:
            schema: What an observation is, as JSON Schema; `{}` if unknown.
            example: Returns an example, used if the schema is empty.
            observe: Turns an observation into an element of `space`.
            space: The space; give both this and `observe`, or neither.
            name: The game's name.
            flat: Whether to make one vector of a declared type, as `gymnasium.spaces.flatten` does, of float32.
            own: As for `ActionSpace.of`; its elements stay as they are.

        Raises:
            UsageError: The space cannot be determined.
        """
        if (observe is None) != (space is None):
            raise UsageError("observe= and space= belong together.", code="no_space")
        if observe is not None and space is not None:
            return cls(space, observe)
        if own is not None:
            return cls(own.observation, own.encode)
        try:
            made = codec(schema or like(example()))
        except NoSpaceError as error:
            raise UsageError(
                f"The type of an observation of {name} is not known at {error}.",
                code="no_space",
                hint="Give the rules an Observation type that declares it, or give observe= and space=.",
            ) from None
        if not flat:
            return cls(made.space, made)
        try:
            box = cast("spaces.Box", spaces.flatten_space(made.space))
        except (ValueError, NotImplementedError):
            raise UsageError(
                f"An observation of {name} has a list of any length, which is no vector of numbers.",
                code="no_space",
                hint="Give the list a maximum length in the rules' Observation type, or give observe= and space=.",
            ) from None
        low, high = box.low.astype(np.float32), box.high.astype(np.float32)
        return cls(spaces.Box(low, high, dtype=np.float32), made, True)


@dataclass(frozen=True, kw_only=True)
class SeatEncoding:
    """The conversion between a seat's messages and numbers; it can be pickled, to play with what was trained.

    ::

        number = policy(encoding.observation(observation), encoding.mask(legal))
        return encoding.action(number, legal)

    Attributes:
        actions: The space of actions.
        observations: The space of observations, without a mask.
        mask_place: Where environments put the mask.
    """

    actions: ActionSpace
    observations: ObservationSpace
    mask_place: MaskPlace = "observation"

    @classmethod
    def of(
        cls,
        action: Mapping[str, Any],
        observation: Mapping[str, Any],
        example: Callable[[], Any],
        *,
        name: str,
        actions: Sequence[Any] | int | None = None,
        observe: Observe | None = None,
        space: Space[Any] | None = None,
        mask: MaskPlace = "observation",
        flat: bool = False,
        own: OwnSpaces | None = None,
    ) -> SeatEncoding:
        """The encoding of a game; parameters as for `ActionSpace.of` and `ObservationSpace.of`.

        Args:
            action: What an action is, as JSON Schema.
            observation: What an observation is; `{}` if unknown.
            example: Returns an observation, used if its schema is empty.
            name: The game's name.
            actions: As for `ActionSpace.of`.
            observe: As for `ObservationSpace.of`.
            space: As for `ObservationSpace.of`.
            mask: Where environments put the mask.
            flat: As for `ObservationSpace.of`.
            own: As for `ActionSpace.of`.

        Raises:
            UsageError: A space cannot be determined.
        """
        if mask not in ("observation", "info"):
            raise UsageError(f'mask must be "observation" or "info", got {mask!r}.', code="no_space")
        return cls(
            actions=ActionSpace.of(action, actions=actions, name=name, own=own),
            observations=ObservationSpace.of(
                observation, example, observe=observe, space=space, name=name, flat=flat, own=own
            ),
            mask_place=mask,
        )

    @property
    def mask_observed(self) -> bool:
        """Whether the mask is part of the observation."""
        return self.actions.masks and self.mask_place == "observation"

    def observation_space(self) -> Space[Any]:
        """Return a new space of an agent's observations, with the mask if it is part of them."""
        own = deepcopy(self.observations.space)
        if not self.mask_observed:
            return own
        return spaces.Dict({"observation": own, "action_mask": spaces.Box(0, 1, (self.actions.count,), np.int8)})

    def observation(self, observation: Any) -> Any:
        """Return what a policy sees of an observation (as JSON), without the mask."""
        return self.observations.encode(observation)

    def seen(self, play: Play, seat: int) -> Any:
        """Return what a policy sees of a game that is played here, without the mask.

        Raises:
            RulesError: It is not of the declared type.
        """
        value = play.observation(seat)
        try:
            return self.observations.encode(value)
        except (LookupError, TypeError, ValueError) as error:
            raise misfit(error, value, tick=play.tick, seat=seat) from error

    def mask(self, legal: Sequence[Any] | None) -> Any:
        """Return 1 for each legal action, 0 for the others, as an array of int8; None means that all are legal."""
        return self.actions.mask(legal)

    def action(self, element: Any, legal: Sequence[Any] | None = None) -> Any:
        """Return the action (as JSON) that an element of the space stands for; None if there is none.

        Args:
            element: The number of an action, or another element of the space of actions.
            legal: The legal actions; needed if numbers are places among them.
        """
        return self.actions.decode(element, lambda: legal)


def misfit(error: Exception, value: Any, *, tick: int, seat: int) -> RulesError:
    """Return the error for an observation that is not of the declared type."""
    return RulesError(
        f"{value!r} does not fit the space of observations: {type(error).__name__}: {error}",
        where="observe",
        tick=tick,
        seat=seat,
    )
