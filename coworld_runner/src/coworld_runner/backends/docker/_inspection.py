"""Queries about containers and images on an engine, and errors for containers that cannot be started."""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from coworld_core.docker_address import EngineGone, EngineRefused
from coworld_core.episode.outcome import Exit
from coworld_core.errors import StartError
from coworld_core.images import ELF_BYTES, machine_of

from ...backend import UnitSpec
from ..collector.disk_usage import FreeRoom, disk_usage, too_much
from ._container_files import read_head
from ._container_spec import PIDS_BESIDES
from ._emulation import Emulation
from ._engine import Engine, is_full, json_objects, path_segment

__all__ = [
    "DiskLooks",
    "exceeded_pids",
    "explained",
    "image_of",
    "ran_out_of_memory",
    "require_program",
    "start_error",
    "state_of",
]

_DISK_SECONDS = 1.0
"""Seconds between two counts of a unit's disk usage."""
_ROOM_SECONDS = 0.1
"""Seconds between checks whether free space fell sharply."""
_DISK_SHARE = 20
"""After each count, the pause is at least this many times as long as the count took."""
_OOM_SECONDS = 1.0
"""How long after a container's end the engine may report that it ran out of memory."""


async def image_of(engine: Engine, spec: UnitSpec) -> Mapping[str, Any]:
    """A unit's image, as the engine describes it.

    Raises:
        StartError: The image is not on this machine.
        EngineRefused: The engine refuses the request.
        EngineGone: The engine does not answer.
    """
    try:
        return await engine.call("GET", f"/images/{path_segment(spec.image)}/json")
    except EngineRefused as error:
        if error.status != 404:
            raise
        raise StartError(
            f"{spec.name} cannot be created: the image {spec.image!r} is not on this machine.",
            code="image_missing",
            hint="Build or pull it first.",
            context={"unit": spec.name, "image": spec.image},
        ) from error


async def require_program(
    engine: Engine, emulation: Emulation, container: str, spec: UnitSpec, program: str, paths: Sequence[str]
) -> None:
    """Check that a unit's program exists and is for this machine: the init process starts even if it can run nothing.

    Args:
        engine: The engine.
        emulation: Which other machines' programs it runs.
        container: The container's name.
        spec: The unit.
        program: The unit's program.
        paths: Where the program may be in the container.

    Raises:
        StartError: No path has a program that can be run.
    """
    reason = "there is no such file"
    for path in paths:
        found = await engine.stat(container, path)
        if found is None:
            continue
        if found.executable and not found.directory:
            try:
                needs = machine_of(await read_head(engine, container, found.target or path, ELF_BYTES))
            except EngineRefused:
                return  # A link that leads nowhere, which the engine explains when it starts
            if not needs or await emulation.runs(needs, image=spec.image):
                return
            reason = f"it is a program for {needs}, and it would run on {engine.platform}"
            break
        reason = "it is a directory" if found.directory else "it is not executable"
    raise StartError(
        f"{spec.name} cannot be started: {program!r} cannot be run in the image {spec.image!r}: {reason}.",
        code="command_failed",
        hint="Correct the runnable's `run`, or put the program into the image.",
        context={"unit": spec.name, "image": spec.image, "program": program},
    )


def start_error(spec: UnitSpec, what: str, error: EngineRefused | EngineGone) -> StartError:
    """Build the error for a unit that the engine does not create or start.

    Args:
        spec: The unit.
        what: `created` or `started`.
        error: The engine's error.
    """
    words = error.server_message
    code, hint = None, None
    if is_full(words):
        code, hint = "disk_full", "Make room where the engine keeps its containers: docker system df."
    elif "docker-init" in words:
        code, hint = "init_missing", "The engine lacks docker-init: install it (on Debian: apt-get install tini)."
    elif "bind source path does not exist" in words:
        hint = "The engine does not see this machine's files: use one that runs here, not in another container."
    elif re.search("no command specified", words, re.IGNORECASE):
        code = "command_failed"
        hint = "Give the runnable a `run` in the manifest, or the image an ENTRYPOINT or CMD."
    elif re.search(r"exec:|unable to find (user|group)|no matching entries in|chdir to cwd|working dir", words):
        code, hint = "command_failed", "The image cannot be run as it is: correct its command, user or directory."
    elif isinstance(error, EngineGone):
        code, hint = error.code, error.hint
    context: dict[str, object] = {"unit": spec.name, "image": spec.image}
    return StartError(f"{spec.name} could not be {what}: {words}", code=code, hint=hint, context=context)


async def state_of(engine: Engine, path: str) -> Mapping[str, Any]:
    """Return the state of a container.

    Args:
        engine: The engine.
        path: The container's path in its API.

    Raises:
        EngineRefused: There is no such container.
        EngineGone: The engine does not answer.
    """
    return (await engine.call("GET", f"{path}/json"))["State"]


async def _over_disk(engine: Engine, path: str, spec: UnitSpec) -> str:
    """Describe how a unit exceeds its disk limits, if it does; data that cannot be read counts as nothing.

    Bytes are those of the container's own layer and of the unit's directory; files are those of the directory, which
    stay on this machine when the container is gone.
    """
    try:
        described = await engine.call("GET", f"{path}/json", query={"size": True})
    except (EngineRefused, EngineGone):
        return ""
    used = int(described.get("SizeRw") or 0)
    limits, entries = spec.limits, 0
    if spec.directory is not None:
        below, entries = await anyio.to_thread.run_sync(
            lambda: disk_usage(
                [str(spec.directory)],
                most_bytes=math.inf if limits.disk_bytes is None else limits.disk_bytes,
                most_entries=math.inf if limits.disk_entries is None else limits.disk_entries,
            )
        )
        used += below
    return too_much((used, entries), limits.disk_bytes, limits.disk_entries)


class DiskLooks:
    """Polls a unit's disk usage; the engine has no event for it."""

    def __init__(self, engine: Engine, path: str, spec: UnitSpec) -> None:
        self._engine, self._path, self._spec = engine, path, spec
        # The disks of the unit's directory and, if it is on this machine, of the engine's containers
        places = [str(spec.directory or ""), str(engine.info.get("DockerRootDir") or "")]
        self._room = FreeRoom(filter(None, places), spec.limits.disk_bytes, spec.limits.disk_entries)
        self._begun = self._ended = anyio.current_time()

    async def until_over(self) -> str:
        """Wait until the unit exceeds a disk limit; return a description."""
        while True:
            await anyio.sleep(max(_ROOM_SECONDS, _DISK_SHARE * (self._ended - self._begun)))
            if anyio.current_time() - self._ended < _DISK_SECONDS and not self._room.fell():
                continue
            self._begun = anyio.current_time()
            self._room.note()
            over = await _over_disk(self._engine, self._path, self._spec)
            self._ended = anyio.current_time()
            if over:
                return over


async def explained(engine: Engine, id: str, path: str, spec: UnitSpec, ended: Exit) -> Exit:
    """Add the reason, if it was memory or disk, to the end of a container that ended by itself."""
    killed = ended.reason == "signal" and ended.signal == signal.SIGKILL
    # A program that has lost a process of its own may also end in any other way
    if not ended.ok and await ran_out_of_memory(engine, id, spec, timeout=_OOM_SECONDS if killed else 0.0):
        return ended.model_copy(update={"reason": "oom"})
    if spec.limits.of_disk and ended.reason in ("exited", "signal") and not ended.ok:
        # A program that can no longer write often ends by itself before the next count
        over = await _over_disk(engine, path, spec)
        if over:
            return ended.model_copy(update={"reason": "disk", "detail": over})
    return ended


async def ran_out_of_memory(engine: Engine, id: str, spec: UnitSpec, *, timeout: float | None) -> bool:
    """Whether the kernel killed a process of a unit for its memory; reported separately, and sometimes after its end.

    Args:
        engine: The engine.
        id: The container's id.
        spec: The unit.
        timeout: Seconds to wait for such a report; None: as long as the engine goes on.
    """
    if spec.limits.memory_bytes is None:
        return False
    asked = {
        # Past events that the engine still knows, and new ones
        "since": 1,
        "until": f"{time.time() + timeout:.9f}" if timeout is not None else None,
        "filters": {"type": ["container"], "container": [id], "event": ["oom"]},
    }
    try:
        async with engine.stream("GET", "/events", query=asked) as events:
            async for _ in events:
                return True
    except (EngineRefused, EngineGone):
        pass  # The end is known anyway
    return False


async def exceeded_pids(engine: Engine, path: str, spec: UnitSpec) -> bool:
    """Whether a unit has more processes and threads than it may have; waits as long as the engine goes on."""
    if spec.limits.pids is None:
        return False
    try:
        async with engine.stream("GET", f"{path}/stats") as answer:
            async for said in json_objects(answer):
                counted: Mapping[str, Any] = said.get("pids_stats") or {}
                if int(counted.get("current") or 0) >= spec.limits.pids + PIDS_BESIDES:
                    return True
    except (EngineRefused, EngineGone):
        pass  # Its end is seen in another way
    return False
