from .docker.docker_backend import DockerBackend as DockerBackend
from .kubernetes.kubernetes_backend import KubernetesBackend as KubernetesBackend
from .process.process_backend import ProcessBackend as ProcessBackend
from .registry import ClusterOptions as ClusterOptions
from .registry import backend_names as backend_names
from .registry import find_backend as find_backend
