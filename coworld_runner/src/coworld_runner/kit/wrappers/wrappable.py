"""Describes libraries' games: which can be wrapped, what a package needs to know of them, and why others cannot."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from pydantic import create_model

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, action_schema, audit_rules

from ...package.random_player import sample as draw
from .libraries import imported
from .own_modules import OwnModule

__all__ = ["LibraryRules", "Wrappable", "WrappedGame", "flaw", "not_wrappable", "rules_of"]


TRIED_SECONDS = 2.0
"""Time limit of each game of an audit before a game is wrapped."""


@dataclass(frozen=True, kw_only=True)
class Wrappable:
    """A game of a library.

    Attributes:
        source: Its name for `coworld game wrap`, such as `openspiel:hanabi`.
        title: Name for display.
        refused: Why it cannot be wrapped; None if it can.
    """

    source: str
    title: str
    refused: str | None = None


@dataclass(frozen=True, kw_only=True)
class WrappedGame:
    """A game as its package describes it.

    Attributes:
        library: Name of its library in sources.
        game: Its name in the library, with parameters.
        title: Name for display.
        default_seats: Number of seats by default.
        seats: Fewest seats.
        most_seats: Most seats.
        live_scores: Whether scores are meaningful before the end.
        second: The package's player that thinks first: the name of a folder of templates.
        needs: Distributions that it needs besides the library.
        module: The module of an environment of one's own; empty for a game of the library.
        maker: What makes the environment in that module; empty: what is usual.
        module_directory: Where that module is, if it is not installed.
    """

    library: str
    game: str
    title: str
    default_seats: int
    seats: int
    most_seats: int
    live_scores: bool
    second: str
    needs: tuple[str, ...] = ()
    module: str = ""
    maker: str = ""
    module_directory: str = ""

    def of_module(self, own: OwnModule, call: str) -> WrappedGame:
        """Return the same as the environment of a module, with its arguments in brackets."""
        return replace(
            self,
            game=f"{own.name.rpartition('.')[2]}{call}",
            module=own.name,
            maker=own.maker,
            module_directory=own.directory,
            needs=own.needs,
        )

    @property
    def short_name(self) -> str:
        """The name without parameters."""
        return self.game.partition("(")[0]


class LibraryRules(Rules):
    """A game of a library. A subclass sets the game's name as the default of `Config.game`, and its number of seats."""

    library: ClassVar[str]
    """The module to import. An adapter sets it; the module is imported when the adapter is subclassed."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Fail at once, not in the middle of a game, if the library is missing or does not have the game."""
        super().__init_subclass__(**more)
        if "library" in cls.__dict__:
            return
        imported(cls.library)
        game = cls.Config.model_fields["game"].default
        if isinstance(game, str):
            cls.look_up(game)

    @classmethod
    def look_up(cls, game: str) -> None:
        """Check that the library has a game; does nothing by default."""


def not_wrappable(source: str, reason: str, *, hint: str | None = None) -> UsageError:
    """Return the error for a game that cannot be wrapped, with the reason."""
    problem = f"{source} cannot be wrapped: {reason}."
    return UsageError(problem, code="not_wrappable", hint=hint, context={"reason": reason})


def rules_of(adapter: type[Rules], game: str, *, seats: int, most_seats: int | None = None) -> type[Rules]:
    """Make the rules of one game, as its package has them.

    Args:
        adapter: The rules of its library.
        game: Its name in the library, with parameters.
        seats: Fewest seats.
        most_seats: Most seats; by default the same number.
    """
    config = create_model("Config", __base__=adapter.Config, game=(str, game))
    return type("Wrapped", (adapter,), {"Config": config, "seats": seats, "most_seats": most_seats or seats})


def flaw(rules: type[Rules], *, ticks: int, sample: Callable[[random.Random], Any] | None = None) -> str | None:
    """Return what is wrong with rules: the first error of an audit that plays them, or None.

    Args:
        rules: The rules.
        ticks: How many ticks to play at most.
        sample: Draws an action where `legal` lists none; by default, any that the type of actions allows.
    """
    schema = action_schema(rules)
    sample = sample or partial(draw, schema)
    found = audit_rules(rules, ticks=ticks, seconds=TRIED_SECONDS, sample=sample).errors
    return found[0].message.splitlines()[0].rstrip(".")[:200] if found else None
