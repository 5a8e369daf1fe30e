from .docker_backend import DockerBackend as DockerBackend
