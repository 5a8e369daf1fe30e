"""Uploading an episode's outputs, in an order in which an unfinished delivery never looks finished.

==========  ====================================================================================================
episode     uploads, in order
==========  ====================================================================================================
counts      replay, debug archive, player logs and record, concurrently; when all of them are uploaded, the
            results; last the timings. Results that exist therefore mean that everything else does too.
failed      error info, debug archive, player logs and record, concurrently and independently of each other. No
            results, no replay.
==========  ====================================================================================================

When an episode counts but one of its outputs cannot be uploaded, it fails after all: the results are withheld, and the
error info says what could not be uploaded. Timings are for statistics; losing them is only logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.verdict import Verdict
from coworld_core.errors import CoworldError

from ..package.transfers import Transfers
from .worker_evidence import Stopwatch, pack_debug, pack_replay
from .worker_settings import Outputs

__all__ = ["Delivery"]

_log = logging.getLogger("coworld.worker")

_Part = Callable[[float], Coroutine[Any, Any, None]]
"""Uploads one output; takes the seconds to leave for later uploads."""

_RESERVE_SECONDS, _RESERVE_SHARE = 15.0, 0.25
"""Seconds reserved for uploading the error info when other uploads fail."""


class Delivery:
    """Uploads the outputs of one episode.

    Args:
        outputs: The addresses to upload to.
        layout: The episode's files.
        packing: A directory for archives that are packed before their upload.
        transfers: Does the uploads.
        until: Gives the deadline on the event loop's clock, which may move closer meanwhile.
    """

    def __init__(
        self,
        outputs: Outputs,
        layout: EpisodeLayout,
        packing: Path,
        transfers: Transfers,
        *,
        until: Callable[[], float],
    ) -> None:
        self._outputs = outputs
        self._layout = layout
        self._packing = packing
        self._transfers = transfers
        self._until = until
        self._lost: list[str] = []

    async def hand_over(self, verdict: Verdict, stopwatch: Stopwatch) -> Verdict:
        """Upload all outputs.

        Args:
            verdict: Whether the episode counts.
            stopwatch: The durations of the episode's phases.

        Returns:
            The final verdict: an episode with a lost output does not count.
        """
        began = anyio.current_time()
        if verdict.counts:
            left = max(0.0, self._until() - began)
            reserve = min(_RESERVE_SECONDS, left * _RESERVE_SHARE)
            await self._all_at_once(self._replay, *self._evidence(), reserve=reserve)
            if not self._lost:
                await self._results(reserve)
            if self._lost:
                verdict = Verdict(
                    counts=False,
                    party="platform",
                    error_type="artifact_transport_error",
                    message=f"{' '.join(self._lost)} No results are kept.",
                )
                await self._error_info(verdict)
                return verdict
            timings = stopwatch.timings(anyio.current_time() - began)
            await self._put(self._outputs.timings, json.dumps(timings).encode(), "application/json", "timings")
            return verdict
        await self._all_at_once(lambda _: self._error_info(verdict), *self._evidence(), reserve=0.0)
        return verdict

    async def _all_at_once(self, *parts: _Part, reserve: float) -> None:
        async with anyio.create_task_group() as tasks:
            for part in parts:
                tasks.start_soon(part, reserve)

    def _evidence(self) -> list[_Part]:
        return [self._debug, self._player_logs, self._record]

    async def _replay(self, reserve: float) -> None:
        if self._outputs.replay is None or not self._layout.replay.is_file():
            return
        packed = self._packing / "replay.z"
        if await self._packed(lambda: pack_replay(self._layout, packed), "replay"):
            await self._put(self._outputs.replay, packed, "application/x-compress", "replay", reserve)
        packed.unlink(missing_ok=True)

    async def _debug(self, reserve: float) -> None:
        packed = self._packing / "debug.zip"
        made: list[bool] = []
        if self._outputs.debug is None:
            return
        if await self._packed(lambda: made.append(pack_debug(self._layout, packed)), "debug archive") and any(made):
            await self._put(self._outputs.debug, packed, "application/zip", "debug archive", reserve)

    async def _packed(self, pack: Callable[[], object], what: str) -> bool:
        try:
            await anyio.to_thread.run_sync(pack)
        except OSError as error:
            self._lose(f"The {what} could not be packed: {error.strerror}.")
            return False
        return True

    async def _player_logs(self, reserve: float) -> None:
        async with anyio.create_task_group() as tasks:
            for slot, uri in self._outputs.policy_logs.items():
                path = self._layout.player_log(slot)
                if path.is_file():
                    tasks.start_soon(self._put, uri, path, "text/plain", f"log of player {slot}", reserve)

    async def _record(self, reserve: float) -> None:
        if self._layout.record.is_file():
            await self._put(self._outputs.record, self._layout.record, "application/json", "episode record", reserve)

    async def _results(self, reserve: float) -> None:
        await self._put(self._outputs.results, self._layout.results, "application/json", "results", reserve)

    async def _error_info(self, verdict: Verdict) -> None:
        await self._put(self._outputs.error_info, verdict.error_info, "application/json", "error info")

    async def _put(
        self, uri: str | None, content: Path | bytes, content_type: str, what: str, reserve: float = 0.0
    ) -> None:
        if uri is None:
            return
        try:
            await self._transfers.put(uri, content, content_type=content_type, what=what, until=self._until() - reserve)
        except CoworldError as error:
            self._lose(error.message)
        except OSError as error:
            self._lose(f"The {what} could not be read: {error.strerror}.")
        else:
            _log.info("%s handed over", what)

    def _lose(self, message: str) -> None:
        _log.error("%s", message)
        self._lost.append(message)
