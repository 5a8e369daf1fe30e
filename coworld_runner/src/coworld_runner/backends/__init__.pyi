from .docker.docker_backend import DockerBackend as DockerBackend
from .kubernetes.kubernetes_backend import KubernetesBackend as KubernetesBackend
from .process.process_backend import ProcessBackend as ProcessBackend
