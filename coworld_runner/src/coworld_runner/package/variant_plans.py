"""Plans of several variants of a game that are played together, as one word names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coworld_core.errors import UsageError
from coworld_core.manifest.game_config import matching_variants
from coworld_core.manifest.models import Manifest
from coworld_core.text.phrases import listed

from .plan import EpisodePlan, plan_episode
from .player_names import SeatPlayer
from .resolver import Package

__all__ = ["plan_variants", "require_alike", "variant_ids"]


def plan_variants(
    package: Package, *, variant: str | None = None, players: Sequence[SeatPlayer] = (), **options: Any
) -> tuple[EpisodePlan, ...]:
    """Plan an episode of each variant that a pattern matches; of one variant, or the fixture, otherwise.

    Args:
        package: The Coworld.
        variant: Id of a variant, or a pattern (`small-*`).
        players: The players.
        options: The other arguments of `plan_episode`.

    Raises:
        UsageError: Code `variants_differ`: the variants have different numbers of seats; or as `plan_episode`.
        ManifestError: As `plan_episode`.
    """
    ids = variant_ids(package.manifest, variant)
    plans = tuple(plan_episode(package, variant=one, players=players, **options) for one in ids)
    require_alike({plan.variant: len(plan.seats) for plan in plans})
    return plans


def variant_ids(manifest: Manifest, word: str | None) -> tuple[str | None, ...]:
    """Return the ids of the variants that a word means (`matching_variants`); None is the certification fixture.

    Raises:
        UsageError: There is none.
    """
    return (None,) if word is None else tuple(variant.id for variant in matching_variants(manifest, word))


def require_alike(seats: Mapping[str, int]) -> None:
    """Refuse variants that are played together if they differ in their numbers of seats.

    Args:
        seats: Number of seats, by variant.

    Raises:
        UsageError: Code `variants_differ`.
    """
    if len(set(seats.values())) > 1:
        told = listed(f"{name} ({count})" for name, count in seats.items())
        raise UsageError(
            f"These variants have different numbers of seats, so they are not played together: {told}.",
            code="variants_differ",
            hint="Play them one after the other.",
        )
