"""Games of the kit, one with simultaneous moves, chance and a fixed pace; and policies for other processes."""

from __future__ import annotations

import importlib.util
import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from coworld_core.errors import UsageError
from coworld_core.rules import Rules, RulesConfig, Ticks

__all__ = [
    "Gather",
    "Leaving",
    "Prizes",
    "Steer",
    "dies",
    "fails",
    "first_legal",
    "kit_examples",
    "last_legal",
    "last_or_stay",
    "no_view",
]

SIZE = 5


class Gather(Rules):
    """All seats walk along a line of five places, and get a point for being where the berry is."""

    class Config(RulesConfig):
        rounds: int = Field(default=8, ge=1)

    Action = Literal["left", "right", "stay"]

    class Observation(BaseModel):
        own: int = Field(ge=0, lt=SIZE)
        others: list[int] = Field(min_length=0, max_length=3)
        berry: list[bool] = Field(min_length=SIZE, max_length=SIZE)
        near: Literal["here", "far"]
        last: int | None = None

    class Results(BaseModel):
        berries: list[int]

    config: Config
    seats = 2
    most_seats = 4
    pace = Ticks(hz=50)
    live_scores = True
    score_range = (0, None)
    version = "3"

    def start(self) -> None:
        self.at = [seat % SIZE for seat in range(self.seats)]
        self.points = [0] * self.seats
        self.berries = [self.rng.randrange(SIZE)]

    def to_act(self) -> Sequence[int]:
        return range(self.seats if len(self.berries) <= self.config.rounds else 0)

    def default(self, seat: int) -> str:
        return "stay"

    def observe(self, seat: int) -> Observation:
        berry = self.berries[-1]
        return self.Observation(
            own=self.at[seat],
            others=[place for other, place in enumerate(self.at) if other != seat],
            berry=[place == berry for place in range(SIZE)],
            near="here" if self.at[seat] == berry else "far",
            last=self.berries[-2] if len(self.berries) > 1 else None,
        )

    def step(self, actions: Mapping[int, Any]) -> None:
        for seat, action in actions.items():
            self.at[seat] = (self.at[seat] + {"left": -1, "right": 1, "stay": 0}[action]) % SIZE
            self.points[seat] += self.at[seat] == self.berries[-1]
        self.berries.append(self.rng.randrange(SIZE))

    def scores(self) -> list[float]:
        return [float(points) for points in self.points]

    def draw(self) -> str:
        return "".join("o" if place in self.at else "*" if place == self.berries[-1] else "." for place in range(SIZE))


class Prizes(Gather):
    """The same, but every berry is worth less than the one before, and nothing is the reward of whoever stays away."""

    live_scores = False
    tell_rewards = True

    def start(self) -> None:
        super().start()
        self.prizes: dict[int, float] = {}

    def step(self, actions: Mapping[int, Any]) -> None:
        before = list(self.points)
        super().step(actions)
        worth = 1 / (len(self.berries) - 1)
        self.prizes = {seat: worth for seat in range(self.seats) if self.points[seat] > before[seat]}

    def rewards(self) -> Mapping[int, float]:
        return self.prizes

    def results(self) -> dict[str, Any]:
        return {"berries": self.berries}


class Leaving(Gather):
    """The same for three, of whom the second leaves after two rounds, and the third after four."""

    seats = 3
    most_seats = 3

    def eliminated(self) -> list[int]:
        return [seat for seat, last in ((1, 2), (2, 4)) if len(self.berries) > last]

    def to_act(self) -> Sequence[int]:
        out = self.eliminated()
        return [seat for seat in super().to_act() if seat not in out]


def last_or_stay(observation: Any, legal: Any, rng: random.Random) -> Any:
    """Play the game above with no particular aim."""
    return rng.choice(["left", "stay"]) if observation["near"] == "far" else "stay"


def dies(observation: Any, legal: Any, rng: random.Random) -> Any:
    """End the process."""
    os._exit(7)


def fails(observation: Any, legal: Any, rng: random.Random) -> Any:
    """Raise an error."""
    return legal[7]


def first_legal(observation: Any, legal: Any, rng: random.Random) -> Any:
    """Do the first that is legal; in the game above, go left."""
    return "left" if legal is None else legal[0]


def last_legal(observation: Any, legal: Any, rng: random.Random) -> Any:
    """Do the last that is legal."""
    return legal[-1]


def no_view(seen: Any) -> Any:
    """See nothing, and say so."""
    raise RuntimeError("no view")


class Steer(Rules):
    """Steer twice, in directions that are no list."""

    class Action(BaseModel):
        turn: float = Field(ge=-1, le=1)
        gears: list[int] = Field(min_length=2, max_length=2)

    seats = 1

    def start(self) -> None:
        self.turns: list[float] = []

    def to_act(self) -> list[int]:
        return [0] if len(self.turns) < 2 else []

    def observe(self, seat: int) -> Any:
        return {"turns": len(self.turns)}

    def step(self, actions: Mapping[int, Any]) -> None:
        self.turns.append(actions[0].turn)

    def scores(self) -> list[float]:
        return [sum(self.turns)]


def kit_examples() -> list[type[Rules]]:
    """The rules of all examples made with the kit, except those whose libraries are not installed."""
    found: list[type[Rules]] = []
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*/coworld_manifest_template.json")):
        command = json.loads(path.read_text(encoding="utf-8"))["game"]["runnable"].get("run", [])
        if "coworld_runner.kit.server" not in command:
            continue
        name, _, rules = command[-1].partition(":")
        spec = importlib.util.spec_from_file_location(name, path.with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except (ModuleNotFoundError, UsageError):
            continue
        found.append(getattr(module, rules))
    return found
