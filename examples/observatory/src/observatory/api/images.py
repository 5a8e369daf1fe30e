"""Container images: permission to push one to our own registry, and pushed images."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api

from ..errors import Refusal, not_found
from ..identity.auth import Caller
from ..identity.limits import require_stored
from ..names import new_name
from ..store.audit import audit
from ..store.columns import JsonObject, now
from ..store.models import Image, ImageChain, RegistryBlob, RegistryTag, User
from .pagination import PageQuery, paginate
from .playable import require_image_runs
from .routing import ApiRouter, Call, Json, SignedIn, gate, refusals

__all__ = ["find_image", "image_at", "image_json", "public_uri", "router"]

router = ApiRouter(tags=["Images"])

PUSH_LIFETIME = dt.timedelta(hours=12)
"""How long permission to push an image lasts."""


class ImageQuery(PageQuery):
    """Filters for images."""

    limit: int = Field(default=200, ge=1, le=1000, description="Maximum number of rows in the page.")
    name: api.Text | None = Field(default=None, description="Only images with this name.")


@router.get("/v2/container_images", response_model=list[api.Image])
async def list_images(call: SignedIn, query: Annotated[ImageQuery, Query()]) -> Json:
    """Your own images, newest first."""
    statement = sa.select(Image)
    if not call.caller.elevated:
        statement = statement.where(Image.user_id.in_(call.caller.accounts))
    if query.name is not None:
        statement = statement.where(Image.name == query.name)
    page = await paginate(call.db, statement, query, moment=Image.created_at, key=Image.id)
    return page.bare(lambda image: image_json(image, call.services.settings.registry))


@router.get("/v2/container_images/{image_id}", response_model=api.Image)
async def get_image(call: SignedIn, image_id: str) -> Json:
    """One image."""
    return Json(image_json(await find_image(call.db, call.caller, image_id), call.services.settings.registry))


@router.post("/v2/container_images/upload", response_model=api.ImageUpload, responses=refusals(409))
async def begin_upload(call: Annotated[Call, gate("known", secret=True)], body: api.ImageUploadBody) -> Json:
    """Get permission to push an image; null if the same image exists already."""
    user = call.caller.require()
    registry = call.services.settings.registry
    image = await call.db.scalar(
        sa.select(Image).where(Image.user_id == user.id, Image.client_hash == body.client_hash)
    )
    if image is not None and image.status == "ready":
        # It is about to be used, so it is not removed as unused in between.
        await call.db.execute(
            sa.update(RegistryTag)
            .where(RegistryTag.repository == image.repository, RegistryTag.tag == image.tag)
            .values(updated_at=now())
        )
        return Json({"image": image_json(image, registry), "pre_signed_info": None})
    await require_image_runs(call, body.name)
    if image is None:
        image = await _new_image(call.db, user, body)
    # Checked before anything is pushed, so that a full account does not send gigabytes in vain.
    unfinished = call.services.blobs.unfinished(image.repository.partition("/")[0])
    await require_stored(call.db, user, call.services.settings.quotas, more=unfinished + 1)
    token = await call.services.tokens.mint(
        call.db,
        "registry",
        user.id,
        player_id=call.caller.player_id,
        label=f"push {image.id}",
        lifetime=PUSH_LIFETIME,
        repository=image.repository,
        actions="pull,push",
    )
    grant = {
        "kind": "ecr",
        "region": "local",
        "registry": registry,
        "repository": image.repository,
        "tag": image.tag,
        "image_uri": f"{registry}/{image.repository}:{image.tag}",
        "endpoint_url": f"{urlsplit(call.base_url).scheme}://{registry}",
        "authorization_token": base64.b64encode(f"upload:{token.text}".encode()).decode(),
        "expires_at": token.expires_at,
    }
    return Json({"image": image_json(image, registry), "pre_signed_info": grant})


@router.post("/v2/container_images/upload/complete", response_model=api.Image, responses=refusals(409))
async def complete_upload(call: SignedIn, body: api.ImageCompleteBody) -> Json:
    """Declare an image pushed; it can no longer change."""
    image = await call.db.get(Image, body.id)
    if image is None or not call.caller.owns(image.user_id):
        raise not_found("image", body.id)
    if image.status != "ready":
        tag = await call.db.get(RegistryTag, (image.repository, image.tag))
        if tag is None:
            raise Refusal(
                409,
                f"Nothing has been pushed to {image.repository}:{image.tag} yet.",
                code="image_not_pushed",
            )
        image.status, image.digest = "ready", tag.digest
        image.layers = _layers(await call.services.blobs.read(tag.digest))
        await _add_chains(call, image, tag.digest)
        subject = f"{image.repository}:{image.tag}"
        audit(call.db, "image.uploaded", user_id=image.user_id, subject=subject, digest=image.digest)
        await call.db.flush()
        owner = await call.db.get_one(User, image.user_id)
        await require_stored(call.db, owner, call.services.settings.quotas)
    return Json(image_json(image, call.services.settings.registry))


async def _add_chains(call: Call, image: Image, digest: str) -> None:
    """Note what an engine unpacks of an image: of an index, whichever of its images it takes."""
    manifests, chains = [digest], dict[str, ImageChain]()
    seen: set[str] = set()
    while manifests:
        if (digest := manifests.pop()) in seen:
            continue
        seen.add(digest)
        document = cast("dict[str, Any]", json.loads(await call.services.blobs.read(digest)))
        manifests += [part["digest"] for part in document.get("manifests") or ()]
        chain = ""
        for layer in document.get("layers") or ():
            chain = hashlib.sha256(f"{chain} {layer['digest']}".encode()).hexdigest()
            blob = await call.db.get_one(RegistryBlob, (image.repository, layer["digest"]))
            chains[chain] = ImageChain(image_id=image.id, chain=chain, digest=blob.digest, size=blob.size)
    call.db.add_all(chains.values())


def _layers(manifest: bytes) -> str | None:
    """`Image.layers`, from a manifest that the registry has accepted."""
    document = cast("dict[str, Any]", json.loads(manifest))
    return "".join(f"{layer['digest']} " for layer in document.get("layers") or ()) or None


async def find_image(session: AsyncSession, caller: Caller, image_id: str) -> Image:
    """Find an image that the caller may use: its own, or a public one.

    Raises:
        Refusal: 404 if there is none.
    """
    image = await session.get(Image, image_id)
    if image is None or not (image.public or caller.owns(image.user_id)):
        raise not_found("image", image_id)
    return image


async def image_at(session: AsyncSession, registry: str, reference: str) -> Image | None:
    """Find an image by a reference to our own registry with a digest; None for any other reference.

    Args:
        session: A session.
        registry: Our host and port.
        reference: A reference from `public_uri`.
    """
    name, _, digest = reference.partition("@")
    host, _, repository = name.partition("/")
    if host != registry or not digest:
        return None
    return await session.scalar(
        sa.select(Image).where(Image.repository == repository, Image.digest == digest, Image.status == "ready").limit(1)
    )


async def _new_image(session: AsyncSession, user: User, body: api.ImageUploadBody) -> Image:
    repository = f"{_part(user.name)}-{user.id[-6:]}/{_part(body.name)}"
    last = await session.scalar(sa.select(sa.func.max(Image.version)).where(Image.repository == repository))
    version = (last or 0) + 1
    image = Image(
        user_id=user.id,
        name=new_name(body.name),
        version=version,
        client_hash=body.client_hash,
        repository=repository,
        tag=f"v{version}",
    )
    session.add(image)
    await session.flush()
    return image


def _part(name: str) -> str:
    """A name in a form that is valid as part of a repository's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:60].strip("-") or "image"


def public_uri(image: Image, registry: str) -> str:
    """The reference for pulling an image, with its digest once it has one."""
    by = f"@{image.digest}" if image.digest else f":{image.tag}"
    return f"{registry}/{image.repository}{by}"


def image_json(image: Image, registry: str) -> JsonObject:
    """An image."""
    return {
        "id": image.id,
        "name": image.name,
        "version": image.version,
        "client_hash": image.client_hash,
        "status": image.status,
        "image_uri": f"{registry}/{image.repository}:{image.tag}",
        "image_digest": image.digest,
        "public_image_uri": public_uri(image, registry) if image.public else None,
        "created_at": image.created_at,
    }
