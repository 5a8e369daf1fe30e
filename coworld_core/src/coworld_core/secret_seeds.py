"""Seeds that nobody can compute in advance, and everybody can check afterwards; and base seeds nobody can guess.

An organiser has a secret. Each block has a key, which is derived from the secret, and its seed is derived from the key.
The digest of the key, its commitment, is published before the block is played, and the key itself afterwards.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

__all__ = ["MAX_SEED", "fresh_seed", "key_commitment", "number_between", "seed_from_key", "seed_key", "verify_seed"]

MAX_SEED = 2**63 - 1
"""The largest seed that is ever derived."""


def fresh_seed() -> int:
    """A base seed that nobody can guess: 63 random bits, which one number repeats."""
    return secrets.randbits(63)


def seed_key(secret: bytes, scope: str) -> bytes:
    """The key of a block: HMAC-SHA256 of its scope. No other key and no part of the secret can be computed from it.

    Args:
        secret: The organiser's secret, 32 random bytes.
        scope: What the key is for, different for every block, such as `1:12`.
    """
    return hmac.digest(secret, scope.encode(), "sha256")


def key_commitment(key: bytes) -> str:
    """The commitment to a key: its SHA-256, in hexadecimal. The key cannot be computed from it."""
    return hashlib.sha256(key).hexdigest()


def seed_from_key(key: bytes, *, least: int = 0, most: int = MAX_SEED) -> int:
    """The seed of a block: the first eight bytes of SHA-256 of `coworld seed ` and the key, within the range.

    Args:
        key: The block's key.
        least: The smallest seed that the game accepts.
        most: The largest seed that it accepts.
    """
    return number_between(hashlib.sha256(b"coworld seed " + key).digest(), least, most)


def verify_seed(seed: int, *, key: str, commitment: str, least: int = 0, most: int = MAX_SEED) -> bool:
    """Whether a block was played with the seed that its commitment had fixed before.

    Args:
        seed: The seed of the block's episodes.
        key: The key that was published after the block, in hexadecimal.
        commitment: The commitment that was published before it.
        least: The smallest seed that the game accepts, published with the commitment.
        most: The largest seed that it accepts.
    """
    try:
        revealed = bytes.fromhex(key)
    except ValueError:
        return False
    return key_commitment(revealed) == commitment and seed_from_key(revealed, least=least, most=most) == seed


def number_between(digest: bytes, least: int, most: int) -> int:
    """A number in a range, from the first eight bytes of a digest."""
    return least + int.from_bytes(digest[:8]) % (min(most, least + MAX_SEED) - least + 1)
