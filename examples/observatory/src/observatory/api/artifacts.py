"""Artifacts of episodes: single files, bundles, and links that need no token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from coworld_core import api
from coworld_core.roles import BUNDLE_PARTS

from ..episodes.access import find_episode, own_slots, sealed, visible
from ..episodes.bundles import bundle_of
from ..episodes.downloads import filename_of, send, send_plain, stream_bundle
from ..errors import Refusal, forbidden, invalid, not_found
from ..identity.auth import Caller
from ..operations.retention import PRUNED
from ..services import Services
from ..store.columns import JsonObject
from ..store.models import FINAL_STATUSES, Artifact, Coworld, EpisodeRequest
from .episodes import find_job, refuse_unfinished, split_ids
from .pagination import PageQuery, paginate_episodes
from .routing import Anyone, ApiRouter, Call, Json, QueryModel, SignedIn, Team, binary, gate, refusals

__all__ = ["router", "send_bundle"]

router = ApiRouter(tags=["Artifacts"])

INLINE_LIMIT = 64 * 1024
"""JSON up to this many bytes is included in a download manifest."""

_KINDS = {"results": "results", "replay": "replay", "logs": "game_logs", "error-info": "error_info"}
CATEGORIES = ("results", "replay", "events", "error_info", "game_logs", "player_logs", "player_artifact")


class BundleQuery(QueryModel):
    """The contents of a bundle."""

    include: str | None = Field(
        default=None,
        max_length=200,
        description=f"Comma-separated: {', '.join(BUNDLE_PARTS)}.",
    )


class LinkQuery(QueryModel):
    """The expiry and signature of a link."""

    expires: str = Field(default="", max_length=20)
    signature: str = Field(default="", max_length=80)


class DownloadQuery(PageQuery):
    """The episodes and artifacts to download."""

    ids: list[str] = Field(description="1 to 50 ids, either all of episode requests or all of experience requests.")
    include: list[str] | None = Field(default=None, description="Categories; all by default.")
    agent: list[int] | None = Field(default=None, description="Slots, for players' files; all by default.")


# --- single files


@router.get(
    "/v2/episode-requests/{ereq}/artifacts/{kind}",
    response_class=binary("application/octet-stream"),
    responses=refusals(409, 412, 416),
)
async def get_artifact(call: Anyone, ereq: str, kind: str) -> Response:
    """One artifact: `spec`, `game-config`, `logs`, `error-info`, `results` or `replay` (unpacked)."""
    row = await find_episode(call.db, call.services, call.caller, ereq)
    if kind == "game-config":
        if sealed(row, call.caller):
            refuse_unfinished(row)
        return _json(row.game_config)
    if kind == "spec":
        return _json(await _spec(call, row))
    if kind not in _KINDS:
        known = ", ".join(("spec", "game-config", *_KINDS))
        raise Refusal(404, f"Unknown kind of artifact: {kind!r}. Allowed: {known}.", code="not_found")
    return send_plain(call.services.artifacts, call.request, _kept(row, _KINDS[kind]))


@router.get(
    "/v2/episode-requests/{ereq}/{version_id}/policy-logs/{agent}",
    response_class=binary("text/plain"),
    responses=refusals(409, 410),
)
async def get_policy_log(call: SignedIn, ereq: str, version_id: str, agent: str) -> Response:
    """The log of your own player: its last 10,000 lines, and no more bytes than its league keeps."""
    return await _of_player(call, ereq, version_id, agent, "player_logs")


@router.get(
    "/v2/episode-requests/{ereq}/{version_id}/policy-artifact/{agent}",
    response_class=binary("application/zip"),
    responses=refusals(409, 412, 416),
)
async def get_policy_artifact(call: SignedIn, ereq: str, version_id: str, agent: str) -> Response:
    """The artifact of your own player."""
    return await _of_player(call, ereq, version_id, agent, "player_artifact")


@router.get("/v2/episode-requests/{ereq}/bundle", response_class=binary("application/zip"), responses=refusals(409))
async def get_bundle(call: Anyone, ereq: str, query: Annotated[BundleQuery, Query()]) -> Response:
    """All artifacts of an episode that you may see, as one zip."""
    include = None
    if query.include is not None:
        include = [token.strip() for token in query.include.split(",") if token.strip()]
        if unknown := [token for token in include if token not in BUNDLE_PARTS]:
            raise invalid(f"Unknown part of a bundle: {unknown[0]!r}.", at=("query", "include"))
    row = await find_episode(call.db, call.services, call.caller, ereq)
    refuse_unfinished(row)
    return send_bundle(call.services, call.request, call.caller, row, include=include)


def send_bundle(
    services: Services, request: Request, caller: Caller, row: EpisodeRequest, *, include: Sequence[str] | None
) -> Response:
    """Send the bundle of an episode that is over, as far as the caller may see it."""
    plan = bundle_of(row, include=include, slots=own_slots(caller, row))
    headers = {"Content-Disposition": f'attachment; filename="{row.id}.zip"'}
    if request.method == "HEAD":
        return Response(headers=headers, media_type="application/zip")
    return StreamingResponse(stream_bundle(services.artifacts, plan), headers=headers, media_type="application/zip")


# --- by link


@router.get("/files/{artifact_id}/{filename}", response_class=binary("application/octet-stream"))
async def get_file(
    call: Annotated[Call, gate("anyone", tolerant=True)],
    artifact_id: str,
    filename: str,
    query: Annotated[LinkQuery, Query()],
) -> Response:
    """An artifact in its stored form, for a link that needs no token."""
    links = call.services.runtime.links
    if not links.is_good(artifact_id, query.expires, query.signature):
        raise forbidden("This link was not issued by this server.", code="bad_link")
    if links.expired(query.expires):
        raise forbidden("This link has expired. Request the episode again to get a new one.", code="link_expired")
    artifact = await call.db.get(Artifact, artifact_id)
    if artifact is None:
        raise not_found("file", filename)
    return send(call.services.artifacts, call.request, artifact)


@router.get("/v2/episode-requests/download-manifest", response_model=api.DownloadPage)
async def get_download_manifest(call: Anyone, query: Annotated[DownloadQuery, Query()]) -> Json:
    """Artifacts of several episodes, with links that need no token."""
    ids, kind = split_ids(query.ids)
    wanted = [part.strip() for text in query.include or CATEGORIES for part in text.split(",") if part.strip()]
    if unknown := [part for part in wanted if part not in CATEGORIES]:
        raise invalid(f"Unknown category: {unknown[0]!r}.", at=("query", "include"))
    column = EpisodeRequest.id if kind == "ereq" else EpisodeRequest.experience_request_id
    seen = sa.select(EpisodeRequest).where(visible(call.caller, public=call.services.settings.public), column.in_(ids))
    page = await paginate_episodes(call, seen, query)
    known = set(await call.db.scalars(seen.with_only_columns(column)))
    entries: list[JsonObject] = []
    for row in page.rows:
        for category in CATEGORIES:
            if category in wanted:
                entries += [
                    await _download(call, row, category, position) for position in _places(call, row, category, query)
                ]
    return Json(
        {
            "entries": entries,
            "unavailable_ids": [item for item in ids if item not in known],
            "next_cursor": page.next_cursor,
        }
    )


def _places(call: Call, row: EpisodeRequest, category: str, query: DownloadQuery) -> list[int]:
    if not category.startswith("player_"):
        return [-1]
    slots = own_slots(call.caller, row)
    return [
        seat.position
        for seat in row.participants
        if (slots is None or seat.position in slots) and (query.agent is None or seat.position in query.agent)
    ]


async def _download(call: Call, row: EpisodeRequest, category: str, position: int) -> JsonObject:
    artifact = next((item for item in row.artifacts if (item.kind, item.position) == (category, position)), None)
    entry: JsonObject = {
        "episode_request_id": row.id,
        "category": category,
        "position": None if position < 0 else position,
    }
    if artifact is None:
        return entry | {
            "artifact_id": f"{row.id}:{category}:{position}",
            "version": None,
            "filename": "",
            "state": "pending"
            if row.status not in FINAL_STATUSES
            else "unavailable"
            if row.pruned_at
            else "not_produced",
            "media_type": "",
            "encoding": "identity",
        }
    link = call.services.runtime.links.url(artifact.id, filename_of(artifact))
    entry |= {
        "artifact_id": artifact.id,
        "version": artifact.sha256,
        "filename": filename_of(artifact),
        "state": "ready",
        "media_type": artifact.media_type,
        "encoding": artifact.encoding,
        "size": artifact.size,
        "etag": f'"{artifact.sha256}"',
        "url": link.url,
        "expires_at": link.expires_at,
    }
    if category in ("results", "error_info") and artifact.size <= INLINE_LIMIT:
        entry["inline_json"] = json.loads(await call.services.artifacts.get(artifact.key))
    return entry


# --- for the team, by job


@router.get(
    "/jobs/{job}/artifacts/{kind}", response_class=binary("application/octet-stream"), responses=refusals(409, 410)
)
async def get_job_artifact(call: Team, job: str, kind: str) -> Response:
    """One artifact, by job: `results`, `replay` or `logs`."""
    row = await find_job(call, job)
    if kind not in ("results", "replay", "logs"):
        raise Refusal(404, f"There are no artifacts {kind!r}; there are results, replay, logs.", code="not_found")
    return send_plain(call.services.artifacts, call.request, _kept(row, _KINDS[kind]))


@router.get("/jobs/{job}/policy-logs", response_model=list[str])
async def list_job_logs(call: Team, job: str) -> Json:
    """Names of the players' logs."""
    return Json(_names(await find_job(call, job), "player_logs"))


@router.get("/jobs/{job}/policy-logs/{agent}", response_class=binary("text/plain"), responses=refusals(409, 410))
async def get_job_log(call: Team, job: str, agent: str) -> Response:
    """A player's log."""
    row = await find_job(call, job)
    return send(call.services.artifacts, call.request, _kept(row, "player_logs", _slot(agent)))


@router.get("/jobs/{job}/policy-artifact", response_model=list[str])
async def list_job_policy_artifacts(call: Team, job: str) -> Json:
    """Names of the players' artifacts."""
    return Json(_names(await find_job(call, job), "player_artifact"))


@router.get(
    "/jobs/{job}/policy-artifact/{agent}", response_class=binary("application/zip"), responses=refusals(409, 410)
)
async def get_job_policy_artifact(call: Team, job: str, agent: str) -> Response:
    """A player's artifact."""
    row = await find_job(call, job)
    return send(call.services.artifacts, call.request, _kept(row, "player_artifact", _slot(agent)))


# --- parts


async def _of_player(call: Call, ereq: str, version_id: str, agent: str, kind: str) -> Response:
    row = await find_episode(call.db, call.services, call.caller, ereq)
    slot = _slot(agent)
    seat = next((seat for seat in row.participants if seat.position == slot), None)
    if seat is None or seat.policy_version_id != version_id:
        raise Refusal(404, f"The policy version {version_id!r} is not in slot {slot}.", code="not_found")
    slots = own_slots(call.caller, row)
    if slots is not None and slot not in slots:
        raise forbidden("Only the owner of a policy may see its logs and artifacts.", code="not_yours")
    return send(call.services.artifacts, call.request, _kept(row, kind, slot))


def _slot(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise Refusal(404, f"{text!r} is not a slot number.", code="not_found")
    return int(text)


def _kept(row: EpisodeRequest, kind: str, position: int = -1) -> Artifact:
    artifact = next((item for item in row.artifacts if (item.kind, item.position) == (kind, position)), None)
    if artifact is None:
        refuse_unfinished(row)
        if row.pruned_at is not None and kind in PRUNED:
            raise Refusal(410, f"What the episode {row.id} had left is not kept any longer.", code="not_kept")
        what = kind.replace("_", " ") if position < 0 else f"{kind.replace('_', ' ')} of slot {position}"
        raise Refusal(404, f"The episode {row.id} has left no {what}.", code="not_found")
    return artifact


def _names(row: EpisodeRequest, kind: str) -> list[str]:
    return [filename_of(item) for item in row.artifacts if item.kind == kind]


async def _spec(call: Call, row: EpisodeRequest) -> JsonObject:
    """The episode's specification, without secrets."""
    coworld = await call.db.get_one(Coworld, row.coworld_id)
    return {
        "coworld_id": coworld.id,
        "coworld_name": coworld.name,
        "coworld_version": coworld.version,
        "manifest_hash": coworld.manifest_hash,
        "variant_id": row.variant_id,
        "game_config": None if sealed(row, call.caller) else row.game_config,
        "players": [
            {
                "position": seat.position,
                "policy_version_id": seat.policy_version_id,
                "policy_name": seat.policy_name,
                "version": seat.version,
                "bundled_player": seat.bundled_player,
            }
            for seat in row.participants
        ],
    }


def _json(value: JsonObject) -> Response:
    return Response(json.dumps(value, indent=2) + "\n", media_type="application/json")
