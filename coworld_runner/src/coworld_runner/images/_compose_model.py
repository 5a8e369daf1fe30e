"""The parts of a compose file that describe images; pydantic reads them from places in the file (`read_services`)."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, TypeAdapter

from coworld_core.errors import ImageError
from coworld_core.images import ImageRef, Platform
from coworld_core.issues import Report
from coworld_core.manifest.template import placeholder

from ._compose_files import service_entries
from ._compose_places import YamlNode, merged
from ._compose_variables import shown

__all__ = ["Build", "ComposeFile", "Contexts", "Service", "read_services"]

_SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]+")
_UNREAD_BUILD_KEYS = frozenset({"additional_contexts", "secrets", "ssh", "entitlements", "privileged"})
"""Keys of `build` that change the resulting image but are not passed to the engine."""


def _optional(node: YamlNode) -> str | None:
    return node.text() or None


def _image(node: YamlNode) -> str:
    text = node.text()
    try:
        ImageRef.parse(text).require_runnable(f"the image of service {node.pointer.split('/')[2]!r}")
    except ImageError as error:
        raise node.wrong(error.code, error.message, hint=error.hint) from error
    return text


def _platform(node: YamlNode) -> str:
    text = node.text()
    try:
        if text:
            Platform.parse(text)
    except ValueError as error:
        raise node.wrong("bad_platform", f"The platform {error}.") from error
    return text


def _without_empty(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


def _context(node: YamlNode) -> Path:
    text = node.text()
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://|git@|github\.com/", text):
        message = f"The build context {shown(text)!r} is not a directory of this machine."
        raise node.wrong("context_remote", message, hint="Fetch it first and name the directory.")
    if not text.strip() or "\0" in text:
        hint = "Write `.` for the directory of the compose file."
        raise node.wrong("context_empty", "The build context is empty.", hint=hint)
    return Path(os.path.normpath(node.reading.directory / Path(text).expanduser()))


def _args(node: YamlNode) -> dict[str, YamlNode | str]:
    """Return build arguments from a mapping or a list of `KEY=VALUE`; missing values come from the environment."""
    args: dict[str, YamlNode | str | None] = {}
    if node.node.id == "sequence":
        for item in node.alone().items():
            key, equals, value = item.text().partition("=")
            args[key] = value if equals else None
    else:
        args = {key: None if value.is_null else value for key, value in node.alone().entries("`args`").items()}
    known = {key: node.reading.variables.get(key) if value is None else value for key, value in args.items()}
    base = _args(node.base) if node.base is not None else {}
    return base | {key: value for key, value in known.items() if value is not None}


def _arg(value: YamlNode | str) -> str:
    return value if isinstance(value, str) else value.text()


@dataclass(frozen=True, kw_only=True)
class Build:
    """How a service's image is built."""

    context: Annotated[Path, BeforeValidator(_context)]
    """Absolute path of the directory that is sent to the engine."""
    dockerfile: Annotated[str | None, BeforeValidator(_optional)] = None
    """Path of the Dockerfile, relative to the context or absolute; None: `Dockerfile`."""
    dockerfile_inline: Annotated[str | None, BeforeValidator(YamlNode.text)] = field(default=None, repr=False)
    """The Dockerfile itself, when the compose file holds it."""
    args: Annotated[Mapping[str, Annotated[str, BeforeValidator(_arg)]], BeforeValidator(_args)] = field(
        default_factory=dict[str, str], repr=False
    )
    """Build arguments, variables expanded. Never shown: people do put secrets there."""
    target: Annotated[str | None, BeforeValidator(_optional)] = None
    """Stage to build, or None for the last."""
    platforms: Annotated[
        tuple[Annotated[str, BeforeValidator(_platform)], ...],
        BeforeValidator(YamlNode.items),
        AfterValidator(_without_empty),
    ] = ()
    """Platforms that the file asks for, in its order."""


def _build(node: YamlNode) -> dict[str, YamlNode]:
    """Return the fields of `Build` from the key `build`."""
    service = node.pointer.split("/")[2]
    entries = _build_entries(node, service)
    for key in sorted(_UNREAD_BUILD_KEYS & entries.keys()):
        _not_read(entries[key], f"build.{key}", "Build the image yourself and name it under `image`, without `build`.")
    if "dockerfile" in entries and "dockerfile_inline" in entries:
        message = f"The service {service!r} gives both `dockerfile` and `dockerfile_inline`."
        entries["dockerfile_inline"].wrong("dockerfile_twice", message, at_key=True, hint="Keep one of them.")
    return {"context": node.implied("context", "."), **entries}


def _build_entries(node: YamlNode, service: str) -> dict[str, YamlNode]:
    base = _build_entries(node.base, service) if node.base is not None else {}
    if node.node.id == "scalar":
        return merged({"context": node.alone()}, base)
    return merged(node.alone().entries(f"`build` of the service {service!r}"), base)


@dataclass(frozen=True, kw_only=True)
class Service:
    """The parts of a service that matter for building."""

    name: str
    image: Annotated[str, BeforeValidator(_image)]
    """The image's reference; by default `<project>-<service>`, as compose names it."""
    build: Annotated[Build, BeforeValidator(_build)] | None = None
    platform: Annotated[str | None, BeforeValidator(_platform), AfterValidator(lambda text: text or None)] = None
    line: int | None = None
    """Line of the service in the file."""

    @property
    def placeholder(self) -> str:
        """The placeholder for its image in a manifest template."""
        return placeholder(self.name)


def _service(node: YamlNode) -> dict[str, Any]:
    """Return the fields of `Service` from a service's entry."""
    name = node.name
    if not _SERVICE_NAME.fullmatch(name):
        message = f"{name!r} is not a service name: letters, digits, dots, hyphens and underscores only."
        raise node.wrong("bad_service_name", message, at_key=True)
    entries = node.entries(f"The service {name!r}")
    if "image" not in entries and "build" in entries:
        entries["image"] = node.implied("image", f"{node.reading.top.project}-{name}".lower())
    elif "image" not in entries:
        message = f"The service {name!r} has neither `image` nor `build`."
        node.wrong("image_missing", message, at_key=True, hint="Give it an image to use, or a directory to build.")
    return {**entries, "name": name, "line": node.line if node.reading is node.reading.top else None}


def _not_read(node: YamlNode, key: str, hint: str) -> None:
    message = f"`{key}` is not read here, so what it says has no effect on the build."
    node.wrong("key_not_read", message, at_key=True, hint=hint, severity="warning")


@functools.cache
def _services() -> TypeAdapter[tuple[Service, ...]]:
    return TypeAdapter(tuple[Annotated[Service, BeforeValidator(_service)], ...])


def _project(root: YamlNode, top: Mapping[str, YamlNode]) -> str:
    name = root.reading.variables.get("COMPOSE_PROJECT_NAME")
    if not name and "name" in top:
        with contextlib.suppress(ValueError):
            name = top["name"].text()
    return project_name(name or root.reading.top.directory.name)


def project_name(text: str) -> str:
    """Turn a text into a project name, as compose does."""
    return re.sub(r"[^a-z0-9_-]", "", text.lower()).lstrip("_-") or "coworld"


def read_services(root: YamlNode) -> tuple[Service, ...]:
    """Return the services of a compose file.

    Args:
        root: The file's top-level mapping.

    Raises:
        ValueError: The file has an error, which is in the report.
    """
    top = root.entries("The file")
    root.reading.top.project = _project(root, top)
    entries = service_entries(root)
    taken: dict[str, str] = {}
    for name, place in entries.items():
        if (other := taken.setdefault(placeholder(name), name)) != name:
            message = f"The services {other!r} and {name!r} have the same placeholder {placeholder(name)}."
            place.wrong("placeholder_clash", message, at_key=True, hint="Rename one of them.")
    return _services().validate_python([*entries.values()])


@dataclass(frozen=True, kw_only=True)
class ComposeFile:
    """The parts of a compose file that describe images."""

    path: Path
    project: str
    services: tuple[Service, ...]
    report: Report
    """Warnings and remarks about the file; no errors."""

    def service(self, name: str) -> Service:
        """Return the service with a name.

        Raises:
            KeyError: There is no such service.
        """
        for service in self.services:
            if service.name == name:
                return service
        raise KeyError(name)

    def placeholders(self) -> dict[str, str]:
        """Return the image of each placeholder."""
        return {service.placeholder: service.image for service in self.services}

    def contexts(self) -> Contexts:
        """Return the build context of each image that is built here."""
        return Contexts(self.services)


class Contexts(Mapping[str, Path]):
    """Build contexts by placeholder or image.

    Looking up an image finds the service with exactly that image, or else the one with the same repository under
    another tag or digest, because a built manifest names images by content tag. Services that share a repository but
    not a context are found by their exact images only. Iterating yields placeholders and images as written.
    """

    def __init__(self, services: Iterable[Service] = ()) -> None:
        self._exact: dict[str, Build] = {}
        self._by_name: dict[str, list[Build]] = {}
        for service in services:
            if service.build is None:
                continue
            self._exact[service.placeholder] = self._exact[service.image] = service.build
            self._by_name.setdefault(ImageRef.parse(service.image).name, []).append(service.build)

    @classmethod
    def all_from(cls, context: Path, images: Iterable[str]) -> Contexts:
        """Map several images, by exactly these names, to one context."""
        contexts = cls()
        contexts._exact.update(dict.fromkeys(images, Build(context=context)))
        return contexts

    def __getitem__(self, image: str) -> Path:
        found = {build.context for build in self._builds(image)}
        if len(found) != 1:
            raise KeyError(image)
        return found.pop()

    def build(self, image: str) -> Build | None:
        """Return how an image is built; None if it is not built here, or if several different builds match."""
        first, *others = [*self._builds(image), None]
        return first if all(other in (first, None) for other in others) else None

    def _builds(self, image: str) -> list[Build]:
        if image in self._exact:
            return [self._exact[image]]
        try:
            return self._by_name.get(ImageRef.parse(image).name, [])
        except ImageError:
            return []

    def __iter__(self) -> Iterator[str]:
        return iter(self._exact)

    def __len__(self) -> int:
        return len(self._exact)

    def __repr__(self) -> str:
        return f"Contexts({ {image: str(build.context) for image, build in self._exact.items()} })"
