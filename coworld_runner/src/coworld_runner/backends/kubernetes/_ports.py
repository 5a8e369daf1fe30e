"""Ports of a pod that are open on this machine: on loopback, each connection carried there by the API server."""

from __future__ import annotations

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup

from ...backend import Port, UnitSpec
from ..base import LOCALHOST, port_taken
from ._api import Cluster, ClusterGone, ClusterRefused
from ._forward import carry

__all__ = ["LocalPorts"]


class LocalPorts:
    """The ports of one pod, which need not exist yet.

    Args:
        cluster: Where the pod is, or will be.
        pod: Its name.
    """

    def __init__(self, cluster: Cluster, pod: str) -> None:
        self._cluster = cluster
        self._pod = pod
        self._listeners: dict[str, SocketListener] = {}

    def number(self, port: str) -> int:
        """The port here that stands for one of the pod's; 0 while there is none."""
        listener = self._listeners.get(port)
        return int(listener.extra(SocketAttribute.local_port)) if listener is not None else 0  # noqa: S610

    async def open(self, spec: UnitSpec, tasks: TaskGroup) -> None:
        """Listen for every port of a unit, as long as these tasks live.

        Raises:
            StartError: A port that is to be the same here is in use.
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
