"""Does whatever is legal: the first opponent."""

from typing import Any


def act(observation: Any, legal: Any, rng: Any) -> Any:
    """Return one of the legal actions."""
    return rng.choice(legal)
