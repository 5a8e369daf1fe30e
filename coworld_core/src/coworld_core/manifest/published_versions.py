"""Which published versions accept a manifest: when each field was introduced, and what later versions dropped.

Accepted means built, certified and uploaded. To play a manifest, versions since 0.1.27 ignore what they do not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..documents.findings import Finding, Path, dotted
from ..role_kinds import ROLE_SECTIONS
from ..versions import Published
from .models import Manifest

__all__ = ["NEWEST", "NOT_NEEDED", "OLDEST", "Accepted", "accepted_by", "newer_fields", "published_findings"]

OLDEST, NEWEST = 26, 64

_FIELDS: tuple[tuple[Path, int], ...] = (
    (("apiVersion",), 35),
    (("tags",), 32),
    (("episode_timeout_minutes",), 30),
    (("game", "promo"), 28),
    (("game", "protocols", "engine_runtime"), 30),
    (("game", "replay_viewer"), 34),
    (("game", "replay_viewer", "replay_compression"), 43),
    (("game", "replay_viewer", "format_identity"), 51),
    (("game", "achievements"), 40),
    (("game", "player_runtime"), 47),
    (("game", "log"), 53),
    (("game", "memory"), 55),
    (("game", "task_environments"), 63),
)
"""The first sampled version that has a field; the real first one is at most two earlier."""

_RUNNABLE_FIELDS: tuple[tuple[Path, int], ...] = (
    (("resources", "limits"), 28),
    (("resources", "limits", "memory"), 45),
    (("resources", "requests", "gpu"), 60),
    (("resources", "requests", "instance-type"), 60),
)
_PLAYER_FIELDS: tuple[tuple[Path, int], ...] = ((("file",), 47), (("startup",), 60))
NOT_NEEDED: frozenset[Path] = frozenset(path for path, _ in _FIELDS) - {("game", "player_runtime")}
"""Fields without which a version that does not know them plays the game as before."""
_CONTAINER_REPORTERS = 29
_REPORTERS = 30
_TAGS = 32


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The published versions that accept a manifest."""

    since: int
    """Last part of the oldest version's number."""
    until: int | None = None
    """Last part of the newest version's number; None for the newest that exists."""

    def __bool__(self) -> bool:
        return self.until is None or self.since <= self.until

    def __str__(self) -> str:
        if not self:
            return "(no published version)"
        if self.until is None:
            return f"0.1.{self.since} and newer"
        return f"0.1.{self.since}" if self.until == self.since else f"0.1.{self.since} to 0.1.{self.until}"


def accepted_by(manifest: Manifest) -> Accepted:
    """Which published versions accept the written form of a manifest."""
    document = manifest.model_dump(mode="json", by_alias=True)
    bounds = list(_bounds(document))
    since = max([OLDEST, *(least for _, least, _ in bounds)])
    return Accepted(since=since, until=min((most for _, _, most in bounds if most is not None), default=None))


def published_findings(document: Mapping[str, Any], version: Published) -> Iterator[Finding]:
    """What a published version would refuse in a document of the current generation."""
    number = int(version.rpartition(".")[2])
    bounds = list(_bounds(document))
    missing = {path for path, least, _ in bounds if number < least}
    for path, least, most in bounds:
        if number < least and not any(path[:length] in missing for length in range(1, len(path))):
            message = f"{dotted(path)} exists since 0.1.{least}; {version} refuses a manifest that has it."
            hint = f"Remove it for {version}, or require 0.1.{least} or newer."
            yield Finding(code="not_yet_published", path=path, message=message, hint=hint, at_key=_keyed(path))
        if most is not None and number > most:
            last = f"only accepted up to 0.1.{most}" if most else "not accepted by any version when it is stated"
            message = f"{dotted(path)} is {last}; {version} refuses a manifest that has it."
            hint = 'Publish it separately and refer to it: {"reporter": "owner/name@1"}.' if most else "Remove it."
            yield Finding(code="no_longer_published", path=path, message=message, hint=hint, at_key=_keyed(path))
    if number >= _TAGS and document.get("tags") is None:
        message = f"There are no tags: {version} plays and builds the manifest, but does not certify it."
        yield Finding(code="tags_missing", path=(), message=message, hint="Add at least three.", severity="warning")


def newer_fields(document: Mapping[str, Any]) -> Iterator[tuple[Path, int]]:
    """Fields of a document that 0.1.26 does not know, with the last part of the version that introduced each."""
    for path, since in _FIELDS:
        if _has(document, path):
            yield path, since
    for place, fields in (*_runnables(document), *_players(document)):
        for path, since in fields:
            if _has(_at(document, place), path):
                yield (*place, *path), since


def _keyed(path: Path) -> bool:
    return isinstance(path[-1], str)


def _bounds(document: Mapping[str, Any]) -> Iterator[tuple[Path, int, int | None]]:
    """Paths that not every version accepts, with the first and the last version that do."""
    for path, since in newer_fields(document):
        spelled_out = path == ("apiVersion",) and str(document["apiVersion"]).endswith("/v0")
        yield path, since, 0 if spelled_out else None
    for place, _ in _runnables(document):
        resources = _at(document, (*place, "resources"))
        if resources and resources.get("requests") is None and "limits" not in resources:
            yield (*place, "resources"), 28, None
    reporters = document.get("reporter")
    for index, entry in enumerate(cast("list[Any]", reporters) if isinstance(reporters, list) else []):
        if isinstance(entry, dict) and "image" in entry:
            yield ("reporter", index), OLDEST, _CONTAINER_REPORTERS
        elif isinstance(entry, dict):
            described = {"display_name", "description"} & set(cast("dict[str, Any]", entry))
            yield ("reporter", index), _TAGS if described else _REPORTERS, None


def _runnables(document: Mapping[str, Any]) -> Iterator[tuple[Path, tuple[tuple[Path, int], ...]]]:
    yield ("game", "runnable"), _RUNNABLE_FIELDS
    for section in ROLE_SECTIONS:
        entries = document.get(section)
        for index, _ in enumerate(cast("list[Any]", entries) if isinstance(entries, list) else []):
            yield (section, index), _RUNNABLE_FIELDS


def _players(document: Mapping[str, Any]) -> Iterator[tuple[Path, tuple[tuple[Path, int], ...]]]:
    entries = document.get("player")
    for index, _ in enumerate(cast("list[Any]", entries) if isinstance(entries, list) else []):
        yield ("player", index), _PLAYER_FIELDS


def _at(document: Any, path: Path) -> dict[str, Any]:
    """The object at a path, or an empty one."""
    for part in path:
        inside = isinstance(document, dict) if isinstance(part, str) else isinstance(document, list)
        if not inside or (isinstance(part, str) and part not in document):
            return {}
        document = document[part]
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _has(document: Any, path: Path) -> bool:
    return path[-1] in _at(document, path[:-1])
