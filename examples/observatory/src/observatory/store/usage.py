"""Stored bytes by account and kind, computed from existing rows: deleted items no longer count."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from .models import (
    CHECK,
    Artifact,
    Coworld,
    CoworldSecret,
    EpisodeRequest,
    Image,
    ImageChain,
    Participant,
    RegistryBlob,
    RegistryManifest,
    RoleRun,
)

__all__ = ["stored", "stored_bytes"]


def stored(user_id: str | None = None) -> sa.Subquery:
    """Stored items: rows of `user_id`, `kind`, `items`, `size` in bytes.

    An image's layers count once for each account that has them, on top of the same layers: an engine unpacks a layer
    anew on top of others. What is in no complete image counts once. Artifacts count for the account that requested the
    episode; but where a league ordered it, a player's log and artifact count for the policy's owner. What roles say
    counts for the account that asked for them.

    Args:
        user_id: Only this account.
    """
    places = sa.select(Image.user_id, Image.repository).distinct().subquery()
    chained = sa.select(Image.user_id, ImageChain.chain, ImageChain.size).join(Image, Image.id == ImageChain.image_id)
    if user_id is not None:
        chained = chained.where(Image.user_id == user_id)
    parts: list[sa.Select[Any, Any, Any, Any]] = [_summed(chained.distinct().subquery(), "images")]
    in_chain = sa.exists().where(
        ImageChain.digest == RegistryBlob.digest,
        ImageChain.image_id == Image.id,
        Image.user_id == places.c.user_id,
    )
    for table in (RegistryBlob, RegistryManifest):
        layers = (
            sa.select(places.c.user_id, table.digest, table.size)
            .join(places, places.c.repository == table.repository)
            .distinct()
        )
        if table is RegistryBlob:
            layers = layers.where(~in_chain)
        if user_id is not None:
            layers = layers.where(places.c.user_id == user_id)
        parts.append(_summed(layers.subquery(), "images"))
    for table in (Coworld, CoworldSecret):
        rows = sa.select(table.user_id, table.size_bytes.label("size"))
        if user_id is not None:
            rows = rows.where(table.user_id == user_id)
        parts.append(_summed(rows.subquery(), table.__tablename__))
    left = _artifacts(user_id).subquery()
    parts.append(
        sa.select(
            left.c.user_id, left.c.kind, sa.func.count().label("items"), sa.func.sum(left.c.size).label("size")
        ).group_by(left.c.user_id, left.c.kind)
    )
    said = sa.select(RoleRun.user_id, RoleRun.output_size.label("size")).where(RoleRun.output_key.is_not(None))
    if user_id is not None:
        said = said.where(RoleRun.user_id == user_id)
    parts.append(_summed(said.subquery(), "role_runs"))
    every = sa.union_all(*parts).subquery()
    return (
        sa.select(
            every.c.user_id,
            every.c.kind,
            sa.func.sum(every.c["items"]).label("items"),
            sa.func.sum(every.c.size).label("size"),
        )
        .group_by(every.c.user_id, every.c.kind)
        .subquery()
    )


async def stored_bytes(session: AsyncSession, user_id: str) -> int:
    """The number of bytes stored by an account."""
    return int(await session.scalar(sa.select(sa.func.sum(stored(user_id).c.size))) or 0)


def _artifacts(user_id: str | None) -> sa.CompoundSelect[Any]:
    # Two selects, each of which finds one account's rows by an index, as a choice between two accounts would not.
    owned = sa.and_(
        Participant.episode_request_id == Artifact.episode_request_id,
        Participant.position == Artifact.position,
        Participant.user_id.is_not(None),
        Artifact.kind.in_(("player_logs", "player_artifact")),
        sa.or_(EpisodeRequest.round_id.is_not(None), EpisodeRequest.source == CHECK),
    )
    episodes = EpisodeRequest.id == Artifact.episode_request_id
    of_requests = (
        sa.select(EpisodeRequest.user_id, Artifact.kind, Artifact.size)
        .join(Artifact, episodes)
        .outerjoin(Participant, owned)
        .where(Participant.position.is_(None))
    )
    of_policies = (
        sa.select(Participant.user_id, Artifact.kind, Artifact.size)
        .select_from(Artifact)
        .join(EpisodeRequest, episodes)
        .join(Participant, owned)
    )
    if user_id is not None:
        of_requests = of_requests.where(EpisodeRequest.user_id == user_id)
        of_policies = of_policies.where(Participant.user_id == user_id)
    return sa.union_all(of_requests, of_policies)


def _summed(rows: sa.Subquery, kind: str) -> sa.Select[Any, Any, Any, Any]:
    return sa.select(
        rows.c.user_id,
        sa.literal(kind).label("kind"),
        sa.func.count().label("items"),
        sa.func.sum(rows.c.size).label("size"),
    ).group_by(rows.c.user_id)
