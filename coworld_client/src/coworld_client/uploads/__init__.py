"""Uploads: images to the platform's registry, and what is made of images: policies and Coworlds.

Every request carries an idempotency key, so that one whose answer was lost is not carried out twice; and whatever is
there already, an image, a layer, a version, is not sent again and is said to be there.
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


__getattr__, __dir__ = lazy_names(__name__)
