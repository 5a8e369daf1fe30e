"""What `name:v3` means where a player is named: a version in the user's registry."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from coworld_core.errors import UsageError
from coworld_core.player_registry import LATEST_VERSION, PlayerVersion, VersionRef
from coworld_core.text.phrases import closest

from ..own_players.own_player import OwnPlayer
from .registry_folder import RegistryFolder

__all__ = ["REGISTRY", "RegisteredPlayer", "find_registered", "near_registered"]

REGISTRY = "registry:"
"""Prefix that says that what follows is in the user's registry, and no image."""


@dataclass(frozen=True, kw_only=True)
class RegisteredPlayer:
    """A version of the user's registry, in the place of a player."""

    version: PlayerVersion
    folder: RegistryFolder = field(repr=False, compare=False)
    follows: bool = False
    """Whether each episode gets the version that is the newest when it begins."""
    prefixed: bool = False
    """Whether it was named as one of the registry, so that nobody can take it for an image."""

    @property
    def name(self) -> str:
        """Its name among players: `name:v3`, or `name:latest` if it follows."""
        return f"{self.version.name}:{LATEST_VERSION}" if self.follows else self.version.label

    def describe(self, *, frozen: bool = False) -> str:
        """What it is, in a sentence for the user.

        Args:
            frozen: Whether it does not follow, because something is measured.
        """
        version, which = self.version, ""
        if self.follows and frozen:
            which = f": {version.label} in every episode, as what is measured must not change"
        elif self.follows:
            which = f": {version.label} now, and in each episode the newest"
        elif not self.prefixed:
            which = f", not an image: version {version.version} of {version.name!r}"
        return f"{self.name} is from the registry {self.folder.directory}{which}."

    def read(self) -> OwnPlayer | None:
        """Read its files; None if it is an image.

        Raises:
            EnvironmentFault: They are missing or were changed (`version_damaged`).
        """
        if self.version.kind == "image":
            return None
        return dataclasses.replace(self.folder.read(self.version), name=self.name)

    def frozen(self) -> RegisteredPlayer:
        """The same version, whatever is published later."""
        return dataclasses.replace(self, follows=False)

    def newest(self) -> RegisteredPlayer:
        """The newest version of its name.

        Raises:
            UsageError: Its name is gone.
            RecordError: The log cannot be read.
        """
        return dataclasses.replace(self, version=self.folder.get(VersionRef(name=self.version.name)))


def find_registered(word: str) -> RegisteredPlayer | None:
    """Find a player in the user's registry.

    Args:
        word: `registry:NAME`, `registry:NAME:v3`, …, or the same without the prefix, if the registry has that name.

    Returns:
        The version; None if the word has no prefix, and its name is not in the registry.

    Raises:
        UsageError: There is no such name or version.
        RecordError: The log cannot be read.
    """
    folder, prefixed = RegistryFolder(), word.startswith(REGISTRY)
    try:
        ref = VersionRef.parse(word.removeprefix(REGISTRY))
    except UsageError:
        if prefixed:
            raise
        return None
    if not prefixed and not folder.knows(ref.name):
        return None
    try:
        version = folder.get(ref)
    except UsageError as error:
        if not prefixed:
            error.hint = f"{error.hint} If you mean an image: docker.io/library/{word}"
        raise
    return RegisteredPlayer(version=version, folder=folder, follows=ref.tag == LATEST_VERSION, prefixed=prefixed)


def near_registered(word: str) -> str | None:
    """The version in the user's registry whose name is close to that of an image, so that it may have been meant.

    It is the version of that number or tag, or else the newest.
    """
    folder = RegistryFolder()
    try:
        ref = VersionRef.parse(word)
    except UsageError:
        return None
    name = closest(ref.name, folder.names())
    if name is None:
        return None
    meant = dataclasses.replace(ref, name=name)
    try:
        folder.get(meant)
    except UsageError:
        return folder.get(VersionRef(name=name)).label
    return str(meant)
