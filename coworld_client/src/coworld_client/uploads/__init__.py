"""Uploads: images to the platform's registry, and policies and Coworlds, which are made of images.

Requests that create something carry an idempotency key, so that one whose answer was lost is not carried out twice. An
image, a layer or a version that the platform already has is not sent again, and is reported as such.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
