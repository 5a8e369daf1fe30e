"""Networks of a run: small and private, removed with the units that use them.

Three kinds:

* **private** – one client and the unit it connects to. Internal, and the bridge on the host has no address,
  so neither the internet nor a service of the host can be reached from it.
* **front** – one unit alone, for the port it publishes on loopback, which an internal network cannot do. Outgoing
  addresses are not translated, so there is no route to the internet; services of the host that listen on every
  address can be reached.
* **open** – an ordinary network for all units of a run that asked for one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Literal

import anyio

from coworld_core.docker_address import EngineGone, EngineRefused

from ._engine import Engine, path_segment

__all__ = ["NetworkKind", "SharedNetwork", "drop_network", "make_network"]

NetworkKind = Literal["private", "front", "open"]

_POOL = 198 << 24 | 18 << 16
_POOL_BITS = 17
"""198.18.0.0/15, reserved for tests of network equipment (RFC 2544), so no real host uses it. The engine's own pools
hold some thirty networks for all users of the machine; this one holds thousands for us alone."""
_TRIES = 50
_UNDO_SECONDS = 15.0
_DROP_SECONDS = 10.0
"""How long a network may still have users after they were disconnected."""
_DROP_PAUSE = 0.05

_OPTIONS: Mapping[NetworkKind, Mapping[str, str]] = {
    "private": {"com.docker.network.bridge.inhibit_ipv4": "true"},
    "front": {"com.docker.network.bridge.enable_ip_masquerade": "false"},
    "open": {},
}


async def make_network(engine: Engine, name: str, kind: NetworkKind, labels: Mapping[str, str]) -> None:
    """Create a network.

    Raises:
        EngineRefused: It could not be created.
        EngineGone: The engine does not answer.
    """
    body: dict[str, Any] = {
        "Name": name,
        "CheckDuplicate": True,
        "Driver": "bridge",
        "Internal": kind == "private",
        "EnableIPv6": False,
        "Options": dict(_OPTIONS[kind]),
        "Labels": dict(labels),
    }
    if kind == "open":
        # The engine avoids the routes of this machine, as long as its pools last
        try:
            await engine.call("POST", "/networks/create", body=body)
        except EngineRefused as error:
            if "address pool" not in error.server_message:
                raise
        else:
            return
    for left in reversed(range(_TRIES)):
        body["IPAM"] = {"Config": [{"Subnet": _subnet(24 if kind == "open" else 29)}]}
        try:
            await engine.call("POST", "/networks/create", body=body)
        except EngineRefused as error:
            # The subnet is already in use: try another
            if "overlap" not in error.server_message or not left:
                raise
        else:
            return


def _subnet(prefix: int) -> str:
    bits = prefix - (32 - _POOL_BITS)
    number = _POOL + (random.getrandbits(bits) << (32 - prefix))
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0)) + f"/{prefix}"


async def drop_network(engine: Engine, name: str) -> str:
    """Disconnect all containers from a network and remove it.

    Returns:
        Why it is still there, or an empty string.
    """
    path = f"/networks/{path_segment(name)}"
    reason = f"the engine did not remove it within {_DROP_SECONDS:g} s"
    pause = 0.0
    try:
        with anyio.move_on_after(_DROP_SECONDS):
            while True:
                try:
                    await engine.call("DELETE", path)
                    return ""
                except EngineRefused as error:
                    if error.status != 403:
                        raise
                    reason = error.server_message
                await _cut_off(engine, path)
                # A container that an interrupted call was attaching may already count as a user but not be listed yet
                await anyio.sleep(pause)
                pause = _DROP_PAUSE
    except EngineRefused as error:
        return "" if error.status == 404 else error.server_message
    except EngineGone as error:
        return error.server_message
    return reason


async def _cut_off(engine: Engine, path: str) -> None:
    attached: Mapping[str, Any] = (await engine.call("GET", path)).get("Containers") or {}
    for container in attached:
        try:
            await engine.call("POST", f"{path}/disconnect", body={"Container": container, "Force": True})
        except EngineRefused as error:
            # It has just ended by itself
            if error.status not in (403, 404, 500):
                raise


class SharedNetwork:
    """A network that exists as long as a unit uses it."""

    def __init__(self, name: str, kind: NetworkKind, labels: Mapping[str, str]) -> None:
        self.name = name
        self._kind: NetworkKind = kind
        self._labels = labels
        self._users = 0
        self._lock = anyio.Lock()

    async def take(self, engine: Engine) -> None:
        """Add a user; the first creates the network."""
        async with self._lock:
            if self._users == 0:
                try:
                    await make_network(engine, self.name, self._kind, self._labels)
                except BaseException:
                    # The network may exist although the call failed
                    with anyio.move_on_after(_UNDO_SECONDS, shield=True):
                        await drop_network(engine, self.name)
                    raise
            self._users += 1

    async def give(self, engine: Engine) -> str:
        """Drop a user; the last removes the network. Return why it remains, or an empty string."""
        async with self._lock:
            if self._users == 1 and (reason := await drop_network(engine, self.name)):
                return reason
            self._users -= 1
            return ""
