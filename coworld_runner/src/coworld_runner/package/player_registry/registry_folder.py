"""A registry of players in a directory: a log for each name, and the files of versions by content.

::

    logs/NAME.jsonl               what happened to a name
    versions/DIGEST/bot.py        the files of a version, of any name

A version is published by one line that is appended after its files are complete, so the directory can be read at any
moment, also after a kill. Whoever writes holds a lock for that moment, which the kernel drops with the process.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from coworld_core.errors import CoworldError, UsageError
from coworld_core.files.new_files import write_new_files
from coworld_core.images import ImageRef
from coworld_core.player_registry import (
    ANY_VERSION,
    PlayerVersion,
    VersionRef,
    check_player_name,
    check_tag,
    choose_version,
    no_such_player,
    tag_conflict,
)
from coworld_core.text.phrases import listed

from ...runs.logged_folder import open_in_turn
from ...runs.workspace import unwritable
from ..own_players.kept_players import KeptPlayers, kept_name
from ..own_players.own_player import OwnPlayer
from .registry_log import RegistryLine, VersionHistory, read_version_log

__all__ = ["RegistryFolder", "default_registry"]

_ENVIRONMENT = "COWORLD_REGISTRY"
_MOST_METADATA = 64 << 10
"""Characters of the metadata of a version, at most."""


def default_registry() -> Path:
    """The user's registry: `COWORLD_REGISTRY`, or `coworld/players` below `XDG_DATA_HOME`, else `~/.local/share`."""
    if named := os.environ.get(_ENVIRONMENT):
        return Path(named).expanduser().absolute()
    root = os.environ.get("XDG_DATA_HOME")
    return (Path(root) if root else Path.home() / ".local" / "share") / "coworld" / "players"


class RegistryFolder:
    """A registry in a directory. Its calls block for a moment; `LocalRegistry` makes them from asynchronous code.

    Args:
        directory: The directory, which is made when the first version is published; None: the user's.

    Attributes:
        directory: The same, absolute.
        kept: The files of versions.
    """

    def __init__(self, directory: Path | str | os.PathLike[str] | None = None) -> None:
        self.directory = Path(directory).expanduser().absolute() if directory is not None else default_registry()
        self.kept = KeptPlayers(self.directory / "versions")

    @property
    def _logs(self) -> Path:
        return self.directory / "logs"

    def log(self, name: str) -> Path:
        """The log of a name, whether it exists or not.

        Raises:
            UsageError: It cannot be a name.
        """
        return self._logs / f"{check_player_name(name)}.jsonl"

    # --- reading

    def look(self) -> tuple[dict[str, VersionHistory], dict[str, CoworldError]]:
        """The names that have versions, and those whose logs cannot be read with the reasons, each sorted."""
        found: dict[str, VersionHistory] = {}
        damaged: dict[str, CoworldError] = {}
        for path in sorted(self._logs.glob("*.jsonl")):
            try:
                log = self.log(path.stem)
            except UsageError:
                continue  # Another program's: `._bot.jsonl`
            try:
                if (history := read_version_log(log)).versions():
                    found[path.stem] = history
            except CoworldError as error:
                damaged[path.stem] = error
        return found, damaged

    def names(self) -> tuple[str, ...]:
        """The names that have versions, sorted, without those whose logs cannot be read."""
        return tuple(self.look()[0])

    def knows(self, name: str) -> bool:
        """Whether a name has versions; False for any text that cannot be a name.

        Raises:
            RecordError: Its log cannot be read.
        """
        try:
            log = self.log(name)
        except UsageError:
            return False
        return bool(read_version_log(log).versions())

    def versions(self, name: str) -> tuple[PlayerVersion, ...]:
        """The versions of a name, newest first.

        Raises:
            UsageError: There is no such name (`unknown_player`).
            RecordError: Its log cannot be read.
        """
        return self._known(name).versions()

    def get(self, ref: str | VersionRef) -> PlayerVersion:
        """A version.

        Raises:
            UsageError: There is no such name (`unknown_player`) or version (`unknown_version`), or it is no reference
                (`bad_version`).
            RecordError: The log cannot be read.
        """
        ref = VersionRef.parse(ref) if isinstance(ref, str) else ref
        return choose_version(ref, self.versions(ref.name))

    def path(self, version: PlayerVersion) -> Path:
        """The file or directory of a version that has files."""
        return self.kept.path(version.digest, version.source)

    def read(self, version: PlayerVersion) -> OwnPlayer:
        """Read the files of a version, and check that they are what was published.

        Raises:
            UsageError: It has no files (`version_without_files`).
            EnvironmentFault: They are missing or were changed (`version_damaged`).
        """
        if version.kind != "files":
            raise UsageError(
                f"{version.label} has no files: it is {version.kind} {version.source}.",
                code="version_without_files",
                hint=f"docker pull {version.source}" if version.kind == "image" else None,
            )
        return self.kept.read(version.digest, version.source)

    def fetch(self, version: PlayerVersion, directory: Path) -> Path:
        """Copy the files of a version into a directory; see `PlayerRegistry.fetch`."""
        own, target = self.read(version), directory / version.source
        try:
            place = target if self.path(version).is_dir() else directory
            write_new_files(place, own.files, executable=own.runnable)
        except OSError as error:
            raise unwritable(directory, error) from error
        return target

    # --- writing: one process at a time for all names, which share the files

    def publish(
        self,
        name: str,
        player: OwnPlayer | str,
        *,
        run: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        tags: Collection[str] = (),
    ) -> PlayerVersion:
        """Publish the next version of a player; see `PlayerRegistry.publish`.

        Args:
            name: The name.
            player: A player made of files, or an image by its digest: `name@sha256:…`, or `sha256:…` for one that only
                this machine's engine has.
            run: Command of an image.
            metadata: What to say about it.
            tags: Tags that stand for it.

        Raises:
            UsageError: The name, a tag or the player is invalid.
            WorkspaceError: The directory cannot be written to.
            EnvironmentFault: The disk is full; nothing was published.
        """
        log = self.log(name)
        tags = tuple(dict.fromkeys(map(check_tag, tags)))
        _check_metadata(metadata or {})
        digest = ""
        if isinstance(player, str):
            ref = ImageRef.parse(player)
            digest = ref.digest or (f"sha256:{ref.tag}" if ref.name == "sha256" else "")
            if not digest:
                raise UsageError(
                    f"The image {player!r} may change: a version needs its digest.",
                    code="image_unpinned",
                    hint="Name it by its digest: NAME@sha256:….",
                )
        else:
            _check_files(player, run)
        with open_in_turn(log) as file:
            number, time = read_version_log(log).last + 1, dt.datetime.now(dt.UTC)
            if not isinstance(player, str):
                try:
                    self.kept.keep(player)
                except OSError as error:
                    raise unwritable(self.directory, error) from error
                digest = self.kept.read(player.digest, kept_name(player)).digest
            made = PlayerVersion(
                name=name,
                version=number,
                kind="image" if isinstance(player, str) else "files",
                digest=digest,
                source=player if isinstance(player, str) else kept_name(player),
                run=tuple(run),
                created=time,
                metadata=dict(metadata or {}),
            )
            line = RegistryLine(event="published", time=time, version=number, tags=tags, published=made)
            file.append(line.to_line())
        return made.model_copy(update={"tags": tuple(sorted(tags))})

    def tag(
        self, name: str, version: int | None, tag: str, *, expected: int | None = ANY_VERSION
    ) -> PlayerVersion | None:
        """Let a tag stand for a version, or for none; see `PlayerRegistry.tag`."""
        log, tag = self.log(name), check_tag(tag)
        self._known(name)
        with open_in_turn(log) as file:
            history = read_version_log(log)
            now = history.tags.get(tag)
            if expected not in (ANY_VERSION, now):
                raise tag_conflict(name, tag, expected=expected, now=now)
            time = dt.datetime.now(dt.UTC)
            if version is None:
                if now is not None:
                    file.append(RegistryLine(event="untagged", time=time, version=now, tags=(tag,)).to_line())
                return None
            choose_version(VersionRef(name=name, version=version), history.versions())
            if now != version:
                file.append(RegistryLine(event="tagged", time=time, version=version, tags=(tag,)).to_line())
        return self.get(VersionRef(name=name, version=version))

    def remove(self, ref: str | VersionRef) -> tuple[PlayerVersion, ...]:
        """Remove versions: their numbers are not given again, and files that no other version has are deleted.

        No files are as long as the log of another name cannot be read.

        Args:
            ref: `name:v3`, or `name` for all versions.

        Returns:
            What was removed, newest first.

        Raises:
            UsageError: There is no such version, it is named by a tag or `latest` (`bad_version`), or a tag stands for
                it (`version_tagged`).
        """
        ref = VersionRef.parse(ref) if isinstance(ref, str) else ref
        if ref.tag:
            raise UsageError(
                f"{ref} may stand for another version in a moment.",
                code="bad_version",
                hint=f"Name the version by its number: {ref.name}:v{self.get(ref).version}",
            )
        self._known(ref.name)
        with open_in_turn(log := self.log(ref.name)) as file:
            versions = read_version_log(log).versions()
            gone = versions if ref.version is None else (choose_version(ref, versions),)
            if ref.version is not None and gone[0].tags:
                raise UsageError(
                    f"{gone[0].label} is {listed(gone[0].tags)}.",
                    code="version_tagged",
                    hint="Move the tag to another version, or remove the tag first.",
                )
            time = dt.datetime.now(dt.UTC)
            lines = (RegistryLine(event="removed", time=time, version=one.version) for one in gone)
            file.append(b"".join(line.to_line() for line in lines))
            histories, damaged = self.look()
            if not damaged:
                # What such a name has is not known
                self.kept.prune({one.digest for history in histories.values() for one in history.versions()})
        return gone

    def _known(self, name: str) -> VersionHistory:
        history = read_version_log(self.log(name))
        if not history.versions():
            raise no_such_player(name, self.names(), str(self.directory))
        return history


def _check_files(own: OwnPlayer, run: Sequence[str]) -> None:
    if own.kind != "file" or own.hosted:
        raise UsageError(
            f"{own.file} is not a file or a directory, and only those and images have versions.",
            code="player_not_file",
            hint="Name a .py file, an executable, or a directory that plays.",
        )
    if run:
        raise UsageError(
            f"A command was given, and {own.file} is not an image: how a file runs follows from the file.",
            code="run_without_image",
            hint="Leave the command out.",
        )


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if sum(len(key) + len(value) for key, value in metadata.items()) > _MOST_METADATA or not all(metadata):
        raise UsageError(
            f"The metadata has an empty name, or more than {_MOST_METADATA >> 10} KiB.",
            code="bad_metadata",
            hint="Keep what is large in a file of the player's directory.",
        )
