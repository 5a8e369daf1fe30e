"""Builds the images of a package, and the manifest that names them by content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .manifest_build import BuildResult as BuildResult
    from .manifest_build import build_coworld as build_coworld
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, {".manifest_build": ("BuildResult", "build_coworld")})
