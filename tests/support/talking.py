"""Games whose seats talk, and players that do."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Literal

from coworld_core.rules import Hidden, Pace, Rules, RulesConfig, TalkLimits, Ticks, Turns

from .games import Gather
from .served_game import Sticks

__all__ = ["Parley", "SecretSticks", "TalkingSticks", "Village", "bargains", "hears_nothing"]


class TalkingSticks(Sticks):
    """Sticks whose players may talk, once a tick."""

    talk = TalkLimits(length=40)


class SecretSticks(TalkingSticks):
    """The same, hidden from spectators."""

    spectators = Hidden()


class Parley(Gather):
    """Everybody walks at once and may talk twice a tick, also to the seats of the same parity, unless they are out."""

    talk = TalkLimits(length=40, per_tick=2, to=("all", "seat", "team"))
    loses: int | None = None

    def team(self, seat: int) -> list[int]:
        return [other for other in range(self.seats) if other % 2 == seat % 2]

    def eliminated(self) -> list[int]:
        return [] if self.loses is None else [self.loses]


class Village(Rules):
    """Days of free talk, which passes by itself, and a vote, for which the village waits."""

    class Config(RulesConfig):
        talk_seconds: float = 60.0
        vote_seconds: float = 20.0
        days: int = 2

    Action = Literal["yes", "no"]
    config: Config
    seats = 2
    most_seats = 5
    talk = TalkLimits(length=40, per_tick=3)

    def start(self) -> None:
        self.phase, self.votes = 0, [0] * self.seats

    def pace(self) -> Pace:
        if self.phase % 2:
            return Turns(per_move=self.config.vote_seconds, bank=1)
        return Ticks(hz=1 / self.config.talk_seconds)

    def to_act(self) -> list[int]:
        return list(range(self.seats)) if self.phase < 2 * self.config.days else []

    def legal(self, seat: int) -> list[str]:
        return ["yes", "no"]

    def observe(self, seat: int) -> Any:
        return {"phase": self.phase, "votes": self.votes}

    def step(self, actions: Mapping[int, Any]) -> None:
        for seat, action in actions.items():
            self.votes[seat] += self.phase % 2 and action == "yes"
        self.phase += 1

    def scores(self) -> list[float]:
        return [float(votes) for votes in self.votes]

    def draw(self) -> str:
        return f"{('talk', 'vote')[self.phase % 2]} {self.phase // 2}"


def bargains(observation: Any, legal: Any, rng: random.Random, talk: Any) -> Any:
    """Say how many messages were heard, and take as many sticks as the last speaker asked for."""
    asked = [int(message["text"].split()[-1]) for message in talk.heard if message["text"].startswith("please take")]
    talk.say(f"please take {rng.randint(1, 2)}")
    take = min(asked[-1] if asked else 3, observation["left"], 3)
    return {"take": take}


def hears_nothing(observation: Any, legal: Any, rng: random.Random) -> Any:
    return legal[0] if legal else "stay"
