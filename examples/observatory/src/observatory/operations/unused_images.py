"""Removes uploaded images that nothing uses: no policy version and no Coworld names them, and nobody is pushing."""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_runner.backend import Backend

from ..services import Services
from ..store.audit import audit
from ..store.blobs import BlobStore
from ..store.columns import JsonObject, now
from ..store.models import Coworld, Image, ImageChain, PolicyVersion, RegistryBlob, RegistryManifest, RegistryTag, Token
from ..supervisor import Supervisor

__all__ = ["clearing_engine", "lifespan", "remove_from_engine", "remove_unused"]

EVERY_SECONDS = 3600.0

KEPT = dt.timedelta(days=7)
"""How long an image may wait to be used, from when it was last pushed or asked for."""

_IMAGE_ID = re.compile(r'"(img_[^"]+)"')

_log = logging.getLogger("observatory")


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Remove unused images regularly while the server runs."""
    what = "Unused images cannot be removed yet"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(Supervisor(_log).repeat, partial(_remove, services), what, seconds=EVERY_SECONDS))
        yield
        tasks.cancel_scope.cancel()


async def remove_unused(services: Services) -> JsonObject:
    """Remove unused images, then parts that no image has, then bytes that no part has.

    Only one transaction writes at a time, so nobody can begin to use an image between the look and the removal. Rows go
    before bytes: an interrupted run is completed by the next.

    Returns:
        The numbers of `images` and `bytes` that were removed.
    """
    database, images = services.database, 0
    async with database.reading() as session:
        some = await _unused_images(session)
    if some:
        async with database.writing() as session:
            images = await _remove_images(session)
    async with database.reading() as session:
        repositories = list(await session.scalars(_old_repositories()))
    for repository in repositories:
        with Supervisor(_log).trying(f"Unused parts of images in {repository} cannot be removed"):
            async with database.reading() as session:
                some = await _unused_parts(session, services.blobs, repository)
            if some:
                async with database.writing() as session:
                    for row in await _unused_parts(session, services.blobs, repository):
                        await session.delete(row)
    async with database.reading() as session:
        named = set(await session.scalars(_named()))
    size = 0
    for digest in await services.blobs.digests():
        if digest not in named and await services.blobs.is_stale(digest):
            async with database.writing() as session:
                if await session.scalar(_named(digest)) is None:
                    size += await services.blobs.forget(digest) or 0
    return {"images": images, "bytes": size}


@asynccontextmanager
async def clearing_engine(services: Services, backend: Backend, registry: str | None) -> AsyncGenerator[None]:
    """Remove images from a worker's engine regularly that are no longer in our registry.

    Args:
        services: The stores.
        backend: The worker's.
        registry: Host and port of our registry as the backend reaches it; None: it takes no images.
    """
    what = "Unused images cannot be removed from the engine yet"
    async with anyio.create_task_group() as tasks:
        if registry is not None:
            step = partial(remove_from_engine, services, backend, registry)
            tasks.start_soon(partial(Supervisor(_log).repeat, step, what, seconds=EVERY_SECONDS))
        yield
        tasks.cancel_scope.cancel()


async def remove_from_engine(services: Services, backend: Backend, registry: str) -> int:
    """Remove images from an engine that came from our registry and are no longer there; returns their number."""
    # What is pulled after this look is not removed, whichever rows the next one finds.
    present = await backend.images_of(registry)
    async with services.database.reading() as session:
        rows = await session.execute(sa.select(Image.repository, Image.digest).where(Image.digest.is_not(None)))
    kept = {f"{registry}/{repository}@{digest}" for repository, digest in rows}
    return sum([await backend.remove_image(name) for name in present if name not in kept])


def _named(digest: str | None = None) -> sa.CompoundSelect[str]:
    """Digests that rows name: all, or one if any does."""
    statements = [sa.select(table.digest) for table in (RegistryBlob, RegistryManifest)]
    if digest is not None:
        statements = [one.where(one.selected_columns.digest == digest) for one in statements]
    return sa.union(*statements)


async def _unused_images(session: AsyncSession) -> list[Image]:
    before = now() - KEPT
    asked = sa.select(RegistryTag.tag).where(
        RegistryTag.repository == Image.repository, RegistryTag.tag == Image.tag, RegistryTag.updated_at >= before
    )
    old = list(
        await session.scalars(
            sa.select(Image).where(
                Image.created_at < before,
                Image.repository.not_in(_pushed()),
                Image.id.not_in(sa.select(PolicyVersion.image_id)),
                ~asked.exists(),
            )
        )
    )
    manifests = await session.scalars(sa.select(Coworld.manifest)) if old else ()
    named = {text for manifest in manifests for text in _IMAGE_ID.findall(json.dumps(manifest))}
    return [image for image in old if image.id not in named]


async def _remove_images(session: AsyncSession) -> int:
    unused = await _unused_images(session)
    await session.execute(sa.delete(ImageChain).where(ImageChain.image_id.in_([image.id for image in unused])))
    for image in unused:
        subject = f"{image.repository}:{image.tag}"
        audit(session, "image.removed", user_id=image.user_id, subject=subject, id=image.id)
        await session.delete(image)
    return len(unused)


def _pushed() -> sa.Select[str | None]:
    """Repositories into which somebody may be pushing: the token of an upload is valid."""
    return sa.select(Token.repository).where(
        Token.kind == "registry", Token.repository.is_not(None), Token.revoked_at.is_(None), Token.expires_at > now()
    )


def _old_repositories() -> sa.CompoundSelect[str]:
    old = now() - KEPT
    return sa.union(
        sa.select(RegistryTag.repository).where(RegistryTag.updated_at < old),
        sa.select(RegistryManifest.repository).where(RegistryManifest.created_at < old),
        sa.select(RegistryBlob.repository).where(RegistryBlob.created_at < old),
    )


async def _unused_parts(
    session: AsyncSession, blobs: BlobStore, repository: str
) -> list[RegistryTag | RegistryManifest | RegistryBlob]:
    """Old tags, manifests and blobs of a repository that belong to no image; none while somebody may be pushing."""
    if await session.scalar(_pushed().where(Token.repository == repository).limit(1)) is not None:
        return []
    old = now() - KEPT
    images = (await session.scalars(sa.select(Image).where(Image.repository == repository))).all()
    tags = (await session.scalars(sa.select(RegistryTag).where(RegistryTag.repository == repository))).all()
    names = {image.tag for image in images}
    unused = [tag for tag in tags if tag.tag not in names and tag.updated_at < old]
    digests = [image.digest for image in images if image.digest is not None]
    used = await _reached(session, blobs, repository, digests + [tag.digest for tag in tags if tag not in unused])
    manifests = await session.scalars(
        sa.select(RegistryManifest).where(RegistryManifest.repository == repository, RegistryManifest.created_at < old)
    )
    layers = await session.scalars(
        sa.select(RegistryBlob).where(RegistryBlob.repository == repository, RegistryBlob.created_at < old)
    )
    return [*unused, *(row for row in (*manifests, *layers) if row.digest not in used)]


async def _reached(session: AsyncSession, blobs: BlobStore, repository: str, digests: list[str]) -> set[str]:
    """Digests of manifests, and of all that they consist of."""
    reached: set[str] = set()
    while digests:
        digest = digests.pop()
        if digest not in reached:
            reached.add(digest)
            if await session.get(RegistryManifest, (repository, digest)) is not None:
                digests += _parts(json.loads(await blobs.read(digest)))
    return reached


def _parts(manifest: JsonObject) -> list[str]:
    """The digests that a manifest names; none if it is of another kind, such as a player's files."""
    named: list[JsonObject | None] = [manifest.get("config")]
    for key in ("layers", "manifests"):
        named += manifest.get(key) or []
    return [part["digest"] for part in named if part is not None]


async def _remove(services: Services) -> None:
    gone = await remove_unused(services)
    if gone["images"] or gone["bytes"]:
        _log.info("Unused images removed: %(images)s, and %(bytes)s bytes", gone)
