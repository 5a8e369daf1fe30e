"""Episode requests: lists, details, statistics."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field

from coworld_core import api

from ..episodes.access import find_episode, own_slots, view_of, visible
from ..errors import Refusal, not_found
from ..runtime import open_runtime
from ..services import Services
from ..store.columns import JsonObject, now
from ..store.kept_labels import labelled_episode, labels_of_episodes
from ..store.models import Coworld, EpisodeRequest, Game, Participant
from .pagination import Envelope, LabelledQuery, paginate_episodes
from .rounds import find_round
from .routing import Anyone, ApiRouter, Call, Json, SignedIn, Team, refusals
from .serializers import of_player

__all__ = ["lifespan", "router", "split_ids"]

router = ApiRouter(tags=["Episodes"])

MAX_IDS = 50
"""Most ids in one request."""


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Run the worker and other services beside the server."""
    async with open_runtime(services):
        yield


class EpisodeQuery(LabelledQuery):
    """Filters for episodes."""

    league_id: str | None = Field(default=None, max_length=64)
    division_id: str | None = Field(default=None, max_length=64)
    round_id: str | None = Field(default=None, max_length=64)
    coworld_id: str | None = Field(default=None, max_length=64)
    experience_request_id: str | None = Field(default=None, max_length=64)
    player_id: str | None = Field(
        default=None,
        max_length=64,
        description="Only episodes with this player; an account's id for its policies without a player.",
    )
    policy_version_id: str | None = Field(
        default=None, max_length=64, description="Only episodes with this policy version."
    )
    mine: bool = Field(default=False, description="Only episodes that the caller requested or takes part in.")
    status: list[str] | None = Field(default=None, description="Only episodes with one of these states.")
    ids: list[str] | None = Field(
        default=None, description="1 to 50 ids, either all of episode requests or all of experience requests."
    )
    view: Literal["progress", "results"] = Field(
        default="progress", description="With `ids`: how much detail to return for each."
    )


class SourceQuery(LabelledQuery):
    """Filters for episodes of a Coworld."""

    source: str | None = Field(default=None, max_length=32, description="experience, request, coworld_upload or round.")


Id = Annotated[str, Field(max_length=64)]


@router.get("/v2/episode-requests", response_model=Envelope[api.EpisodeRequest] | api.ProgressPage)
async def list_episodes(call: Anyone, query: Annotated[EpisodeQuery, Query()]) -> Json:
    """Episodes that you may see, newest first; with `ids`, a short form of some requests."""
    statement = _seen(call)
    for column, value in (
        (EpisodeRequest.league_id, query.league_id),
        (EpisodeRequest.division_id, query.division_id),
        (EpisodeRequest.round_id, query.round_id),
        (EpisodeRequest.coworld_id, query.coworld_id),
        (EpisodeRequest.experience_request_id, query.experience_request_id),
    ):
        if value is not None:
            statement = statement.where(column == value)
    if query.player_id is not None:
        statement = statement.where(_seats(of_player(Participant, query.player_id)))
    if query.policy_version_id is not None:
        statement = statement.where(_seats(Participant.policy_version_id == query.policy_version_id))
    if query.mine:
        call.caller.require()
        mine = call.caller.accounts
        statement = statement.where(sa.or_(EpisodeRequest.user_id.in_(mine), _seats(Participant.user_id.in_(mine))))
    if query.status:
        statement = statement.where(EpisodeRequest.status.in_(query.status))
    statement = statement.where(labelled_episode(query.labels))
    view = view_of(call.services, call.caller)
    if query.ids is not None:
        ids, kind = split_ids(query.ids)
        column = EpisodeRequest.id if kind == "ereq" else EpisodeRequest.experience_request_id
        page = await paginate_episodes(call, statement.where(column.in_(ids)), query)
        known = set(await call.db.scalars(_seen(call).where(column.in_(ids)).with_only_columns(column)))
        return Json(
            {
                "entries": [view.progress(row, results=query.view == "results") for row in page.rows],
                "unavailable_ids": [item for item in ids if item not in known],
                "next_cursor": page.next_cursor,
                "observed_at": now(),
            }
        )
    page = await paginate_episodes(call, statement, query)
    tags = await labels_of_episodes(call.db, page.rows)
    return Json(page.envelope(lambda row: view.full(row, tags[row.id])))


@router.get("/v2/episode-requests/{ereq}", response_model=api.EpisodeRequest)
async def get_episode(call: Anyone, ereq: str) -> Json:
    """An episode."""
    row = await find_episode(call.db, call.services, call.caller, ereq)
    tags = await labels_of_episodes(call.db, [row])
    return Json(view_of(call.services, call.caller).full(row, tags[row.id]))


@router.get("/v2/episode-requests/{ereq}/episode-stats", response_model=api.EpisodeStats, responses=refusals(409))
async def get_stats(call: Anyone, ereq: str) -> Json:
    """Statistics from its results."""
    return Json(stats_of(await find_episode(call.db, call.services, call.caller, ereq)))


@router.get("/v2/episode-requests/{ereq}/policy-artifacts", response_model=list[api.PlayerEvidence])
async def list_evidence(call: SignedIn, ereq: str) -> Json:
    """Logs and artifacts of your own players, by slot."""
    row = await find_episode(call.db, call.services, call.caller, ereq)
    slots = own_slots(call.caller, row)
    kept = {(item.kind, item.position) for item in row.artifacts}
    return Json(
        [
            {
                "position": seat.position,
                "policy_version_id": seat.policy_version_id,
                "policy_name": seat.policy_name,
                "has_log": ("player_logs", seat.position) in kept,
                "has_artifact": ("player_artifact", seat.position) in kept,
            }
            for seat in row.participants
            if seat.policy_version_id is not None and (slots is None or seat.position in slots)
        ]
    )


@router.get("/v2/rounds/{round_id}/episode-requests", response_model=Envelope[api.EpisodeRequest])
async def list_of_round(call: Anyone, round_id: str, query: Annotated[LabelledQuery, Query()]) -> Json:
    """Episodes of a round."""
    await find_round(call.db, call.caller, round_id)
    return Json(await _rows(call, _seen(call).where(EpisodeRequest.round_id == round_id), query))


@router.get("/v2/policy-versions/{version_id}/episode-requests", response_model=Envelope[api.EpisodeRequest])
async def list_of_policy_version(call: Anyone, version_id: str, query: Annotated[LabelledQuery, Query()]) -> Json:
    """Episodes in which a policy version takes part."""
    seats = _seats(Participant.policy_version_id == version_id)
    return Json(await _rows(call, _seen(call).where(seats), query))


@router.get("/v2/coworlds/{coworld_id}/episode-requests", response_model=Envelope[api.EpisodeRequest])
async def list_of_coworld(call: Anyone, coworld_id: str, query: Annotated[SourceQuery, Query()]) -> Json:
    """Episodes of a version of a Coworld."""
    if await call.db.get(Coworld, coworld_id) is None:
        raise not_found("Coworld", coworld_id)
    statement = _seen(call).where(EpisodeRequest.coworld_id == coworld_id)
    if query.source is not None:
        statement = statement.where(EpisodeRequest.source == query.source)
    return Json(await _rows(call, statement, query))


@router.get("/v2/games/{game_id}/episodes", response_model=Envelope[api.EpisodeRequest])
async def list_of_game(call: Anyone, game_id: str, query: Annotated[LabelledQuery, Query()]) -> Json:
    """Episodes of all versions of a game."""
    game = await call.db.get(Game, game_id)
    if game is None:
        raise not_found("game", game_id)
    versions = sa.select(Coworld.id).where(Coworld.name_key == game.name_key)
    return Json(await _rows(call, _seen(call).where(EpisodeRequest.coworld_id.in_(versions)), query))


@router.get("/jobs/{job}/episode-stats", response_model=api.EpisodeStats, responses=refusals(409))
async def get_job_stats(call: Team, job: str) -> Json:
    """Statistics of an episode by job, for the team."""
    return Json(stats_of(await find_job(call, job)))


async def find_job(call: Call, job: str) -> EpisodeRequest:
    """Find an episode by its job, for the team.

    Raises:
        Refusal: 404 if there is none.
    """
    row = await call.db.scalar(sa.select(EpisodeRequest).where(EpisodeRequest.job_id == job))
    if row is None:
        raise not_found("job", job)
    return row


def stats_of(row: EpisodeRequest) -> JsonObject:
    """The statistics of an episode.

    Raises:
        Refusal: 404 if there are none, 409 with `Retry-After` while the episode is not over.
    """
    if row.stats is not None:
        return row.stats
    refuse_unfinished(row)
    raise Refusal(404, f"The episode {row.id} has no results, so it has no statistics.", code="not_found")


def refuse_unfinished(row: EpisodeRequest) -> None:
    """Refuse a request that needs a finished episode.

    Raises:
        Refusal: 409 with `Retry-After`, while the episode is not over.
    """
    if row.status in ("pending", "running"):
        raise Refusal(
            409,
            f"The episode {row.id} is {row.status}. Try again when it is over.",
            code="not_over",
            headers={"Retry-After": "2"},
        )


def split_ids(given: list[str]) -> tuple[list[str], Literal["ereq", "xreq"]]:
    """Ids from a query, as repeated parameters or separated by commas.

    Raises:
        Refusal: 422 for none, too many, or ids of several kinds.
    """
    ids = list(dict.fromkeys(item.strip() for text in given for item in text.split(",") if item.strip()))
    kinds = {item.partition("_")[0] for item in ids}
    if not 1 <= len(ids) <= MAX_IDS or kinds not in ({"ereq"}, {"xreq"}):
        raise Refusal(
            422,
            [
                {
                    "type": "bad_ids",
                    "loc": ["query", "ids"],
                    "msg": f"Expected 1 to {MAX_IDS} ids, either all `ereq_…` or all `xreq_…`.",
                }
            ],
            code="validation_error",
        )
    return ids, "ereq" if kinds == {"ereq"} else "xreq"


def _seen(call: Call) -> sa.Select[EpisodeRequest]:
    return sa.select(EpisodeRequest).where(visible(call.caller, public=call.services.settings.public))


def _seats(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return EpisodeRequest.id.in_(sa.select(Participant.episode_request_id).where(condition))


async def _rows(call: Call, statement: sa.Select[EpisodeRequest], query: LabelledQuery) -> JsonObject:
    view = view_of(call.services, call.caller)
    page = await paginate_episodes(call, statement.where(labelled_episode(query.labels)), query)
    tags = await labels_of_episodes(call.db, page.rows)
    return page.envelope(lambda row: view.row(row, tags[row.id]))
