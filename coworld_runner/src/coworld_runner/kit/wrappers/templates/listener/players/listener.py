"""Plays the moves that the game gives as examples, and does not repeat refused ones."""

import re
from typing import Any

MOVE = re.compile(r"\[(?!GAME\]|Player )[^\[\]\n]{1,60}\]")
"""Text in brackets that is not a speaker's name."""


class Player:
    """Remembers its last answer, and the ones that were refused."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.said = ""
        self.complaints = 0

    def act(self, observation: Any, legal: Any, rng: Any) -> Any:
        """Return one of the examples that were not refused."""
        complaints = observation["view"].count("invalid move")
        if complaints > self.complaints:
            self.refused.add(self.said)
        self.complaints = complaints
        moves = [move for move in MOVE.findall(observation["view"]) if move not in self.refused]
        self.said = rng.choice(moves or ["[0]"])
        return self.said
