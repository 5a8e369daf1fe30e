"""Builds the request that creates a container, and reads how a container ended."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from coworld_core.episode.outcome import Exit, ExitReason

from ...backend import INPUTS_MOUNT, UnitSpec
from ..engine import capabilities_of

__all__ = ["PIDS_BESIDES", "command", "container_body", "exit_of", "image_variables", "programs"]

PIDS_BESIDES = 2
"""How many processes a container may have beside those that its unit may: the init process is ours, and one more than
allowed shows that the limit was exceeded."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The engine's default if neither the image nor the environment sets PATH."""


def container_body(
    spec: UnitSpec,
    *,
    image: Mapping[str, Any],
    environment: Mapping[str, str],
    labels: Mapping[str, str],
    network: str | None,
    ports: Mapping[str, int],
) -> dict[str, Any]:
    """Build the request body that creates a unit's container.

    Args:
        spec: The unit.
        image: Its image, as the engine describes it.
        environment: Its whole environment, secrets included.
        labels: The labels of everything that belongs to the unit.
        network: The first network; None: no network at all.
        ports: The port on loopback for each of the unit's ports, by name; 0 lets the engine choose.
    """
    limits = spec.limits
    host: dict[str, Any] = {
        # An init process: TERM ends programs that do not handle it, and orphans are reaped
        "Init": True,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        # Logs are read while the unit runs; the engine keeps no copy that could fill the disk
        "LogConfig": {"Type": "none"},
        "NetworkMode": network or "none",
        "PortBindings": {
            f"{port.number}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(ports[port.name] or "")}]
            for port in spec.ports
        },
        "CapDrop": ["ALL"],
        "CapAdd": list(capabilities_of(spec)),
        "SecurityOpt": ["no-new-privileges:true"],
        "Mounts": _mounts(spec, image, labels),
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
    }
    if spec.network != "open":
        # No DNS for outside names: the engine would forward the query, and a query can carry data
        host["Dns"] = ["127.0.0.1"]
        host["DnsSearch"] = ["."]
        host["DnsOptions"] = ["timeout:1", "attempts:1"]
    if spec.gpu:
        host["DeviceRequests"] = [{"Count": 1, "Capabilities": [["gpu"]]}]
    if limits.memory_bytes is not None:
        host["Memory"] = host["MemorySwap"] = limits.memory_bytes
    if limits.cpus is not None:
        host["NanoCpus"] = int(limits.cpus * 1e9)
    if limits.pids is not None:
        host["PidsLimit"] = limits.pids + PIDS_BESIDES
    if limits.disk_bytes is not None:
        # A little more than is allowed, so that a single file over the limit shows as such
        largest = limits.disk_bytes + 4096
        host["Ulimits"].append({"Name": "fsize", "Soft": largest, "Hard": largest})
    body: dict[str, Any] = {
        "Image": spec.image,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": dict(labels),
        "ExposedPorts": {f"{port.number}/tcp": {} for port in spec.ports},
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
    }
    if network is not None:
        body["NetworkingConfig"] = {"EndpointsConfig": {network: {"Aliases": [spec.name]}}}
    if spec.argv:
        body["Entrypoint"], body["Cmd"] = [spec.argv[0]], list(spec.argv[1:])
    return body


def _mounts(spec: UnitSpec, image: Mapping[str, Any], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {
            "Type": "bind",
            "Source": str(source.absolute()),
            "Target": target,
            "ReadOnly": read_only,
            "BindOptions": {"Propagation": "rprivate"},
        }
        for source, target, read_only in ((spec.directory, spec.mount, False), (spec.inputs, INPUTS_MOUNT, True))
        if source is not None
    ]
    ours = {posixpath.normpath(mount["Target"]) for mount in mounts}
    config: Mapping[str, Any] = image.get("Config") or {}
    volumes: Mapping[str, Any] = config.get("Volumes") or {}
    for target in volumes:
        if posixpath.normpath(target) in ours:
            continue
        options: dict[str, Any] = {"Labels": dict(labels)}
        if spec.limits.of_disk:
            # The engine does not count volumes, so each gets its own size, which the kernel enforces
            most = {"size": spec.limits.disk_bytes, "nr_inodes": spec.limits.disk_entries}
            size = ",".join(f"{name}={limit}" for name, limit in most.items() if limit is not None)
            options["DriverConfig"] = {"Name": "local", "Options": {"type": "tmpfs", "device": "tmpfs", "o": size}}
        mounts.append({"Type": "volume", "Target": target, "VolumeOptions": options})
    return mounts


def command(spec: UnitSpec, image: Mapping[str, Any]) -> tuple[str, ...]:
    """The unit's own command or the image's (the engine refuses a container without either)."""
    config: Mapping[str, Any] = image.get("Config") or {}
    return spec.argv or (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ()))


def image_variables(image: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that an image sets."""
    config: Mapping[str, Any] = image.get("Config") or {}
    return {name: value for name, _, value in (str(entry).partition("=") for entry in config.get("Env") or ())}


def programs(program: str, image: Mapping[str, Any], environment: Mapping[str, str]) -> Sequence[str]:
    """Paths in the container at which a program may be, in the order they are tried."""
    config: Mapping[str, Any] = image.get("Config") or {}
    if "/" in program:
        return [posixpath.join("/", config.get("WorkingDir") or "/", program)]
    path = environment.get("PATH") or image_variables(image).get("PATH") or _PATH
    return [posixpath.join("/", directory, program) for directory in path.split(":")]


def exit_of(state: Mapping[str, Any], *, ours: ExitReason | None = None, detail: str = "") -> Exit:
    """How a container ended.

    Args:
        state: The engine's description of it (`State`).
        ours: Why the runner ended it, if it did.
        detail: Details for the reason.
    """
    code = int(state.get("ExitCode") or 0)
    # A shell's convention, which the init process keeps; a program that ends with such a status looks the same
    number = code - 128 if 128 < code <= 128 + 64 else None
    reason: ExitReason = "exited" if number is None else "signal"
    if ours is not None:
        reason = ours
    elif state.get("OOMKilled"):
        reason = "oom"
    return Exit(
        reason=reason,
        code=code if number is None else None,
        signal=number,
        detail=detail or str(state.get("Error") or ""),
    )
