"""Reads from `compose.yaml` which image is built from which directory, and nothing else.

A package names its images by the services of a compose file (contract of the manifest, build). Only the keys that
builds need are read: `image`, `build` and `platform` of each service, with variables expanded from the
environment and from the `.env` file beside it, merged with what the service extends and with the override file, and the
services of included files. Everything else in the file is ignored. No compose plugin is needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from coworld_core.errors import ImageError, ManifestError
from coworld_core.images import ImageRef
from coworld_core.issues import Report

from ._compose_files import root_of
from ._compose_model import Build, ComposeFile, Contexts, Service, project_name, read_services
from ._compose_places import COMPOSE_NAMES, Reading
from ._compose_variables import interpolate, read_env_file
from .dockerfile import read_dockerfile

__all__ = [
    "COMPOSE_NAMES",
    "Build",
    "ComposeFile",
    "Contexts",
    "Service",
    "contexts_for",
    "find_compose",
    "find_dockerfile",
    "find_parts",
    "interpolate",
    "load_compose",
    "parts_without_compose",
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


def find_parts(directory: Path) -> tuple[Path, ...]:
    """Find the Dockerfiles of the parts of a package without a compose file: those of its directories, sorted."""
    return tuple(sorted(path for path in directory.glob("*/Dockerfile") if not path.parent.name.startswith(".")))


def parts_without_compose(directory: Path, images: Iterable[str] = ()) -> ComposeFile:
    """Return the equivalent of a compose file with a service for each directory that has a Dockerfile.

    A part's build context is its directory, or the package's if only that has everything that its Dockerfile copies.

    Args:
        directory: The package's directory.
        images: The package's images. A part's image is the only one whose name ends with the directory's name; by
            default it has the name that compose gives it.
    """
    project = project_name(directory.name)
    services: list[Service] = []
    every = [ImageRef.parse(image) for image in images if _made_here(image)]
    for dockerfile in find_parts(directory):
        name = dockerfile.parent.name
        named = [image.text for image in every if re.search(rf"(^|[/_.-]){re.escape(name)}$", image.name)]
        image = named[0] if len(named) == 1 else f"{project}-{project_name(name)}"
        build = Build(context=dockerfile.parent, dockerfile=dockerfile.name)
        if _lacks_sources(dockerfile, dockerfile.parent) and not _lacks_sources(dockerfile, directory):
            build = Build(context=directory, dockerfile=f"{name}/{dockerfile.name}")
        services.append(Service(name=name, image=image, build=build))
    return ComposeFile(path=directory, project=project, services=tuple(services), report=Report(source=str(directory)))


def _lacks_sources(dockerfile: Path, context: Path) -> bool:
    try:
        copies = read_dockerfile(dockerfile.read_text(encoding="utf-8")).copies
    except (OSError, UnicodeDecodeError):
        return False
    # As patterns: "." is none, and stands for whatever is there
    patterns = [Path(source.strip("/")) for sources, _ in copies for source in sources]
    return any(not any(context.glob("*" if pattern == Path() else str(pattern))) for pattern in patterns)


def contexts_for(package: Path, images: Iterable[str] = ()) -> Contexts:
    """Return the build contexts of a package's images.

    Args:
        package: The package's directory, or its manifest.
        images: The package's images. Without a compose file, those with a local name, a placeholder or a content tag
            are built from the Dockerfile; a single image is, whatever its name. Without either, each directory with a
            Dockerfile is the service with that name.

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
        return parts_without_compose(directory.absolute(), images).contexts()
    every = tuple(dict.fromkeys(images))
    made = [image for image in every if len(every) == 1 or _made_here(image)]
    return Contexts.all_from(dockerfile.parent, made)


def _made_here(image: str) -> bool:
    try:
        return ImageRef.parse(image).kind in ("local", "template", "content")
    except ImageError:
        return False


def load_compose(path: Path, *, environment: Mapping[str, str] | None = None, overridden: bool = True) -> ComposeFile:
    """Read a compose file, with the files that it includes and extends.

    Args:
        path: The file.
        environment: Values of variables; None: this process's environment. Variables that are not in it are looked up
            in the `.env` file beside the compose file.
        overridden: Whether the override file beside it (`compose.override.yaml`) is merged over it. Compose does so for
            the file that it finds itself, and not for one that it is told.

    Raises:
        UsageError: The file does not exist or cannot be read.
        ManifestError: The file has errors; the report lists all of them with their lines.
    """
    path = path.expanduser().absolute()
    reading = Reading(path, os.environ if environment is None else environment)
    services: tuple[Service, ...] = ()
    try:
        services = read_services(root_of(reading, overridden=overridden))
    except ValueError:
        # The error is already in the report
        if reading.report.ok:
            raise
    if not reading.report.ok:
        raise ManifestError(reading.report, code="compose_invalid", hint=f"Correct {path.name} and try again.")
    return ComposeFile(path=path, project=reading.project, services=services, report=reading.report)
