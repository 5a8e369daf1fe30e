"""Leftovers of killed processes on this machine."""

from __future__ import annotations

import logging

import anyio.to_thread

from coworld_core.errors import CoworldError
from coworld_runner.backend import Backend
from coworld_runner.runs import find_scratch, reap_scratch, run_is_alive

__all__ = ["remove_leftovers"]

_log = logging.getLogger("observatory.work.worker")


async def remove_leftovers(backend: Backend, run_id: str) -> bool:
    """Remove everything with a run's label; returns False, and removes nothing, if the run is still alive."""
    if not run_id or await anyio.to_thread.run_sync(run_is_alive, run_id):
        return False
    try:
        found = await backend.find(run_id)
        await backend.reap(found)
    except CoworldError as error:
        _log.warning("The leftovers of run %s cannot be removed: %s", run_id, error)
    await anyio.to_thread.run_sync(lambda: reap_scratch(find_scratch(run_id)))
    return True
