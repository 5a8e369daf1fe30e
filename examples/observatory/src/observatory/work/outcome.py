"""From an episode's workspace to its outcome on the platform: a verdict, and artifacts in the store."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from coworld_core.episode import EpisodeLayout, EpisodeRecord, Verdict, VerdictPolicy, read_inaction
from coworld_core.roles import Content, episode_items, pieces_of

from ..episodes.stats import SeatNames, episode_stats
from ..store.artifacts import ArtifactStore
from .queue import Outcome, StoredArtifact
from .seat_files import SeatLimits, keep_log

__all__ = ["POLICY", "judge_inaction", "outcome_of", "store_outcome"]

POLICY = VerdictPolicy(players_end_it=False)
"""The platform's policy: games continue without a player that fails."""


def outcome_of(verdict: Verdict, *, seat: int | None = None) -> Outcome:
    """The outcome of an episode that left nothing but the reason why it does not count.

    Args:
        verdict: The verdict on it.
        seat: The seat whose policy cannot be played here, if that is the reason.
    """
    return Outcome(
        status="failed",
        error_type=verdict.published_type,
        error=verdict.published_message,
        failed_policy_index=verdict.slot,
        unplayable_seat=seat,
    )


def judge_inaction(verdict: Verdict, layout: EpisodeLayout, seats: int) -> Verdict:
    """The verdict on the check of a newcomer: a policy that never acts fails it, if the game tells who acts."""
    if not verdict.counts:
        return verdict
    for slot, seen in read_inaction(layout.game_events, seats).items():
        message = f"In seat {slot}, it {seen.inaction}."
        return Verdict(counts=False, party="player", error_type="player_error", message=message, slot=slot)
    return verdict


async def store_outcome(
    record: EpisodeRecord,
    layout: EpisodeLayout,
    verdict: Verdict,
    seats: Sequence[SeatNames],
    *,
    limits: SeatLimits,
    store: ArtifactStore,
    prefix: str,
) -> Outcome:
    """Move a run's artifacts into the store, and return its outcome.

    Args:
        record: The run's record.
        layout: Its workspace.
        verdict: The verdict on the run.
        seats: The seats of the episode.
        limits: What each of them may leave.
        store: The store.
        prefix: The place in the store; different for each attempt, so that none overwrites another's artifacts.

    Raises:
        OSError: The store cannot be written to.
    """
    packed = await anyio.to_thread.run_sync(_pack, layout, verdict, len(seats), limits)
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
        error=None if verdict.counts else verdict.published_message,
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


_MEDIA_TYPES = {
    "results": "application/json",
    "replay": "application/x-compress",
    "error_info": "application/json",
    "player_artifact": "application/zip",
}


def _pack(layout: EpisodeLayout, verdict: Verdict, seats: int, limits: SeatLimits) -> list[_Packed]:
    """Prepare the files to keep, in a directory of their own within the workspace."""
    place = layout.workspace / ".kept"
    place.mkdir()
    packed: list[_Packed] = []
    notes = _refuse_artifacts(layout, seats, limits)
    for item in episode_items(layout, verdict, slots=seats):
        target = place / Path(item.name).name
        match item.part, item.source:
            case "replay", _:
                target = place / "replay.z"
                _compress(item.source, target)
            case "player_logs", (Path() as log,):
                keep_log(log, target, limits, note=notes.get(item.slot or 0, ""))
            case _, (Path() as only,) if only.name == target.name:
                target = only
            case _:
                with target.open("xb") as kept:
                    kept.writelines(pieces_of(item.source))
        packed.append(
            _Packed(
                kind=item.part,
                name=target.name,
                path=target,
                media_type=_MEDIA_TYPES.get(item.part, "text/plain"),
                encoding="zlib" if item.part == "replay" else "identity",
                position=-1 if item.slot is None else item.slot,
            )
        )
    return packed


def _refuse_artifacts(layout: EpisodeLayout, seats: int, limits: SeatLimits) -> dict[int, str]:
    """Remove the artifacts that are too large; returns what their seats' logs, which exist from then on, say of it."""
    notes: dict[int, str] = {}
    for slot in range(seats):
        artifact = layout.player_artifact(slot)
        if artifact.is_file() and (note := limits.note_on_artifact(artifact.stat().st_size)):
            artifact.unlink()
            layout.player_log(slot).touch()
            notes[slot] = note
    return notes


def _compress(source: Content, target: Path) -> None:
    packer = zlib.compressobj(6)
    with target.open("xb") as packed:
        packed.writelines(packer.compress(piece) for piece in pieces_of(source))
        packed.write(packer.flush())
