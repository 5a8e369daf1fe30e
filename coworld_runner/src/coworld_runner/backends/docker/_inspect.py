"""What the engine is asked about a container and its image, and what it comes to that one cannot be started."""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread

from coworld_core.docker_engine import Engine, EngineGone, EngineRefused, is_full, path_segment
from coworld_core.episode.outcome import Exit
from coworld_core.errors import StartError

from ...backend import UnitSpec
from ...collector.usage import FreeRoom, disk_usage, too_much

__all__ = ["DiskLooks", "explained", "image_of", "require_program", "start_error", "state_of"]

_DISK_SECONDS = 1.0
"""Seconds between two looks at what a unit has written."""
_ROOM_SECONDS = 0.1
"""Seconds between two looks whether much of a disk is gone at once."""
_DISK_SHARE = 20
"""A look may take at most one part in so many of the time."""
_OOM_SECONDS = 1.0
"""How long after its end the engine may tell that a container was killed for its memory."""


async def image_of(engine: Engine, spec: UnitSpec) -> Mapping[str, Any]:
    """A unit's image, as the engine describes it.

    Raises:
        StartError: It is not on this machine.
        EngineRefused: The engine does not say.
        EngineGone: It does not answer.
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


async def require_program(engine: Engine, container: str, spec: UnitSpec, program: str, paths: Sequence[str]) -> None:
    """See that a unit's program is there: the init process starts even when there is nothing for it to run.

    Args:
        engine: Where the container is.
        container: Its name.
        spec: The unit.
        program: Its program.
        paths: Where that may be in the container.

    Raises:
        StartError: There is none that can be run.
    """
    reason = "there is no such file"
    for path in paths:
        found = await engine.stat(container, path)
        if found is None:
            continue
        if found.executable and not found.directory:
            return
        reason = "it is a directory" if found.directory else "it is not executable"
    raise StartError(
        f"{spec.name} cannot be started: {program!r} cannot be run in the image {spec.image!r}: {reason}.",
        code="command_failed",
        hint="Correct the runnable's `run`, or put the program into the image.",
        context={"unit": spec.name, "image": spec.image, "program": program},
    )


def start_error(spec: UnitSpec, what: str, error: EngineRefused | EngineGone) -> StartError:
    """What it comes to that the engine does not create or start a unit.

    Args:
        spec: The unit.
        what: ``created`` or ``started``.
        error: Why not.
    """
    words = error.words
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
    """How a container is.

    Args:
        engine: Where it is.
        path: Its path there.

    Raises:
        EngineRefused: There is none.
        EngineGone: The engine does not answer.
    """
    return (await engine.call("GET", f"{path}/json"))["State"]


async def _over_disk(engine: Engine, path: str, spec: UnitSpec) -> str:
    """In what way a unit is over its disk limit, if it is; what cannot be seen counts as nothing.

    The bytes are those of its container's own layer and of its directory; the files are those of its directory, which
    are on this machine when the container is gone.
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
    """Looks at what a unit has written; the engine has no event for it."""

    def __init__(self, engine: Engine, path: str, spec: UnitSpec) -> None:
        self._engine, self._path, self._spec = engine, path, spec
        # below its directory, and where the engine keeps containers, if that is here
        places = [str(spec.directory or ""), str(engine.info.get("DockerRootDir") or "")]
        self._room = FreeRoom(filter(None, places), spec.limits.disk_bytes, spec.limits.disk_entries)
        self._begun = self._ended = anyio.current_time()

    async def until_over(self) -> str:
        """Wait until it is over its limit; returns in what way."""
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
    """The end of a container that nobody ended, with what the engine and the disk know of its reason."""
    if ended.reason == "signal" and ended.signal == signal.SIGKILL and await _ran_out_of_memory(engine, id, spec):
        return ended.model_copy(update={"reason": "oom"})
    if spec.limits.of_disk and ended.reason in ("exited", "signal") and not ended.ok:
        # a program that may not write any more ends by itself, often before anybody has looked
        over = await _over_disk(engine, path, spec)
        if over:
            return ended.model_copy(update={"reason": "disk", "detail": over})
    return ended


async def _ran_out_of_memory(engine: Engine, id: str, spec: UnitSpec) -> bool:
    """Whether the kernel killed a unit for its memory: told apart, and sometimes after the end it is the cause of."""
    if spec.limits.memory_bytes is None:
        return False
    asked = {
        # those that the engine still knows, and what comes
        "since": 1,
        "until": f"{time.time() + _OOM_SECONDS:.9f}",
        "filters": {"type": ["container"], "container": [id], "event": ["oom"]},
    }
    try:
        async with engine.stream("GET", "/events", query=asked) as events:
            async for _ in events:
                return True
    except (EngineRefused, EngineGone):
        pass  # its end is known all the same
    return False
