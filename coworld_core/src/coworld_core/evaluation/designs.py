"""Who sits where: the lineups of each block, balanced over seats, and the seed that a block's episodes share.

A lineup is a label a seat; None leaves the seat to whoever the game's own configuration puts there. A block is the
episodes that share a seed and differ only in who sits where. Only whole blocks are evidence.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Sequence

__all__ = ["Lineup", "block_seed", "comparison_lineups", "episode_key", "parse_key", "rotation", "round_robin"]

Lineup = tuple[str | None, ...]
"""An entrant's label by slot; None: nobody who is measured."""

_KEY = re.compile(r"block-(\d+)\.(\d+)-(\d+)")


def block_seed(base: int, block: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """The seed of a block: the same for the same base seed, and unrelated to that of any other block.

    Args:
        base: The seed of the whole evaluation.
        block: Which block, from 1.
        least: The smallest seed that the game takes.
        most: The largest.
    """
    digest = hashlib.sha256(f"{base}:{block}".encode()).digest()
    return least + int.from_bytes(digest[:8]) % (min(most, least + 2**63 - 1) - least + 1)


def comparison_lineups(new: str, old: str, seats: int, block: int) -> tuple[Lineup, ...]:
    """The lineups of one block of a comparison.

    With two seats, both orders; otherwise first one and then the other in the same seat, which is another seat in every
    block, among whoever else the game seats.

    Args:
        new: Label of one entrant.
        old: Label of the other.
        seats: How many the game has.
        block: Which block, from 1.
    """
    if seats == 2:
        return ((new, old), (old, new))
    seat = (block - 1) % seats
    return tuple(tuple(label if slot == seat else None for slot in range(seats)) for label in (new, old))


def rotation(seated: Sequence[str]) -> tuple[Lineup, ...]:
    """As many lineups as there are seats, in which everybody sits in every seat once."""
    return tuple((*seated[turn:], *seated[:turn]) for turn in range(len(seated)))


def round_robin(entrants: Sequence[str], seats: int, block: int, *, seed: int = 0) -> tuple[Lineup, ...]:
    """The lineups of one block of a round robin.

    Every group of as many entrants as there are seats meets once before any meets again; the order within a round is
    drawn by the seed. Where there are more seats than entrants, everybody sits, some in several seats, each round
    beginning with another one. In a game for one, everybody plays the block's seed alone.

    Args:
        entrants: Their labels.
        seats: How many the game has.
        block: Which block, from 1.
        seed: The base seed.
    """
    if seats == 1:
        return tuple((label,) for label in entrants)
    if len(entrants) <= seats:
        first = (block - 1) % len(entrants)
        return rotation([entrants[(first + slot) % len(entrants)] for slot in range(seats)])
    groups = list(itertools.combinations(entrants, seats))
    turn, place = divmod(block - 1, len(groups))
    random.Random(block_seed(seed, -turn)).shuffle(groups)
    return rotation(groups[place])


def episode_key(block: int, attempt: int, lineup: int) -> str:
    """What an episode of an evaluation is known by: ``block-0007.1-2``.

    Args:
        block: Its block, from 1.
        attempt: How often the block is played by then, from 1.
        lineup: Which of the block's lineups, from 1.
    """
    return f"block-{block:04d}.{attempt}-{lineup}"


def parse_key(key: str) -> tuple[int, int, int] | None:
    """Block, attempt and lineup of an episode's key; None when it is not one of an evaluation."""
    match = _KEY.fullmatch(key)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None
