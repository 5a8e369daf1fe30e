"""Says any move that the game gives as an example: the first opponent."""

import re
from typing import Any

MOVE = re.compile(r"\[(?!GAME\]|Player )[^\[\]\n]{1,60}\]")
"""What stands in brackets and is not the name of who speaks."""


def act(observation: Any, legal: Any, rng: Any) -> Any:
    """Return one of the examples."""
    return rng.choice(MOVE.findall(observation["view"]) or ["[0]"])
