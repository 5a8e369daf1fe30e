"""Players as files of settings name them."""

from __future__ import annotations

from pathlib import Path

from coworld_core.documents.settings_file import described_from

from ..package.player_names import PlayerRef

__all__ = ["described_player"]


def described_player(directory: Path, player: PlayerRef) -> str:
    """Return a player as the file stores it."""
    own = player.own
    if own is None or player.registered is not None or (own.kind != "file" and player.word == own.name):
        return player.word
    return described_from(directory, own.path)
