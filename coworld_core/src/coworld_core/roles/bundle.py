"""The episode bundle: which files of an episode it contains, for whom, and what its `manifest.json` says.

A bundle is a zip. Consumers find its files by the manifest's `files`, never by their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from ..documents.records import OpenEnum, Record

__all__ = [
    "BUNDLE_MANIFEST",
    "BUNDLE_PARTS",
    "BundleItem",
    "BundleManifest",
    "BundleMetadata",
    "BundlePart",
    "BundlePlan",
    "BundleStatus",
    "BundledSeat",
    "order_in_bundle",
    "plan_bundle",
    "target_name",
]

BundlePart = Literal["results", "replay", "error_info", "game_logs", "player_logs", "player_artifact", "metadata"]
"""Parts that a bundle may include; the manifest's tokens."""

BUNDLE_PARTS: tuple[BundlePart, ...] = (
    "results",
    "replay",
    "error_info",
    "game_logs",
    "player_logs",
    "player_artifact",
    "metadata",
)
"""All parts, in the order of a bundle."""

BundleStatus = Annotated[Literal["success", "failed"], OpenEnum]
"""Whether the episode counts."""

BUNDLE_MANIFEST = "manifest.json"
"""Name of the manifest, the first entry."""

_OF_SLOTS = frozenset({"player_logs", "player_artifact"})
_ZIPPED = frozenset({"player_artifact"})
"""Parts that are zips already; compressing them again would only take time."""
_NAMES = {"results": "results.json", "replay": "replay", "error_info": "error_info.json", "metadata": "metadata.json"}
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_Source = TypeVar("_Source")


class BundleManifest(Record):
    """The `manifest.json` of a bundle."""

    ereq_id: str = Field(description="The episode: `ereq_…` on a platform, the run id of a local one.")
    status: BundleStatus = Field(description="success: the episode counts; failed: see `error_info`.")
    include: tuple[str, ...] = Field(default=(), description="The parts that were delivered.")
    files: dict[str, str | dict[str, str]] = Field(
        description="By part, the name of its file in the zip, or the names by key: a slot, or the kind of log."
    )


class BundledSeat(Record):
    """A seat, and who sat in it."""

    slot: int = Field(ge=0, description="The seat, from 0.")
    policy_name: str | None = Field(default=None, description="Display name of its player.")


class BundleMetadata(Record):
    """The `metadata.json` of a bundle: what its other files do not tell."""

    episode_id: str | None = Field(default=None, description="Another id of the episode, if it has one.")
    variant_id: str = Field(default="unknown", description="The variant that was played.")
    duration_seconds: float | None = Field(default=None, ge=0, description="Wall time of the episode.")
    players: tuple[BundledSeat, ...] = Field(default=(), description="The seats, by slot.")


@dataclass(frozen=True, kw_only=True)
class BundleItem(Generic[_Source]):
    """A file that an episode has left.

    Raises:
        ValueError: Part or key is not a plain word.
    """

    part: str
    """One of `BUNDLE_PARTS`, or a part of a later version."""
    key: str | None = None
    """Distinguishes files of one part: the slot of players' files, `combined` or another word for the game's logs."""
    source: _Source = field(repr=False)
    """Where its content is."""

    def __post_init__(self) -> None:
        if target_name(self.part, self.key) is None:
            raise ValueError(f"no file of a bundle: {self.part!r}, {self.key!r}")

    @property
    def name(self) -> str:
        """The name of its file in a bundle."""
        return target_name(self.part, self.key) or ""

    @property
    def slot(self) -> int | None:
        """The player's slot, if it is a file of a player."""
        return int(self.key) if self.part in _OF_SLOTS and self.key and self.key.isdecimal() else None

    @property
    def compress(self) -> bool:
        """Whether it is worth compressing."""
        return self.part not in _ZIPPED


@dataclass(frozen=True, kw_only=True)
class BundlePlan(Generic[_Source]):
    """What a bundle contains."""

    manifest: BundleManifest
    documents: tuple[tuple[str, bytes], ...]
    """The first entries of the zip, by name: the manifest, and the metadata if that is included."""
    items: tuple[BundleItem[_Source], ...]
    """The other entries, in order."""


def plan_bundle(
    episode_id: str,
    items: Iterable[BundleItem[_Source]],
    *,
    status: Literal["success", "failed"],
    metadata: BundleMetadata | None = None,
    include: Collection[str] | None = None,
    slots: Collection[int] | None = None,
) -> BundlePlan[_Source]:
    """Decide what a bundle contains. What is not there, not known or not allowed is left out silently.

    Args:
        episode_id: The episode's id.
        items: The files that the episode has left.
        status: Whether the episode counts.
        metadata: What is known besides.
        include: Parts to deliver; None: all.
        slots: Slots whose players' logs and artifacts may be delivered; None: all.

    Raises:
        ValueError: Two items are the same file.
    """

    def wanted(part: str) -> bool:
        return include is None or part in include

    chosen = sorted(
        (
            item
            for item in items
            if wanted(item.part) and (item.part not in _OF_SLOTS or slots is None or item.slot in slots)
        ),
        key=lambda item: order_in_bundle(item.part, item.key),
    )
    files: dict[str, str | dict[str, str]] = {}
    for item in chosen:
        names = files.setdefault(item.part, {}) if item.key is not None else {}
        if (item.key is None and item.part in files) or isinstance(names, str) or item.key in names:
            raise ValueError(f"two files {item.part!r}, {item.key!r}")
        if item.key is None:
            files[item.part] = item.name
        else:
            names[item.key] = item.name
    documents: list[tuple[str, bytes]] = []
    if metadata is not None and wanted("metadata"):
        files["metadata"] = _NAMES["metadata"]
        documents.append((_NAMES["metadata"], _json(metadata)))
    manifest = BundleManifest(ereq_id=episode_id, status=status, include=tuple(files), files=files)
    # Metadata of another bundle come right after the manifest too, so that a bundle of a bundle has the same bytes
    chosen.sort(key=lambda item: item.part != "metadata")
    return BundlePlan(
        manifest=manifest, documents=((BUNDLE_MANIFEST, _json(manifest)), *documents), items=tuple(chosen)
    )


def _json(record: Record) -> bytes:
    # What is optional is left out, since readers may take null for a value
    return json.dumps(record.model_dump(mode="json", exclude_none=True), sort_keys=True, separators=(",", ":")).encode()


def order_in_bundle(part: str, key: str | None) -> tuple[int, str, int, str]:
    """What files of a bundle are sorted by: the part, in the order of `BUNDLE_PARTS`, and then the slot or key."""
    place = BUNDLE_PARTS.index(part) if part in BUNDLE_PARTS else len(BUNDLE_PARTS)
    slot = int(key) if key is not None and key.isdecimal() else -1
    return place, part, slot, key or ""


def target_name(part: str, key: str | None) -> str | None:
    """The name that a file of a bundle gets, in the zip as on the disk; None if part or key is not a plain word."""
    if not _WORD.fullmatch(part) or (key is not None and not _WORD.fullmatch(key)):
        return None
    if key is None:
        return _NAMES.get(part, f"other/{part}")
    match part:
        case "game_logs":
            return "logs/game.log" if key == "combined" else f"logs/game.{key}.log"
        case "player_logs":
            return f"logs/policy_agent_{key}.log"
        case "player_artifact":
            return f"artifacts/policy_artifact_{key}.zip"
        case _:
            return f"other/{part}-{key}"
