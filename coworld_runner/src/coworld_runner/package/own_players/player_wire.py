"""Converts a player's files to and from the form that platforms exchange."""

from __future__ import annotations

from pathlib import Path

from coworld_core.api import MOST_PLAYER_BYTES, PlayerFiles
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.text.size_text import shown_size

from .own_player import OwnPlayer

__all__ = ["of_wire", "to_wire"]


def to_wire(player: OwnPlayer) -> PlayerFiles:
    """Convert a file or directory for upload.

    Raises:
        UsageError: The player is too large for platforms, has a Dockerfile, or is neither a file nor a directory.
    """
    if player.kind != "file":
        raise UsageError(
            f"{player.file} is not a file, and a platform takes only files and images.",
            code="player_not_file",
            hint="Name a .py file, an executable, or a directory with a pyproject.toml.",
        )
    if player.dockerfile:
        raise UsageError(
            f"{player.path} has a Dockerfile, and a platform builds no images.",
            code="player_dockerfile",
            hint=Hint(
                "upload_player_image",
                "Build it here and upload the image: docker build -t {name} {path}, then "
                'api.policies.upload("{name}:latest", name="{name}").',
                name=player.name,
                path=str(player.path),
            ),
        )
    if sum(map(len, player.files.values())) > MOST_PLAYER_BYTES:
        raise UsageError(
            f"{player.path} has more than {shown_size(MOST_PLAYER_BYTES)}, which is what a platform takes as files.",
            code="player_too_large",
            hint="Leave out what it does not need to play, or build an image from it and upload that.",
        )
    return PlayerFiles.of_bytes(
        player.files,
        file=player.file,
        command=player.command,
        runnable=tuple(sorted(player.runnable)),
        needs_client=player.needs_client,
        needs=player.needs,
    )


def of_wire(files: PlayerFiles) -> OwnPlayer:
    """Convert uploaded files to a player."""
    return OwnPlayer(
        name=Path(files.file).stem,
        file=files.file,
        path=Path(files.file),
        files=files.files,
        command=files.command,
        runnable=frozenset(files.runnable),
        needs_client=files.needs_client,
        needs=files.needs,
    )
