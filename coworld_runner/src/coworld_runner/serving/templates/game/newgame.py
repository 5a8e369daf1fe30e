"""The rules of NewGame: all that the game is."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from coworld_core.rules import Rules, RulesConfig


class NewGame(Rules):
    """Two players add one or two in turn; who comes to the target first wins.

    Whatever the rules are, they belong here: this text is the game's page for people.
    """

    class Config(RulesConfig):
        """What may differ from episode to episode."""

        target: int = Field(default=10, ge=1, le=1000, description="The number to come to.")

    class Action(BaseModel):
        """What a player may do."""

        add: int = Field(ge=1, le=2)

    config: Config
    seats = 2
    version = "1"

    def start(self) -> None:
        """Set up the state; `self.config` and `self.rng` are there."""
        self.total, self.turn = 0, 0

    def to_act(self) -> list[int]:
        """Whose action is awaited; nobody's when the game is over."""
        return [self.turn] if self.total < self.config.target else []

    def legal(self, seat: int) -> list[Action]:
        """What a seat may do now."""
        return [self.Action(add=n) for n in (1, 2)]

    def observe(self, seat: int) -> dict[str, int]:
        """What a seat sees."""
        return {"total": self.total, "target": self.config.target}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Go on; an action is None where its seat has let its time pass."""
        action = actions[self.turn]
        self.total += action.add if action else 1
        self.turn = 1 - self.turn

    def scores(self) -> list[float]:
        """One number for each seat, more is better."""
        return [float(seat != self.turn) for seat in range(self.seats)]

    def draw(self) -> str:
        """The board for everybody, as text or as one <svg>."""
        return f"{self.total} of {self.config.target}"
