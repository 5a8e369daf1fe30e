"""Nim, the complete game of the tutorial."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from coworld_core import Rules, RulesConfig
from coworld_core.rules.pictures import board, grid


class Nim(Rules):
    """Two players take one to three sticks in turn; whoever takes the last one wins.

    A player can lose without making a mistake: with four, eight, twelve … sticks left, the player whose turn it is
    loses if the other player plays well.
    """

    class Config(RulesConfig):
        """The length of the game."""

        sticks: int = Field(default=21, ge=1, le=1000, description="Sticks at the start.")

    class Action(BaseModel):
        """How many sticks to take."""

        take: int = Field(ge=1, le=3)

    config: Config
    score_range = (0, 1)
    version = "1"

    def start(self) -> None:
        """Lay out the sticks."""
        self.left, self.turn = self.config.sticks, 0

    def to_act(self) -> list[int]:
        """The seat whose turn it is."""
        return [self.turn] if self.left else []

    def legal(self, seat: int) -> list[Action]:
        """One to three sticks, as far as there are enough."""
        return [self.Action(take=n) for n in range(1, min(3, self.left) + 1)]

    def observe(self, seat: int) -> dict[str, int]:
        """How many sticks are left."""
        return {"left": self.left}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Take the sticks; a player that runs out of time takes one."""
        action = actions[self.turn]
        self.left -= action.take if action else 1
        self.turn = 1 - self.turn

    def scores(self) -> list[float]:
        """The player who finds no sticks on its turn has lost."""
        return [float(seat != self.turn) for seat in range(2)]

    def draw(self) -> str:
        """The sticks, ten to a row; a click on one takes it and all that follow."""
        rows = [range(self.left - n, max(self.left - n - 10, 0), -1) for n in range(0, self.left, 10)]
        sticks = grid(rows, dict.fromkeys(range(self.left + 1), "#c98b1b"), action=lambda x, y: {"take": rows[y][x]})
        return board(100, 10 * max(len(rows), 1), sticks, title=f"{self.left} sticks left")

    def text(self, seat: int) -> str:
        """The sticks, five to a group."""
        return " ".join("|" * min(5, self.left - n) for n in range(0, self.left, 5)) or "no sticks left"
