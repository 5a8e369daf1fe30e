"""Small shapes of structured concurrency that the standard ones lack."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

__all__ = ["cancel_after", "nursery"]


@asynccontextmanager
async def nursery() -> AsyncGenerator[TaskGroup, None]:
    """A task group that is cancelled on leaving and hands a single error on as it is.

    A plain task group wraps even the body's own error in a group, and waits for its tasks at the end; what runs
    beside a body (a watcher, a pump) is done when the body is, and the body's error is the caller's to see.
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
    # raised outside the handler, so that the group does not become its context
    raise failure


async def cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    """Cancel a scope once something has happened."""
    await event.wait()
    scope.cancel()
