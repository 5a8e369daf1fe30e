"""Uploads: images to the platform's registry, and what is made of images: policies and Coworlds.

Every request carries an idempotency key, so that one whose answer was lost is not carried out twice; and whatever is
there already, an image, a layer, a version, is not sent again and is said to be there.
"""

from __future__ import annotations

from ._coworld_upload import Certified, Uncertified, UploadedCoworld, update_coworld, upload_coworld
from ._image_upload import ImageProgress, OnImage, UploadedImage, image_name, upload_image
from ._policy_upload import upload_policy

__all__ = [
    "Certified",
    "ImageProgress",
    "OnImage",
    "Uncertified",
    "UploadedCoworld",
    "UploadedImage",
    "image_name",
    "update_coworld",
    "upload_coworld",
    "upload_image",
    "upload_policy",
]
