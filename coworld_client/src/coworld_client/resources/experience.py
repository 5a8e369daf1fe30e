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
from coworld_core.records.labels import check_labels

from ..pages import AsyncPager
from ..transport._connection import path
from ..watch import Change, wait_at_most
from ._base import Resource, has_labels, label_query
from ._names import ids_in
from ._variants import bodies_by_variant

__all__ = ["Experience"]


class Experience(Resource):
    """Experience requests: episodes that you request, to learn from them or to compare players."""

    async def create(
        self,
        body: ExperienceBody | Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> ExperienceDetail:
        """Request episodes.

        Args:
            body: The request; names may stand in it for ids. A mapping may have fields that this version does not know.
            labels: Labels of its episodes, besides those in the body; the answer's `tags` is None on platforms that
                keep none.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to get the same request instead of another one.

        Raises:
            UsageError: One of them is no label (`bad_label`).
            BadRequest: The request makes no sense.
            Unprocessable: Fields of the request are wrong; `detail` says which.
            TooManyRequests: A budget is used up.
        """
        whole = await ids_in(self._client, body.to_wire() if isinstance(body, ExperienceBody) else body)
        if labels:
            whole["tags"] = {**(whole.get("tags") or {}), **check_labels(labels)}
        return await self._post(
            ExperienceDetail,
            "/v2/experience-requests",
            whole,
            timeout=timeout or 120,
            idempotency_key=idempotency_key,
        )

    async def create_each(
        self,
        body: ExperienceBody | Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> tuple[ExperienceDetail, ...]:
        """Request episodes of each variant that the request's `variant_id` matches, in the order of the manifest.

        Args:
            body: The request, as for `create`; its `variant_id` may be a pattern (`small-*`).
            labels: Labels of the episodes, as for `create`.
            timeout: Seconds for each attempt.

        Returns:
            One request for each variant.

        Raises:
            UsageError: No variant matches, or the request does not say whose variants are meant.
            ApiStatusError: As `create`. Requests that were made before it go on; `list` shows them.
        """
        given = await ids_in(self._client, body.to_wire() if isinstance(body, ExperienceBody) else body)
        bodies = await bodies_by_variant(self._client, given)
        return tuple([await self.create(one, labels=labels, timeout=timeout) for one in bodies])

    def list(
        self,
        *,
        mine: bool = False,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[ExperienceRequest]:
        """Experience requests, newest first; all you may see, or yours.

        Args:
            mine: Only yours.
            labels: Only those with these labels; `*`, `?` and `[…]` are wildcards in their values.
            limit: Maximum number of rows.
            offset: Number of the server's rows to skip.
            cursor: Where to begin: the `next_cursor` of a page.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: The server keeps no labels (`no_labels`).
        """

        async def prepare() -> Callable[[ExperienceRequest], bool]:
            return lambda row: has_labels(row.tags, labels, self._client.server)

        return self._list(
            ExperienceRequest,
            "/v2/experience-requests",
            {"mine": mine, "tags": label_query(labels)},
            limit=limit,
            offset=offset,
            cursor=cursor,
            keep=prepare if labels else None,
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
        return await wait_at_most(timeout, wait, id=request_id, hint=hint)

    @staticmethod
    def _path(request_id: str) -> str:
        return path("/v2/experience-requests/{}", check_id(request_id, "experience request"))
