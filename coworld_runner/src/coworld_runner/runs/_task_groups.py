"""Small helpers for structured concurrency that anyio lacks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

__all__ = ["cancel_after", "nursery"]


@asynccontextmanager
async def nursery() -> AsyncGenerator[TaskGroup, None]:
    """A task group that is cancelled on leaving and raises a single error without wrapping it.

    A plain task group waits for its tasks at the end and wraps even the body's own error in a group. Tasks that only
    accompany a body (a watcher, a pump) are done when the body is, and the caller should see the body's error itself.
    """
    failure: BaseException
    try:
        async with anyio.create_task_group() as group:
            try:
                yield group
            finally:
                group.cancel_scope.cancel()
        return
    except BaseExceptionGroup as errors:
        if len(errors.exceptions) != 1:
            raise
        failure = errors.exceptions[0]
    # Raised outside the handler, so that the group does not become its context
    raise failure


async def cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    """Cancel a scope once an event is set."""
    await event.wait()
    scope.cancel()
