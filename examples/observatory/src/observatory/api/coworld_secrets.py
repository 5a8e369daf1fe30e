"""Secrets of Coworlds: put, listed by name, deleted; never shown."""

from __future__ import annotations

import re
from typing import Annotated

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api

from ..errors import Refusal, forbidden, not_found
from ..identity.auth import Caller
from ..identity.limits import require_stored
from ..names import name_key
from ..store.audit import audit
from ..store.columns import JsonObject, now
from ..store.models import Coworld, CoworldName, CoworldSecret
from .routing import ApiRouter, Call, Json, SignedIn, gate, read_body, refusals

__all__ = ["router"]

router = ApiRouter(tags=["Secrets"])

MAX_SECRET = 1024 * 1024
"""Longest secret, in bytes."""

_RAW = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
"""Declared for the OpenAPI document, since the handler reads the body itself."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)


@router.get("/v2/coworlds/secrets/{coworld}", response_model=list[api.Secret])
async def list_secrets(call: SignedIn, coworld: str) -> Json:
    """Names of the secrets of your own Coworld."""
    owner = await _own_name(call.db, call.caller, coworld)
    rows = await call.db.scalars(
        sa.select(CoworldSecret).where(CoworldSecret.name_key == owner.key).order_by(CoworldSecret.name)
    )
    canonical = await _canonical_id(call.db, owner)
    return Json([_secret_json(row, owner, canonical) for row in rows])


@router.put(
    "/v2/coworlds/secrets/{coworld}/{name}", response_model=api.Secret, responses=refusals(400, 413), openapi_extra=_RAW
)
async def put_secret(call: Annotated[Call, gate("known", held=False)], coworld: str, name: str) -> Json:
    """Set a secret of your own Coworld, given as raw bytes."""
    if not _NAME.fullmatch(name):
        raise Refusal(400, "The name of a secret must be 1 to 128 letters, digits, `_`, `.` or `-`.", code="bad_name")
    # The sender may be slow, so the transaction begins after the body.
    content = await read_body(call.request, MAX_SECRET)
    async with call.services.database.writing() as session:
        owner = await _own_name(session, call.caller, coworld)
        row = await session.scalar(
            sa.select(CoworldSecret).where(CoworldSecret.name_key == owner.key, CoworldSecret.name == name)
        )
        if row is None:
            row = CoworldSecret(name_key=owner.key, name=name, user_id=owner.user_id)
            session.add(row)
        row.size_bytes, row.updated_at, row.sealed = len(content), now(), call.services.vault.seal(content)
        subject = f"{owner.name}/{name}"
        audit(session, "secret.kept", user_id=row.user_id, subject=subject, bytes=len(content))
        await session.flush()
        await require_stored(session, call.caller.require(), call.services.settings.quotas)
        return Json(_secret_json(row, owner, await _canonical_id(session, owner)))


@router.delete("/v2/coworlds/secrets/{coworld}/{name}", response_model=api.Secret)
async def delete_secret(call: SignedIn, coworld: str, name: str) -> Json:
    """Delete a secret of your own Coworld."""
    owner = await _own_name(call.db, call.caller, coworld)
    row = await call.db.scalar(
        sa.select(CoworldSecret).where(CoworldSecret.name_key == owner.key, CoworldSecret.name == name)
    )
    if row is None:
        raise not_found("secret", name)
    answer = _secret_json(row, owner, await _canonical_id(call.db, owner))
    audit(call.db, "secret.deleted", user_id=row.user_id, subject=f"{owner.name}/{name}")
    await call.db.delete(row)
    return Json(answer)


async def _own_name(session: AsyncSession, caller: Caller, coworld: str) -> CoworldName:
    owner = await session.get(CoworldName, name_key(coworld))
    if owner is None and (version := await session.get(Coworld, coworld)) is not None:
        owner = await session.get(CoworldName, version.name_key)
    if owner is None:
        raise not_found("Coworld", coworld)
    if not caller.owns(owner.user_id):
        raise forbidden(f"{owner.name} belongs to another account.")
    return owner


async def _canonical_id(session: AsyncSession, owner: CoworldName) -> str | None:
    return await session.scalar(sa.select(Coworld.id).where(Coworld.name_key == owner.key, Coworld.canonical))


def _secret_json(row: CoworldSecret, owner: CoworldName, coworld_id: str | None) -> JsonObject:
    return {
        "coworld_id": coworld_id,
        "coworld_name": owner.name,
        "owner_user_id": row.user_id,
        "owner_name": owner.user.name,
        "secret_name": row.name,
        "size_bytes": row.size_bytes,
        "updated_at": row.updated_at,
    }
