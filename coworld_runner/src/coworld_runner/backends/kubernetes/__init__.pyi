from .kubernetes_backend import KubernetesBackend as KubernetesBackend
from .kubernetes_backend import PodOptions as PodOptions
from .pod_overlay import PodOverlay as PodOverlay
