"""A game in which all seats act at once, talk and earn rewards, and a player that does all that may go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

from coworld_core.rules import Rules, TalkLimits, Turns

__all__ = ["BOT", "LAST", "Bidding"]

LAST: Final = 6
"""Number of ticks."""


class Bidding(Rules):
    """Whoever bids more than the other wins a point."""

    pace = Turns(per_move=0.25)
    talk = TalkLimits(length=20)
    tell_rewards = True

    class Action(BaseModel):
        bid: int = Field(ge=0)

    def start(self) -> None:
        self.bids: list[list[int]] = []
        self.secret = self.rng.random()

    def to_act(self) -> list[int]:
        return [0, 1] if len(self.bids) < LAST else []

    def legal(self, seat: int) -> list[Action]:
        return [self.Action(bid=bid) for bid in range(4)]

    def observe(self, seat: int) -> Any:
        return {"seat": seat, "tick": len(self.bids), "last": self.bids[-1:], "secret": self.secret}

    def step(self, actions: Mapping[int, Any]) -> None:
        self.secret = self.rng.random()
        self.bids.append([actions[seat].bid if actions[seat] else 0 for seat in range(2)])

    def rewards(self) -> Mapping[int, float]:
        bids = self.bids[-1]
        return {seat: float(bids[seat] > bids[1 - seat]) for seat in range(2)}

    def scores(self) -> list[float]:
        return [float(sum(bids[seat] > bids[1 - seat] for bids in self.bids)) for seat in range(2)]

    def draw(self) -> str:
        return " ".join(f"{mine}:{yours}" for mine, yours in self.bids)


BOT: Final = """
import json, pathlib

seen = set()


def act(observation, legal, rng, talk):
    seat, tick = observation["seat"], observation["tick"]
    if (seat, tick) in seen:
        return None  # Refused: it gives up
    seen.add((seat, tick))
    answer = legal[(seat + tick) % 4]
    match seat, tick:
        case 0, 0:
            talk.say("good luck")
        case 0, 1:
            answer = {"bid": 9}
        case 1, 1:
            talk.say("nine?", 0)
            talk.say("I have said enough")
        case 1, 2:
            answer = None
        case 0, 3:
            talk.say("this is much more than anyone may say here")
            talk.say("briefly", 1)
    with pathlib.Path(__file__).with_suffix(".log").open("a") as log:
        heard = [[one["seat"], one["text"]] for one in talk.heard]
        log.write(json.dumps([seat, tick, observation, legal, heard, answer]) + "\\n")
    return answer
"""
