"""Where an episode's files are: at the episode's own routes, or on older servers in its bundle or at its job."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from coworld_core.api import EpisodeRequest, PlayerEvidence, check_id
from coworld_core.zips import BROKEN_ZIP

from ..errors import ApiShapeError, ApiStatusError, Forbidden, Gone, NotFound, Unprocessable
from ..transport._connection import MAX_BODY, path
from ..transport._replies import Reply
from ._base import Resource

if TYPE_CHECKING:
    from ..transfers.files import Downloaded, OnProgress

__all__ = ["NOT_HERE", "Episode", "EpisodePlaces", "id_of"]

NOT_HERE = (NotFound, Unprocessable)
"""Errors with which servers answer for a route or a kind of artifact that they do not know."""

Episode = str | EpisodeRequest
"""An ``ereq_`` id, or the episode request itself, which saves a request."""


def id_of(episode: Episode) -> str:
    """The checked id of an episode."""
    return check_id(episode if isinstance(episode, str) else episode.id, "episode request")


class EpisodePlaces(Resource):
    """One episode, and the routes to its files."""

    async def get(self, episode_id: str, *, timeout: float | None = None) -> EpisodeRequest:
        """One episode.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        target = path("/v2/episode-requests/{}", check_id(episode_id, "episode request"))
        return await self._get(EpisodeRequest, target, timeout=timeout)

    async def _whole(self, episode: Episode, timeout: float | None) -> EpisodeRequest:
        return episode if isinstance(episode, EpisodeRequest) else await self.get(episode, timeout=timeout)

    def _of_slot(self, episode: EpisodeRequest, position: int, what: str) -> str:
        seat = next((seat for seat in episode.participants if seat.position == position), None)
        if seat is None:
            slots = ", ".join(str(seat.position) for seat in episode.participants) or "none"
            raise NotFound(f"The episode {episode.id} has no slot {position}.", status=404, hint=f"Its slots: {slots}.")
        if not seat.policy_version_id:
            raise NotFound(f"In slot {position} of {episode.id} no policy plays.", status=404)
        return path(f"/v2/episode-requests/{{}}/{{}}/{what}/{{}}", episode.id, seat.policy_version_id, str(position))

    async def _or_job(self, target: str, episode: Episode, job: str, *, timeout: float | None) -> Reply:
        """Get a target or, on older servers, the route of the job, which only the team may use."""
        try:
            return await self._connection.call("GET", target, timeout=timeout, elsewhere=True)
        except NOT_HERE as error:
            return await self._job(error, episode, job, timeout=timeout)

    async def _job(self, error: ApiStatusError, episode: Episode, job: str, *, timeout: float | None) -> Reply:
        """Get the job's answer; if that is missing or forbidden too, raise the first error."""
        full = await self._whole(episode, timeout)
        if not full.job_id:
            raise error
        try:
            return await self._connection.call("GET", path(job, full.job_id), timeout=timeout, elsewhere=True)
        except (*NOT_HERE, Forbidden):
            raise error from None

    async def _fetched(
        self,
        sources: Sequence[str],
        target: Path,
        what: str,
        *,
        unpack: bool = False,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        from ..transfers.files import download

        refusal: ApiStatusError | None = None
        for source in sources:
            try:
                return await download(
                    self._connection,
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

    async def _results_of_bundle(self, episode_id: str, timeout: float | None) -> bytes | None:
        target = path("/v2/episode-requests/{}/bundle", episode_id)
        try:
            reply = await self._connection.call("GET", target, params={"include": "results"}, timeout=timeout)
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
            raise ApiShapeError(f"The answer to {reply.what} is no zip: {error}.", code="not_a_zip") from None
        if len(content) > MAX_BODY:
            raise ApiShapeError(f"The results of {episode_id} are larger than {MAX_BODY:,} bytes.", code="too_large")
        return content

    async def _evidence_of_job(self, episode: EpisodeRequest, timeout: float | None) -> tuple[PlayerEvidence, ...]:
        if not episode.job_id:
            raise NotFound(f"The episode {episode.id} has no job.", status=404)
        logs, artifacts = [
            _numbers((await self._connection.call("GET", path(route, episode.job_id), timeout=timeout)).json())
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
    """The slots in names such as ``policy_agent_3.log``."""
    if not isinstance(names, list):
        return set()
    found = (re.search(r"_([0-9]{1,6})\.[a-z]+$", str(name)) for name in cast("list[Any]", names))
    return {int(match[1]) for match in found if match}
