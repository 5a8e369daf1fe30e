"""The seeds of players: one for each seat, from which nothing follows about the deal or about anyone else's seed."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

__all__ = ["PLAYER_SEEDS_ENV", "PLAYER_SEED_ENV", "block_secret", "new_player_secret", "player_seed"]

PLAYER_SEED_ENV: Final = "COWORLD_PLAYER_SEED"
"""Variable with a player's seed, in decimal digits; not set in an episode without a seed."""

PLAYER_SEEDS_ENV: Final = "COWORLD_PLAYER_SEEDS"
"""Variable with the seeds of all seats, for a game that runs its players itself: a JSON list, by slot."""


def new_player_secret() -> str:
    """A secret for the players' seeds of one episode: 256 random bits, in hexadecimal."""
    return secrets.token_hex(32)


def block_secret(base: int | bytes, block: int) -> str:
    """The secret for the players' seeds in the episodes of a block.

    No other block's secret can be computed from it, nor from the seeds of games: these are drawn from the same base by
    other digests.

    Args:
        base: The base seed of an evaluation, or the secret that it has in place of one.
        block: Number of the block, from 1.
    """
    key = base if isinstance(base, bytes) else hashlib.sha256(b"coworld base %d" % base).digest()
    return hmac.digest(key, b"players of block %d" % block, "sha256").hex()


def player_seed(seed: int, slot: int, *, secret: str = "") -> int:
    """The seed of a seat's player: the same for the same episode, and unrelated to that of any other seat.

    It is below 2**31, which every language and library accepts.

    Args:
        seed: The episode's seed.
        slot: The seat.
        secret: Keeps whoever knows the episode's seed from computing it; empty: it follows from that seed alone, so
            that the seed alone repeats the episode.
    """
    said = b"coworld player %d %d" % (seed, slot)
    digest = hmac.digest(secret.encode(), said, "sha256") if secret else hashlib.sha256(said).digest()
    return int.from_bytes(digest[:4]) >> 1
