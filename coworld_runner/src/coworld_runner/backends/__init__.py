"""The places units run in; each is imported on first use, so that none costs anything until it is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .docker.docker_backend import DockerBackend as DockerBackend
    from .kubernetes.kubernetes_backend import KubernetesBackend as KubernetesBackend
    from .process.process_backend import ProcessBackend as ProcessBackend
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".docker.docker_backend": ("DockerBackend",),
            ".kubernetes.kubernetes_backend": ("KubernetesBackend",),
            ".process.process_backend": ("ProcessBackend",),
        },
    )
