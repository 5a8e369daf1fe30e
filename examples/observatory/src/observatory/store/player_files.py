"""Players uploaded as files: stored in the registry beside images, as artifacts of another type."""

from __future__ import annotations

import re

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.api import PlayerFiles
from coworld_core.errors import ImageError
from coworld_runner.package import OwnPlayer, of_wire

from .blobs import BlobStore
from .models import Image, RegistryManifest, User

__all__ = ["PLAYER_MEDIA", "holds_player", "keep_player", "read_player"]

PLAYER_MEDIA = "application/vnd.coworld.player.v1+json"
"""Media type of such an artifact; engines do not run it as an image."""


async def keep_player(blobs: BlobStore, session: AsyncSession, user: User, player: PlayerFiles) -> Image:
    """Store a player's files, unless the same files are there already."""
    content = player.model_dump_json().encode()
    digest = await blobs.put(content)
    image = await session.scalar(
        sa.select(Image)
        .join(
            RegistryManifest,
            sa.and_(RegistryManifest.repository == Image.repository, RegistryManifest.digest == Image.digest),
        )
        .where(Image.user_id == user.id, Image.digest == digest, RegistryManifest.media_type == PLAYER_MEDIA)
        .limit(1)
    )
    if image is not None:
        return image
    name = re.sub(r"[^a-z0-9]+", "-", player.file.lower())[:60].strip("-") or "player"
    repository = f"player-files/{user.id}/{name}"
    last = await session.scalar(
        sa.select(sa.func.max(Image.version)).where(Image.user_id == user.id, Image.name == player.file)
    )
    image = Image(
        user_id=user.id,
        name=player.file,
        version=(last or 0) + 1,
        client_hash=f"{PLAYER_MEDIA};{digest}",
        status="ready",
        repository=repository,
        tag=f"v{(last or 0) + 1}",
        digest=digest,
    )
    session.add(image)
    if await session.get(RegistryManifest, (repository, digest)) is None:
        session.add(RegistryManifest(repository=repository, digest=digest, media_type=PLAYER_MEDIA, size=len(content)))
    await session.flush()
    return image


async def holds_player(session: AsyncSession, image: Image) -> bool:
    """Whether an upload holds a player's files; otherwise it is an image, or is not complete."""
    if image.digest is None:
        return False
    manifest = await session.get(RegistryManifest, (image.repository, image.digest))
    return manifest is not None and manifest.media_type == PLAYER_MEDIA


async def read_player(blobs: BlobStore, session: AsyncSession, image: Image) -> OwnPlayer | None:
    """The player whose files an upload holds; None if it is an image.

    Raises:
        FileNotFoundError: The files are missing from this directory.
        ImageError: The content does not match their media type.
    """
    if image.digest is None or not await holds_player(session, image):
        return None
    try:
        # Checked again, since the registry accepts any content.
        return of_wire(PlayerFiles.model_validate_json(await blobs.read(image.digest)))
    except ValidationError:
        raise ImageError(
            f"The image {image.name!r} ({image.id}) does not contain a player's files.", hint="Upload it again."
        ) from None
