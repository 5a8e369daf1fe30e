"""Units that an engine runs for us, a container or a pod: what is known of them, how they end, whose they are."""

from __future__ import annotations

import abc
import enum
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
    "GAME_CAPABILITIES",
    "RUN",
    "UNIT",
    "EngineUnit",
    "Presence",
    "Signal",
    "capabilities_of",
    "owner_lives",
    "run_labels",
    "unit_labels",
]

Signal = Literal["TERM", "KILL"]

GAME_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
"""What an image's start script needs that prepares directories as root and then becomes another user. Players get
none of it unless somebody says so: they are the code that is trusted least, and need nothing but a connection."""


def capabilities_of(spec: UnitSpec) -> tuple[str, ...]:
    """What a unit may do beyond what everybody may."""
    return () if spec.component == "player" and not spec.drops_privileges else GAME_CAPABILITIES


# --- units ------------------------------------------------------------------------------------------------------


class Presence(enum.Enum):
    """What is known of a unit's container or pod."""

    UNMADE = enum.auto()
    """Nothing has been asked for."""
    MADE = enum.auto()
    """It exists, or may exist."""
    GONE = enum.auto()
    """It does not exist, and will not."""
    LOST = enum.auto()
    """It cannot be seen any more."""


class EngineUnit(BaseUnit):
    """A container or a pod: asked for, seen from afar, and signalled by way of its engine.

    A subclass calls ``note`` with what it learns, starts ``follow`` when it is to be watched, and fills in ``send``.

    Args:
        spec: What it runs.
        backend: Whose unit it is.
        publish: Where its events go.
        tasks: Where it is followed.
    """

    def __init__(self, spec: UnitSpec, *, backend: Backend, publish: Publish, tasks: TaskGroup) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self.presence = Presence.UNMADE
        """What is known of it."""
        self.ended_why = ""
        """Why we ended it, in words, beside ``ended_by``."""
        self.tasks = tasks
        """Where it is followed."""
        self.changed = anyio.Event()
        """Set when more is known of it, and then replaced by another."""
        self.signalling = anyio.Lock()
        """Held while it is signalled, so that its end is not judged before it is known whether the signal arrived."""

    @abc.abstractmethod
    async def send(self, signal: Signal) -> bool:
        """Have the engine signal it; returns whether the signal arrived."""

    def note(self, presence: Presence) -> None:
        """Note what is known of it now; what is gone stays gone."""
        if self.presence is not Presence.GONE:
            self.presence = presence
        self.wake()

    def wake(self) -> None:
        """Wake whoever waits for ``changed``."""
        self.changed.set()
        self.changed = anyio.Event()

    async def end(self, signal: Signal, reason: ExitReason = "stopped", why: str = "") -> None:
        """Signal it, and remember why if the signal arrived: what had ended already ended by itself."""
        # shielded: whether it arrived must be known, or its end would look like the unit's own
        with anyio.move_on_after(self.kill_seconds, shield=True):
            async with self.signalling:
                if self.exit is None and await self.send(signal) and self.ended_by is None:
                    self.ended_by, self.ended_why = reason, why

    async def terminate(self, grace: float) -> None:
        """TERM."""
        await self.end("TERM")

    async def kill(self) -> None:
        """KILL."""
        await self.end("KILL")


# --- labels -----------------------------------------------------------------------------------------------------

RUN, UNIT = "coworld.run", "coworld.unit"
_HOST, _SCRATCH = "coworld.host", "coworld.scratch"


def run_labels(run_id: str) -> dict[str, str]:
    """What everything of a run is marked with: enough to see from the same machine whether its runner lives."""
    return {RUN: run_id, _SCRATCH: str(scratch_root() / run_id), _HOST: _this_host()}


def unit_labels(spec: UnitSpec) -> dict[str, str]:
    """What everything of a unit is marked with besides."""
    labels = {UNIT: spec.name, "coworld.component": spec.component}
    return labels if spec.slot is None else {**labels, "coworld.slot": str(spec.slot)}


def owner_lives(labels: Mapping[str, str]) -> bool:
    """Whether the runner that marked something still runs; one that cannot be seen from here counts as running."""
    if labels.get(_HOST) != _this_host():
        return True
    return owner_is_alive(Path(labels.get(_SCRATCH) or "/nonexistent"))


@lru_cache(maxsize=1)
def _this_host() -> str:
    """Something that tells this system from others that may use the same engine, a container's own included."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if text := Path(path).read_text("ascii").strip():
                return text
        except (OSError, UnicodeDecodeError):
            continue
    return platform.node()
