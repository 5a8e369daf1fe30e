"""What an episode's workspace contributes to a bundle. Its config, record and events are not part of any bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..episode.layout import EpisodeLayout
from ..episode.record import EpisodeRecord
from ..episode.verdict import Verdict
from .bundle import BundledSeat, BundleItem, BundleMetadata

__all__ = ["Content", "episode_items", "episode_metadata", "pieces_of"]

Content = bytes | tuple[Path, ...]
"""The content of a file: bytes, or the files that make it up one after the other."""

_CHUNK = 1 << 18


def episode_items(layout: EpisodeLayout, verdict: Verdict, *, slots: int) -> tuple[BundleItem[Content], ...]:
    """List what an episode has left for its bundle: files that exist, and the error if it does not count.

    Args:
        layout: Its workspace.
        verdict: How it counts.
        slots: Number of its slots.
    """

    def found() -> Iterator[tuple[str, str | None, tuple[Path, ...]]]:
        yield "results", None, (layout.results,)
        yield "replay", None, (layout.replay,)
        yield "game_logs", "combined", (layout.game_stdout, layout.game_stderr)
        for slot in range(slots):
            yield "player_logs", str(slot), (layout.player_log(slot),)
            yield "player_artifact", str(slot), (layout.player_artifact(slot),)

    error = () if verdict.counts else (BundleItem[Content](part="error_info", source=verdict.error_info),)
    return (
        *error,
        *(
            BundleItem[Content](part=part, key=key, source=there)
            for part, key, paths in found()
            if (there := tuple(path for path in paths if path.is_file() and not path.is_symlink()))
        ),
    )


def episode_metadata(record: EpisodeRecord, *, episode_id: str | None = None) -> BundleMetadata:
    """The metadata of an episode.

    Args:
        record: Its record.
        episode_id: Another id of it, if it has one.
    """
    return BundleMetadata(
        episode_id=episode_id,
        variant_id=record.variant,
        duration_seconds=record.seconds,
        players=tuple(BundledSeat(slot=seat.slot, policy_name=seat.name or None) for seat in record.slots),
    )


def pieces_of(content: Content) -> Iterator[bytes]:
    """Read a content piece by piece.

    Raises:
        OSError: A file cannot be read.
    """
    if isinstance(content, bytes):
        yield content
        return
    for path in content:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield piece
