"""Environment variables that are reserved for runners, so that no author's value can replace them."""

from __future__ import annotations

import re

from .player_seeds import PLAYER_SEED_ENV, PLAYER_SEEDS_ENV
from .ports import EXTRA_PORTS_ENV
from .role_kinds import ROLES

__all__ = ["AUTHOR_ENV", "RESERVED_ENV", "RESERVED_ENV_PREFIXES", "SERVES_ENV", "is_reserved_env"]

RESERVED_ENV = frozenset(
    {
        # Runtime contract: game, both modes, all generations
        "COGAME_HOST",
        "COGAME_PORT",
        "COGAME_CONFIG_URI",
        "COGAME_RESULTS_URI",
        "COGAME_SAVE_REPLAY_URI",
        "COGAME_LOAD_REPLAY_URI",
        "COGAME_LOG_URI",
        "COGAME_EVENTS_URI",
        "COGAME_PLAYER_FAILURE_URI",
        "COGAME_SAVE_TRAJECTORY_URI",
        "COGAME_REPLAY_SERVER",
        "COGAMES_POLICY_NAMES",
        "COWORLD_LOCAL_PORTS_JSON",
        "COWORLD_SAMPLES_TOKEN",
        PLAYER_SEEDS_ENV,
        # Runtime contract: player
        "COWORLD_PLAYER_WS_URL",
        PLAYER_SEED_ENV,
        "COGAMES_ENGINE_WS_URL",
        "COWORLD_PLAYER_ARTIFACT_UPLOAD_URL",
        "BEDROCK_REQUEST_METADATA",
    }
).union(*(kind.variables for kind in ROLES.values()))
"""Variables that a runner sets; a manifest must not set them."""

RESERVED_ENV_PREFIXES = ("COGAME_", "COGAMES_", "COWORLD_")
"""Prefixes reserved for later versions of the contract: a warning in a manifest, an error when read strictly."""

SERVES_ENV = "COWORLD_SERVES"
"""Variable by which a game says, with `many`, that its server can be started ahead and fork for each episode.

It is no field of the manifest, because platforms of all generations refuse fields that they do not know."""

AUTHOR_ENV = frozenset({EXTRA_PORTS_ENV, SERVES_ENV, "COGAME_RESULTS_METHOD", "COGAME_SAVE_REPLAY_METHOD"})
"""Variables with those prefixes that a game's author may set."""

_LOCAL_PORT = re.compile(r"COWORLD_LOCAL_PORT_[0-9]+")


def is_reserved_env(name: str, *, game: bool = False) -> bool:
    """Whether a variable is reserved, because a runner sets or reads it.

    Args:
        name: The variable.
        game: Whether it is set for the game, whose author may set `AUTHOR_ENV`.
    """
    if name in AUTHOR_ENV:
        return not game
    return name in RESERVED_ENV or _LOCAL_PORT.fullmatch(name) is not None
