"""An image of the local Docker engine, brought to the platform's registry."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import anyio.to_thread

from coworld_core.api import Image, ImageCompleteBody, ImageUpload, ImageUploadBody, is_image_id
from coworld_core.images import ImageRef

from ..errors import ApiShapeError
from ..transport._auth import mint_key
from ..transport._replies import read

if TYPE_CHECKING:
    from ..client import CoworldClient
    from ..transport._connection import Connection
    from .docker_engine import DockerEngine

__all__ = ["MAKE_SECONDS", "ImageProgress", "OnImage", "UploadedImage", "image_name", "upload_image", "uploaded_id"]

_ASK_SECONDS = 60.0
MAKE_SECONDS = 120.0
"""Seconds for a call that makes something of what was uploaded."""


@dataclass(frozen=True, kw_only=True)
class ImageProgress:
    """How far the upload of an image is."""

    image: str
    """The reference."""
    stage: Literal["reading", "packing", "pushing"]
    """``reading`` from the engine, ``packing`` layers, ``pushing`` to the registry."""
    done: int
    """Bytes."""
    total: int | None = None
    """Bytes in all; None while that is not known."""


OnImage = Callable[[ImageProgress], object]
"""Told how far the upload of an image is."""


@dataclass(frozen=True, kw_only=True)
class UploadedImage:
    """An image that the platform has now."""

    reference: str
    """What it was uploaded from."""
    image: Image
    already: bool
    """Whether the platform had it before."""
    sent: int = 0
    """Bytes that went to the registry; layers it had were not sent."""


def image_name(reference: str) -> str:
    """What an uploaded image is called: the last part of its reference, without tag and digest."""
    return ImageRef.parse(reference).name.rpartition("/")[2] or "coworld-image"


async def upload_image(
    connection: Connection,
    reference: str,
    *,
    name: str | None = None,
    engine: DockerEngine | None = None,
    compress: bool = True,
    concurrency: int = 4,
    timeout: float | None = None,
    idempotency_key: str | None = None,
    on_progress: OnImage | None = None,
) -> UploadedImage:
    """Bring an image of the local Docker engine to the platform, unless it is there.

    Args:
        connection: The platform.
        reference: The image; it must be for linux/amd64.
        name: What to call it there; by default the last part of the reference.
        engine: Where it is; by default the engine of this machine.
        compress: Pack layers before they are sent.
        concurrency: How many layers are sent at a time.
        timeout: Seconds for each attempt of a call to the API.
        idempotency_key: Of an upload that is repeated.
        on_progress: Told how far it is.

    Raises:
        ImageError: The engine has no such image, or it is for another platform.
        BackendError: There is no engine, or it failed.
        RegistryError: The registry refused.
        ApiError, ApiConnectionError: The platform refused, or cannot be reached.
    """
    from ._hash_cache import HashCache
    from ._spool import spool_directory
    from .docker_engine import connect_docker
    from .docker_images import export_image, require_hosted
    from .image_packing import pack_image
    from .registry import RegistryTarget, push_image

    ImageRef.parse(reference).require_runnable(f"The image {reference!r}")
    key = idempotency_key or mint_key()

    def told(stage: Literal["reading", "packing", "pushing"], total: int | None) -> Callable[[int], None]:
        def tell(done: int) -> None:
            if on_progress is not None:
                on_progress(ImageProgress(image=reference, stage=stage, done=done, total=total))

        return tell

    async def ask(known: str) -> ImageUpload:
        body = ImageUploadBody.of(name=name or image_name(reference), client_hash=known)
        reply = await connection.call(
            "POST",
            "/v2/container_images/upload",
            json=body.to_wire(),
            timeout=timeout or _ASK_SECONDS,
            # another content under the same key would be another request
            key=f"{key}-{known[-16:]}",
        )
        return read(ImageUpload, reply)

    cache = HashCache.from_environment()
    async with AsyncExitStack() as stack:
        engine = engine or await stack.enter_async_context(connect_docker())
        found = await engine.inspect(reference)
        require_hosted(found.platform, reference)
        known = await anyio.to_thread.run_sync(cache.get, found.id)
        answer = await ask(known) if known is not None else None
        if answer is not None and answer.pre_signed_info is None:
            return UploadedImage(reference=reference, image=answer.image, already=True)
        directory = await stack.enter_async_context(spool_directory())
        # by its id: the name may be given to another image meanwhile
        exported = await export_image(engine, found.id, directory, on_progress=told("reading", found.size or None))
        if answer is None or exported.client_hash != known:
            answer = await ask(exported.client_hash)
            await anyio.to_thread.run_sync(cache.put, found.id, exported.client_hash)
        grant = answer.pre_signed_info
        if grant is None:
            return UploadedImage(reference=reference, image=answer.image, already=True)
        packed = await pack_image(
            exported, directory, compress=compress, on_progress=told("packing", exported.size or None)
        )
        pushed = await push_image(
            RegistryTarget.from_pre_signed(grant.model_dump()),
            packed,
            concurrency=concurrency,
            on_progress=lambda done, total: told("pushing", total)(done),
        )
    reply = await connection.call(
        "POST",
        "/v2/container_images/upload/complete",
        json=ImageCompleteBody.of(id=answer.image.id).to_wire(),
        timeout=timeout or MAKE_SECONDS,
        key=f"{key}-complete",
    )
    return UploadedImage(reference=reference, image=read(Image, reply), already=False, sent=pushed.sent)


async def uploaded_id(
    client: CoworldClient, image: str, on_progress: OnImage | None
) -> tuple[str, UploadedImage | None]:
    """The ``img_`` id of an image, uploaded first when it is not one already; and what that upload came to."""
    if is_image_id(image):
        return image, None
    uploaded = await upload_image(client.connection, image, on_progress=on_progress)
    if not is_image_id(uploaded.image.id):
        raise ApiShapeError(f"{client.server} gave the image {image} no id.", code="api_shape")
    return uploaded.image.id, uploaded
