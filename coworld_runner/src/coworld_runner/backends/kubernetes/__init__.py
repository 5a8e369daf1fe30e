"""The kubernetes backend: pods of a cluster, followed by watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .kubernetes_backend import KubernetesBackend as KubernetesBackend
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, {".kubernetes_backend": ("KubernetesBackend",)})
