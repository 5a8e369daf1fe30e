"""Prepares images for the user's own programs: an image of the package, or one built from their directory."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ..backend import Backend, ImageInfo, Publish
from ..package.own_players.own_player import PLAYER_LABEL, OwnPlayer
from ..package.own_players.player_requirements import require_key, require_own_player
from ..runs.scratch import open_scratch

if TYPE_CHECKING:
    # A program of one's own needs no plan
    from ..package.plan import EpisodePlan, Seat
    from .episode_options import EpisodeOptions

__all__ = ["house_own", "prepare_player_image", "require_players"]


def require_players(plan: EpisodePlan, backend: Backend, options: EpisodeOptions) -> None:
    """Check that a backend can run the user's own players; starts nothing.

    Raises:
        UsageError: A player is for another machine, the program that plays it is not installed, or it has no key.
        CapabilityError: The backend cannot run such a player.
    """
    for player in _own(plan):
        require_own_player(player, backend, platform=None)
        if options.models is None:
            require_key(player)


async def prepare_player_image(seat: Seat, backend: Backend, *, platform: str | None, publish: Publish) -> ImageInfo:
    """Fetch or build the image for a seat's own file or directory.

    Raises:
        UsageError: The player is for another platform than the image.
        ImageError: The image is not available.
        BuildError: A step of the Dockerfile failed.
    """
    assert seat.own is not None
    assert seat.runnable is not None
    return await house_own(seat.own, seat.runnable.image, backend, platform=platform, publish=publish)


async def house_own(
    own: OwnPlayer, image: str, backend: Backend, *, platform: str | None, publish: Publish
) -> ImageInfo:
    """Fetch or build the image in which the user's own file or directory runs.

    Args:
        own: The file or directory.
        image: The image that runs it, unless it has a Dockerfile.
        backend: An entered backend.
        platform: os/architecture of the image; None: the engine's default.
        publish: Receives events.

    Raises:
        UsageError: It is for another platform than the image.
        ImageError: The image is not available.
        BuildError: A step of the Dockerfile failed.
    """
    if own.dockerfile and backend.capabilities.images:
        info = await _built(own, backend, platform, publish)
    else:
        info = await backend.ensure_image(image, platform=platform, publish=publish)
        require_own_player(own, backend, platform=info.platform or None)
        if not backend.capabilities.images:
            await _with_packages(own, backend, publish)
    return dataclasses.replace(info, image=own.reference, digest=own.digest)


async def _built(player: OwnPlayer, backend: Backend, platform: str | None, publish: Publish) -> ImageInfo:
    if await backend.has_image(player.image):
        return await backend.ensure_image(player.image, platform=platform, publish=publish)

    async with _put(player) as directory:
        return await backend.build_image(
            player.image,
            directory,
            labels={PLAYER_LABEL: player.digest},
            platform=platform,
            publish=publish,
        )


async def _with_packages(player: OwnPlayer, backend: Backend, publish: Publish) -> None:
    async with _put(player) as directory:
        await backend.ensure_packages(player.file, directory, publish=publish)


@asynccontextmanager
async def _put(player: OwnPlayer) -> AsyncGenerator[Path]:
    """Yield a temporary directory with the player's files, as they were read and not as they are now."""
    async with open_scratch() as scratch:
        directory = scratch.directory("player")
        await anyio.to_thread.run_sync(player.put, directory)
        yield directory


def _own(plan: EpisodePlan) -> list[OwnPlayer]:
    own = [seat.own for seat in plan.seats if seat.own is not None and seat.has_unit]
    return list({player.reference: player for player in own}.values())
