"""What a compose file says about images, as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coworld_core.errors import ImageError
from coworld_core.images import ImageRef
from coworld_core.issues import Report
from coworld_core.template import placeholder

__all__ = ["COMPOSE_NAMES", "Build", "ComposeFile", "Contexts", "Service"]


COMPOSE_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
"""File names that count as a compose file, the first one found winning."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """How a service's image is built."""

    context: Path
    """Absolute path of the directory that is sent to the engine."""
    dockerfile: str | None = None
    """Path of the Dockerfile, relative to the context or absolute; None: ``Dockerfile``."""
    dockerfile_inline: str | None = field(default=None, repr=False)
    """The Dockerfile itself, when the compose file holds it."""
    args: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Build arguments, variables filled in. Never shown: people do put secrets there."""
    target: str | None = None
    """Stage to build, or None for the last."""
    platforms: tuple[str, ...] = ()
    """Platforms the file asks for, in its order."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service, as far as building is concerned."""

    name: str
    image: str
    """The image's reference; without one in the file, ``<project>-<service>`` as compose names it."""
    build: Build | None = None
    platform: str | None = None
    line: int | None = None
    """Line of the service in the file."""

    @property
    def placeholder(self) -> str:
        """What stands for its image in a manifest template."""
        return placeholder(self.name)


@dataclass(frozen=True, kw_only=True)
class ComposeFile:
    """What a compose file says about images."""

    path: Path
    project: str
    services: tuple[Service, ...]
    report: Report
    """What is worth knowing about the file and stops nothing."""

    def service(self, name: str) -> Service:
        """The service of that name.

        Raises:
            KeyError: There is none.
        """
        for service in self.services:
            if service.name == name:
                return service
        raise KeyError(name)

    def placeholders(self) -> dict[str, str]:
        """The image each placeholder stands for."""
        return {service.placeholder: service.image for service in self.services}

    def contexts(self) -> Contexts:
        """The build context of each image that is built here."""
        return Contexts(self.services)


class Contexts(Mapping[str, Path]):
    """Build contexts by placeholder or image.

    Looking up an image finds the service of exactly that image first, else the one of the same repository under
    another tag or digest, since a built manifest names images by content tag. Services that share a repository but
    not a context are found by their exact images only. Iterating yields placeholders and images as written.
    """

    def __init__(self, services: Iterable[Service] = ()) -> None:
        self._exact: dict[str, Path] = {}
        self._by_name: dict[str, set[Path]] = {}
        for service in services:
            if service.build is None:
                continue
            context = service.build.context
            self._exact[service.placeholder] = context
            self._exact[service.image] = context
            self._by_name.setdefault(ImageRef.parse(service.image).name, set()).add(context)

    def __getitem__(self, image: str) -> Path:
        if image in self._exact:
            return self._exact[image]
        try:
            name = ImageRef.parse(image).name
        except ImageError:
            raise KeyError(image) from None
        contexts = self._by_name.get(name, set())
        if len(contexts) != 1:
            raise KeyError(image)
        return next(iter(contexts))

    def __iter__(self) -> Iterator[str]:
        return iter(self._exact)

    def __len__(self) -> int:
        return len(self._exact)

    def __repr__(self) -> str:
        return f"Contexts({ {image: str(path) for image, path in self._exact.items()} })"
