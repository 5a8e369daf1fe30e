"""The episode bundle: the artifacts of an episode that a caller may see, as one zip created while it is sent."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "BUNDLE_TOKENS",
    "BundlePlan",
    "Kept",
    "ZipEntry",
    "plan_bundle",
    "stream_zip",
    "unknown_tokens",
    "zip_entry",
]

BundleToken = Literal["results", "replay", "error_info", "game_logs", "player_logs", "player_artifact"]

BUNDLE_TOKENS: tuple[BundleToken, ...] = (
    "results",
    "replay",
    "error_info",
    "game_logs",
    "player_logs",
    "player_artifact",
)
"""The contents that can be requested, in the order of the zip."""

_NAMES: dict[str, str] = {
    "results": "results.json",
    "replay": "replay",
    "error_info": "error_info.json",
    "game_logs": "logs/game.log",
    "player_logs": "logs/policy_agent_{}.log",
    "player_artifact": "artifacts/policy_artifact_{}.zip",
}
_PACKED = frozenset({"player_artifact"})
"""Contents that are zips already; compressing them again would only take time."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """An artifact of an episode."""

    category: str
    """A bundle token."""
    position: int | None = None
    """The player's slot, for a player's artifact."""


@dataclass(frozen=True, kw_only=True)
class ZipEntry:
    """One file of a zip."""

    name: str
    chunks: Callable[[], AsyncIterable[bytes]] = field(repr=False)
    compress: bool = True


@dataclass(frozen=True, kw_only=True)
class BundlePlan:
    """The manifest of a bundle, and the source of each of its files."""

    manifest: dict[str, Any]
    files: tuple[tuple[str, Kept], ...]
    """Name in the zip, and the artifact."""

    @staticmethod
    def compresses(kept: Kept) -> bool:
        """Whether an artifact is worth compressing."""
        return kept.category not in _PACKED


def unknown_tokens(include: Collection[str]) -> tuple[str, ...]:
    """Tokens that are not defined for bundles."""
    return tuple(token for token in include if token not in BUNDLE_TOKENS)


def plan_bundle(
    episode_id: str,
    *,
    succeeded: bool,
    kept: Sequence[Kept],
    include: Collection[str] | None = None,
    slots: Collection[int] | None = (),
) -> BundlePlan:
    """Decide what a bundle contains.

    Args:
        episode_id: The episode request's id.
        succeeded: Whether it completed.
        kept: Its artifacts.
        include: Requested tokens; None for all. Artifacts that the caller may not see are left out silently.
        slots: Slots of the caller's own policy versions, whose logs and artifacts the caller may see; None: all.
    """
    wanted = BUNDLE_TOKENS if include is None else tuple(token for token in BUNDLE_TOKENS if token in include)
    files: list[tuple[str, Kept]] = []
    listing: dict[str, Any] = {}
    for part in wanted:
        mine = sorted(
            (
                item
                for item in kept
                if item.category == part and (item.position is None or slots is None or item.position in slots)
            ),
            key=lambda item: item.position or 0,
        )
        if not mine:
            continue
        if part in ("player_logs", "player_artifact"):
            names = {str(item.position): _NAMES[part].format(item.position) for item in mine}
            listing[part] = names
            files += [(names[str(item.position)], item) for item in mine]
        else:
            listing[part] = {"combined": _NAMES[part]} if part == "game_logs" else _NAMES[part]
            files.append((_NAMES[part], mine[0]))
    manifest = {
        "ereq_id": episode_id,
        "status": "success" if succeeded else "failed",
        "include": list(listing),
        "files": listing,
    }
    return BundlePlan(manifest=manifest, files=tuple(files))


class _Outlet(io.RawIOBase):
    """Passes on the output of a zip writer at once; not seekable."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


async def stream_zip(manifest: dict[str, Any], entries: Sequence[ZipEntry]) -> AsyncGenerator[bytes]:
    """Generate the bytes of a zip; memory does not grow with the size of the entries.

    Args:
        manifest: The content of `manifest.json`, the first entry.
        entries: The other entries, in order.
    """
    outlet = _Outlet()
    with zipfile.ZipFile(outlet, "w", allowZip64=True) as archive:
        text = (json.dumps(manifest, indent=2) + "\n").encode()
        archive.writestr(zip_entry("manifest.json", compress=True), text)
        for entry in entries:
            with archive.open(zip_entry(entry.name, compress=entry.compress), "w", force_zip64=True) as file:
                async for chunk in entry.chunks():
                    file.write(chunk)
                    if ready := outlet.take():
                        yield ready
            if ready := outlet.take():
                yield ready
    yield outlet.take()


def zip_entry(name: str, *, compress: bool) -> zipfile.ZipInfo:
    """The entry of a file, with a fixed time, so that the same content gives the same bytes."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    info.external_attr = 0o644 << 16
    return info
