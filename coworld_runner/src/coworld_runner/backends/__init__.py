"""The places units run in; each is imported on first use, so that none costs anything until it is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .docker.backend import DockerBackend as DockerBackend
    from .kubernetes.backend import KubernetesBackend as KubernetesBackend
    from .process.backend import ProcessBackend as ProcessBackend
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".docker.backend": ("DockerBackend",),
            ".kubernetes.backend": ("KubernetesBackend",),
            ".process.backend": ("ProcessBackend",),
        },
    )
