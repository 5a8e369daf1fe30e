"""A program that is a WebAssembly component."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.files.lfs_pointers import read_whole

from .own_player import MOST_BYTES, OwnPlayer, too_large

__all__ = ["COMPONENT", "read_component", "require_wasmtime"]

COMPONENT = ".wasm"
"""Suffix of its file."""


def read_component(path: Path, *, host: tuple[str, ...]) -> OwnPlayer:
    """Read a component from a file.

    Args:
        path: The file.
        host: The command to which its path is passed.

    Raises:
        UsageError: It is too large.
        OSError: It cannot be read.
    """
    if path.stat().st_size > MOST_BYTES:
        raise too_large(path)
    files = {path.name: read_whole(path)}
    return OwnPlayer(name=path.stem, file=path.name, path=path, files=files, command=(*host, f"{{}}/{path.name}"))


def require_wasmtime() -> None:
    """Refuse to go on where components cannot run.

    Raises:
        UsageError: wasmtime is not installed (`wasmtime_missing`).
    """
    if find_spec("wasmtime") is None:
        raise UsageError(
            "A program that is a WebAssembly component needs wasmtime, which is not installed here.",
            code="wasmtime_missing",
            hint='Install it: pip install "coworld-runner[wasm]".',
        )
