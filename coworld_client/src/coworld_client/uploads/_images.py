"""An image of the local Docker engine, brought to the platform's registry."""

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


async def uploaded_id(
    client: CoworldClient, image: str, on_progress: OnImage | None
) -> tuple[str, UploadedImage | None]:
    """The ``img_`` id of an image, uploaded first when it is not one already; and what that upload came to."""
    if is_image_id(image):
        return image, None
    uploaded = await client.images.upload(image, on_progress=on_progress)
    if not is_image_id(uploaded.image.id):
        raise ApiShapeError(f"{client.server} gave the image {image} no id.", code="api_shape")
    return uploaded.image.id, uploaded
