"""Games whose seats talk, and players that do."""

from __future__ import annotations

import random
from typing import Any

from coworld_core.rules import Hidden, TalkLimits

from .games import Gather
from .served_game import Sticks

__all__ = ["Parley", "SecretSticks", "TalkingSticks", "bargains", "hears_nothing"]


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


def bargains(observation: Any, legal: Any, rng: random.Random, talk: Any) -> Any:
    """Say how many messages were heard, and take as many sticks as the last speaker asked for."""
    asked = [int(message["text"].split()[-1]) for message in talk.heard if message["text"].startswith("please take")]
    talk.say(f"please take {rng.randint(1, 2)}")
    take = min(asked[-1] if asked else 3, observation["left"], 3)
    return {"take": take}


def hears_nothing(observation: Any, legal: Any, rng: random.Random) -> Any:
    return legal[0] if legal else "stay"
