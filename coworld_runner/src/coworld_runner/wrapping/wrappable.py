"""What the libraries say of their games: which can be wrapped, what a package needs to know, and why others cannot."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import create_model

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, audit_rules

from .libraries import imported

__all__ = ["LibraryRules", "Wrappable", "WrappedGame", "flaw", "not_wrappable", "rules_of"]


@dataclass(frozen=True, kw_only=True)
class Wrappable:
    """A game of a library.

    Attributes:
        source: How `coworld wrap` is told of it: `openspiel:hanabi`.
        title: Its name for people.
        refused: Why it cannot be wrapped; None where it can.
    """

    source: str
    title: str
    refused: str | None = None


@dataclass(frozen=True, kw_only=True)
class WrappedGame:
    """What a package says of a game.

    Attributes:
        library: The name of its library in a source.
        game: Its name in the library, with parameters.
        title: Its name for people.
        default_seats: How many seats it has if nothing is said.
        seats: The least.
        most_seats: The most.
        live_scores: Whether scores mean something before the end.
        second: The player of the package that thinks first: a folder of templates has it.
        needs: Distributions that it needs beside the library.
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

    @property
    def short_name(self) -> str:
        """The name without parameters."""
        return self.game.partition("(")[0]


class LibraryRules(Rules):
    """A game of a library; a subclass has its name as the default of `Config.game`, and its number of seats."""

    library: ClassVar[str]
    """The module that is imported; the adapter says it, which itself needs no library yet."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Say at once, not in the middle of a game, that the library is missing, or does not have the game."""
        super().__init_subclass__(**more)
        if "library" in cls.__dict__:
            return
        imported(cls.library)
        game = cls.Config.model_fields["game"].default
        if isinstance(game, str):
            cls.look_up(game)

    @classmethod
    def look_up(cls, game: str) -> None:
        """See that the library has a game, where that is worth its time."""


def not_wrappable(source: str, reason: str, *, hint: str | None = None) -> UsageError:
    """That a game cannot be wrapped, with the reason."""
    problem = f"{source} cannot be wrapped: {reason}."
    return UsageError(problem, code="not_wrappable", hint=hint, context={"reason": reason})


def rules_of(adapter: type[Rules], game: str, *, seats: int, most_seats: int | None = None) -> type[Rules]:
    """The rules of one game, as a package of it has them.

    Args:
        adapter: The rules of its library, whose config has the game.
        game: Its name in the library, with parameters.
        seats: The least that it has.
        most_seats: The most; by default always as many.
    """
    config = create_model("Config", __base__=adapter.Config, game=(str, game))
    return type("Wrapped", (adapter,), {"Config": config, "seats": seats, "most_seats": most_seats or seats})


def flaw(rules: type[Rules], *, ticks: int, sample: Callable[[random.Random], Any] | None = None) -> str | None:
    """What keeps rules from being rules, found by playing them: the first finding of an audit, or None.

    So early in a game, chance may have changed nothing yet.
    """
    found = audit_rules(rules, ticks=ticks, sample=sample).issues
    issues = [issue for issue in found if issue.code != "rules_ignore_seed"]
    return issues[0].message.splitlines()[0].rstrip(".")[:200] if issues else None
