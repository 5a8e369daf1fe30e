"""What a platform is asked for, to have one episode played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coworld_core.api import Coworld
from coworld_core.controller import EpisodeSpec
from coworld_core.episode.request import build_request
from coworld_core.errors import UsageError
from coworld_core.manifest.game_config import only_variant
from coworld_core.manifest.manifest_file import load_manifest

__all__ = ["episode_body"]


def episode_body(coworld: Coworld, spec: EpisodeSpec, labels: Mapping[str, str]) -> dict[str, Any]:
    """The experience request for one episode.

    Args:
        coworld: What is played.
        spec: The episode.
        labels: All of its labels.

    Raises:
        UsageError: There is no such variant or field of the config, or the players are not one, or one for each seat.
    """
    manifest = load_manifest(coworld.manifest, template=True).manifest
    variant = only_variant(manifest, spec.variant).id if spec.variant is not None else manifest.variants[0].id
    job = build_request(manifest, variant, config=spec.config)
    seats = len(job.players)
    if len(spec.players) not in (1, seats):
        raise UsageError(
            f"expected 1 or {seats} players for {seats} seats, got {len(spec.players)}.",
            code="wrong_player_count",
            hint="Name a policy for all seats, or one for each.",
            context={"players": list(spec.players), "slots": seats},
        )
    # The platform replaces whole fields
    overrides = {name: job.game_config[name] for name in spec.config}
    if spec.seed is not None:
        overrides["seed"] = spec.seed
    named = spec.players * seats if len(spec.players) == 1 else spec.players
    return {
        "coworld_id": coworld.id,
        "variant_id": variant,
        "roster": [{"player": {"policy_ref": name}, "slot": slot} for slot, name in enumerate(named)],
        "num_episodes": 1,
        **({"game_config_overrides": overrides} if overrides else {}),
        # Platforms that keep none refuse it
        **({"tags": dict(labels)} if labels else {}),
    }
