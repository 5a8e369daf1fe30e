"""The files of many episodes at once, listed for download."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coworld_core.api import DOWNLOAD_CATEGORIES, DownloadCategory, DownloadEntry
from coworld_core.errors import UsageError

from .._many_ids import many_ids
from ..errors import NotFound
from ..pages import AsyncPager
from ..transfers._links import with_fresh_link
from ._base import Resource

if TYPE_CHECKING:
    from ..transfers.files import Downloaded, OnProgress

__all__ = ["Downloads"]


class Downloads(Resource):
    """The files of many episodes at once, on servers that list them."""

    def list(
        self,
        ids: str | Sequence[str],
        *,
        include: Collection[DownloadCategory] | None = None,
        positions: Collection[int] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[DownloadEntry]:
        """List files, with links that need no token for a while; `page.extra` has `unavailable_ids`.

        Args:
            ids: 1 to 50 ids, all of experience requests or all of episode requests.
            include: Only files of these categories.
            positions: Of the players' files, only those of these slots.
            limit: Maximum number of rows.
            cursor: Where to start, from an earlier page.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: A category is unknown, or the ids cannot be used together.
        """
        unknown = [category for category in include or () if category not in DOWNLOAD_CATEGORIES]
        if unknown:
            known = ", ".join(DOWNLOAD_CATEGORIES)
            raise UsageError(f"There is no category {unknown[0]!r}.", code="bad_category", hint=f"There are {known}.")
        params = {
            "ids": many_ids(ids),
            "include": tuple(include) if include is not None else None,
            "agent": tuple(map(str, positions)) if positions is not None else None,
        }
        # One episode may have many files, and servers page by episode
        return self._list(
            DownloadEntry,
            "/v2/episode-requests/download-manifest",
            params,
            limit=limit,
            cursor=cursor,
            page_size=100,
            timeout=timeout,
        )

    async def fetch(
        self,
        entry: DownloadEntry,
        target: Path,
        *,
        unpack: bool = True,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download one of the listed files. A link that has expired is renewed once.

        Args:
            entry: The entry of the file.
            target: The file to write; its name is yours, never the server's.
            unpack: Whether to undo the compression that the storage applied.
            limit: Largest file in bytes, unpacked.
            timeout: Seconds without data after which the connection counts as lost.
            on_progress: Called with the progress.

        Raises:
            NotFound: The file does not exist: not yet, no longer, or it never did.
            LinkExpired: The renewed link is refused as well.
            TransferRefused: If the transfer is incomplete or exceeds the limit.
        """
        from ..transfers.files import download

        async def once(entry: DownloadEntry) -> Downloaded:
            if not entry.url:
                raise NotFound(
                    f"There is no {entry.category} of {entry.episode_request_id} to download: it is {entry.state}.",
                    status=404,
                )
            return await download(
                self._connection,
                entry.url,
                target,
                headers={"If-Match": entry.etag} if entry.etag else None,
                size=entry.size,
                limit=limit,
                unpack=unpack and entry.encoding not in (None, "identity"),
                what=entry.category.replace("_", " "),
                timeout=timeout,
                on_progress=on_progress,
            )

        async def renew() -> DownloadEntry | None:
            return await self._renewed(entry, timeout)

        if not entry.url:
            return await once(entry)
        return await with_fresh_link(once, entry, renew, what=entry.category.replace("_", " "))

    async def _renewed(self, entry: DownloadEntry, timeout: float | None) -> DownloadEntry | None:
        positions = None if entry.position is None else (entry.position,)
        async for other in self.list(entry.episode_request_id, positions=positions, timeout=timeout):
            if (other.category, other.position) == (entry.category, entry.position):
                return other
        return None
