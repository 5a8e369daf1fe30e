"""Lineups: which player sits where in each block, balanced over seats, and the seed that a block's episodes share.

A lineup has a label for each seat; None keeps the player that the game's configuration puts there. A block is the
episodes that share a seed and differ only in who sits where. Only whole blocks are evidence.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..errors import UsageError
from ..secret_seeds import number_between

__all__ = [
    "Lineup",
    "block_seed",
    "blocks_for",
    "coalitions",
    "comparison_lineups",
    "credit_lineups",
    "episode_key",
    "match_lineups",
    "mixture_lineups",
    "parse_key",
    "pickup_lineups",
    "require_block_seeds",
    "rotation",
    "round_robin",
    "shares",
]

Lineup = tuple[str | None, ...]
"""An entrant's label for each slot; None for a player that is not measured."""

_KEY = re.compile(r"block-(\d+)\.(\d+)-(\d+)")


def block_seed(base: int, block: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """The seed of a block: the same for the same base seed, and unrelated to that of any other block.

    Args:
        base: The seed of the whole evaluation.
        block: Number of the block, from 1.
        least: The smallest seed that the game accepts.
        most: The largest seed that it accepts.
    """
    return number_between(hashlib.sha256(f"{base}:{block}".encode()).digest(), least, most)


def comparison_lineups(
    new: str, old: str, seats: int, block: int, *, opponent: str | None = None
) -> tuple[Lineup, ...]:
    """The lineups of one block of a comparison.

    With two seats, the entrants meet in both orders. Otherwise, and if there is an opponent, they take the same seat in
    turn, among the game's own players or those of the opponent; it is another seat in each block.

    Args:
        new: Label of one entrant.
        old: Label of the other.
        seats: Number of seats in the game.
        block: Number of the block, from 1.
        opponent: Label of the player that has all other seats; None: they meet, or the game's own players have them.
    """
    if seats == 2 and opponent is None:
        return ((new, old), (old, new))
    seat = (block - 1) % seats
    return tuple(tuple(label if slot == seat else opponent for slot in range(seats)) for label in (new, old))


def rotation(seated: Sequence[str]) -> tuple[Lineup, ...]:
    """Rotate players through the seats: a lineup for each seat, with every player in every seat once."""
    return tuple((*seated[turn:], *seated[:turn]) for turn in range(len(seated)))


def shares(names: Sequence[str], proportions: Sequence[float], seats: int) -> tuple[int, ...]:
    """Share out seats among players in proportion, by largest remainder.

    Args:
        names: The names of the players, for messages.
        proportions: The proportion of each player, above 0.
        seats: Number of seats.

    Raises:
        UsageError: Code `bad_share` if a proportion is not above 0 or leaves a player without a seat; code
            `too_few_seats` if there are more players than seats.
    """
    for name, proportion in zip(names, proportions, strict=True):
        if not (proportion > 0 and math.isfinite(proportion)):
            raise UsageError(f"The proportion of {name} is {proportion:g}: it must be more than 0.", code="bad_share")
    if len(names) > seats:
        raise UsageError(
            f"There are {len(names)} players and {seats} {'seat' if seats == 1 else 'seats'}.",
            code="too_few_seats",
            hint="Name no more players than there are seats; rank has any number of them meet in groups.",
        )
    total = math.fsum(proportions)
    exact = [seats * proportion / total for proportion in proportions]
    counts = [math.floor(share) for share in exact]
    # Equal remainders go to the player named first, regardless of rounding in the last digit
    order = sorted(range(len(exact)), key=lambda index: (-round(exact[index] - counts[index], 9), index))
    for index in order[: seats - sum(counts)]:
        counts[index] += 1
    if 0 in counts:
        raise UsageError(
            f"In these proportions {names[counts.index(0)]} gets none of the {seats} seats.",
            code="bad_share",
            hint="Give it a larger proportion, or name fewer players.",
        )
    return tuple(counts)


def mixture_lineups(entrants: Sequence[str], counts: Sequence[int], block: int, *, seed: int = 0) -> tuple[Lineup, ...]:
    """The lineups of one block of a mixture: one random order, rotated through the seats.

    Each player sits in every seat equally often. Neighbours differ from block to block. A single player, which has all
    seats, plays once.

    Args:
        entrants: Labels of the players.
        counts: Number of seats of each player.
        block: Number of the block, from 1.
        seed: The base seed.
    """
    seated = [label for label, count in zip(entrants, counts, strict=True) for _ in range(count)]
    if len(entrants) == 1:
        return (tuple(seated),)
    random.Random(block_seed(seed, -block)).shuffle(seated)
    return rotation(seated)


def pickup_lineups(
    candidate: str, pool: Sequence[str], seats: int, block: int, *, seed: int = 0
) -> tuple[tuple[Lineup, ...], tuple[int, ...]]:
    """The lineups of one block of a pickup: the candidate in no seat, in one, and so on up to all.

    The pool players are dealt to the seats as evenly as possible, anew in each block. A seat without the candidate
    keeps its player. The seat that the candidate takes first rotates with the blocks.

    Args:
        candidate: Label of the player whose value is measured.
        pool: Labels of the players that it replaces.
        seats: Number of seats in the game.
        block: Number of the block, from 1.
        seed: The base seed.

    Returns:
        The lineups, by number of candidate seats, and the seats in the order in which the candidate takes them.
    """
    turn, place = divmod(block - 1, seats)
    order = list(range(seats))
    random.Random(block_seed(seed, -turn)).shuffle(order)
    order = [*order[place:], *order[:place]]
    chance = random.Random(block_seed(seed, -block))
    dealt = [*pool] * (seats // len(pool)) + chance.sample([*pool], seats % len(pool))
    chance.shuffle(dealt)
    lineups = tuple(
        tuple(candidate if slot in order[:count] else dealt[slot] for slot in range(seats))
        for count in range(seats + 1)
    )
    return lineups, tuple(order)


_WHOLE = 3
"""Up to this many players, each block goes through every order of them."""


def coalitions(
    entrants: Sequence[str], block: int, *, seed: int = 0
) -> tuple[tuple[tuple[str, ...], ...], tuple[frozenset[str], ...]]:
    """The groups that play together in one block, to measure what each player adds.

    Args:
        entrants: Labels of the players.
        block: Number of the block, from 1.
        seed: The base seed.

    Returns:
        The orders in which the players join: all orders of up to three players, otherwise a random one and its reverse.
        And the groups, without repetition: the empty one, each player, each pair, and those that the orders form.
    """
    if len(entrants) <= _WHOLE:
        orders = tuple(itertools.permutations(entrants))
    else:
        drawn = list(entrants)
        random.Random(block_seed(seed, -block)).shuffle(drawn)
        orders = (tuple(drawn), tuple(reversed(drawn)))
    groups = [frozenset[str](), *map(frozenset, itertools.combinations(entrants, 1))]
    groups += map(frozenset, itertools.combinations(entrants, 2))
    groups += [frozenset(order[:count]) for order in orders for count in range(3, len(order) + 1)]
    return orders, tuple(dict.fromkeys(groups))


def credit_lineups(entrants: Sequence[str], seats: int, block: int, *, seed: int = 0) -> tuple[Lineup, ...]:
    """A lineup for each group in the `coalitions` of a block; each player has its own seat, drawn for the block.

    The other seats have the game's own players.

    Args:
        entrants: Labels of the players, no more than there are seats.
        seats: Number of seats in the game.
        block: Number of the block, from 1.
        seed: The base seed.
    """
    places = random.Random(block_seed(seed, -block)).sample(range(seats), len(entrants))
    has = dict(zip(places, entrants, strict=True))
    return tuple(
        tuple(has[slot] if slot in has and has[slot] in group else None for slot in range(seats))
        for group in coalitions(entrants, block, seed=seed)[1]
    )


def round_robin(entrants: Sequence[str], seats: int, block: int, *, seed: int = 0) -> tuple[Lineup, ...]:
    """The lineups of one block of a round robin.

    Every group of as many entrants as there are seats meets once before any meets again; the order within a round is
    drawn by the seed. If there are more seats than entrants, everyone plays, some in several seats, and each round
    begins with another player. In a one-seat game, each player plays the block's seed alone.

    Args:
        entrants: Labels of the players.
        seats: Number of seats in the game.
        block: Number of the block, from 1.
        seed: The base seed.
    """
    if seats == 1 or len(entrants) <= seats:
        return match_lineups(entrants, seats, block)
    turn, place = divmod(block - 1, math.comb(len(entrants), seats))
    return rotation(_drawn_groups(tuple(entrants), seats, block_seed(seed, -turn))[place])


@lru_cache(maxsize=4)
def _drawn_groups(entrants: tuple[str, ...], seats: int, seed: int) -> list[tuple[str, ...]]:
    """All groups of a round, in the order in which they meet; cached for all blocks of the round."""
    groups = list(itertools.combinations(entrants, seats))
    random.Random(seed).shuffle(groups)
    return groups


def match_lineups(players: Sequence[str], seats: int, turn: int) -> tuple[Lineup, ...]:
    """The lineups of one block in which a group meets, with every player in every seat.

    If there are more seats than players, some players have several, beginning with another player each time. In a
    one-seat game, each player plays the block's seed alone.

    Args:
        players: Labels of the players, no more than there are seats unless there is only one seat.
        seats: Number of seats in the game.
        turn: Number of the meeting of this group, from 1.
    """
    if seats == 1:
        return tuple((label,) for label in players)
    return _rotated(tuple(players), seats, (turn - 1) % len(players))


@lru_cache(maxsize=4096)
def _rotated(players: tuple[str, ...], seats: int, first: int) -> tuple[Lineup, ...]:
    """The rotated lineups of a group, cached for the many blocks in which it meets."""
    return rotation([players[(first + slot) % len(players)] for slot in range(seats)])


def episode_key(block: int, attempt: int, lineup: int) -> str:
    """The key of an episode of an evaluation: `block-0007.1-2`.

    Args:
        block: Number of the block, from 1.
        attempt: Number of the attempt at the block, from 1.
        lineup: Number of the lineup in the block, from 1.
    """
    return f"block-{block:04d}.{attempt}-{lineup}"


def parse_key(key: str) -> tuple[int, int, int] | None:
    """Block, attempt and lineup of an episode's key; None if it is not a key of an evaluation."""
    match = _KEY.fullmatch(key)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def blocks_for(episodes: int, size: int) -> int:
    """Return the number of blocks of `size` episodes needed to play at least `episodes`.

    Raises:
        UsageError: `episodes` is below 1.
    """
    if episodes < 1:
        raise UsageError("There must be at least 1 episode.", code="bad_count")
    return -(-episodes // size)


def require_block_seeds(config: Mapping[str, Any]) -> None:
    """Refuse changes to a game config that set the seed.

    Raises:
        UsageError: Code `seed_of_blocks`.
    """
    if "seed" in config:
        raise UsageError(
            "Each block has a seed of its own, so the game config cannot set one.",
            code="seed_of_blocks",
            hint="Leave it out of the config; all seeds are derived from the base seed.",
        )
