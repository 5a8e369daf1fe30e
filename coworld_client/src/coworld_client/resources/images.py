"""Container images on the platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.api import Image, check_id

from ..pages import AsyncPager
from ..transport._connection import path
from ._base import Resource

if TYPE_CHECKING:
    from ..uploads import OnImage, UploadedImage
    from ..uploads.docker_engine import DockerEngine

__all__ = ["Images"]


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
        """One image, by its ``img_`` id.

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
            name: What to call it there; by default the last part of the reference.
            engine: Where it is; by default the engine of this machine.
            compress: Compress layers before sending them.
            concurrency: Number of layers to send at a time.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat that upload.
            on_progress: Called with the progress.

        Raises:
            ImageError: The engine has no such image, or it is for another platform.
            BackendError: There is no engine, or it failed.
            RegistryError: The registry refused.
        """
        from ..uploads import upload_image

        return await upload_image(
            self._connection,
            reference,
            name=name,
            engine=engine,
            compress=compress,
            concurrency=concurrency,
            timeout=timeout,
            idempotency_key=idempotency_key,
            on_progress=on_progress,
        )
