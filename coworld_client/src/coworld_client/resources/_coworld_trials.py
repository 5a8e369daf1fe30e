"""The first episodes of a Coworld, which the platform plays by itself after an upload."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from coworld_core import durations
from coworld_core.api import CertificationState, EpisodeRequest, check_id

from ..errors import ApiConnectionError, ApiStatusError, Forbidden, NotAuthenticated, NotFound
from ..transport._connection import path
from ..transport._replies import read_list
from ..transport._retry import worth_retrying
from ..uploads.smoke import CoworldStatus
from ._base import Resource

__all__ = ["CoworldTrials"]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


class CoworldTrials(Resource):
    """The first episodes and the certification of uploaded versions."""

    async def status(self, coworld_id: str, *, timeout: float | None = None) -> CoworldStatus:
        """One version, with the state of the episodes that the platform plays of it by itself.

        Raises:
            NotFound: It does not exist, or you may not see it.
        """
        coworld = await self._client.coworlds.get(coworld_id, timeout=timeout)
        return CoworldStatus(
            coworld=coworld,
            episodes=await self._episodes(coworld_id, timeout),
            certification=await self._certification(coworld_id, timeout),
        )

    async def wait_for_smoke(
        self,
        coworld_id: str,
        *,
        deadline: float = durations.HOSTED_SMOKE,
        begins_within: float | None = None,
        on_change: Callable[[CoworldStatus], object] | None = None,
        timeout: float | None = None,
    ) -> CoworldStatus:
        """Wait until these episodes have ended, or one has failed; check ``verdict`` and ``decided`` of the result.

        Args:
            coworld_id: ``cow_…``.
            deadline: Seconds to wait.
            begins_within: Seconds to wait until the platform has created an episode; None: until the deadline.
            on_change: Called with the status, at once and after every change.
            timeout: Seconds for each attempt of a call.

        Raises:
            NotFound: It does not exist, or you may not see it.
        """
        status = await self.status(coworld_id, timeout=timeout)
        if on_change is not None:
            on_change(status)
        pause = _FIRST_PAUSE
        begun_by = anyio.current_time() + (deadline if begins_within is None else begins_within)
        with anyio.move_on_after(deadline):
            while not status.decided:
                left = begun_by - anyio.current_time()
                if status.verdict == "none" and left <= 0:
                    break
                await anyio.sleep(min(pause, left) if status.verdict == "none" else pause)
                try:
                    now = await self.status(coworld_id, timeout=timeout)
                except (ApiConnectionError, ApiStatusError) as error:
                    if not worth_retrying(error, "GET", keyed=False):
                        raise
                    # a platform that is briefly unavailable is not a failure of the Coworld
                    pause = _LONGEST_PAUSE
                    continue
                changed = _standing(now) != _standing(status)
                status = now
                pause = _FIRST_PAUSE if changed else min(pause * 1.5, _LONGEST_PAUSE)
                if changed and on_change is not None:
                    on_change(status)
        return status

    async def _episodes(self, coworld_id: str, timeout: float | None) -> tuple[EpisodeRequest, ...]:
        target = path("/v2/coworlds/{}/episode-requests", check_id(coworld_id, "coworld"))
        params = {"source": "coworld_upload", "limit": 100}
        try:
            return read_list(EpisodeRequest, await self._connection.call("GET", target, params=params, timeout=timeout))
        except ApiStatusError as error:
            if error.status not in (404, 405, 422):
                raise
        # older platforms do not say where an episode comes from; only episodes of leagues have a round
        rows = [row async for row in self._client.episodes.list(coworld=coworld_id, limit=1000, timeout=timeout)]
        return tuple(row for row in rows if row.round_id is None)

    async def _certification(self, coworld_id: str, timeout: float | None) -> CertificationState | None:
        try:
            return await self._client.coworlds.certification(coworld_id, timeout=timeout)
        except (NotFound, Forbidden, NotAuthenticated):
            return None


def _standing(status: CoworldStatus) -> tuple[object, ...]:
    state = status.certification.state if status.certification is not None else None
    return state, *((row.id, str(row.status)) for row in status.episodes)
