"""Reads from `compose.yaml` which image is built from which directory, and nothing else.

A package names its images by the services of a compose file (contract of the manifest, build). Only the keys that
builds need are read: `image`, `build` and `platform` of each service, with variables expanded from the
environment and from the `.env` file beside it. Everything else in the file is ignored. No compose plugin is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from coworld_core.errors import ImageError, ManifestError
from coworld_core.images import ImageRef
from coworld_core.issues import Report

from ._compose_model import Build, ComposeFile, Contexts, Service, project_name, read_services
from ._compose_places import COMPOSE_NAMES, Reading
from ._compose_variables import interpolate, read_env_file

__all__ = [
    "COMPOSE_NAMES",
    "Build",
    "ComposeFile",
    "Contexts",
    "Service",
    "contexts_for",
    "find_compose",
    "find_dockerfile",
    "interpolate",
    "load_compose",
    "read_env_file",
    "without_compose",
]


def find_compose(directory: Path) -> Path | None:
    """Find the compose file in a directory, or else in its parent; None if there is none."""
    return _found(directory, COMPOSE_NAMES)


def find_dockerfile(directory: Path) -> Path | None:
    """Find the Dockerfile of a package without a compose file, in a directory or else in its parent, or None."""
    return _found(directory, ("Dockerfile",))


def _found(directory: Path, names: tuple[str, ...]) -> Path | None:
    for place in (directory, directory.parent):
        for name in names:
            candidate = place / name
            if candidate.is_file():
                return candidate
    return None


def without_compose(dockerfile: Path, service: str, *, image: str | None = None) -> ComposeFile:
    """Return the equivalent of a compose file with one service, built from a Dockerfile.

    Args:
        dockerfile: The Dockerfile; its directory is the build context.
        service: The service's name.
        image: The image's name; None: `<project>-<service>`, as compose names it.
    """
    project = project_name(dockerfile.parent.name)
    build = Build(context=dockerfile.parent, dockerfile=dockerfile.name)
    only = Service(name=service, image=image or f"{project}-{project_name(service)}", build=build)
    return ComposeFile(path=dockerfile, project=project, services=(only,), report=Report(source=str(dockerfile)))


def contexts_for(package: Path, images: Iterable[str] = ()) -> Contexts:
    """Return the build contexts of a package's images.

    Args:
        package: The package's directory, or its manifest.
        images: The package's images. Without a compose file, those with a local name, a placeholder or a content tag
            are built from the Dockerfile; a single image is, whatever its name.

    Returns:
        Contexts by image; empty if the package has neither a compose file nor a Dockerfile.

    Raises:
        ManifestError: The compose file has errors.
    """
    directory = package if package.is_dir() else package.parent
    path = find_compose(directory.absolute())
    if path is not None:
        return load_compose(path).contexts()
    dockerfile = find_dockerfile(directory.absolute())
    if dockerfile is None:
        return Contexts()
    every = tuple(dict.fromkeys(images))
    made = [image for image in every if len(every) == 1 or _made_here(image)]
    return Contexts.all_from(dockerfile.parent, made)


def _made_here(image: str) -> bool:
    try:
        return ImageRef.parse(image).kind in ("local", "template", "content")
    except ImageError:
        return False


def load_compose(path: Path, *, environment: Mapping[str, str] | None = None) -> ComposeFile:
    """Read a compose file.

    Args:
        path: The file.
        environment: Values of variables; None: this process's environment. Variables that are not in it are looked up
            in the `.env` file beside the compose file.

    Raises:
        UsageError: The file does not exist or cannot be read.
        ManifestError: The file has errors; the report lists all of them with their lines.
    """
    path = path.expanduser().absolute()
    reading = Reading(path, os.environ if environment is None else environment)
    services: tuple[Service, ...] = ()
    try:
        services = read_services(reading.root())
    except ValueError:
        # The error is already in the report
        if reading.report.ok:
            raise
    if not reading.report.ok:
        raise ManifestError(reading.report, code="compose_invalid", hint=f"Correct {path.name} and try again.")
    return ComposeFile(path=path, project=reading.project, services=services, report=reading.report)
