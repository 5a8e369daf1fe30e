"""Programs of the kit: which rules a game serves, and which file a player's seat is played by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coworld_core.manifest.models import Manifest

__all__ = ["rules_served", "seat_file"]

_SERVER = ("-m", "coworld_runner.kit.server")
_SEAT = ("-m", "coworld_client.seat")


def rules_served(manifest: Manifest) -> tuple[tuple[str, ...], str] | None:
    """How a game of the kit starts Python, and the name of its rules; None for other games."""
    return _run_by(_SERVER, manifest.game.runnable.run)


def seat_file(command: Sequence[str]) -> str:
    """The file or module of a player that a command of the kit plays; empty for other commands."""
    python, name = _run_by(_SEAT, command) or ((), "")
    # A built-in controller is described by a file of another kind
    plain = len(python) == 1 and Path(python[0]).name.startswith("python") and len(command) == 4
    return name if plain and not name.endswith(".json") else ""


def _run_by(program: tuple[str, ...], command: Sequence[str]) -> tuple[tuple[str, ...], str] | None:
    run = tuple(command)
    for at in range(len(run) - 2):
        if run[at : at + 2] == program:
            return run[:at], run[at + 2]
    return None
