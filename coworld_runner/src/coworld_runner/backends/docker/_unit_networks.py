"""The networks that one container is on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import anyio

from coworld_core.docker_address import EngineGone

from ...backend import UnitSpec
from ...errors import unwrapped
from ._engine import Engine
from ._labels import labels_of, object_name
from ._networks import NetworkKind, SharedNetwork, drop_network, make_network

__all__ = ["UnitNetworks", "uncancelled"]

_CREATE_SECONDS = 60.0
"""How long a cancelled creation is still awaited, so that its result is known and can be removed."""

_T = TypeVar("_T")


async def uncancelled(call: Callable[[], Awaitable[_T]]) -> _T:
    """Complete a creation even if cancelled, so that its result is known.

    Raises:
        EngineGone: The engine did not answer in time.
    """
    try:
        with anyio.fail_after(_CREATE_SECONDS, shield=True):
            return await call()
    except TimeoutError as error:
        raise EngineGone("create", f"no answer within {_CREATE_SECONDS:g} s") from error


class UnitNetworks:
    """The networks of one unit: its own, the run's open one, and those of its clients that it joins.

    Args:
        engine: The engine.
        spec: The unit.
        open: The network shared by units of the run whose network is open.
    """

    def __init__(self, engine: Engine, spec: UnitSpec, open: SharedNetwork) -> None:
        self._engine = engine
        self._spec = spec
        self._open = open
        self._made: dict[str, NetworkKind] = {}
        self._owned: list[str] = []
        self._shares_open = False
        self._releasing = anyio.Lock()
        self.private: dict[str, str] = {}
        """The private networks shared with the units it connects to, by the names of those units."""
        self.joined: list[str] = []
        """Private networks of its clients."""

    @property
    def made(self) -> tuple[str, ...]:
        """The networks that the container is attached to when it is created, in order."""
        return tuple(self._made)

    async def make(self, peers: Sequence[UnitSpec]) -> None:
        """Create the networks that the unit needs.

        Args:
            peers: The units that it connects to.

        Raises:
            EngineRefused: A network could not be created.
            EngineGone: The engine does not answer.
        """
        spec = self._spec
        if spec.network == "open":
            await uncancelled(lambda: self._open.take(self._engine))
            self._shares_open = True
            self._made[self._open.name] = "open"
        elif spec.ports or spec.clients:
            self._made[object_name(spec.run_id, spec.name, "front")] = "front"
        for peer in peers:
            if spec.network != "none" and not (spec.network == peer.network == "open"):
                self.private[peer.name] = name = object_name(spec.run_id, peer.name, spec.name)
                self._made[name] = "private"
        labels = labels_of(spec)
        with unwrapped():
            async with anyio.create_task_group() as tasks:
                for name, kind in self._made.items():
                    if kind != "open":
                        self._owned.append(name)
                        tasks.start_soon(self._make_one, name, kind, labels)

    async def _make_one(self, name: str, kind: NetworkKind, labels: Mapping[str, str]) -> None:
        await uncancelled(lambda: make_network(self._engine, name, kind, labels))

    async def release(self) -> list[tuple[str, str]]:
        """Release the networks; return the names of those that remain, with reasons."""
        left: list[tuple[str, str]] = []

        async def drop(name: str) -> None:
            reason = await drop_network(self._engine, name)
            if reason:
                left.append((name, reason))
            else:
                self._owned.remove(name)

        async with self._releasing:
            async with anyio.create_task_group() as tasks:
                for name in tuple(self._owned):
                    tasks.start_soon(drop, name)
            if self._shares_open:
                reason = await self._open.give(self._engine)
                self._shares_open = bool(reason)
                if reason:
                    left.append((self._open.name, reason))
        return left
