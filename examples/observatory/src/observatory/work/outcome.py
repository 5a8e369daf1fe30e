"""From an episode's workspace to its outcome on the platform: a verdict, and artifacts in the store."""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread

from coworld_core.episode.artifacts import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord
from coworld_core.episode.verdict import Verdict, VerdictPolicy

from ..episodes.stats import SeatNames, episode_stats
from ..store.artifacts import ArtifactStore
from .queue import Outcome, StoredArtifact

__all__ = ["MESSAGE_LIMIT", "POLICY", "outcome_of", "store_outcome"]

MESSAGE_LIMIT = 2000
"""The number of characters of an error message to keep."""
LOG_LINES = 10_000
"""The number of last lines of a player's log to keep."""
_PIECE = 1 << 18


POLICY = VerdictPolicy(players_end_it=False)
"""The platform's policy: games continue without a player that fails."""


def outcome_of(verdict: Verdict) -> Outcome:
    """The outcome of an episode that left nothing but the reason why it does not count."""
    return Outcome(
        status="failed",
        error_type=verdict.published_type,
        error=_said(verdict)[:MESSAGE_LIMIT],
        failed_policy_index=verdict.slot,
    )


async def store_outcome(
    record: EpisodeRecord,
    layout: EpisodeLayout,
    verdict: Verdict,
    seats: Sequence[SeatNames],
    *,
    store: ArtifactStore,
    prefix: str,
) -> Outcome:
    """Move a run's artifacts into the store, and return its outcome.

    Args:
        record: The run's record.
        layout: Its workspace.
        verdict: The verdict on the run.
        seats: The seats of the episode.
        store: The store.
        prefix: The place in the store; different for each attempt, so that none overwrites another's artifacts.

    Raises:
        OSError: The store cannot be written to.
    """
    packed = await anyio.to_thread.run_sync(_pack, layout, verdict, len(seats))
    artifacts: list[StoredArtifact] = []
    for item in packed:
        stored = await store.put(f"{prefix}/{item.name}", item.path)
        artifacts.append(
            StoredArtifact(
                kind=item.kind,
                position=item.position,
                key=stored.key,
                size=stored.size,
                sha256=stored.sha256,
                media_type=item.media_type,
                encoding=item.encoding,
            )
        )
    stats = episode_stats(record.results, seats) if verdict.counts and record.results is not None else None
    return Outcome(
        status="completed" if verdict.counts else "failed",
        error_type=verdict.published_type,
        error=None if verdict.counts else _said(verdict)[:MESSAGE_LIMIT],
        failed_policy_index=verdict.slot,
        scores=record.scores if verdict.counts else (),
        steps=stats["steps"] if stats else None,
        stats=stats,
        record=record.model_dump(mode="json", exclude={"results"}),
        artifacts=tuple(artifacts),
    )


@dataclass(frozen=True, kw_only=True)
class _Packed:
    kind: str
    name: str
    path: Path
    media_type: str
    encoding: str = "identity"
    position: int = -1


def _pack(layout: EpisodeLayout, verdict: Verdict, seats: int) -> list[_Packed]:
    """Prepare the files to keep, in a directory of their own within the workspace."""
    place = layout.workspace / ".kept"
    place.mkdir()
    packed: list[_Packed] = []
    if layout.results.is_file():
        packed.append(_Packed(kind="results", name="results.json", path=layout.results, media_type="application/json"))
    if layout.replay.is_file():
        target = place / "replay.z"
        _compress(layout.replay, target)
        packed.append(
            _Packed(kind="replay", name="replay.z", path=target, media_type="application/x-compress", encoding="zlib")
        )
    if not verdict.counts:
        target = place / "error_info.json"
        target.write_text(json.dumps(_error_info(verdict)) + "\n", encoding="utf-8")
        packed.append(_Packed(kind="error_info", name="error_info.json", path=target, media_type="application/json"))
    if any(log.is_file() for log in (layout.game_stdout, layout.game_stderr)):
        target = place / "game.log"
        with target.open("wb") as combined:
            for log in (layout.game_stdout, layout.game_stderr):
                if log.is_file():
                    with log.open("rb") as source:
                        while piece := source.read(_PIECE):
                            combined.write(piece)
        packed.append(_Packed(kind="game_logs", name="game.log", path=target, media_type="text/plain"))
    for slot in range(seats):
        log = layout.player_log(slot)
        if log.is_file():
            target = place / log.name
            _last_lines(log, target, LOG_LINES)
            packed.append(
                _Packed(kind="player_logs", name=log.name, path=target, media_type="text/plain", position=slot)
            )
        artifact = layout.player_artifact(slot)
        if artifact.is_file():
            packed.append(
                _Packed(
                    kind="player_artifact",
                    name=artifact.name,
                    path=artifact,
                    media_type="application/zip",
                    position=slot,
                )
            )
    return packed


def _error_info(verdict: Verdict) -> dict[str, Any]:
    return {
        "error_type": verdict.published_type,
        "message": _said(verdict)[:MESSAGE_LIMIT],
        "failed_policy_index": verdict.slot,
    }


def _said(verdict: Verdict) -> str:
    # Without the log's tail, since a player's log is private to its owner, and without hints at files of the workspace.
    hint = verdict.hint if verdict.hint and "logs/" not in verdict.hint else None
    return f"{verdict.published_message} {hint}" if hint else verdict.published_message


def _compress(source: Path, target: Path) -> None:
    packer = zlib.compressobj(6)
    with source.open("rb") as plain, target.open("xb") as packed:
        while piece := plain.read(_PIECE):
            packed.write(packer.compress(piece))
        packed.write(packer.flush())


def _last_lines(source: Path, target: Path, count: int) -> None:
    """Copy the last lines of a log."""
    starts: deque[int] = deque([0], maxlen=count + 1)
    with source.open("rb") as file:
        for line in file:
            starts.append(starts[-1] + len(line))
        # The last entry is the end of the file.
        file.seek(starts[0])
        with target.open("xb") as kept:
            while piece := file.read(_PIECE):
                kept.write(piece)
