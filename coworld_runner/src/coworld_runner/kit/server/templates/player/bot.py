"""A player, which is asked for an action whenever it is its turn."""

from typing import Any


def act(observation: Any, legal: Any, rng: Any) -> Any:
    """Return one of the legal actions; None, which lets the time pass, if the game does not list them."""
    return rng.choice(legal) if legal else None
