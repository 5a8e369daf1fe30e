"""Uploads: images to the platform's registry, and policies and Coworlds, which are made of images.

Requests that create something carry an idempotency key, so that one whose answer was lost is not carried out twice. An
image, a layer or a version that the platform already has is not sent again, and is reported as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from ._coworlds import Certified as Certified
    from ._coworlds import Uncertified as Uncertified
    from ._coworlds import UploadedCoworld as UploadedCoworld
    from ._images import ImageProgress as ImageProgress
    from ._images import OnImage as OnImage
    from ._images import UploadedImage as UploadedImage
    from ._images import image_name as image_name
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "._coworlds": ("Certified", "Uncertified", "UploadedCoworld"),
            "._images": ("ImageProgress", "OnImage", "UploadedImage", "image_name"),
        },
    )
