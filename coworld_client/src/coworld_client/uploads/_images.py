"""Uploads of images from the local Docker engine to the platform's registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from coworld_core.api import Image, is_image_id
from coworld_core.images import ImageRef

from ..errors import ApiShapeError

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["MAKE_SECONDS", "ImageProgress", "OnImage", "UploadedImage", "image_name", "uploaded_id"]

MAKE_SECONDS = 120.0
"""Timeout in seconds of a call that makes something of an upload."""


@dataclass(frozen=True, kw_only=True)
class ImageProgress:
    """The progress of an image's upload."""

    image: str
    """The reference of the image."""
    stage: Literal["reading", "packing", "pushing"]
    """`reading` from the engine, `packing` layers, `pushing` to the registry."""
    done: int
    """Bytes done in this stage."""
    total: int | None = None
    """Bytes in total; None while unknown."""


OnImage = Callable[[ImageProgress], object]
"""Called with the progress of an image's upload."""


@dataclass(frozen=True, kw_only=True)
class UploadedImage:
    """The result of an upload: an image on the platform."""

    reference: str
    """The reference from which it was uploaded."""
    image: Image
    already: bool
    """Whether the platform had it before."""
    sent: int = 0
    """Bytes sent to the registry, not counting layers that it had."""


def image_name(reference: str) -> str:
    """The name of an uploaded image: the last part of its reference, without tag and digest."""
    return ImageRef.parse(reference).name.rpartition("/")[2] or "coworld-image"


async def uploaded_id(
    client: CoworldClient, image: str, on_progress: OnImage | None
) -> tuple[str, UploadedImage | None]:
    """The `img_` id of an image, and the result of its upload; None if `image` is such an id already."""
    if is_image_id(image):
        return image, None
    uploaded = await client.images.upload(image, on_progress=on_progress)
    if not is_image_id(uploaded.image.id):
        raise ApiShapeError(f"{client.server} gave the image {image} no id.", code="api_shape")
    return uploaded.image.id, uploaded
