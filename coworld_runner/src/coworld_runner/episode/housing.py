"""Where a file or directory of one's own runs: beside an image of the package's, or in one that is built of it."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import anyio
import anyio.to_thread

from ..backend import Backend, ImageInfo, Publish
from ..own_players.player import PLAYER_LABEL, OwnPlayer
from ..own_players.requiring import require_own_player
from ..plan import EpisodePlan, Seat

__all__ = ["house_player", "require_players"]


def require_players(plan: EpisodePlan, backend: Backend) -> None:
    """See that a backend can run what people have brought; nothing is started.

    Raises:
        UsageError: One is for another machine, or what plays it is not installed.
        CapabilityError: The backend cannot have one.
    """
    for player in _own(plan):
        require_own_player(player, backend, platform=None)


async def house_player(seat: Seat, backend: Backend, *, platform: str | None, publish: Publish) -> ImageInfo:
    """Have what a seat's own file or directory runs in, and say what it is.

    Raises:
        UsageError: It is for another platform than what it would run in.
        ImageError: That is not to be had.
        BuildError: A step of its Dockerfile failed.
    """
    player, runnable = seat.own, seat.runnable
    assert player is not None
    assert runnable is not None
    if player.dockerfile and backend.capabilities.images:
        info = await _built(player, backend, platform, publish)
    else:
        info = await backend.ensure_image(runnable.image, platform=platform, publish=publish)
        require_own_player(player, backend, platform=info.platform or None)
    return dataclasses.replace(info, image=player.reference, digest=player.digest)


async def _built(player: OwnPlayer, backend: Backend, platform: str | None, publish: Publish) -> ImageInfo:
    if await backend.has_image(player.image):
        return await backend.ensure_image(player.image, platform=platform, publish=publish)

    def write(directory: str) -> None:
        player.put(Path(directory))

    # what was read, and not what has become of it since
    with tempfile.TemporaryDirectory(prefix="coworld-player-") as directory:
        await anyio.to_thread.run_sync(write, directory)
        return await backend.build_image(
            player.image,
            Path(directory),
            labels={PLAYER_LABEL: player.digest},
            platform=platform,
            publish=publish,
        )


def _own(plan: EpisodePlan) -> list[OwnPlayer]:
    own = [seat.own for seat in plan.seats if seat.own is not None and seat.has_unit]
    return list({player.reference: player for player in own}.values())
