"""Keeps the files of players by their content, so that a version plays as it was whatever becomes of the original."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from coworld_core.errors import CoworldError, EnvironmentFault

from ...runs._tree_removal import remove_tree
from .named_player import read_own_player
from .own_player import OwnPlayer

__all__ = ["KeptPlayers", "kept_name"]

_DIGITS = 16
"""Digits of a digest that name a directory; the whole one is compared when the files are read."""
_HOME = re.compile(rf"[0-9a-f]{{{_DIGITS}}}")


class KeptPlayers:
    """The files of players in a directory, each below the beginning of its digest.

    A player is complete once its own file or directory is there, so a process may be killed at any moment. One process
    at a time may keep players: whoever uses this has a lock.

    Args:
        place: The directory, which is made when the first player is kept.
    """

    def __init__(self, place: Path) -> None:
        self.place = place

    def path(self, digest: str, name: str) -> Path:
        """The file or directory of a player, whether it is kept or not.

        Args:
            digest: The player's digest.
            name: Name of its file or directory.
        """
        return self._home(digest) / name

    def keep(self, own: OwnPlayer) -> Path:
        """Keep the files of a player, unless they are there as they were; returns the path to play.

        Raises:
            OSError: They cannot be written.
        """
        home = self._home(own.digest)
        playable = home / kept_name(own)
        if playable.exists():
            with suppress(EnvironmentFault):
                self.read(own.digest, playable.name)
                return playable
        home.mkdir(parents=True, exist_ok=True)
        part = home / f".part-{secrets.token_hex(4)}"
        try:
            own.put(part / playable.name if _is_directory(own) else part)
            # Only what is complete may have the name that is looked for
            for entry in sorted(part.iterdir(), key=lambda entry: entry.name == playable.name):
                if (home / entry.name).is_dir():
                    remove_tree(home / entry.name)
                entry.rename(home / entry.name)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return playable

    def read(self, digest: str, name: str) -> OwnPlayer:
        """Read a player, and check that it is what was kept.

        Args:
            digest: The player's digest.
            name: Name of its file or directory.

        Raises:
            EnvironmentFault: Its files are missing or were changed (`version_damaged`).
        """
        path = self.path(digest, name)
        try:
            own = read_own_player(str(path))
        except CoworldError as error:
            raise _damaged(path, error.message) from error
        if own.digest != digest:
            raise _damaged(path, f"They have the digest {own.digest[:23]}… instead of {digest[:23]}….")
        return own

    def prune(self, digests: Collection[str]) -> None:
        """Remove all players but those of these digests; what is no player stays."""
        needed = {self._home(digest).name for digest in digests}
        for entry in self.place.iterdir() if self.place.is_dir() else ():
            if entry.name not in needed and _HOME.fullmatch(entry.name):
                remove_tree(entry)

    def _home(self, digest: str) -> Path:
        return self.place / digest.partition(":")[2][:_DIGITS]


def kept_name(own: OwnPlayer) -> str:
    """The name of a player's file or directory, also if it was read from `..` or from a root directory."""
    return own.file if own.path.name in ("", "..") else own.path.name


def _is_directory(own: OwnPlayer) -> bool:
    # Files that came over a wire have no path here
    return own.path.is_dir() if own.path.is_absolute() else own.file not in own.files


def _damaged(path: Path, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"The files of a version that was kept in {path} are not what they were. {why}",
        code="version_damaged",
        hint="Put them back from a copy, or publish the player again.",
        context={"path": str(path)},
    )
