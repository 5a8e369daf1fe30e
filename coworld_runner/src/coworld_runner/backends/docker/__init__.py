"""The docker backend: containers of a Docker engine, each episode in networks of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .docker_backend import DockerBackend as DockerBackend
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, {".docker_backend": ("DockerBackend",)})
