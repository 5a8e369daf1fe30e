"""A small Coworld whose players differ in strength, for evaluations with real episodes."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from coworld_core.evaluation.comparison import ComparisonReport
from coworld_core.manifest.manifest_file import MANIFEST_NAME
from coworld_core.tournament import TournamentReport
from coworld_runner.episode.run_options import BatchArguments
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.evaluation.tournament import add_entrant, create_tournament, play_tournament

from .small_world import World, world

__all__ = ["compared", "contest", "held", "played_on"]


def contest(
    first: float = 1.0, second: float = 0.0, *vices: str, seeds: dict[str, Any] | None = None, **more: Any
) -> AbstractAsyncContextManager[World]:
    """A world in which a score is the player's strength plus some luck, which depends on the seed.

    Args:
        first: Strength of the player `first`.
        second: Strength of the players `second` and `third`.
        vices: Faults of the players.
        seeds: The schema of the config's seed; empty: the config has no seed.
        more: Further arguments of `world`.
    """

    def change(manifest: dict[str, Any]) -> None:
        for variant in manifest["variants"]:
            variant["game_config"] = {"ticks": 1, "tick_seconds": 0.0}
        # A third player, as strong as the second.
        manifest["player"].append({**manifest["player"][1], "id": "third", "name": "Third", "run": ["third"]})
        properties = manifest["game"]["config_schema"]["properties"]
        properties.update({} if seeds == {} else {"seed": seeds or {"type": "integer"}})

    strengths = (f"first:strength {first}", f"second:strength {second}", f"third:strength {second}")
    return world(game_vices=("rewards_strength",), player_vices=(*strengths, *vices), change=change, **more)


async def compared(small: World, workspace: Path, **more: Any) -> ComparisonReport:
    """Compare `first` with `second`; starved episodes count, so that a busy machine does not matter."""
    keys = {name: more.pop(name) for name in tuple(more) if name in BatchArguments.__annotations__}
    run: Any = {"backend": small.backend, "workspace": workspace, "parallel": 4, **keys}
    new, old, margin = more.pop("new", "first"), more.pop("old", "second"), more.pop("margin", None)
    rules: dict[str, Any] = {"variant": "default", "count_starved": True, **more}
    return await compare(small.package, new, old, rules=EvaluationRules(**rules), margin=margin, **run)


async def held(
    small: World,
    place: Path,
    *players: str,
    pairing: str = "round-robin",
    rounds: int | None = 1,
    commissioner: str = "",
    seed: int | None = 0,
) -> Path:
    """Create a tournament of these players; starved episodes count, so that a busy machine does not matter."""
    game = place.parent / MANIFEST_NAME
    if not game.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        game.write_text(json.dumps(small.manifest))
    await create_tournament(
        place,
        str(game),
        variant="default",
        pairing=pairing,
        rounds=rounds,
        count_starved=True,
        commissioner=commissioner,
        seed=seed,
    )
    for player in players:
        await add_entrant(place, player)
    return place


async def played_on(small: World, place: Path, **more: Any) -> TournamentReport:
    """Play a tournament to its end."""
    run: Any = {"backend": small.backend, "parallel": 4, **more}
    return await play_tournament(place, **run)
