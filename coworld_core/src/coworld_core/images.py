"""Image references and their kinds, the content tags of built images, and platforms."""

from __future__ import annotations

import platform as _platform
import re
import struct
from dataclasses import dataclass
from typing import Literal

from .errors import ImageError
from .hints import Hint

__all__ = [
    "BUILD_FIRST",
    "DOWNLOADED_TAG",
    "ELF_BYTES",
    "FILE_PLAYER_SCHEME",
    "HOSTED_PLATFORM",
    "ImageKind",
    "ImageRef",
    "Platform",
    "content_tag",
    "here",
    "host_platform",
    "image_problem",
    "machine_of",
    "runs_on",
]

BUILD_FIRST = Hint("build_first", "Make a manifest of it with build_coworld.")
"""The hint for a template, where images are needed."""

ImageKind = Literal["digest", "content", "registry", "local", "unpublished", "template", "file"]
"""What a reference refers to.

`digest` pinned by `@sha256:`; `content` a tag `coworld-...` made by `coworld build`; `registry` a tag in a
registry, which may change; `local` any other tag; `unpublished` an `img_<uuid>` id of the platform;
`template` a placeholder `{{SERVICE_IMAGE}}`; `file` a player that is a file instead of an image.
"""

DOWNLOADED_TAG = "downloaded"
"""The tag of images that were pulled with a downloaded package, under names of its own."""

FILE_PLAYER_SCHEME = "file://"
"""Prefix that marks a player given as a file instead of an image; no Docker reference contains it."""

_IMAGE_ID = re.compile(r"img_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
_HOST = r"(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*)"
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:(?P<host>{_HOST}(?::\d{{1,5}})?)/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,128}))?"
)
_MAX_LENGTH = 512


@dataclass(frozen=True)
class ImageRef:
    """A parsed image reference."""

    text: str
    """The reference as written."""

    kind: ImageKind
    """What it refers to."""

    name: str = ""
    """Repository with its host, without tag and digest."""

    host: str = ""
    """The registry's host (with port), or empty."""

    tag: str = ""
    """The tag, or empty."""

    digest: str = ""
    """`sha256:...`, or empty."""

    @classmethod
    def parse(cls, text: str) -> ImageRef:
        """Parse a reference.

        Args:
            text: A Docker reference, an `img_` id, a placeholder, or a file player with its prefix.

        Raises:
            ImageError: Code `bad_image` if the text is none of these.
        """
        if _IMAGE_ID.fullmatch(text):
            return cls(text, "unpublished")
        if _PLACEHOLDER.fullmatch(text):
            return cls(text, "template")
        if text.startswith(FILE_PLAYER_SCHEME):
            return cls(text, "file")
        match = _REFERENCE.fullmatch(text) if len(text) <= _MAX_LENGTH else None
        if match is None:
            problem = image_problem(text) or "is not a Docker image reference"
            raise ImageError(
                f"The image {text[:80]!r} {problem}.",
                code="bad_image",
                hint="Write [registry/]name[:tag] or name@sha256:digest, e.g. ghcr.io/me/game:1.0.",
            )
        name, tag, digest = match["name"], match["tag"] or "", match["digest"] or ""
        first, slash, _ = name.partition("/")
        host = first if slash and ("." in first or ":" in first or first == "localhost") else ""
        kind: ImageKind
        if digest.startswith("sha256:"):
            kind = "digest"
        elif tag.startswith("coworld-"):
            kind = "content"
        else:
            kind = "registry" if host else "local"
        return cls(text, kind, name=name, host=host, tag=tag, digest=digest)

    @property
    def short(self) -> str:
        """A short name to show people: the last part, with the tag or digest that tells versions apart.

        `ghcr.io/me/player:1.2` is `player:1.2`, and `player:latest` is `player`; without a tag, a digest is
        shortened to 12 digits: `player@0123456789ab`. Anything other than a Docker reference is returned unchanged.
        """
        if not self.name:
            return self.text
        last = self.name.rpartition("/")[2]
        if self.tag and self.tag != "latest":
            return f"{last}:{self.tag}"
        return f"{last}@{self.digest.partition(':')[2][:12]}" if self.digest else last

    @property
    def runnable(self) -> bool:
        """Whether a container engine could be asked for it."""
        return self.kind not in ("unpublished", "template", "file")

    def require_runnable(self, what: str = "image") -> ImageRef:
        """Return the reference if a container engine could be asked for it, or raise.

        Args:
            what: Whose image it is, for the message ("game.runnable.image", "players[1].image").

        Raises:
            ImageError: Codes `image_unpublished`, `image_placeholder` or `player_file_unsupported`.
        """
        if self.kind == "unpublished":
            raise ImageError(
                f"{what} is {self.text}, an image the platform has not published yet.",
                code="image_unpublished",
                hint="Download the Coworld again once its images are published, or name an image yourself.",
                context={"image": self.text},
            )
        if self.kind == "template":
            raise ImageError(
                f"{what} is {self.text}, a placeholder from a template.",
                code="image_placeholder",
                hint=BUILD_FIRST,
                context={"image": self.text},
            )
        if self.kind == "file":
            raise ImageError(
                f"{what} is a file player ({self.text}), which only the game can run.",
                code="player_file_unsupported",
                hint="Name an image for this slot, or choose another player.",
                context={"image": self.text},
            )
        return self

    def __str__(self) -> str:
        return self.text


def image_problem(text: str) -> str | None:
    """Say why a text cannot be an image reference.

    Returns:
        The reason as the end of a sentence, or None if it can be one.
    """
    if not text or text.isspace():
        return "is empty"
    if text.startswith("-"):
        return "begins with a hyphen, which a command line would read as an option"
    if len(text) > _MAX_LENGTH:
        return f"is longer than {_MAX_LENGTH} characters"
    # Of white space, only a space can be printed
    if " " in text or not text.isprintable():
        return "contains white space or a control character"
    if _PLACEHOLDER.fullmatch(text) or _IMAGE_ID.fullmatch(text) or _REFERENCE.fullmatch(text):
        return None
    if text.startswith(("http://", "https://")):
        return "is a URL, not a Docker image reference"
    if "{{" in text or "}}" in text:
        return "mixes a placeholder with other text; a placeholder stands for the whole reference"
    if _REFERENCE.fullmatch(text.lower()):
        return "has uppercase letters in its name, which Docker does not allow"
    return "is not a Docker image reference"


def content_tag(name: str, image_id: str) -> str:
    """The tag that names an image by its content: `NAME:coworld-<first 12 hex digits of the image id>`.

    Args:
        name: A reference; its tag is replaced.
        image_id: The engine's image id, `sha256:<64 hex>` (the prefix may be missing).

    Raises:
        ImageError: If the name is not a reference.
        ValueError: If the id has fewer than 12 hexadecimal digits.
    """
    digits = image_id.removeprefix("sha256:")[:12]
    if len(digits) < 12 or set(digits) - set("0123456789abcdef"):
        raise ValueError(f"{image_id!r} is not an image id")
    return f"{ImageRef.parse(name).name}:coworld-{digits}"


_ARCHITECTURES = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "aarch64": "arm64",
    "armv8l": "arm64",
    "i386": "386",
    "i686": "386",
    "armhf": "arm",
    "armv7l": "arm",
}


@dataclass(frozen=True)
class Platform:
    """Operating system and architecture, named as in image registries."""

    os: str
    """E.g. `linux`."""

    architecture: str
    """E.g. `amd64` or `arm64`."""

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Parse `os/architecture[/variant]`. Machine names such as x86_64 are translated, and the variant is dropped.

        Raises:
            ValueError: If the text does not have that form.
        """
        parts = text.strip().lower().split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise ValueError(f"{text!r} is not os/architecture, e.g. linux/amd64")
        return cls(parts[0], _ARCHITECTURES.get(parts[1], parts[1]))

    @property
    def hosted(self) -> bool:
        """Whether the hosted platform can run it; uploads must be linux/amd64."""
        return self == HOSTED_PLATFORM

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


HOSTED_PLATFORM = Platform("linux", "amd64")
"""The platform that uploaded images must be built for."""


def host_platform() -> Platform:
    """The platform whose images run on this machine without emulation."""
    machine = _platform.machine().lower()
    return Platform("linux", _ARCHITECTURES.get(machine, machine))


_ELF_MACHINES = {
    3: "386",
    8: "mips",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "amd64",
    183: "arm64",
    243: "riscv64",
    258: "loong64",
}
_MACHO = {0x01000007: "amd64", 0x0100000C: "arm64"}

ELF_BYTES = 20
"""How many of a program's first bytes `machine_of` needs."""


def machine_of(content: bytes) -> str:
    """Return the os/architecture of machine code; empty for anything else."""
    if content.startswith(b"\x7fELF") and len(content) >= ELF_BYTES:
        order = ">" if content[5] == 2 else "<"
        (machine,) = struct.unpack(f"{order}H", content[18:20])
        little = {21: "ppc64le", 8: "mipsle"} if order == "<" else {}
        return f"linux/{little.get(machine) or _ELF_MACHINES.get(machine) or f'machine-{machine}'}"
    if content[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe") and len(content) >= 8:
        (cpu,) = struct.unpack("<I", content[4:8])
        return f"darwin/{_MACHO.get(cpu, 'universal')}"
    return "windows" if content.startswith(b"MZ") else ""


def here() -> str:
    """Return the os/architecture of this machine."""
    processor = _platform.machine().lower()
    return f"{_platform.system().lower()}/{_ARCHITECTURES.get(processor, processor)}"


def runs_on(needs: str, where: str) -> bool:
    """Whether machine code for one os/architecture runs on another."""
    system, _, architecture = needs.partition("/")
    there, _, rest = where.lower().partition("/")
    processor = rest.partition("/")[0]
    processor = _ARCHITECTURES.get(processor, processor)
    if system != there:
        return False
    return architecture in (processor, "universal") or (architecture, processor) == ("386", "amd64")
