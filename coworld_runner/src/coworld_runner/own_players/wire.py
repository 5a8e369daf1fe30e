"""A player's files as they go to a platform, and as they come out of it."""

from __future__ import annotations

from pathlib import Path

from coworld_core.api import PlayerFiles
from coworld_core.errors import UsageError

from .player import OwnPlayer

__all__ = ["of_wire", "to_wire"]


def to_wire(player: OwnPlayer) -> PlayerFiles:
    """A file or directory, to be uploaded.

    Raises:
        UsageError: It is more than platforms take, only an image can be made of it, or it is no file at all.
    """
    if player.kind != "file":
        raise UsageError(
            f"{player.file} is no file, and a platform takes files and images.",
            code="player_not_file",
            hint="Name a .py file, an executable, or a directory with a pyproject.toml.",
        )
    if player.dockerfile:
        raise UsageError(
            f"{player.path} has a Dockerfile, and a platform builds no images.",
            code="player_dockerfile",
            hint=f"Build it here and upload the image: docker build -t {player.name} {player.path}, then "
            f"coworld upload-policy {player.name}:latest --name {player.name}.",
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
    """Files that were uploaded, as a player."""
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
