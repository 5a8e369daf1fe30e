"""What is played: a variant of a Coworld, with how many seats it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coworld_core.manifest import Manifest, game_config_for, load_manifest, slot_count

from ..store.models import Coworld

__all__ = ["GameSetup", "setup_of"]


@dataclass(frozen=True, kw_only=True)
class GameSetup:
    """A variant of an uploaded Coworld, as a league or a session plays it."""

    coworld: Coworld
    manifest: Manifest
    variant: str
    config: dict[str, Any]
    """The variant's, without names and tokens."""
    seats: int


def setup_of(coworld: Coworld, variant: str | None) -> GameSetup:
    """A variant of a Coworld; without one, the first.

    Raises:
        ManifestError: The manifest can no longer be read.
        UsageError: The Coworld has no such variant (code `unknown_variant`), or its config fits no game.
    """
    manifest = load_manifest(dict(coworld.manifest), template=True).manifest
    chosen = variant or manifest.variants[0].id
    config = game_config_for(manifest, chosen)
    return GameSetup(
        coworld=coworld, manifest=manifest, variant=chosen, config=config, seats=slot_count(manifest, config)
    )
