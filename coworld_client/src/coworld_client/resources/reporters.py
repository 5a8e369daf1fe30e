"""The catalogue of reporters, and what they have written."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from coworld_core.api import ReporterDetail, ReporterEntry, ReporterOutput, check_id

from ..pages import AsyncPager
from ..transport._connection import path
from ._base import Resource

if TYPE_CHECKING:
    from ..transfers.files import Downloaded, OnProgress

__all__ = ["Reporters"]


class Reporters(Resource):
    """The catalogue of reporters, and what they have written, on servers that have one."""

    def list(
        self,
        *,
        text: str | None = None,
        types: Collection[str] | None = None,
        author: str | None = None,
        mode: Literal["all", "hosted", "external"] = "all",
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[ReporterEntry]:
        """Reporters; each argument is a filter.

        Args:
            text: A text in the name or the description.
            types: Only those that write one of these kinds of outputs, such as `file` or `json`.
            author: Only those of this account: its id or name.
            mode: `hosted`: those that the platform runs; `external`: those that run elsewhere.
            limit: Maximum number of rows.
            cursor: Where to begin: the `next_cursor` of a page.
            timeout: Seconds for each attempt.
        """
        params = {
            "q": text,
            "type": tuple(types) if types is not None else None,
            "author": author,
            "mode": None if mode == "all" else mode,
        }
        return self._list(ReporterEntry, "/v2/reporters", params, limit=limit, cursor=cursor, timeout=timeout)

    async def get(self, reporter_id: str, *, timeout: float | None = None) -> ReporterDetail:
        """One reporter, with the last of its outputs that you may see.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        return await self._get(ReporterDetail, _place(reporter_id), timeout=timeout)

    def outputs(
        self, reporter_id: str, *, limit: int | None = None, cursor: str | None = None, timeout: float | None = None
    ) -> AsyncPager[ReporterOutput]:
        """What a reporter has written, as far as you may see it, newest first."""
        target = f"{_place(reporter_id)}/outputs"
        return self._list(ReporterOutput, target, limit=limit, cursor=cursor, timeout=timeout)

    async def download(
        self,
        output: ReporterOutput,
        target: Path,
        *,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download something that a reporter has written.

        Args:
            output: The entry of the file.
            target: The file to write; its name is yours, never the server's.
            limit: Largest file in bytes.
            timeout: Seconds without data after which the connection counts as lost.
            on_progress: Called with the progress.

        Raises:
            NotFound: It does not exist any longer, or you may not see it.
            TransferRefused: If the transfer is incomplete or exceeds the limit.
        """
        from ..transfers.files import download

        return await download(
            self._connection,
            output.url,
            target,
            size=output.size_bytes,
            what="report",
            limit=limit,
            timeout=timeout,
            on_progress=on_progress,
        )


def _place(reporter_id: str) -> str:
    return path("/v2/reporters/{}", check_id(reporter_id, "reporter"))
