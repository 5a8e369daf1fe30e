"""Where an episode's files are: at the episode's own routes, or on older servers in its bundle or at its job."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from coworld_core.api import EpisodeRequest, PlayerEvidence, check_id
from coworld_core.errors import EpisodeError
from coworld_core.files.zips import BROKEN_ZIP

from ..errors import ApiShapeError, ApiStatusError, Forbidden, Gone, NotFound, Unprocessable
from ..transport._connection import MAX_BODY, Connection, path

if TYPE_CHECKING:
    from ..transfers.files import Downloaded, OnProgress

__all__ = [
    "NOT_HERE",
    "Episode",
    "download_first",
    "evidence_of_job",
    "id_of",
    "replay_coworld",
    "results_of_bundle",
    "route_of_slot",
]

NOT_HERE = (NotFound, Unprocessable)
"""Errors with which servers answer for a route or a kind of artifact that they do not know."""

Episode = str | EpisodeRequest
"""An `ereq_` id, or the episode request itself, which saves a request."""


def id_of(episode: Episode) -> str:
    """The checked id of an episode."""
    return check_id(episode if isinstance(episode, str) else episode.id, "episode request")


def replay_coworld(episode: EpisodeRequest) -> str:
    """The id of the Coworld that shows the replay of an episode.

    Raises:
        EpisodeError: The episode request has no replay, no Coworld or no episode id (`no_replay`).
    """
    for value, what in (
        (episode.replay_url, "replay"),
        (episode.coworld_id, "Coworld"),
        (episode.episode_id, "episode id"),
    ):
        if not value:
            status = str(episode.status) or "in no known state"
            raise EpisodeError(
                f"The episode request {episode.id} has no {what}, or none yet: it is {status}.",
                code="no_replay",
                hint="Completed episodes have one.",
                context={"episode_request_id": episode.id, "status": str(episode.status)},
            )
    return episode.coworld_id or ""


def route_of_slot(episode: EpisodeRequest, position: int, what: str) -> str:
    """The route to what the policy in a slot has left: `policy-logs` or `policy-artifact`.

    Raises:
        NotFound: There is no such slot, or no policy plays in it.
    """
    seat = next((seat for seat in episode.participants if seat.position == position), None)
    if seat is None:
        slots = ", ".join(str(seat.position) for seat in episode.participants) or "none"
        raise NotFound(f"The episode {episode.id} has no slot {position}.", status=404, hint=f"Its slots: {slots}.")
    if not seat.policy_version_id:
        raise NotFound(f"No policy plays in slot {position} of {episode.id}.", status=404)
    return path(f"/v2/episode-requests/{{}}/{{}}/{what}/{{}}", episode.id, seat.policy_version_id, str(position))


async def download_first(
    connection: Connection,
    sources: Sequence[str],
    target: Path,
    what: str,
    *,
    unpack: bool = False,
    limit: int | None = None,
    timeout: float | None = None,
    on_progress: OnProgress | None = None,
) -> Downloaded:
    """Download from the first of some routes that has the file; if none has it, raise the first one's error."""
    from ..transfers.files import download

    refusal: ApiStatusError | None = None
    for source in sources:
        try:
            return await download(
                connection,
                source,
                target,
                what=what,
                unpack=unpack,
                limit=limit,
                timeout=timeout,
                on_progress=on_progress,
            )
        except (*NOT_HERE, Forbidden, Gone) as error:
            if isinstance(error, Forbidden) and refusal is None:
                raise
            refusal = refusal or error
    assert refusal is not None
    raise refusal


async def results_of_bundle(connection: Connection, episode_id: str, timeout: float | None) -> bytes | None:
    """The results in an episode's bundle; None if there is no bundle, or it has none.

    Raises:
        ApiShapeError: The bundle is no zip, or the results are too large.
    """
    target = path("/v2/episode-requests/{}/bundle", episode_id)
    try:
        reply = await connection.call("GET", target, params={"include": "results"}, timeout=timeout)
    except (*NOT_HERE, Forbidden):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(reply.content)) as bundle:
            entry = bundle.getinfo("results.json")
            with bundle.open(entry) as file:
                content = file.read(MAX_BODY + 1)
    except KeyError:
        return None
    except BROKEN_ZIP as error:
        raise ApiShapeError(f"The answer to {reply.what} is not a zip file: {error}.", code="not_a_zip") from None
    if len(content) > MAX_BODY:
        raise ApiShapeError(f"The results of {episode_id} are larger than {MAX_BODY:,} bytes.", code="too_large")
    return content


async def evidence_of_job(
    connection: Connection, episode: EpisodeRequest, timeout: float | None
) -> tuple[PlayerEvidence, ...]:
    """What players left according to the episode's job, which only the team may ask.

    Raises:
        NotFound: The episode has no job.
    """
    if not episode.job_id:
        raise NotFound(f"The episode {episode.id} has no job.", status=404)
    logs, artifacts = [
        _numbers((await connection.call("GET", path(route, episode.job_id), timeout=timeout)).json())
        for route in ("/jobs/{}/policy-logs", "/jobs/{}/policy-artifact")
    ]
    seats = {seat.position: seat for seat in episode.participants}
    return tuple(
        PlayerEvidence(
            position=number,
            policy_version_id=seats[number].policy_version_id if number in seats else None,
            policy_name=seats[number].policy_name if number in seats else None,
            has_log=number in logs,
            has_artifact=number in artifacts,
        )
        for number in sorted(logs | artifacts)
    )


def _numbers(names: Any) -> set[int]:
    """The slots in names such as `policy_agent_3.log`."""
    if not isinstance(names, list):
        return set()
    found = (re.search(r"_([0-9]{1,6})\.[a-z]+$", str(name)) for name in cast("list[Any]", names))
    return {int(match[1]) for match in found if match}
