"""Experience requests: episodes that you request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coworld_core.api import (
    EpisodeRequest,
    ExperienceBody,
    ExperienceDetail,
    ExperienceRequest,
    check_id,
)
from coworld_core.hints import Hint

from ..pages import AsyncPager
from ..transport._connection import path
from ..watch import Change, wait_within
from ._base import Resource

__all__ = ["Experience"]


class Experience(Resource):
    """Experience requests: episodes that you request, to learn from them or to compare players."""

    async def create(
        self,
        body: ExperienceBody | Mapping[str, Any],
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> ExperienceDetail:
        """Request episodes.

        Args:
            body: The request. A mapping is sent as it is, so it may have fields that this version does not know.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to get the same request instead of another one.

        Raises:
            BadRequest: The request makes no sense.
            Unprocessable: Fields of the request are wrong; `detail` says which.
            TooManyRequests: A budget is used up.
        """
        return await self._post(
            ExperienceDetail,
            "/v2/experience-requests",
            body,
            timeout=timeout or 120,
            idempotency_key=idempotency_key,
        )

    def list(
        self,
        *,
        mine: bool = False,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[ExperienceRequest]:
        """Experience requests, newest first; all you may see, or yours."""
        return self._list(
            ExperienceRequest,
            "/v2/experience-requests",
            {"mine": mine},
            limit=limit,
            offset=offset,
            cursor=cursor,
            timeout=timeout,
        )

    async def get(self, request_id: str, *, timeout: float | None = None) -> ExperienceDetail:
        """One experience request with its episodes.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        return await self._get(ExperienceDetail, self._path(request_id), timeout=timeout)

    def episodes(
        self, request_id: str, *, limit: int | None = None, offset: int = 0, timeout: float | None = None
    ) -> AsyncPager[EpisodeRequest]:
        """The episodes of an experience request, in the order they were made."""
        target = self._path(request_id) + "/episodes"
        return self._list(EpisodeRequest, target, limit=limit, offset=offset, whole=True, timeout=timeout)

    async def cancel(self, request_id: str, *, timeout: float | None = None) -> ExperienceDetail:
        """Cancel an experience request: no more of its episodes begin. Running ones continue.

        The answer has the episodes, if the server sends them.

        Raises:
            Conflict: If it has already ended.
            NotFound: If it does not exist, or is not yours.
        """
        return await self._post(ExperienceDetail, self._path(request_id) + "/cancel", timeout=timeout)

    async def wait(
        self,
        request_id: str,
        *,
        timeout: float | None = None,
        on_change: Callable[[Change], object] | None = None,
    ) -> ExperienceDetail:
        """Wait until all episodes of an experience request have ended.

        Args:
            request_id: `xreq_…`.
            timeout: Seconds to wait in total; None: no limit.
            on_change: Called with every change of an episode.

        Returns:
            The request with its episodes, whatever their outcome.

        Raises:
            ApiTimeoutError: The request has not ended in that time. It continues, and waiting again is safe.
        """
        self._path(request_id)

        async def wait() -> ExperienceDetail:
            async with self._client.watch(request_id) as changes:
                async for change in changes:
                    if on_change is not None:
                        on_change(change)
            return await self.get(request_id)

        hint = Hint("wait_again", "It continues; wait again, or follow it with api.watch.", id=request_id)
        return await wait_within(timeout, wait, id=request_id, hint=hint)

    @staticmethod
    def _path(request_id: str) -> str:
        return path("/v2/experience-requests/{}", check_id(request_id, "experience request"))
