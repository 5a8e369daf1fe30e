"""Takes part in playing a run: carries its chunks, plays them, or both."""

from __future__ import annotations

import secrets
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from ..runs.scratch import open_scratch
from .chunk_player import play_chunks
from .courier import IDLE_SECONDS, Courier
from .job_store import JobStore
from .own_pod import OwnPod
from .shared_folder import SharedFolder

__all__ = ["take_part"]


async def take_part(
    url: str | None,
    folder: Path | None = None,
    *,
    plays: bool = True,
    name: str = "",
    idle: float = IDLE_SECONDS,
    only: int | None = None,
    pod: OwnPod | None = None,
) -> None:
    """Take part in playing a run, until there is nothing more to play.

    Args:
        url: The store; None: another process carries.
        folder: The directory that is shared with the other half, if this is one of two.
        plays: Whether to play; otherwise another process does.
        name: What tells this one from others who take part; empty: this machine and a random word.
        idle: Seconds to wait for further chunks of a driver that gives no sign of life.
        only: The number of the only chunk to play; None: any, one after the other.
        pod: The pod that plays one episode of images.

    Raises:
        EnvironmentFault: The store cannot be reached, or the other half is gone.
    """
    async with AsyncExitStack() as stack:
        if folder is None:
            folder = (await stack.enter_async_context(open_scratch())).directory("shared")
        shared = SharedFolder(folder)
        async with anyio.create_task_group() as tasks:
            if url is not None:
                who = f"{name or socket.gethostname()}:{secrets.token_hex(4)}"
                tasks.start_soon(Courier(JobStore(url), shared, name=who, idle=idle, only=only).run)
            if plays:
                tasks.start_soon(play_chunks, shared, pod)
