"""Docker images for tests, built from a local base image and without a package index."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .needs import BASE_IMAGE

__all__ = [
    "BASE_IMAGE",
    "docker_client",
    "drop_image",
    "ensure_python_image",
    "untag",
]


def docker_client() -> Any:
    """A connection to the engine; close it after use."""
    import docker

    return docker.from_env(timeout=60)


def drop_image(image: str) -> None:
    """Remove an image from the engine, if it exists."""
    from docker.errors import ImageNotFound

    client = docker_client()
    try:
        client.images.remove(image, force=True)
    except ImageNotFound:
        pass
    finally:
        client.close()


def untag(belongs: Callable[[str], bool]) -> None:
    """Remove all image names for which `belongs` is true from the engine."""
    client = docker_client()
    try:
        for image in client.images.list():
            for name in [*image.tags, *(image.attrs.get("RepoDigests") or ())]:
                if belongs(name):
                    client.images.remove(name)
    finally:
        client.close()


def ensure_python_image(name: str, dockerfile: str, files: Mapping[str, Path], libraries: Sequence[str]) -> str:
    """Build an image, unless one with the same content exists.

    Args:
        name: Repository of the image; its tag is a digest of the content.
        dockerfile: The text of the Dockerfile, with a build argument `BASE_IMAGE`.
        files: Files and directories for the build context, by their names there.
        libraries: Packages of this interpreter to copy into the context's directory `site`. If the image has
            another Python, packages with compiled parts must work without them.

    Returns:
        The image's reference.
    """
    found = [_library(library) for library in libraries]
    sources = {**files, **{f"site/{path.name}": path for path in found}}
    digest = hashlib.sha256(f"{BASE_IMAGE}\n{dockerfile}".encode())
    for target, source in sources.items():
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            digest.update(f"{target} {path.name} ".encode() + path.read_bytes())
    image = f"{name}:test-{digest.hexdigest()[:12]}"
    client = docker_client()
    try:
        if any(image in (entry.tags or ()) for entry in client.images.list(name=name)):
            return image
        with tempfile.TemporaryDirectory() as directory:
            context = Path(directory)
            (context / "Dockerfile").write_text(dockerfile)
            for target, source in sources.items():
                (context / target).parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, context / target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, context / target)
            client.images.build(path=directory, tag=image, buildargs={"BASE_IMAGE": BASE_IMAGE}, rm=True, forcerm=True)
    finally:
        client.close()
    return image


def _library(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"{name} is not installed here"
    if spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    assert spec.origin is not None
    return Path(spec.origin)
