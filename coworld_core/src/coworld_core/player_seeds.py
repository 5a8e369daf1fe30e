"""The seeds of players: one for each seat, derived from the episode's seed, so that an episode can be played again."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["PLAYER_SEEDS_ENV", "PLAYER_SEED_ENV", "player_seed"]

PLAYER_SEED_ENV: Final = "COWORLD_PLAYER_SEED"
"""Variable with a player's seed, in decimal digits; not set in an episode without a seed."""

PLAYER_SEEDS_ENV: Final = "COWORLD_PLAYER_SEEDS"
"""Variable with the seeds of all seats, for a game that runs its players itself: a JSON list, by slot."""


def player_seed(seed: int, slot: int) -> int:
    """The seed of a seat's player: the same for the same episode, and unrelated to that of any other seat.

    It is below 2**31, which every language and library accepts. The episode's seed cannot be computed from it; whoever
    can guess that seed, because it is small or counts up, can check the guess.

    Args:
        seed: The episode's seed.
        slot: The seat.
    """
    digest = hashlib.sha256(b"coworld player %d %d" % (seed, slot)).digest()
    return int.from_bytes(digest[:4]) >> 1
