"""A player as its author has it on this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coworld_core.errors import UsageError

__all__ = ["MOST_BYTES", "MOST_FILES", "PLAYER_LABEL", "PYTHON", "OwnPlayer", "too_large"]

PLAYER_LABEL = "coworld.player"
"""Label of the images that are made of such players; its value is the digest."""
PYTHON = "python"
"""A command's first word that stands for whatever Python is called where it runs."""
MOST_BYTES = 256 << 20
MOST_FILES = 5000


@dataclass(frozen=True, kw_only=True)
class OwnPlayer:
    """A player as its author has it on this machine. Values only."""

    name: str
    """What it is called: its file's name, without the ending."""
    file: str
    """Name of its file or directory."""
    path: Path
    """Where it was read, for messages."""
    files: Mapping[str, bytes] = field(repr=False)
    """What it holds, by path relative to its directory; a file by its name."""
    command: tuple[str, ...]
    """How it is run, in the directory that has its files; ``{}`` in a word stands for that directory. Empty: only an
    image that is built of it says."""
    runnable: frozenset[str] = frozenset()
    """Those of its files that may be executed."""
    python: str = "python3"
    """What Python is called in the image that it runs beside; a local process gets the one that runs coworld."""
    needs_client: bool = False
    """Whether ``coworld_client.seat`` plays it."""
    kind: Literal["file", "random", "llm", "recording"] = "file"
    """What decides in its seat."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets of this player alone."""
    needs: str = ""
    """os/architecture of the machine code it is; empty for any."""
    dockerfile: bool = False
    """Whether an image is built of it, by a backend that builds images."""
    hosted: bool = False
    """Whether the game runs it itself; then it is one file, and nothing says how it is run."""

    @property
    def digest(self) -> str:
        """Digest of what it holds, whatever its name."""
        told = hashlib.sha256()
        for name in sorted(self.files):
            shown = name if len(self.files) > 1 or self.dockerfile else ""
            told.update(f"{shown}\0{len(self.files[name])}\0".encode("utf-8", "surrogatepass"))
            told.update(self.files[name])
        return f"sha256:{told.hexdigest()}"

    @property
    def reference(self) -> str:
        """What records call what it ran from: its file, and which content it had."""
        return f"{self.file}@{self.digest.partition(':')[2][:12]}"

    @property
    def image(self) -> str:
        """The image that is built of it, named by its content."""
        plain = "".join(char if char.isascii() and char.isalnum() else "-" for char in self.name.lower()).strip("-")
        return f"coworld-player/{plain or 'player'}:{self.digest.partition(':')[2][:12]}"

    def argv(self, directory: str, *, in_image: bool) -> tuple[str, ...]:
        """Its command, where its files are in that directory, beside an image or as a local process."""
        command = tuple(word.replace("{}", directory) for word in self.command)
        return (self.python, *command[1:]) if in_image and command[:1] == (PYTHON,) else command

    def shown(self) -> tuple[str, ...]:
        """Its command for people, without the directory."""
        return tuple(word.replace("{}/", "").replace("{}", ".") for word in self.command)

    def put(self, directory: Path) -> None:
        """Write its files into a directory, where every user can read them."""
        for name, content in self.files.items():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o755 if name in self.runnable else 0o644)
        for place, _, _ in os.walk(directory):
            Path(place).chmod(0o755)


def too_large(path: Path) -> UsageError:
    """What it comes to that a player is more than can be handed to units."""
    return UsageError(
        f"{path} has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB, which is too much to hand over.",
        code="player_too_large",
        hint="Build an image of it, and name that instead.",
    )
