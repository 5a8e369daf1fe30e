"""The port that shows that the worker is alive: the game's liveness probe connects to it and gets no data."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketStream

from coworld_core.errors import EnvironmentFault

from ..runs._task_groups import nursery

__all__ = ["health_port"]


@asynccontextmanager
async def health_port(port: int) -> AsyncGenerator[None]:
    """Accept and close connections on a port of every address while the context is open.

    When the worker dies, the port closes and the kubelet ends the game.

    Args:
        port: The TCP port.

    Raises:
        EnvironmentFault: The port cannot be listened on.
    """
    try:
        listener = await anyio.create_tcp_listener(local_port=port)
    except OSError as error:
        raise EnvironmentFault(
            f"The worker cannot listen on its health port {port}: {error.strerror or error}.",
            code="health_port_taken",
            hint="Give COWORLD_WORKER_HEALTH_PORT a port that no other container of the pod uses.",
        ) from error
    async with listener, nursery() as tasks:
        tasks.start_soon(listener.serve, _hang_up)
        yield


async def _hang_up(stream: SocketStream) -> None:
    await stream.aclose()
