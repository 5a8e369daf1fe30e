"""Registries of players: names under which versions are published, in a directory or on a platform.

A version has a number, counted from 1 for each name, and is never changed. A tag is a word that stands for one version
of a name and can be moved; `latest` always stands for the newest one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Protocol

from pydantic import Field

from .documents.records import OpenEnum, Record, is_empty
from .errors import CoworldError, ErrorKind, UsageError
from .text.phrases import closest, listed

if TYPE_CHECKING:
    from .api import PlayerFiles

__all__ = [
    "ANY_VERSION",
    "LATEST_VERSION",
    "PlayerRegistry",
    "PlayerVersion",
    "TagConflict",
    "VersionRef",
    "check_player_name",
    "check_tag",
    "choose_version",
    "no_such_player",
    "tag_conflict",
]

LATEST_VERSION: Final = "latest"
"""The word for the newest version of a name."""
ANY_VERSION: Final = -1
"""As `expected`: wherever the tag is."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TAG = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_NUMBER = re.compile(r"v?([0-9]{1,9})")


class TagConflict(CoworldError):
    """A tag is not where the caller expects it: another program has moved it."""

    kind: ClassVar[ErrorKind] = "answer"
    default_code: ClassVar[str] = "tag_moved"


class PlayerVersion(Record):
    """A version of a player in a registry."""

    name: str = Field(description="The name under which it was published.")
    version: int = Field(ge=1, description="Its number among the versions of that name, from 1.")
    digest: str = Field(
        default="",
        description="Digest of its content: equal contents have equal digests in one registry; empty: unknown.",
    )
    kind: Annotated[Literal["files", "image", "unknown"], OpenEnum] = Field(
        description="What it is: files (a file or a directory), an image, or unknown: the registry does not tell."
    )
    source: str = Field(default="", description="Name of its file or directory, or its image by digest.")
    run: tuple[str, ...] = Field(
        default=(), exclude_if=is_empty, description="Command of an image; left out if it has its own."
    )
    created: dt.datetime | None = Field(default=None, description="When it was published (UTC); null: unknown.")
    metadata: dict[str, str] = Field(default_factory=dict, description="What its publisher says about it.")
    tags: tuple[str, ...] = Field(default=(), description="The tags that stand for it now.")

    @property
    def label(self) -> str:
        """Its name and number: `name:v3`."""
        return f"{self.name}:v{self.version}"

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, kw_only=True)
class VersionRef:
    """A reference to a version of a player: `name:v3`, `name:3`, `name:TAG`, `name:latest`, or `name` for the newest.

    `str()` gives it in that form.
    """

    name: str
    version: int | None = None
    """Its number; None: another word says which."""
    tag: str = ""
    """The tag; `latest` for the newest, empty for none."""

    @classmethod
    def parse(cls, text: str) -> VersionRef:
        """Parse a reference. The last colon separates the name from the rest.

        Raises:
            UsageError: It is not one (`bad_version`); the message says why.
        """
        name, colon, tail = text.rpartition(":")
        if not colon:
            name, tail = text, ""
        number = _NUMBER.fullmatch(tail)
        if not name or (colon and not tail) or not text.isprintable() or text != text.strip() or "/" in text:
            why = "is not a version of a player"
        elif number is not None and int(number[1]) < 1:
            why = "has version 0; versions begin with 1"
        elif tail and number is None and not _TAG.fullmatch(tail):
            why = f"has {tail!r} after its colon, which is neither a version nor a tag"
        else:
            return cls(name=name, version=int(number[1]) if number else None, tag="" if number else tail)
        raise UsageError(
            f"{text[:120]!r} {why}.", code="bad_version", hint="Write NAME, NAME:v3, NAME:TAG or NAME:latest."
        )

    @property
    def newest(self) -> bool:
        """Whether it stands for the newest version."""
        return self.version is None and self.tag in ("", LATEST_VERSION)

    def __str__(self) -> str:
        tail = f"v{self.version}" if self.version is not None else self.tag
        return f"{self.name}:{tail}" if tail else self.name


class PlayerRegistry(Protocol):
    """A registry of players: a directory (`coworld_runner.LocalRegistry`) or a platform (`CoworldClient.registry`)."""

    async def publish(
        self,
        name: str,
        player: PlayerFiles | Path | str,
        *,
        run: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
    ) -> PlayerVersion:
        """Publish the next version of a player.

        Args:
            name: The name; a new one gets its first version.
            player: The player's files, the path of a file of Python, or an image.
            run: Command of an image, instead of its own.
            metadata: What to say about it.
            tags: Tags that stand for it from now on.

        Raises:
            UsageError: The name, a tag or the player is invalid, or the registry has no such players or tags.
        """
        ...

    async def names(self) -> tuple[str, ...]:
        """The names that have versions, sorted."""
        ...

    async def versions(self, name: str) -> tuple[PlayerVersion, ...]:
        """The versions of a name, newest first.

        Raises:
            UsageError: There is no such name (`unknown_player`).
        """
        ...

    async def get(self, ref: str) -> PlayerVersion:
        """A version.

        Args:
            ref: `name:v3`, `name:TAG`, `name:latest`, or `name` for the newest.

        Raises:
            UsageError: There is no such name (`unknown_player`) or version (`unknown_version`).
        """
        ...

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
            UsageError: There is no such name or version, the tag is invalid, or the registry has no tags
                (`tags_unsupported`).
        """
        ...

    def updates(self, name: str, *, after: int | None = None) -> AsyncIterator[PlayerVersion]:
        """Wait for versions, and yield each of them once, oldest first, until cancelled.

        Args:
            name: The name; it may have no version yet.
            after: Number of the last version that is known, to go on after it; 0: all of them. None: only those that
                are published after the iteration has begun.
        """
        ...

    async def fetch(self, version: PlayerVersion | str, directory: Path) -> Path:
        """Copy the files of a version into a directory.

        Args:
            version: The version, or a reference to it.
            directory: The directory, which is made if it is missing. Nothing in it is overwritten.

        Returns:
            The player's file or directory, which plays.

        Raises:
            UsageError: It has no files (`version_without_files`), or there is something of that name already
                (`file_exists`).
            EnvironmentFault: What arrived is not what was published (`version_damaged`).
        """
        ...


def check_player_name(name: str) -> str:
    """Return a name under which versions can be published.

    Raises:
        UsageError: It cannot be one (`bad_player_name`).
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:120]!r} cannot be a name in a registry.",
            code="bad_player_name",
            hint="Use up to 100 letters, digits, dots, hyphens and underscores, and begin with a letter or a digit.",
        )
    return name


def check_tag(tag: str) -> str:
    """Return a tag that can be given.

    Raises:
        UsageError: It cannot be one (`bad_tag`).
    """
    if not _TAG.fullmatch(tag) or _NUMBER.fullmatch(tag) or tag == LATEST_VERSION:
        reserved = tag == LATEST_VERSION
        raise UsageError(
            f"{tag[:120]!r} {'always stands for the newest version' if reserved else 'cannot be a tag'}.",
            code="bad_tag",
            hint="Use up to 64 letters, digits, dots, hyphens and underscores that do not read like a version, "
            "such as champion.",
        )
    return tag


def choose_version(ref: VersionRef, versions: Sequence[PlayerVersion]) -> PlayerVersion:
    """Return the version of a name that a reference stands for.

    Args:
        ref: The reference.
        versions: All versions of its name, at least one.

    Raises:
        UsageError: There is none (`unknown_version`).
    """
    if ref.newest:
        return max(versions, key=lambda one: one.version)
    found = [
        one for one in versions if (one.version == ref.version if ref.version is not None else ref.tag in one.tags)
    ]
    if found:
        return found[0]
    numbers = [f"v{one.version}" for one in versions]
    tags = sorted({tag for one in versions for tag in one.tags} | {LATEST_VERSION})
    near = closest(ref.tag, tags) if ref.tag else None
    known = f"It has {listed(numbers, limit=6)}, and {'the tags' if len(tags) > 1 else 'the tag'} {listed(tags)}."
    what = f"version {ref.version}" if ref.version is not None else f"tag {ref.tag!r}"
    raise UsageError(
        f"{ref.name!r} has no {what}.",
        code="unknown_version",
        hint=f"Did you mean {ref.name}:{near}? {known}" if near else known,
        context={"name": ref.name, "versions": [one.version for one in versions][:100], "tags": tags[:100]},
    )


def no_such_player(name: str, known: Iterable[str], place: str) -> UsageError:
    """The error for a name that a registry does not have (`unknown_player`).

    Args:
        name: The name.
        known: The names that it has.
        place: Its directory, or the platform's address.
    """
    names = list(known)
    near = closest(name, names)
    has = f"It has {listed(names)}." if names else "It is empty."
    return UsageError(
        f"There is no player {name!r} in the registry {place}.",
        code="unknown_player",
        hint=f"Did you mean {near!r}?" if near else has,
        context={"player": name, "players": names[:100]},
    )


def tag_conflict(name: str, tag: str, *, expected: int | None, now: int | None) -> TagConflict:
    """The error for a tag that was moved by another program.

    Args:
        name: The name.
        tag: The tag.
        expected: The version that it was expected to stand for; None: for none.
        now: The version that it stands for; None: for none.
    """

    def words(version: int | None) -> str:
        return f"{name}:v{version}" if version is not None else "no version"

    return TagConflict(
        f"The tag {tag!r} of {name!r} stands for {words(now)} now, not for {words(expected)}: it was moved meanwhile.",
        hint=f"Look at {words(now)} first. Then move the tag from there, or leave it.",
        context={"name": name, "tag": tag, "expected": expected, "version": now},
    )
