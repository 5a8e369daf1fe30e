"""Container images on the platform."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Literal

import anyio.to_thread

from coworld_core.api import Image, ImageCompleteBody, ImageUpload, ImageUploadBody, check_id
from coworld_core.images import ImageRef

from ..pages import AsyncPager
from ..transport._auth import mint_key
from ..transport._connection import path
from ..uploads._images import MAKE_SECONDS, ImageProgress, OnImage, UploadedImage, image_name
from ._base import Resource

if TYPE_CHECKING:
    from ..uploads.docker_engine import DockerEngine

__all__ = ["Images"]

_ASK_SECONDS = 60.0


class Images(Resource):
    """Container images you have uploaded."""

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[Image]:
        """Your images, newest first."""
        return self._list(
            Image, "/v2/container_images", limit=limit, offset=offset, cursor=cursor, timeout=timeout or 60
        )

    async def get(self, image_id: str, *, timeout: float | None = None) -> Image:
        """One image, by its `img_` id.

        Raises:
            NotFound: If it does not exist, or is not yours.
        """
        return await self._get(Image, path("/v2/container_images/{}", check_id(image_id, "image")), timeout=timeout)

    async def upload(
        self,
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
        """Upload an image from the local Docker engine. What the platform already has is not sent again.

        Args:
            reference: The image; it must be for linux/amd64.
            name: Its name on the platform; by default the last part of the reference.
            engine: The engine that has it; by default the engine of this machine.
            compress: Whether to compress layers before sending them.
            concurrency: Number of layers to send at a time.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat that upload.
            on_progress: Called with the progress.

        Raises:
            ImageError: The engine has no such image, or it is for another platform.
            BackendError: There is no engine, or it failed.
            RegistryError: The registry refused.
        """
        from ..uploads._hash_cache import HashCache
        from ..uploads._spool import spool_directory
        from ..uploads.docker_engine import connect_docker
        from ..uploads.docker_images import export_image, require_hosted
        from ..uploads.packed_image import pack_image
        from ..uploads.registry import RegistryTarget, push_image

        ImageRef.parse(reference).require_runnable(f"The image {reference!r}")
        key = idempotency_key or mint_key()

        def stage_progress(stage: Literal["reading", "packing", "pushing"], total: int | None) -> Callable[[int], None]:
            def tell(done: int) -> None:
                if on_progress is not None:
                    on_progress(ImageProgress(image=reference, stage=stage, done=done, total=total))

            return tell

        async def ask(known: str) -> ImageUpload:
            body = ImageUploadBody.of(name=name or image_name(reference), client_hash=known)
            return await self._post(
                ImageUpload,
                "/v2/container_images/upload",
                body,
                timeout=timeout or _ASK_SECONDS,
                # A key must not be used again for other content
                idempotency_key=f"{key}-{known[-16:]}",
            )

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
            # By its id, because the name may be moved to another image meanwhile
            exported = await export_image(
                engine, found.id, directory, on_progress=stage_progress("reading", found.size or None)
            )
            if answer is None or exported.client_hash != known:
                answer = await ask(exported.client_hash)
                await anyio.to_thread.run_sync(cache.put, found.id, exported.client_hash)
            grant = answer.pre_signed_info
            if grant is None:
                return UploadedImage(reference=reference, image=answer.image, already=True)
            packed = await pack_image(
                exported, directory, compress=compress, on_progress=stage_progress("packing", exported.size or None)
            )
            pushed = await push_image(
                RegistryTarget.from_pre_signed(grant.model_dump()),
                packed,
                concurrency=concurrency,
                ssl=self._connection.ssl,
                on_progress=lambda done, total: stage_progress("pushing", total)(done),
            )
        image = await self._post(
            Image,
            "/v2/container_images/upload/complete",
            ImageCompleteBody.of(id=answer.image.id),
            timeout=timeout or MAKE_SECONDS,
            idempotency_key=f"{key}-complete",
        )
        return UploadedImage(reference=reference, image=image, already=False, sent=pushed.sent)
