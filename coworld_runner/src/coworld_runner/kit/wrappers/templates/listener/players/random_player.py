"""Plays any move that the game gives as an example: the first opponent."""

import re
from typing import Any

MOVE = re.compile(r"\[(?!GAME\]|Player )[^\[\]\n]{1,60}\]")
"""Text in brackets that is not a speaker's name."""


def act(observation: Any, legal: Any, rng: Any) -> Any:
    """Return one of the examples."""
    return rng.choice(MOVE.findall(observation["view"]) or ["[0]"])
