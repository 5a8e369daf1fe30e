"""Games whose pages show what a person can do: one that runs by itself, and one in which numbers are bid in secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from coworld_core.rules import Hidden, Rules, RulesConfig, Ticks
from coworld_core.rules.pictures import INK, SEATS, bars, board, grid, hand, pick, seat_row, token

__all__ = ["Auction", "Drift", "Duel", "Fields", "Hand", "Jumps", "Levers", "Mixed", "Race", "Sliders"]


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
        dots = (token(20 * place + 10, 15 + 20 * seat, colour=INK, radius=8) for seat, place in enumerate(self.at))
        return board(200, 50, *dots, title=str(self.at))


class Duel(Rules):
    """Both steer a ship; the picture says how."""

    class Config(RulesConfig):
        sticks: int = Field(default=1000, description="Ticks to play.")

    class Action(BaseModel):
        turn: float = Field(default=0, ge=-1, le=1)
        thrust: float = Field(default=0, ge=0, le=1)

    config: Config
    pace = Ticks(hz=20, hold=False)
    keys = {  # noqa: RUF012 - as authors write it
        "ArrowLeft": {"turn": -1},
        "ArrowRight": {"turn": 1},
        "ArrowUp": {"thrust": 1},
        "b": {"turn": 0.5, "thrust": 0.5},
    }

    def start(self) -> None:
        self.tick, self.done = 0, [self.Action(), self.Action()]

    def to_act(self) -> list[int]:
        return [0, 1] if self.tick < self.config.sticks else []

    def observe(self, seat: int) -> Any:
        return {"tick": self.tick}

    def default(self, seat: int) -> Action:
        return self.Action()

    def step(self, actions: Mapping[int, Any]) -> None:
        self.tick += 1
        self.done = list(actions.values())

    def scores(self) -> list[float]:
        return [0.0, 1.0]

    def draw(self) -> str:
        ships = (
            token(50 + 40 * one.turn, 55 - 40 * one.thrust, seat, colour=SEATS[seat])
            for seat, one in enumerate(self.done)
        )
        return board(100, 70, *ships, title="; ".join(f"{one.turn:g} {one.thrust:g}" for one in self.done))


class Drift(Duel):
    """The same, in which ships go on as they were steered."""

    pace = Ticks(hz=20)


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


class Jumps(Rules):
    """Each has a token on a row of squares, which moves right by one or two; whoever leaves the row wins."""

    class Config(RulesConfig):
        sticks: int = Field(default=4, description="The last square.")

    class Action(BaseModel):
        start: int
        to: int

    config: Config

    def start(self) -> None:
        self.at, self.turn = [0, 0], 0

    def to_act(self) -> list[int]:
        return [] if self.config.sticks in self.at else [self.turn]

    def legal(self, seat: int) -> list[Action]:
        at = self.at[seat]
        return [self.Action(start=at, to=to) for to in (at + 1, at + 2) if to <= self.config.sticks]

    def observe(self, seat: int) -> Any:
        return {"at": self.at}

    def step(self, actions: Mapping[int, Any]) -> None:
        self.at[self.turn] = actions[self.turn].to if actions[self.turn] else self.at[self.turn] + 1
        self.turn = 1 - self.turn

    def scores(self) -> list[float]:
        return [float(at == self.config.sticks) for at in self.at]

    def draw(self) -> str:
        rows = [" " * (self.config.sticks + 1)] * 2
        return board(
            10 * len(rows[0]),
            30,
            grid(
                rows,
                {},
                action=lambda column, row: pick(column, "start", "to") if row == self.turn else None,
                title=lambda column, row: f"{self.names[row]}, square {column}",
            ),
            *(token(10 * at + 5, 10 * seat + 5, seat, colour=SEATS[seat]) for seat, at in enumerate(self.at)),
            seat_row(self.names, y=20, width=25),
            title=f"Squares {self.at[0]} and {self.at[1]}",
        )


class Mixed(Auction):
    """Actions of which some have shapes: cards, a choice that a button completes, and one without a shape."""

    Action = Literal["pass"] | dict[str, Any]  # type: ignore[assignment]

    def legal(self, seat: int) -> Any:
        return [{"card": 3}, {"card": 7}, {"go": "a", "how": "far"}, {"go": "a", "how": "near"}, "pass"]

    def step(self, actions: Mapping[int, Any]) -> None:
        self.round += 1

    def draw(self, seat: int | None = None) -> str:
        cards = hand([3, 7, 9], action=lambda n: {"card": (3, 7, 9)[n]})
        again = token(30, 30, 7, action={"card": 7}, title="Seven")
        return board(60, 50, cards, token(10, 30, "a", action=pick("a", "go")), again, title=f"Round {self.round}")


class Sliders(Fields):
    """A form whose number is also chosen on the picture."""

    def draw(self, seat: int | None = None) -> str:
        return board(80, 24, bars([1, 2, 3], action=lambda n: pick((n + 1) * 1000, "bid"), title=lambda n: f"bar {n}"))
