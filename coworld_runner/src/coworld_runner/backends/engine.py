"""Containers and pods as units: their base class, and the labels that tell which run they belong to."""

from __future__ import annotations

import abc
import enum
import os
import platform
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from coworld_core.episode.outcome import ExitReason

from ..backend import Backend, Publish, UnitSpec
from ..runs.scratch import owner_is_alive, scratch_root
from .base import BaseUnit

__all__ = [
    "DEFAULT_HELPER_IMAGE",
    "GAME_CAPABILITIES",
    "RUN",
    "UNIT",
    "EngineUnit",
    "Presence",
    "Signal",
    "capabilities_of",
    "helper_image",
    "owner_lives",
    "run_labels",
    "unit_labels",
]

Signal = Literal["TERM", "KILL"]

GAME_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
"""Capabilities for start scripts that prepare directories as root and then switch to another user. Players get none
unless their spec asks for them: they are the least trusted code, and need nothing but a connection."""


DEFAULT_HELPER_IMAGE = "python:3.12-slim"
"""Any image with Python works; ``COWORLD_COLLECTOR_IMAGE`` names another one."""


def capabilities_of(spec: UnitSpec) -> tuple[str, ...]:
    """Return the Linux capabilities that a unit gets."""
    return () if spec.component in ("player", "proxy") and not spec.drops_privileges else GAME_CAPABILITIES


def helper_image() -> str:
    """Return the image for helper programs that run beside units; callers may choose another."""
    return os.environ.get("COWORLD_COLLECTOR_IMAGE") or DEFAULT_HELPER_IMAGE


# --- units ------------------------------------------------------------------------------------------------------


class Presence(enum.Enum):
    """What is known of a unit's container or pod."""

    UNMADE = enum.auto()
    """Its creation has not been requested."""
    MADE = enum.auto()
    """It exists or may exist."""
    GONE = enum.auto()
    """It does not exist, and will not."""
    LOST = enum.auto()
    """It can no longer be observed."""


class EngineUnit(BaseUnit):
    """A container or pod that is created, observed and signalled through its engine.

    A subclass calls ``note`` with what it learns, starts ``follow`` to watch the unit, and implements ``send``.

    Args:
        spec: What the unit runs.
        backend: The backend that the unit belongs to.
        publish: Receives the unit's events.
        tasks: The task group that follows the unit.
    """

    def __init__(self, spec: UnitSpec, *, backend: Backend, publish: Publish, tasks: TaskGroup) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self.presence = Presence.UNMADE
        """What is known of the container or pod."""
        self.ended_why = ""
        """Why we ended it, in words, beside ``ended_by``."""
        self.tasks = tasks
        """The task group that follows the unit."""
        self.changed = anyio.Event()
        """Set when something changes, then replaced by a new event."""
        self.signalling = anyio.Lock()
        """Held while signalling, so that the unit's end is not judged before the signal is known to have arrived."""

    @abc.abstractmethod
    async def send(self, signal: Signal) -> bool:
        """Signal the unit through the engine; return whether the signal arrived."""

    def note(self, presence: Presence) -> None:
        """Record the unit's presence; a unit that is gone stays gone."""
        if self.presence is not Presence.GONE:
            self.presence = presence
        self.wake()

    def wake(self) -> None:
        """Wake the tasks that wait for ``changed``."""
        self.changed.set()
        self.changed = anyio.Event()

    async def end(self, signal: Signal, reason: ExitReason = "stopped", why: str = "") -> None:
        """Signal the unit, and record why if the signal arrived: otherwise it had already ended by itself."""
        # shielded: if the signal arrived unnoticed, the unit would seem to have ended by itself
        with anyio.move_on_after(self.kill_seconds, shield=True):
            async with self.signalling:
                if self.exit is None and await self.send(signal) and self.ended_by is None:
                    self.ended_by, self.ended_why = reason, why

    async def terminate(self, grace: float) -> None:
        """Send TERM."""
        await self.end("TERM")

    async def kill(self) -> None:
        """Send KILL."""
        await self.end("KILL")


# --- labels -----------------------------------------------------------------------------------------------------

RUN, UNIT = "coworld.run", "coworld.unit"
_HOST, _SCRATCH = "coworld.host", "coworld.scratch"


def run_labels(run_id: str) -> dict[str, str]:
    """Labels for everything that belongs to a run; on the same machine they tell whether its runner is alive."""
    return {RUN: run_id, _SCRATCH: str(scratch_root() / run_id), _HOST: _this_host()}


def unit_labels(spec: UnitSpec) -> dict[str, str]:
    """Additional labels for everything that belongs to a unit."""
    labels = {UNIT: spec.name, "coworld.component": spec.component}
    return labels if spec.slot is None else {**labels, "coworld.slot": str(spec.slot)}


def owner_lives(labels: Mapping[str, str]) -> bool:
    """Whether the runner that set these labels still runs; a runner on another machine counts as running."""
    if labels.get(_HOST) != _this_host():
        return True
    return owner_is_alive(Path(labels.get(_SCRATCH) or "/nonexistent"))


@lru_cache(maxsize=1)
def _this_host() -> str:
    """An identifier that distinguishes this system from others (containers too) that use the same engine."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if text := Path(path).read_text("ascii").strip():
                return text
        except (OSError, UnicodeDecodeError):
            continue
    return platform.node()
