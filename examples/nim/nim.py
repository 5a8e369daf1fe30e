"""Nim, the game of the tutorial: the whole of it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from coworld_core.rules import Rules, RulesConfig


class Nim(Rules):
    """Two players take one to three sticks in turn; who takes the last one wins.

    Who loses needs not have played badly: with four, eight, twelve … sticks left, whoever is to take is lost against a
    player who knows it.
    """

    class Config(RulesConfig):
        """The config."""

        sticks: int = Field(default=21, ge=1, le=1000, description="Sticks at the start.")

    class Action(BaseModel):
        """How many sticks to take."""

        take: int = Field(ge=1, le=3)

    config: Config
    version = "1"

    def start(self) -> None:
        """Lay out the sticks."""
        self.left, self.turn = self.config.sticks, 0

    def to_act(self) -> list[int]:
        """Whose turn it is."""
        return [self.turn] if self.left else []

    def legal(self, seat: int) -> list[Action]:
        """One to three, as long as there are so many."""
        return [self.Action(take=n) for n in range(1, min(3, self.left) + 1)]

    def observe(self, seat: int) -> dict[str, int]:
        """How many sticks are left."""
        return {"left": self.left}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Take sticks; who lets time pass takes one."""
        action = actions[self.turn]
        self.left -= action.take if action else 1
        self.turn = 1 - self.turn

    def scores(self) -> list[float]:
        """Who is to act and finds nothing has lost."""
        return [float(seat != self.turn) for seat in range(2)]

    def draw(self) -> str:
        """The sticks, five to a group."""
        return " ".join("|" * min(5, self.left - n) for n in range(0, self.left, 5)) or "no sticks left"
