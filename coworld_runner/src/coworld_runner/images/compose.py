"""Reading ``compose.yaml``: which image is built from which directory, and nothing else of it.

A package names its images by the services of a compose file (contract of the manifest, build). Only what building
needs is read: ``image``, ``build`` and ``platform`` of each service, with variables filled in from the environment and
the ``.env`` file beside it. Everything else a compose file may say is left alone. No compose plugin is asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from coworld_core.errors import ManifestError

from ._compose_model import Build, ComposeFile, Contexts, Service, read_services
from ._compose_places import COMPOSE_NAMES, Reading
from ._variables import interpolate, read_env_file

__all__ = [
    "COMPOSE_NAMES",
    "Build",
    "ComposeFile",
    "Contexts",
    "Service",
    "contexts_for",
    "find_compose",
    "interpolate",
    "load_compose",
    "read_env_file",
]


def find_compose(directory: Path) -> Path | None:
    """The compose file in a directory, else in the one above it, else None."""
    for place in (directory, directory.parent):
        for name in COMPOSE_NAMES:
            candidate = place / name
            if candidate.is_file():
                return candidate
    return None


def contexts_for(package: Path) -> Contexts:
    """The build contexts of a package's images.

    Args:
        package: The package's directory, or its manifest.

    Returns:
        Contexts by image; empty when no compose file belongs to the package.

    Raises:
        ManifestError: The compose file has errors.
    """
    directory = package if package.is_dir() else package.parent
    path = find_compose(directory.absolute())
    return load_compose(path).contexts() if path is not None else Contexts()


def load_compose(path: Path, *, environment: Mapping[str, str] | None = None) -> ComposeFile:
    """Read a compose file.

    Args:
        path: The file.
        environment: What variables stand for; None: this process's environment. Variables that are not in it are
            looked for in the ``.env`` file beside the compose file.

    Raises:
        UsageError: There is no such file, or it cannot be read.
        ManifestError: It has errors; the report lists all of them with their lines.
    """
    path = path.expanduser().absolute()
    reading = Reading(path, os.environ if environment is None else environment)
    services: tuple[Service, ...] = ()
    try:
        services = read_services(reading.root())
    except ValueError:
        # what is wrong is in the report by now
        if reading.report.ok:
            raise
    if not reading.report.ok:
        raise ManifestError(reading.report, code="compose_invalid", hint=f"Correct {path.name} and try again.")
    return ComposeFile(path=path, project=reading.project, services=services, report=reading.report)
