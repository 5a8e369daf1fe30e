"""The bundle of an episode here: what it contains for whom, as downloads and supporting roles get it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from coworld_core.episode import read_record
from coworld_core.roles import BUNDLE_PARTS, BundleItem, BundleMetadata, BundlePlan, episode_metadata, plan_bundle

from ..store.models import Artifact, EpisodeRequest

__all__ = ["bundle_of", "digest_of"]


def bundle_of(
    row: EpisodeRequest, *, include: Collection[str] | None = None, slots: Collection[int] | None = None
) -> BundlePlan[Artifact]:
    """Plan the bundle of an episode that is over.

    Args:
        row: The episode, with its artifacts.
        include: Parts to deliver; None: all.
        slots: The slots whose players' logs and artifacts are delivered; None: all.
    """
    return plan_bundle(
        row.id,
        [_item(kept) for kept in row.artifacts if kept.kind in BUNDLE_PARTS],
        status="success" if row.status == "completed" else "failed",
        metadata=_metadata(row),
        include=include,
        slots=slots,
    )


def digest_of(plan: BundlePlan[Artifact]) -> str:
    """Digest of a bundle's content, in hexadecimal, without reading it."""
    parts = [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in plan.documents]
    parts += [f"{item.name} {item.source.sha256}" for item in plan.items]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _item(artifact: Artifact) -> BundleItem[Artifact]:
    key = str(artifact.position) if artifact.position >= 0 else "combined" if artifact.kind == "game_logs" else None
    return BundleItem(part=artifact.kind, key=key, source=artifact)


def _metadata(row: EpisodeRequest) -> BundleMetadata:
    if row.record is not None:
        return episode_metadata(read_record(row.record), episode_id=row.episode_id)
    return BundleMetadata(episode_id=row.episode_id, variant_id=row.variant_id or "unknown")
