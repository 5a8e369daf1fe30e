"""Opens ports of a pod on this machine's loopback interface; the API server forwards each connection."""

from __future__ import annotations

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup

from ...backend import Port, UnitSpec
from ..base import LOCALHOST, port_taken
from ._cluster import Cluster, ClusterGone, ClusterRefused
from ._port_forward import carry

__all__ = ["LocalPorts"]


class LocalPorts:
    """The ports of one pod, which need not exist yet.

    Args:
        cluster: The pod's cluster.
        pod: The pod's name.
    """

    def __init__(self, cluster: Cluster, pod: str) -> None:
        self._cluster = cluster
        self._pod = pod
        self._listeners: dict[str, SocketListener] = {}

    def number(self, port: str) -> int:
        """The local port that leads to one of the pod's ports; 0 while there is none."""
        listener = self._listeners.get(port)
        return int(listener.extra(SocketAttribute.local_port)) if listener is not None else 0  # noqa: S610

    async def open(self, spec: UnitSpec, tasks: TaskGroup) -> None:
        """Listen for every port of a unit until the task group is cancelled.

        Raises:
            StartError: A local port that the spec asks for is in use.
        """
        for port in spec.ports:
            listener = await self._listen(spec.name, port)
            self._listeners[port.name] = listener
            tasks.start_soon(self._serve, listener, port.number, name=f"port {port.name} of {spec.name}")

    async def _listen(self, unit: str, port: Port) -> SocketListener:
        try:
            multi = await anyio.create_tcp_listener(local_host=LOCALHOST, local_port=port.host_port)
        except OSError as error:
            raise await anyio.to_thread.run_sync(port_taken, unit, port.name, port.host_port) from error
        listener = multi.listeners[0]
        assert isinstance(listener, SocketListener)
        return listener

    async def _serve(self, listener: SocketListener, number: int) -> None:
        async def take(near: SocketStream) -> None:
            async with near:
                try:
                    far = await self._cluster.forward(self._pod, number)
                except (ClusterRefused, ClusterGone):
                    return
                async with far:
                    await carry(near, far)

        async with listener:
            await listener.serve(take)
