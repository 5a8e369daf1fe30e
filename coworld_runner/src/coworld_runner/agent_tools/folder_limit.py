"""The folder that agents are limited to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.manifest.manifest_file import MANIFEST_NAME, TEMPLATE_NAME

from ..package.resolver import Package, resolve_package

__all__ = ["FolderLimit"]

_PASSED_OVER = ("results", "node_modules", "dist", "build", "__pycache__")


class FolderLimit:
    """Paths of one folder, and no others: links and `..` are followed before they are judged.

    Args:
        root: The folder.

    Attributes:
        root: The same, without links.

    Raises:
        UsageError: It is no directory (`no_such_place`).
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise UsageError(f"There is no directory {self.root}.", code="no_such_place")

    def inside(self, path: str | os.PathLike[str]) -> Path:
        """Return a path of the folder, which need not exist, without links.

        Args:
            path: The path; a relative one is seen from the folder.

        Raises:
            UsageError: It leads out of the folder (`outside_folder`), or is no path (`bad_path`).
        """
        try:
            found = (self.root / path).resolve()
        except (OSError, RuntimeError, ValueError):
            raise UsageError(f"{os.fspath(path)!r} is not a path.", code="bad_path") from None
        if not found.is_relative_to(self.root):
            raise UsageError(
                f"{os.fspath(path)!r} leads out of the folder.",
                code="outside_folder",
                hint="Name a path in the folder that this server was started for.",
            )
        return found

    async def package(self, path: str) -> Package:
        """Read a Coworld of the folder: its manifest, or a directory that holds one.

        Raises:
            UsageError: It leads out of the folder, or so does something that it is built from, or there is none.
            ManifestError: The manifest has errors.
        """
        place = self.inside(path)
        for name in (MANIFEST_NAME, TEMPLATE_NAME, f"dist/{MANIFEST_NAME}"):
            self.inside(place / name)
        package = await resolve_package(place)
        for directory in package.contexts.values():
            self.inside(directory)
        return package

    def player(self, word: str, package: Package, *, seen_from: str = "") -> str:
        """Return a player as `read_players` takes it: a player of the Coworld, `random`, or a path of the folder.

        Args:
            word: The player.
            package: The Coworld.
            seen_from: The directory that a relative path is seen from; empty: the folder.

        Raises:
            UsageError: It is something else (`player_unknown`), or leads out of the folder.
        """
        name, _, count = word.partition("@")
        if name == "random" or name in {player.id for player in package.manifest.player}:
            return word
        path = self.inside(Path(seen_from).resolve() / name if seen_from else name)
        if not path.exists():
            raise UsageError(
                f"{name!r} is neither a player of {package.manifest.game.name} nor a path in the folder.",
                code="player_unknown",
            )
        return f"{path}@{count}" if count else str(path)

    def bot(self, path: str) -> Path:
        """Return the path of a bot that is to be gated, in a folder of bots with nothing that leads out.

        Raises:
            UsageError: It or a bot beside it leads out, or a part of the folder's history is a link
                (`outside_folder`), or there is no such bot (`player_unknown`).
        """
        place = self.inside(path)
        if not place.exists():
            raise UsageError(f"There is no bot {path!r} in the folder.", code="player_unknown")
        self.directly_in(place.parent)
        # A gate goes on where an earlier one has ended, and makes no links itself
        for directory, names, files in os.walk(place.parent / ".history"):
            for name in (*names, *files, "."):
                entry = Path(directory) / name
                if entry.is_symlink():
                    raise UsageError(f"{entry.relative_to(self.root)} is a link.", code="outside_folder")
        return place

    def directly_in(self, directory: Path) -> None:
        """Refuse a directory if it, or something that is directly in it, leads out of the folder (`outside_folder`)."""
        for path in (directory, *(directory.iterdir() if directory.is_dir() else ())):
            self.inside(path)

    def coworlds(self, below: str) -> Iterator[str]:
        """The directories with manifests at or below a directory, relative to the folder. Links are not followed."""
        for directory, names, files in os.walk(self.inside(below)):
            names[:] = sorted(name for name in names if not name.startswith(".") and name not in _PASSED_OVER)
            if not {MANIFEST_NAME, TEMPLATE_NAME}.isdisjoint(files):
                yield str(Path(directory).relative_to(self.root))
