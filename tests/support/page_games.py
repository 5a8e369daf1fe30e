"""Games whose pages show what a person can do: one that runs by itself, and one in which numbers are bid in secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from coworld_core.rules import Hidden, Rules, RulesConfig, Ticks

__all__ = ["Auction", "Fields", "Hand", "Levers", "Race"]


class Race(Rules):
    """Both walk along a line; whoever walks off its left end is out.

    Seat 1 never moves by itself.
    """

    class Config(RulesConfig):
        sticks: int = Field(default=40, description="Ticks to play.")

    class Action(BaseModel):
        go: Literal["left", "right", "jump", "stay"]

    config: Config
    pace = Ticks(hz=5, hold=False)
    live_scores = True
    keys = {"j": {"go": "jump"}}  # noqa: RUF012 - as authors write it

    def start(self) -> None:
        self.at, self.tick, self.jumps = [2, 2], 0, 0

    def to_act(self) -> list[int]:
        return [seat for seat in range(2) if seat not in self.eliminated()] if self.tick < self.config.sticks else []

    def eliminated(self) -> list[int]:
        return [seat for seat in range(2) if self.at[seat] < 0]

    def legal(self, seat: int) -> list[Action]:
        # What is legal comes and goes
        words = ["stay"] * (self.tick % 2) + ["left", "right", "jump"]
        return [self.Action.model_validate({"go": word}) for word in words]

    def observe(self, seat: int) -> Any:
        return {"at": self.at, "jumps": self.jumps}

    def step(self, actions: Mapping[int, Any]) -> None:
        self.tick += 1
        for seat, action in actions.items():
            if action is not None:
                self.at[seat] += {"left": -1, "right": 1}.get(action.go, 0)
                self.jumps += action.go == "jump"

    def scores(self) -> list[float]:
        return [float(place) for place in self.at]

    def draw(self) -> str:
        dots = "".join(
            f'<circle cx="{20 * place + 10}" cy="{15 + 20 * seat}" r="8" fill="currentColor"/>'
            for seat, place in enumerate(self.at)
        )
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 50"><title>{self.at}</title>{dots}</svg>'


class Auction(Rules):
    """Each bids for a prize of a value that only the other one knows."""

    class Config(RulesConfig):
        sticks: int = Field(default=4, description="Rounds to play.")

    class Action(BaseModel):
        bid: int = Field(ge=0, le=30)

    config: Config
    spectators = Hidden()

    def start(self) -> None:
        self.round, self.won, self.values = 0, [0.0, 0.0], [self.rng.randint(5, 25) for _ in range(2)]

    def to_act(self) -> list[int]:
        return [0, 1] if self.round < self.config.sticks else []

    def legal(self, seat: int) -> list[Action] | None:
        return [self.Action(bid=bid) for bid in range(31)]

    def observe(self, seat: int) -> Any:
        return {"round": self.round, "value of the other": self.values[1 - seat]}

    def text(self, seat: int) -> str:
        return f"Round {self.round + 1}. The other's prize is worth {self.values[1 - seat]}."

    def step(self, actions: Mapping[int, Any]) -> None:
        self.round += 1
        self.bids = [action.bid if action else 0 for action in actions.values()]
        self.won[self.bids[1] > self.bids[0]] += 1

    def scores(self) -> list[float]:
        return self.won


class Fields(Auction):
    """The same with two fields and no list of what is legal."""

    class Action(BaseModel):  # pyright: ignore[reportIncompatibleVariableOverride]
        bid: int = Field(ge=0, le=10_000)
        loud: bool

    def legal(self, seat: int) -> None:
        return None


class Levers(Auction):
    """The same with two numbers in a list, as environments of other libraries have them."""

    Action = tuple[Annotated[int, Field(ge=-1, lt=2)], Annotated[float, Field(ge=0, le=0.5)]]  # type: ignore[assignment]

    def legal(self, seat: int) -> None:
        return None

    def step(self, actions: Mapping[int, Any]) -> None:
        self.round += 1


class Hand(Rules):
    """Both play a card in turn, or pass."""

    class Config(RulesConfig):
        sticks: int = Field(default=4, description="Hands to play.")

    config: Config
    Action = Literal["pass"] | int

    HANDS = (("pass",), (7, 3, "pass"), (12, 3, 5), (1, 12, 7))

    def start(self) -> None:
        self.round = 0

    def to_act(self) -> list[int]:
        return [self.round % 2] if self.round < self.config.sticks else []

    def legal(self, seat: int) -> list[int | str]:
        return list(self.HANDS[self.round])

    def observe(self, seat: int) -> Any:
        return {"round": self.round}

    def step(self, actions: Mapping[int, Any]) -> None:
        self.round += 1

    def scores(self) -> list[float]:
        return [0.0, 0.0]
