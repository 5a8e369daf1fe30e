"""The spaces that rules have from an environment which they wrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, RulesConfig

from ._env_extra import env_missing

try:
    from gymnasium import Space
except ModuleNotFoundError as error:
    raise env_missing(error) from error

__all__ = ["OwnSpaces", "own_spaces"]


class OwnSpaces(Protocol):
    """The spaces of a seat that rules have from an environment which they wrap; it can be pickled."""

    @property
    def action(self) -> Space[Any]:
        """The space of actions."""
        ...

    @property
    def observation(self) -> Space[Any]:
        """The space of observations."""
        ...

    def encode(self, seen: Any, /) -> Any:
        """Turn an observation (as JSON) into an element."""
        ...

    def decode(self, element: Any, /) -> Any:
        """Turn an element into an action (as JSON); not asked if actions are numbered."""
        ...


def own_spaces(rules: type[Rules], config: RulesConfig, *, seat: int | None, observed: bool = True) -> OwnSpaces | None:
    """Return the `OwnSpaces` that rules have, by their class method `seat_spaces`; None if they have none.

    Args:
        rules: The game.
        config: Its config.
        seat: The seat; None: all seats.
        observed: Whether the space of observations is wanted, which must then be the same for all these seats.

    Raises:
        UsageError: All seats are asked for, and they observe different things.
    """
    made: Callable[[RulesConfig], Sequence[OwnSpaces]] | None = getattr(rules, "seat_spaces", None)
    if made is None:
        return None
    found = made(config)
    if seat is None and observed and any(one.observation != found[0].observation for one in found):
        raise UsageError(
            f"The seats of {rules.__name__} observe different things.",
            code="no_space",
            hint="Give observe= and space= for all of them, or train one seat at a time.",
        )
    return found[seat or 0]
