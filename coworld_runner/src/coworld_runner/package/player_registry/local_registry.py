"""The registry of players on this machine, for asynchronous code."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from coworld_core.api import PlayerFiles
from coworld_core.errors import CoworldError, UsageError
from coworld_core.hints import Hint
from coworld_core.images import ImageRef
from coworld_core.player_registry import ANY_VERSION, PlayerVersion, check_player_name

from ..own_players.named_player import near_file, read_own_player
from ..own_players.own_player import OwnPlayer
from ..own_players.player_wire import of_wire
from ..player_names import is_bare, is_player_path
from .registry_folder import RegistryFolder
from .registry_log import VersionHistory, read_version_log

if TYPE_CHECKING:
    from ...backend import Backend

__all__ = ["LocalRegistry", "find_publishable"]

_LOOK_SECONDS = 0.5
"""Seconds between two looks at the state of one file; network file systems tell of changes in no other way."""


class LocalRegistry:
    """Players by name and version in a directory, as `coworld_core.PlayerRegistry` says.

    ::

        registry = LocalRegistry()
        version = await registry.publish("bot", Path("bot.py"), tags=["champion"])
        await run_batch("examples/nim", episodes=10, players=["bot:champion"])

    Several programs may use it at once. `run_batch`, `compare` and the others find names in the user's registry, which
    is also the default here.

    Args:
        directory: The directory, which is made when the first version is published. None: `COWORLD_REGISTRY`, or
            `coworld/players` below `XDG_DATA_HOME`, else `~/.local/share`.

    Attributes:
        folder: The same for code that may block.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.folder = RegistryFolder(directory)

    @property
    def directory(self) -> Path:
        """The directory."""
        return self.folder.directory

    async def publish(
        self,
        name: str,
        player: PlayerFiles | os.PathLike[str] | str,
        *,
        run: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
        backend: Backend | None = None,
    ) -> PlayerVersion:
        """Publish the next version of a player.

        Args:
            name: The name; a new one gets its first version.
            player: A path: a file, with the modules beside it that it imports, a directory, or a training run, of which
                the newest checkpoint is published. A string: an image. Or files that came from elsewhere.
            run: Command of an image, instead of its own.
            metadata: What to say about it.
            tags: Tags that stand for it from now on.
            backend: Finds the digest of an image that is not named by it: its engine must have the image.

        Raises:
            UsageError: The name, a tag or the player is invalid.
            ImageError: The backend has no such image.
            WorkspaceError: The directory cannot be written to.
            EnvironmentFault: The disk is full; nothing was published.
        """
        check_player_name(name)
        if isinstance(player, str):
            what: OwnPlayer | str = await _pinned(player, backend)
        elif isinstance(player, PlayerFiles):
            what = of_wire(player)
        else:
            what = await anyio.to_thread.run_sync(read_own_player, os.fspath(player))
        publish = partial(self.folder.publish, name, what, run=run, metadata=metadata, tags=tags)
        return await anyio.to_thread.run_sync(publish)

    async def names(self) -> tuple[str, ...]:
        """The names that have versions, sorted, without those that are `damaged`."""
        return await anyio.to_thread.run_sync(self.folder.names)

    async def damaged(self) -> dict[str, CoworldError]:
        """The names whose logs cannot be read, sorted, with the reasons."""
        return (await anyio.to_thread.run_sync(self.folder.look))[1]

    async def versions(self, name: str) -> tuple[PlayerVersion, ...]:
        """The versions of a name, newest first.

        Raises:
            UsageError: There is no such name (`unknown_player`).
            RecordError: Its log cannot be read.
        """
        return await anyio.to_thread.run_sync(self.folder.versions, name)

    async def get(self, ref: str) -> PlayerVersion:
        """A version: `name:v3`, `name:TAG`, `name:latest`, or `name` for the newest.

        Raises:
            UsageError: There is no such name (`unknown_player`) or version (`unknown_version`).
            RecordError: The log cannot be read.
        """
        return await anyio.to_thread.run_sync(self.folder.get, ref)

    async def tag(
        self, name: str, version: int | None, tag: str, *, expected: int | None = ANY_VERSION
    ) -> PlayerVersion | None:
        """Let a tag stand for a version, or for none.

        Args:
            name: The name.
            version: Number of the version; None: remove the tag.
            tag: The tag.
            expected: Number of the version that the tag stands for until now; None: it stands for none.

        Returns:
            That version.

        Raises:
            TagConflict: The tag stands for another version than expected (`tag_moved`).
            UsageError: There is no such name or version, or the tag is invalid.
        """
        return await anyio.to_thread.run_sync(partial(self.folder.tag, name, version, tag, expected=expected))

    async def updates(self, name: str, *, after: int | None = None) -> AsyncIterator[PlayerVersion]:
        """Wait for versions, and yield each of them once, oldest first, until cancelled.

        Args:
            name: The name; it may have no version yet.
            after: Number of the last version that is known, to go on after it; 0: all of them. None: only those that
                are published after the iteration has begun.

        Raises:
            UsageError: It cannot be a name.
            RecordError: The log cannot be read.
        """
        log = self.folder.log(name)
        seen = (-1, -1)
        while True:
            state, history = await anyio.to_thread.run_sync(_changed, log, seen)
            if history is not None:
                seen = state
                after = history.last if after is None else after
                for version in reversed(history.versions()):
                    if version.version > after:
                        after = version.version
                        yield version
            await anyio.sleep(_LOOK_SECONDS)

    async def path(self, version: PlayerVersion | str) -> Path | None:
        """The file or directory that plays as a version, after a check; None if it is an image.

        Raises:
            UsageError: There is no such version.
            EnvironmentFault: The files are not what was published (`version_damaged`).
        """
        if isinstance(version, str):
            version = await self.get(version)
        if version.kind != "files":
            return None
        await anyio.to_thread.run_sync(self.folder.read, version)
        return self.folder.path(version)

    async def fetch(self, version: PlayerVersion | str, directory: Path) -> Path:
        """Copy the files of a version into a directory, in which nothing is overwritten.

        Returns:
            The player's file or directory, which plays.

        Raises:
            UsageError: It has no files (`version_without_files`), or there is something of that name already
                (`file_exists`).
            EnvironmentFault: They are not what was published (`version_damaged`).
            WorkspaceError: The directory cannot be written to.
        """
        if isinstance(version, str):
            version = await self.get(version)
        return await anyio.to_thread.run_sync(self.folder.fetch, version, directory)

    async def remove(self, ref: str) -> tuple[PlayerVersion, ...]:
        """Remove a version, or all versions of a name; see `RegistryFolder.remove`."""
        return await anyio.to_thread.run_sync(self.folder.remove, ref)


def find_publishable(word: str, *, name: str = "") -> Path | str:
    """Tell a file or a directory that plays from an image, as wherever a player is named.

    Args:
        word: What is published.
        name: The name that it is to have, in case the two were given the wrong way round.

    Raises:
        UsageError: It is only a name, and there is no such file.
    """
    if is_player_path(word):
        return Path(word)
    if is_bare(word):
        if is_player_path(name):
            hint = Hint("name_first", "The name {name} comes first, and then {player}.", name=word, player=name)
        elif near := near_file(Path(word)):
            hint = f"Did you mean {near}?"
        else:
            hint = "A file is ./NAME, an image has a tag: NAME:latest."
        raise UsageError(f"There is no file {word!r}.", code="player_not_found", hint=hint)
    return word


async def _pinned(image: str, backend: Backend | None) -> str:
    """An image by its digest."""
    ref = ImageRef.parse(image)
    if ref.digest or backend is None:
        return image
    found = (await backend.ensure_image(image)).digest
    return found if found.startswith("sha256:") else image


def _changed(log: Path, seen: tuple[int, int]) -> tuple[tuple[int, int], VersionHistory | None]:
    """The state of a log, and what it tells if that is another one than was seen."""
    try:
        status = log.stat()
        state = (status.st_mtime_ns, status.st_size)
    except FileNotFoundError:
        state = (0, 0)
    return state, read_version_log(log) if state != seen else None
