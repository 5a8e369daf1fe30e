"""The log of a name in a registry: what was published, tagged and removed, one line each, and what follows from it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from coworld_core.documents.records import OpenEnum, Record, SchemaVersion, is_empty, read_as, read_lines
from coworld_core.player_registry import PlayerVersion

__all__ = ["RegistryLine", "VersionHistory", "read_version_log"]


class RegistryLine(Record):
    """Something that happened to a name: a line of its log."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this line's shape.")
    event: Annotated[Literal["published", "tagged", "untagged", "removed"], OpenEnum] = Field(
        description="What happened; a later version may know more."
    )
    time: dt.datetime = Field(description="When it happened (UTC).")
    version: int = Field(ge=1, description="The version that it happened to.")
    tags: tuple[str, ...] = Field(
        default=(), exclude_if=is_empty, description="The tags that stand for it from then on, or no longer."
    )
    published: PlayerVersion | None = Field(
        default=None, exclude_if=lambda value: value is None, description="The version, without its tags."
    )


class VersionHistory:
    """What the log of a name tells.

    Args:
        lines: The lines, oldest first.

    Attributes:
        last: The greatest number that was given; 0: none was.
        tags: The version for which each tag stands.
    """

    def __init__(self, lines: Iterable[RegistryLine]) -> None:
        self.last = 0
        self.tags: dict[str, int] = {}
        self._versions: dict[int, PlayerVersion] = {}
        for line in lines:
            self._take(line)

    def _take(self, line: RegistryLine) -> None:
        self.last = max(self.last, line.version)
        match line.event:
            case "published" if line.published is not None:
                self._versions[line.version] = line.published
            case "removed":
                self._versions.pop(line.version, None)
                self.tags = {tag: version for tag, version in self.tags.items() if version != line.version}
            case _:
                pass
        for tag in line.tags:
            if line.event == "untagged":
                self.tags.pop(tag, None)
            elif line.version in self._versions:
                self.tags[tag] = line.version

    def versions(self) -> tuple[PlayerVersion, ...]:
        """The versions with their tags, newest first."""
        return tuple(
            version.model_copy(update={"tags": tuple(sorted(tag for tag, of in self.tags.items() if of == number))})
            for number, version in sorted(self._versions.items(), reverse=True)
        )


def read_version_log(path: Path) -> VersionHistory:
    """Read the log of a name; a missing one is empty, and an incomplete last line does not count.

    Raises:
        RecordError: A line is not of such a log.
    """
    if not path.is_file():
        return VersionHistory(())
    documents = read_lines(path, what="log", name=path.name)
    return VersionHistory(read_as(RegistryLine, document, what="line of a registry") for document in documents)
