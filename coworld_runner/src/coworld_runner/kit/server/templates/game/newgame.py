"""The rules of NewGame."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from coworld_core import Rules, RulesConfig


class NewGame(Rules):
    """Two players take turns to add one or two; the first to reach the target wins.

    Explain the rules here: this text is the game's documentation page.
    """

    class Config(RulesConfig):
        """The settings that may differ between episodes."""

        target: int = Field(default=10, ge=1, le=1000, description="The number to reach.")

    class Action(BaseModel):
        """A player's move."""

        add: int = Field(ge=1, le=2)

    config: Config
    seats = 2
    score_range = (0, 1)
    version = "1"

    def start(self) -> None:
        """Set up the state; `self.config` and `self.rng` are available."""
        self.total, self.turn = 0, 0

    def to_act(self) -> list[int]:
        """Return the seats that must act now; none when the game is over."""
        return [self.turn] if self.total < self.config.target else []

    def legal(self, seat: int) -> list[Action]:
        """Return the legal actions of a seat."""
        return [self.Action(add=n) for n in (1, 2)]

    def observe(self, seat: int) -> dict[str, int]:
        """Return what a seat sees."""
        return {"total": self.total, "target": self.config.target}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Play one tick; an action is None if its seat did not act in time."""
        action = actions[self.turn]
        self.total += action.add if action else 1
        self.turn = 1 - self.turn

    def scores(self) -> list[float]:
        """Return one number for each seat; more is better."""
        return [float(seat != self.turn) for seat in range(self.seats)]

    def draw(self) -> str:
        """Draw the board, as text or as one <svg>, for everyone; with a parameter `seat=None`, for each seat."""
        return f"{self.total} of {self.config.target}"
