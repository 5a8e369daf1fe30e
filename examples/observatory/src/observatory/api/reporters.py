"""The catalogue of reporters: those that Coworlds here declare as images, and what they have written.

Reporters of the published platform that have no image (WebAssembly, or run elsewhere) are neither taken nor run here.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field

from coworld_core import api
from coworld_core.errors import CoworldError
from coworld_core.manifest import RoleRunnable

from ..episodes.access import visible
from ..errors import not_found
from ..names import name_key
from ..store.columns import JsonObject
from ..store.models import Coworld, EpisodeRequest, RoleRun, User
from ..work.role_orders import declared_roles
from .pagination import PageQuery, paginate
from .routing import Anyone, ApiRouter, Call, Json, QueryModel

__all__ = ["router"]

router = ApiRouter(tags=["Roles"])

_NAMES = uuid.UUID("5b0d27c5-3d1a-4b7e-9a55-0f6d6a0c9c39")
"""Namespace of the ids of reporters, which follow from the names of the Coworld and the reporter."""
_TYPE = "file"


class ReporterQuery(QueryModel):
    """Filters for reporters."""

    q: str | None = Field(default=None, max_length=200, description="A text in the name or the description.")
    type: list[str] | None = Field(default=None, description="Kinds of outputs; here each is a `file`, a zip.")
    author: str | None = Field(default=None, max_length=200, description="Id or name of the account it belongs to.")
    mode: str = Field(default="all", max_length=20, description="`hosted`, as all are here, `external`, or `all`.")
    limit: int = Field(default=200, ge=1, le=1000, description="Maximum number of rows.")


@dataclass(frozen=True)
class _Reporter:
    coworld: Coworld
    entry: RoleRunnable

    @property
    def id(self) -> str:
        return f"rptr_{uuid.uuid5(_NAMES, f'{self.coworld.name_key}/{self.entry.id}')}"

    @property
    def name(self) -> str:
        return f"{self.coworld.name}-{self.entry.id}"


@router.get("/v2/reporters")
async def list_reporters(call: Anyone, query: Annotated[ReporterQuery, Query()]) -> Json:
    """Reporters that the Coworlds here declare, by name."""
    found: list[_Reporter] = await _reporters(call)
    if query.mode == "external" or (query.type is not None and _TYPE not in query.type):
        found = []
    if query.q is not None:
        text = query.q.casefold()
        found = [one for one in found if text in f"{one.name} {one.entry.name} {one.entry.description}".casefold()]
    if query.author is not None:
        named = await call.db.scalars(sa.select(User.id).where(User.name == query.author))
        owners = {query.author, *named}
        found = [one for one in found if one.coworld.user_id in owners]
    return Json([await _shown(call, one) for one in found[: query.limit]])


@router.get("/v2/reporters/{reporter_id}", response_model=api.ReporterDetail)
async def get_reporter(call: Anyone, reporter_id: str) -> Json:
    """A reporter, with the last of its outputs that you may see."""
    one = await _find(call, reporter_id)
    last = await call.db.scalar(_outputs(call, one).order_by(RoleRun.completed_at.desc()).limit(1))
    shown = await _shown(call, one)
    return Json({**shown, "purpose": None, "latest_output": _output(call, one, last) if last is not None else None})


@router.get("/v2/reporters/{reporter_id}/outputs")
async def list_outputs(call: Anyone, reporter_id: str, query: Annotated[PageQuery, Query()]) -> Json:
    """What a reporter has written, as far as everybody sees it who may see the episode, newest first."""
    one = await _find(call, reporter_id)
    page = await paginate(call.db, _outputs(call, one), query, moment=RoleRun.created_at, key=RoleRun.id)
    return Json({"entries": [_output(call, one, row) for row in page.rows], "next_cursor": page.next_cursor})


async def _reporters(call: Call) -> list[_Reporter]:
    """The reporters of the current versions of all Coworlds that the caller may see."""
    statement = sa.select(Coworld).where(Coworld.canonical).order_by(Coworld.name, Coworld.id)
    if not call.caller.elevated:
        own = Coworld.user_id.in_(call.caller.accounts)
        statement = statement.where(sa.or_(Coworld.visibility == "public", own))
    found: list[_Reporter] = []
    for coworld in await call.db.scalars(statement):
        if not coworld.manifest.get("reporter"):
            continue
        try:
            found += [_Reporter(coworld, entry) for entry in declared_roles(coworld, "reporter")]
        except CoworldError:
            continue  # A manifest of a version that cannot be read any longer
    return found


async def _find(call: Call, id: str) -> _Reporter:
    found = next((one for one in await _reporters(call) if one.id == id), None)
    if found is None:
        raise not_found("reporter", id)
    return found


def _runs(call: Call, one: _Reporter) -> tuple[sa.ColumnElement[bool], ...]:
    """The runs on episodes that the caller may see, but for those that were given private files."""
    episodes = (
        sa.select(EpisodeRequest.id)
        .join(Coworld, Coworld.id == EpisodeRequest.coworld_id)
        .where(Coworld.name_key == name_key(one.coworld.name))
        .where(visible(call.caller, public=call.services.settings.public))
    )
    return (
        RoleRun.role == "reporter",
        RoleRun.runnable_id == one.entry.id,
        sa.cast(RoleRun.slots, sa.String) == "[]",
        RoleRun.episode_request_id.in_(episodes),
    )


def _outputs(call: Call, one: _Reporter) -> sa.Select[RoleRun]:
    return sa.select(RoleRun).where(*_runs(call, one), RoleRun.output_key.is_not(None))


async def _shown(call: Call, one: _Reporter) -> JsonObject:
    count, written = (
        await call.db.execute(
            sa.select(sa.func.count(), sa.func.count(RoleRun.output_key)).select_from(RoleRun).where(*_runs(call, one))
        )
    ).one()
    versions = await call.db.scalar(
        sa.select(sa.func.count()).select_from(Coworld).where(Coworld.name_key == one.coworld.name_key)
    )
    outputs: list[JsonObject] = [
        {"name": "report", "type": _TYPE, "description": one.entry.description, "schema": None, "optional": False}
    ]
    return {
        "id": one.id,
        "name": one.name,
        "display_name": one.entry.name,
        "description": one.entry.description,
        "user_id": one.coworld.user_id,
        "latest_version": versions,
        "outputs": outputs,
        "run_count": count,
        "output_count": written,
        "created_at": one.coworld.created_at,
    }


def _output(call: Call, one: _Reporter, run: RoleRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "reporter_id": one.id,
        "reporter_run_id": run.id,
        "name": "report",
        "type": _TYPE,
        "size_bytes": run.output_size,
        "media_type": "application/zip",
        "created_at": run.completed_at,
        "url": f"{call.base_url}/observatory/v2/role-runs/{run.id}/output",
    }
