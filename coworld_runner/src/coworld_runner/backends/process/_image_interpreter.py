"""Compares the interpreter that an image has with that of this machine, which local processes run with."""

from __future__ import annotations

import posixpath
import re
import subprocess
from collections.abc import Iterable, Sequence

from coworld_core.errors import ImageError
from coworld_core.images import ImageRef

__all__ = ["image_interpreter", "older_here"]

_NEWER = re.compile(
    r"SyntaxError|ReferenceError: \w+ is not defined|is not a (function|constructor)\b|ERR_UNKNOWN_BUILTIN_MODULE|"
    r"ImportError: cannot import name|AttributeError: (module|type object) .* has no attribute|bad option:"
)
"""What programs say that need a newer interpreter, and seldom otherwise."""
_ASK_SECONDS = 5.0


def image_interpreter(argv: Sequence[str], images: Iterable[str]) -> tuple[str, str]:
    """Return the interpreter that a command names, and its version in the image, as the name of a base image tells.

    Args:
        argv: The command; the interpreter may follow words that only start it: `env node bot.mjs`.
        images: The base images: `node:24-slim` has node 24.

    Returns:
        Its name in the command and its version, both empty if no image is named after a word of the command.
    """
    versions: dict[str, str] = {}
    for image in images:
        try:
            reference = ImageRef.parse(image)
        except ImageError:
            continue
        if version := re.match(r"\d+(\.\d+)*", reference.tag):
            versions[posixpath.basename(reference.name)] = version[0]
    return next(((word, versions[name]) for word in argv if (name := _plain(word)) in versions), ("", ""))


def older_here(name: str, version: str, command: str, tail: str) -> str:
    """Say that this machine's interpreter is older than the image's, if a log suggests that this matters. Blocks.

    Args:
        name: The interpreter, as the command names it: `node`.
        version: Its version in the image.
        command: What runs here in its place.
        tail: The end of the log.

    Returns:
        "its image has node 24, this machine v20.1.0"; empty if it is not older, or if nothing suggests that.
    """
    if not version or not _NEWER.search(tail):
        return ""
    try:
        said = subprocess.run(
            [command, "--version"], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    here = re.search(r"v?(\d+(?:\.\d+)*)", said)
    wanted = _numbers(version)
    if here is None or _numbers(here[1])[: len(wanted)] >= wanted:
        return ""
    return f"its image has {_plain(name)} {version}, this machine {here[0]}"


def _plain(program: str) -> str:
    return posixpath.basename(program).rstrip("0123456789.")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
