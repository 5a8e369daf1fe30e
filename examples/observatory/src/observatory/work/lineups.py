"""Lineups and configs: from the roster of an experience request to the seats of its episodes.

Pure values: callers read the candidates from the database before, and store the lineups afterwards.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from coworld_core.errors import ManifestError, UsageError
from coworld_core.manifest import (
    Manifest,
    game_config_for,
    overwritten_named_players,
    seed_range,
    token_bounds,
    validate_game_config,
)

if TYPE_CHECKING:
    from ..store.models import Player, PolicyVersion

__all__ = ["UNLIMITED_SEED", "Candidate", "ResolvedEntry", "draw_seats", "episode_configs", "plan_config"]

UNLIMITED_SEED = 2**31 - 1
"""The largest seed for a game that names none: every language and library accepts it."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy version that can take a seat."""

    policy_version_id: str
    policy_id: str
    name: str
    version: int
    owner_user_id: str
    player_id: str | None = None
    player_name: str | None = None
    """Name of the player, or of the account if it plays without one."""

    @classmethod
    def of(cls, version: PolicyVersion, player: Player | None = None) -> Candidate:
        """A version that plays for a player; by default the player that uploaded it."""
        player = player or version.player
        return cls(
            policy_version_id=version.id,
            policy_id=version.policy_id,
            name=version.policy.name,
            version=version.version,
            owner_user_id=version.user_id,
            player_id=player.id if player else None,
            player_name=player.name if player else version.user.name,
        )

    @property
    def subject_id(self) -> str:
        """The player that it plays for, or the account if it plays without one."""
        return self.player_id or self.owner_user_id

    @property
    def label(self) -> str:
        """`name:vN`."""
        return f"{self.name}:v{self.version}"


@dataclass(frozen=True, kw_only=True)
class ResolvedEntry:
    """One entry of a roster: the policy, and optionally its seat. Exactly one of the first three fields is set."""

    policy: Candidate | None = None
    top_n: int | None = None
    random: bool = False
    slot: int | None = None
    """The seat it is pinned to; None: it rotates through the remaining seats."""


def draw_seats(
    entries: Sequence[ResolvedEntry],
    *,
    episodes: int,
    ladder: Sequence[Candidate] = (),
    pool: Sequence[Candidate] = (),
    seed: int | str = 0,
) -> list[tuple[Candidate, ...]]:
    """Seat every episode of a request.

    Entries without a seat rotate: with each episode they move on by one of the remaining seats, so that seats are
    balanced over a full rotation. `top_n` takes the first N of the ladder in turn, `random` draws from the pool
    with replacement.

    Args:
        entries: The roster, one entry for each seat.
        episodes: The number of episodes.
        ladder: The champions, best first.
        pool: The candidates for `random`.
        seed: Makes the draw repeatable.

    Returns:
        One tuple for each episode, by slot.

    Raises:
        UsageError: `bad_slot`: a seat that does not exist or is taken; `no_champions` or `no_members`: no
            candidates to draw from.
    """
    count = len(entries)
    pinned: dict[int, ResolvedEntry] = {}
    free: list[ResolvedEntry] = []
    for entry in entries:
        if entry.slot is None:
            free.append(entry)
        elif not 0 <= entry.slot < count:
            raise UsageError(
                f"The roster has {count} seats, 0 to {count - 1}; there is no seat {entry.slot}.", code="bad_slot"
            )
        elif entry.slot in pinned:
            raise UsageError(f"Seat {entry.slot} is assigned to two entries of the roster.", code="bad_slot")
        else:
            pinned[entry.slot] = entry
    if any(entry.top_n is not None for entry in entries) and not ladder:
        raise UsageError("The target's division has no champions, so `top_n` cannot be resolved.", code="no_champions")
    if any(entry.random for entry in entries) and not pool:
        raise UsageError("The target's division has no members, so `random` cannot be resolved.", code="no_members")
    dice = random.Random(seed)
    turns: dict[int, int] = {}
    left = [slot for slot in range(count) if slot not in pinned]

    def seat(entry: ResolvedEntry) -> Candidate:
        if entry.policy is not None:
            return entry.policy
        if entry.top_n is None:
            return dice.choice(pool)
        turn = turns.get(entry.top_n, 0)
        turns[entry.top_n] = turn + 1
        best = ladder[: entry.top_n]
        return best[turn % len(best)]

    drawn: list[tuple[Candidate, ...]] = []
    for episode in range(episodes):
        seated = dict(pinned)
        for position, slot in enumerate(left):
            seated[slot] = free[(position + episode) % len(free)]
        drawn.append(tuple(seat(seated[slot]) for slot in range(count)))
    return drawn


def plan_config(manifest: Manifest, variant: str | None, overrides: Mapping[str, Any], *, seats: int) -> dict[str, Any]:
    """The config that a request's episodes share: the variant's config with overrides.

    Args:
        manifest: The Coworld.
        variant: A variant's id; None is the first variant.
        overrides: Keys that replace the variant's.
        seats: The number of seats in the roster.

    Raises:
        UsageError: There is no such variant.
        ManifestError: The config does not fit the game's schema, or the roster does not fit the game.
    """
    chosen = variant if variant is not None else manifest.variants[0].id if manifest.variants else None
    config = {**game_config_for(manifest, chosen), **overrides}
    least, most = token_bounds(manifest)
    if not least <= seats <= most:
        bounds = str(least) if least == most else f"{least} to {most}"
        raise UsageError(
            f"The roster has {seats} entries, and {manifest.game.name} seats {bounds} players.",
            code="slots_out_of_bounds",
            hint="Give one roster entry for each seat.",
        )
    return _checked(manifest, config, [f"player {slot}" for slot in range(seats)])


def episode_configs(
    manifest: Manifest, config: Mapping[str, Any], seats: Sequence[Sequence[str]], *, seed_pinned: bool
) -> list[dict[str, Any]]:
    """One config for each episode, with the players' names, and with a seed of its own unless it is pinned.

    Seeds count up from the config's seed; if the last of them would violate the schema, every episode keeps the
    config's own. A game with a seed in its schema, and none in its config, gets random ones.

    Args:
        manifest: The Coworld.
        config: The result of `plan_config`.
        seats: The names by slot, one list for each episode.
        seed_pinned: Whether the request sets the seed.

    Raises:
        ManifestError: A config with these names does not fit the game's schema.
    """
    first = config.get("seed")
    seeds: list[int] | None = None
    if seed_pinned:
        pass
    elif first is None and _knows_seed(manifest):
        allowed = seed_range(manifest, config, slots=len(seats[0]) if seats else 0, unlimited=UNLIMITED_SEED)
        if allowed is not None:
            least, most = allowed
            seeds = [least + secrets.randbelow(most - least + 1) for _ in seats]
    elif isinstance(first, int) and not isinstance(first, bool):
        last = {**config, "seed": first + len(seats) - 1}
        if validate_game_config(manifest, last, slots=len(seats[0]) if seats else None).ok:
            seeds = [first + index for index in range(len(seats))]
    named: dict[tuple[str, ...], dict[str, Any]] = {}
    configs: list[dict[str, Any]] = []
    for index, names in enumerate(seats):
        key = tuple(names)
        if key not in named:
            named[key] = _checked(manifest, dict(config), key)
        configs.append({**named[key], "seed": seeds[index]} if seeds is not None else dict(named[key]))
    return configs


def _checked(manifest: Manifest, config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    result = overwritten_named_players(manifest, config, names)
    report = validate_game_config(manifest, result, slots=len(names))
    if not report.ok:
        raise ManifestError(report, code="config_invalid")
    return result


def _knows_seed(manifest: Manifest) -> bool:
    properties = _object(manifest.game.config_schema.get("properties"))
    return _object(properties.get("seed")).get("type") == "integer"


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
