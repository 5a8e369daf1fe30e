"""What containers and pods have in common: signals through an engine, and the labels that tell their run."""

from __future__ import annotations

import os
import platform
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import anyio

from coworld_core.episode.outcome import ExitReason

from ..backend import UnitSpec
from ..runs.scratch import owner_is_alive, scratch_root
from .base import BaseUnit

__all__ = [
    "DEFAULT_HELPER_IMAGE",
    "GAME_CAPABILITIES",
    "RUN",
    "UNIT",
    "Signal",
    "Signals",
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
"""Any image with Python works; `COWORLD_COLLECTOR_IMAGE` names another one."""


def capabilities_of(spec: UnitSpec) -> tuple[str, ...]:
    """Return the Linux capabilities that a unit gets."""
    return () if spec.component in ("player", "proxy") and not spec.drops_privileges else GAME_CAPABILITIES


def helper_image() -> str:
    """Return the image for helper programs that run beside units; callers may choose another."""
    return os.environ.get("COWORLD_COLLECTOR_IMAGE") or DEFAULT_HELPER_IMAGE


# --- signals ----------------------------------------------------------------------------------------------------


class Signals:
    """Ends a container or pod through its engine, and knows afterwards whether it was we who ended it.

    Args:
        unit: The unit to end; its `ended_by` is set once a signal has arrived.
        send: Sends a signal through the engine; returns whether it arrived.
    """

    def __init__(self, unit: BaseUnit, send: Callable[[Signal], Awaitable[bool]]) -> None:
        self._unit = unit
        self._send = send
        self.lock = anyio.Lock()
        """Held while signalling, so that the unit's end is not judged before the signal is known to have arrived."""
        self.why = ""
        """Why we ended it, in words, beside `ended_by`."""

    async def send(self, signal: Signal, reason: ExitReason = "stopped", why: str = "") -> None:
        """Signal the unit, and record why if the signal arrived: otherwise it had already ended by itself."""
        unit = self._unit
        # Shielded: if the signal arrived unnoticed, the unit would seem to have ended by itself
        with anyio.move_on_after(unit.kill_seconds, shield=True):
            async with self.lock:
                if unit.exit is None and await self._send(signal) and unit.ended_by is None:
                    unit.ended_by, self.why = reason, why


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
