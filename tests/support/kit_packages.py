"""Packages of games of the kit: one for three or four players who all move at once, or of any rules."""

from __future__ import annotations

import json
from pathlib import Path

from coworld_core.rules import load_rules
from coworld_runner.kit.server.manifest import brought_up_to_date
from coworld_runner.kit.server.scaffolds import new_game

__all__ = ["FIRST", "LOWEST", "MOST", "claims_game", "write_game"]

RULES = '''"""The rules of Claims."""

from coworld_core import Rules, RulesConfig
from pydantic import Field
from typing import Literal


class Claims(Rules):
    """All claim fields at once; whoever claims a field alone gets its worth."""

    class Config(RulesConfig):
        rounds: int = Field(default=4, ge=1, le=100)

    Action = Literal[0, 1, 2, 3, 4]
    seats = 3
    most_seats = 4
    score_range = (0, 36)
    version = "1"

    def start(self):
        self.points = [0] * self.seats
        self.worths = [[self.rng.randint(1, 9) for _ in range(5)] for _ in range(self.config.rounds)]
        self.round = 0

    def to_act(self):
        return range(self.seats) if self.round < len(self.worths) else []

    def legal(self, seat):
        return [0, 1, 2, 3, 4]

    def observe(self, seat):
        return {"worth": self.worths[self.round]}

    def step(self, actions):
        claimed = list(actions.values())
        for seat, field in actions.items():
            if field is not None and claimed.count(field) == 1:
                self.points[seat] += self.worths[self.round][field]
        self.round += 1

    def scores(self):
        return [float(points) for points in self.points]

    def draw(self):
        return f"round {self.round}: {self.points}"
'''

MOST = "def act(observation, legal, rng):\n    return max(legal, key=lambda field: observation['worth'][field])\n"
"""A player that claims the most valuable field."""
LOWEST = MOST.replace("max(", "min(")
"""A player that claims the least valuable one."""
FIRST = "def act(observation, legal, rng):\n    return legal[0]\n"
"""A player that always claims the same."""


def claims_game(directory: Path, *, seats: int = 4) -> Path:
    """Write the game of claims, for this number of players; returns its directory."""
    return write_game(directory, "claims", RULES, seats=seats)


def write_game(directory: Path, name: str, rules: str, *, seats: int = 2) -> Path:
    """Write a package of rules, for this number of players, whose own player plays at random.

    Args:
        directory: Its directory, which this creates.
        name: Name of the game, and of the file of its rules.
        rules: That file.
        seats: Number of players in each variant.
    """
    game = new_game(name, directory=directory).directory
    (game / f"{name}.py").write_text(rules)
    path = game / "coworld_manifest_template.json"
    manifest = brought_up_to_date(json.loads(path.read_text()), load_rules(f"{game}/{name}.py"))
    players = [{"name": f"Player {seat}"} for seat in range(seats)]
    for each in (*manifest["variants"], manifest["certification"]):
        each["game_config"]["players"] = players
    manifest["certification"]["players"] = [manifest["certification"]["players"][0]] * seats
    path.write_text(json.dumps(manifest))
    return game
