"""The rules of NewGame."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from coworld_core import Rules, RulesConfig
from coworld_core.rules.pictures import bars, board, token


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
        """Draw the board for everyone; with a parameter `seat=None`, for each seat. An action makes a button."""
        adds = (token(12 * n, 15, f"+{n}", action=self.Action(add=n), title=f"Add {n}") for n in (1, 2))
        goal = self.config.target
        return board(60, 20, bars([self.total], most=goal, width=60), *adds, title=f"{self.total} of {goal}")
