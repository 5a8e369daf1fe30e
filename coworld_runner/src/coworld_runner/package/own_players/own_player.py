"""A player made of files on this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coworld_core.errors import UsageError

__all__ = ["HOSTED_FILE", "MOST_BYTES", "MOST_FILES", "PLAYER_LABEL", "PYTHON", "OwnPlayer", "too_large"]

PLAYER_LABEL = "coworld.player"
"""Label of the images built from such players; its value is the digest."""
PYTHON = "python"
"""First word of a command that stands for the Python of wherever the command runs."""
HOSTED_FILE = "file"
"""Name of the file that a game receives which runs the player itself."""
MOST_BYTES = 256 << 20
MOST_FILES = 5000


@dataclass(frozen=True, kw_only=True)
class OwnPlayer:
    """A player made of files on this machine: its content, and how to run it."""

    name: str
    """Display name, such as its file's name without the suffix."""
    file: str
    """Name of its file or directory, or the reference that stands for one, such as `llm:MODEL`."""
    path: Path
    """Where it was read from."""
    files: Mapping[str, bytes] = field(repr=False)
    """Its content, by path relative to its directory; a single file by its name."""
    command: tuple[str, ...]
    """Command that runs it; `{}` in a word stands for the directory that holds its files. Empty if only the image
    built from it, or the game that hosts it, knows how to run it."""
    runnable: frozenset[str] = frozenset()
    """Those of its files that are executable."""
    python: str = "python3"
    """Name of Python in the image that runs it; a local process uses the Python that runs coworld."""
    needs_client: bool = False
    """Whether `coworld_client.seat` plays it."""
    kind: Literal["file", "random", "llm", "recording"] = "file"
    """What chooses its actions."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets that only this player receives."""
    needs: str = ""
    """os/architecture that its machine code needs; empty if it runs on any."""
    dockerfile: bool = False
    """Whether it has a Dockerfile, from which a backend with images builds its image."""
    hosted: bool = False
    """Whether the game itself runs it; it is then one file without a command."""

    @property
    def digest(self) -> str:
        """Digest of its content; independent of its name."""
        told = hashlib.sha256()
        for name in sorted(self.files):
            shown = name if len(self.files) > 1 or self.dockerfile else ""
            told.update(f"{shown}\0{len(self.files[name])}\0".encode("utf-8", "surrogatepass"))
            told.update(self.files[name])
        return f"sha256:{told.hexdigest()}"

    @property
    def source(self) -> str:
        """Where its file or directory is; empty if it is made of none."""
        return str(self.path.absolute().parent / self.file) if self.kind == "file" else ""

    @property
    def series(self) -> str:
        """Its name as one of many versions: a checkpoint's is that of its run."""
        return self.name.partition("@")[0]

    @property
    def reference(self) -> str:
        """Its name in records: the file's name, and the start of the digest."""
        return f"{self.file}@{self.digest.partition(':')[2][:12]}"

    @property
    def image(self) -> str:
        """Name of the image built from it; the tag is the start of the digest."""
        plain = "".join(char if char.isascii() and char.isalnum() else "-" for char in self.name.lower()).strip("-")
        return f"coworld-player/{plain or 'player'}:{self.digest.partition(':')[2][:12]}"

    def argv(self, directory: str, *, in_image: bool) -> tuple[str, ...]:
        """Return the command that runs it.

        Args:
            directory: Where its files are.
            in_image: Whether it runs in an image; otherwise it is a local process.
        """
        command = tuple(word.replace("{}", directory) for word in self.command)
        return (self.python, *command[1:]) if in_image and command[:1] == (PYTHON,) else command

    def shown(self) -> tuple[str, ...]:
        """Return its command for display, without the directory."""
        return tuple(word.replace("{}/", "").replace("{}", ".") for word in self.command)

    def put(self, directory: Path) -> None:
        """Write its files into a directory, readable by every user."""
        for name, content in self.files.items():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o755 if name in self.runnable else 0o644)
        for place, _, _ in os.walk(directory):
            Path(place).chmod(0o755)


def too_large(path: Path) -> UsageError:
    """Return the error for a player with too many files or bytes to hand to a unit."""
    return UsageError(
        f"{path} has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB, which is too much to hand over.",
        code="player_too_large",
        hint="Build an image from it, and name that instead.",
    )
