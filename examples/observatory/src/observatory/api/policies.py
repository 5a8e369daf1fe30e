"""Policies: player programs by name and version, with secrets for their own seats only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field
from sqlalchemy.orm import joinedload
from starlette.responses import Response

from coworld_core import api
from coworld_core.reserved_env import is_reserved_env

from ..episodes.downloads import send_stored
from ..errors import Refusal, conflict, forbidden, invalid, not_found
from ..identity.auth import Caller
from ..names import Name, new_name, require_distinct
from ..operations.moderation import disabled_since
from ..store.artifacts import StoredObject
from ..store.audit import audit
from ..store.columns import JsonObject
from ..store.kept_labels import labelled, labels_of, set_labels
from ..store.models import Image, Policy, PolicySecretEnv, PolicyVersion, User
from ..store.player_files import PLAYER_MEDIA, holds_player, keep_player
from .images import find_image
from .pagination import Envelope, LabelledQuery, paginate
from .playable import require_version_runs
from .routing import ApiRouter, Call, Json, SignedIn, binary, gate, refusals

__all__ = ["own_versions", "router"]

router = ApiRouter(tags=["Policies"])


class VersionQuery(LabelledQuery):
    """Filters for policy versions."""

    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of rows in the page.")
    mine: bool = Field(default=False, description="Only the caller's own; team members may list all.")
    name_exact: api.Text | None = Field(default=None, description="Only versions of the policy with this name.")
    version: int | None = Field(default=None, ge=1, le=10**9, description="Only the version with this number.")


@router.post("/stats/policy-secret-envs", response_model=api.PolicySecretEnvCreated)
async def create_secret_env(call: SignedIn, body: api.PolicySecretEnvBody) -> Json:
    """Store secret environment variables for the next policy version."""
    for name in body.policy_secret_env:
        if is_reserved_env(name):
            raise invalid(f"{name} is reserved for the platform.", at=("body", "policy_secret_env", name))
    sealed = call.services.vault.seal(json.dumps(body.policy_secret_env).encode())
    row = PolicySecretEnv(user_id=call.caller.require().id, names=sorted(body.policy_secret_env), sealed=sealed)
    call.db.add(row)
    await call.db.flush()
    audit(call.db, "secret.kept", user_id=row.user_id, subject=row.id, names=row.names)
    return Json({"id": row.id})


@router.delete(
    "/stats/policy-secret-envs/{secret_env_id}", response_model=api.PolicySecretEnvCreated, responses=refusals(409)
)
async def delete_secret_env(call: Annotated[Call, gate("known", held=False)], secret_env_id: str) -> Json:
    """Delete secret environment variables that no policy version uses."""
    async with call.services.database.writing() as session:
        row = await session.get(PolicySecretEnv, secret_env_id, with_for_update=True)
        if row is None or row.user_id != call.caller.user_id:
            raise not_found("secret environment of yours", secret_env_id)
        used = await session.scalar(
            sa.select(PolicyVersion.id).where(PolicyVersion.secret_env_id == secret_env_id).limit(1)
        )
        if used is not None:
            raise conflict(f"The policy version {used} uses these secrets, so they cannot be deleted.", code="in_use")
        audit(session, "secret.deleted", user_id=row.user_id, subject=row.id)
        await session.delete(row)
    return Json({"id": secret_env_id})


@router.post("/stats/policies/docker-img/complete", response_model=api.PolicyVersionCreated, responses=refusals(409))
async def create_policy_version(call: SignedIn, body: api.PolicyVersionBody) -> Json:
    """Create the next version of a policy from an uploaded image."""
    image = await _own_image(call, body.container_image_id)
    await _check_secret_env(call, body.policy_secret_env_id)
    return Json(await _next_version(call, image, body, run=body.run))


@router.post("/stats/policies/files", response_model=api.PolicyVersionCreated, responses=refusals(409))
async def create_policy_of_files(call: SignedIn, body: api.PolicyFilesBody) -> Json:
    """Create the next version of a policy from a player's files, if a worker accepts such."""
    await _check_secret_env(call, body.policy_secret_env_id)
    image = await keep_player(call.services.blobs, call.db, call.caller.require(), body.player)
    return Json(await _next_version(call, image, body))


@router.get("/stats/policy-versions", response_model=Envelope[api.PolicyVersionRow])
async def list_policy_versions(call: SignedIn, query: Annotated[VersionQuery, Query()]) -> Json:
    """Your own policy versions, newest first, so the highest version of a name comes first."""
    statement = sa.select(PolicyVersion).join(Policy, Policy.id == PolicyVersion.policy_id)
    if query.mine or not call.caller.elevated:
        statement = statement.where(own_versions(call.caller))
    if query.name_exact is not None:
        statement = statement.where(Policy.name == query.name_exact)
    if query.version is not None:
        statement = statement.where(PolicyVersion.version == query.version)
    statement = statement.where(labelled(PolicyVersion.id, query.labels))
    moment, key, options = PolicyVersion.created_at, PolicyVersion.id, (joinedload(PolicyVersion.image),)
    page = await paginate(call.db, statement, query, moment=moment, key=key, options=options)
    tags = await labels_of(call.db, [row.id for row in page.rows])
    return Json(page.envelope(lambda row: _row_json(row, tags[row.id])))


@router.get(
    "/stats/policy-versions/{version_id}/files", response_class=binary(PLAYER_MEDIA), responses=refusals(409, 410, 416)
)
async def get_policy_files(call: SignedIn, version_id: str) -> Response:
    """The files of your own policy version, as they were uploaded; its owner's alone."""
    version = await call.db.get(PolicyVersion, version_id, options=[joinedload(PolicyVersion.image)])
    # Also of a member of the team: nobody but the owner reads a player's code.
    if version is None or not call.caller.is_owner(version.user_id, version.player_id):
        raise not_found("policy version of yours", version_id)
    image = version.image
    if image.digest is None or not await holds_player(call.db, image):
        raise conflict(
            f"{version.policy.name}:v{version.version} is an image, not files: pull it from where it was pushed.",
            code="policy_is_image",
        )
    blobs = call.services.blobs
    if (size := await blobs.size(image.digest)) is None:
        raise Refusal(410, "The files of this version are no longer here.", code="gone")
    stored = StoredObject(blobs.key(image.digest), size, image.digest)
    return send_stored(call.services.artifacts, call.request, stored, headers={}, media_type=PLAYER_MEDIA)


@router.get("/v2/policies/{policy_id}/selection-access", response_model=api.SelectionAccess)
async def get_access(call: SignedIn, policy_id: str) -> Json:
    """Who may use your own policy in episodes."""
    return Json({"selection_scope": (await _own_policy(call, policy_id)).selection_scope})


@router.put("/v2/policies/{policy_id}/selection-access", response_model=api.SelectionAccess)
async def set_access(call: SignedIn, policy_id: str, body: api.SelectionAccessBody) -> Json:
    """Set who may use your own policy in episodes."""
    policy = await _own_policy(call, policy_id)
    policy.selection_scope = body.selection_scope
    return Json({"selection_scope": policy.selection_scope})


def own_versions(caller: Caller) -> sa.ColumnElement[bool]:
    """The condition on the policy versions of a caller and its teams; a player's session has those without a player."""
    own = PolicyVersion.user_id.in_(caller.accounts)
    if caller.player_id is None:
        return own
    return sa.and_(own, sa.or_(PolicyVersion.player_id.is_(None), PolicyVersion.player_id == caller.player_id))


async def _next_version(
    call: Call,
    image: Image,
    body: api.PolicyVersionBody | api.PolicyFilesBody,
    *,
    run: Sequence[str] | None = None,
) -> JsonObject:
    user = call.caller.require()
    policy = await _own_named(call, user, body.name) or await _new_policy(call, user, new_name(body.name))
    last = await call.db.scalar(
        sa.select(sa.func.max(PolicyVersion.version)).where(PolicyVersion.policy_id == policy.id)
    )
    version = PolicyVersion(
        policy_id=policy.id,
        version=(last or 0) + 1,
        user_id=user.id,
        player_id=call.caller.player_id,
        image_id=image.id,
        run=list(run) if run is not None else None,
        secret_env_id=body.policy_secret_env_id,
    )
    await require_version_runs(call, version, image, is_played=False)
    call.db.add(version)
    await call.db.flush()
    await set_labels(call.db, version.id, body.tags)
    subject = f"{policy.name}:v{version.version}"
    audit(call.db, "policy.uploaded", user_id=user.id, subject=subject, id=version.id, image=image.digest)
    return {"id": version.id, "name": policy.name, "version": version.version, "pools": None, "submit_error": None}


async def _own_named(call: Call, user: User, name: str) -> Policy | None:
    return await call.db.scalar(
        sa.select(Policy).where(Policy.user_id == user.id, Policy.name == name).with_for_update()
    )


async def _new_policy(call: Call, user: User, name: Name) -> Policy:
    """The caller's policy of a name that is not written in this way yet.

    Raises:
        NameRefused: It can be taken for the name of another account. Policies of several accounts may have one name.
    """
    if (policy := await _own_named(call, user, name)) is not None:
        return policy
    others = await call.db.scalars(sa.select(User.name).where(User.id != user.id))
    require_distinct(name, others, "the user {!r}")
    policy = Policy(user_id=user.id, name=name)
    call.db.add(policy)
    await call.db.flush()
    return policy


async def _own_image(call: Call, image_id: str) -> Image:
    image = await find_image(call.db, call.caller, image_id)
    if not (image.public or call.caller.elevated) and image.user_id != call.caller.user_id:
        raise forbidden("The image belongs to a team, or to one of its members: upload it in the same name.")
    if image.status != "ready":
        raise invalid(
            f"The upload of the image {image.name} is not complete. Push it first.", at=("body", "container_image_id")
        )
    return image


async def _check_secret_env(call: Call, secret_env_id: str | None) -> None:
    if secret_env_id is None:
        return
    row = await call.db.get(PolicySecretEnv, secret_env_id)
    if row is None or row.user_id != call.caller.user_id:
        raise not_found("secret environment of yours", secret_env_id)


async def _own_policy(call: Call, policy_id: str) -> Policy:
    policy = await call.db.get(Policy, policy_id)
    if policy is None:
        raise not_found("policy", policy_id)
    if not call.caller.owns(policy.user_id):
        raise forbidden("This policy belongs to another account.")
    return policy


def _row_json(version: PolicyVersion, tags: dict[str, str]) -> JsonObject:
    disabled_at, disabled_reason = disabled_since(version) or (None, None)
    image = version.image
    return {
        "id": version.id,
        "policy_version_id": version.id,
        "policy_id": version.policy_id,
        "name": version.policy.name,
        "policy_name": version.policy.name,
        "version": version.version,
        "user_id": version.user_id,
        "player_id": version.player_id,
        "user_name": version.user.name,
        "player_name": version.player.name if version.player else None,
        "tags": tags,
        "created_at": version.created_at,
        "kind": "files" if image.client_hash.startswith(f"{PLAYER_MEDIA};") else "image",
        "source": image.name,
        "digest": image.digest,
        "disabled_at": disabled_at,
        "disabled_reason": disabled_reason,
    }
