"""A game with hidden roles, which everybody may watch: each eye sees something else of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from coworld_core.rules import (
    Play,
    ReplayWriter,
    Rules,
    RulesConfig,
    RulesReplay,
    TalkLimits,
    read_config,
    read_replay,
)
from coworld_core.rules.pictures import board, hand
from coworld_core.rules.replay import replay_header

__all__ = ["Village", "played", "replay_bytes"]


class Village(Rules):
    """Two seats are wolves, who know each other. Every day all vote who has to go, while more than two are left."""

    class Config(RulesConfig):
        sticks: int = Field(default=3, description="Days to play.")

    Action = int
    config: Config
    most_seats = 6
    talk = TalkLimits(length=40, per_tick=3, to=("all", "team", "seat"))
    public = ("eliminated", "day")

    def start(self) -> None:
        self.day, self.out = 0, list[int]()
        kinds = self.rng.sample(["wolf", "wolf", *["villager"] * (self.seats - 2)], self.seats)
        self.roles = [f"{kind}-{self.rng.getrandbits(32):08x}" for kind in kinds]

    def to_act(self) -> list[int]:
        return [seat for seat in range(self.seats) if seat not in self.out] if self.day < self.config.sticks else []

    def legal(self, seat: int) -> list[int]:
        return [other for other in self.to_act() if other != seat]

    def observe(self, seat: int) -> Any:
        return {"day": self.day, "role": self.roles[seat]}

    def step(self, actions: Mapping[int, Any]) -> None:
        self.day += 1
        votes = Counter(vote for vote in actions.values() if vote is not None)
        if votes and len(self.out) < self.seats - 2:
            self.out.append(max(sorted(votes), key=votes.__getitem__))

    def scores(self) -> list[float]:
        return [float(seat not in self.out) for seat in range(self.seats)]

    def eliminated(self) -> list[int]:
        return self.out

    def team(self, seat: int) -> list[int]:
        wolves = [other for other, role in enumerate(self.roles) if role.startswith("wolf")]
        return wolves if seat in wolves else [seat]

    def text(self, seat: int) -> str:
        return f"Day {self.day}. You are {self.roles[seat]}."

    def secret_attributes(self) -> list[str]:
        return ["roles"]

    def draw(self, eye: int | Literal["all"] | None = None) -> str:
        shown = [role for seat, role in enumerate(self.roles) if eye in ("all", seat)]
        title = f"Day {self.day}, {' and '.join(shown) or 'no roles'}"
        return board(160, 30, hand(shown, self.seats - len(shown)), title=title)


def played(rules: type[Rules] = Village, *, seats: int = 4, seed: int = 1, **config: Any) -> RulesReplay:
    """The replay of a game in which on each day seat 0 speaks to all, each wolf to its team, and seat 1 to seat 2."""
    seated = {
        "tokens": [f"token-{seat}" for seat in range(seats)],
        "players": [{"name": name} for name in "ABCDEF"[:seats]],
    }
    whole = read_config(rules, {**seated, **config})
    play = Play(rules, config=whole.rules, seats=seats, seed=seed, names=whole.names)
    writer = ReplayWriter(replay_header(rules, whole, seed, play.pace))
    writer.add(play.frame())
    while not play.over:
        talk = [(seat, f"{seat} to team, {play.tick}", "team") for seat in play.to_act if len(play.team(seat)) > 1]
        whispers = [(1, f"1 to 2, {play.tick}", 2)] if 1 in play.to_act and seats > 2 else []
        for seat, text, to in [(play.to_act[0], f"all, {play.tick}", "all"), *talk, *whispers]:
            assert play.talk is not None
            play.talk.say(seat, text, to, tick=play.tick)
        done = play.step({seat: (play.choices(seat) or [])[-1] for seat in play.to_act})
        writer.add(play.frame(), done)
    return read_replay(writer.finish(reason="over", results=play.results()))


def replay_bytes(replay: RulesReplay) -> bytes:
    """A replay as a file, also one that nobody has played."""
    end = {"reason": replay.reason, "results": replay.results}
    return "\n".join((*(part.model_dump_json() for part in (replay.header, *replay.ticks)), json.dumps(end))).encode()
