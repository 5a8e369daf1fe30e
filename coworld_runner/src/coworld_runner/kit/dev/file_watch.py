"""Watches files: those saved in a directory, and what is added to a log."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from ...backend import Unit
from ...runs._task_groups import nursery

__all__ = ["changes", "find_players", "follow_log"]

_LOOK_SECONDS: Final = 0.1
"""Seconds between two looks; short, so that a saved file seems to take effect at once."""
_SUFFIXES: Final = frozenset({".py", ".json", ".toml", ".yaml", ".yml", ".js", ".html", ".css", ".svg", ".txt", ".csv"})
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "results", "wheels"})
_MOST_FILES: Final = 5000
_ACT: Final = re.compile(r"^(async )?def act\(", re.MULTILINE)


class _FileState(NamedTuple):
    """Distinguishes one version of a file from the next."""

    time: int
    size: int


async def changes(
    directory: Path, more: Callable[[], Iterable[Path]], *, at_once: bool = False
) -> AsyncGenerator[frozenset[Path]]:
    """Yield the files that were saved, created or removed, each time that there are any.

    Args:
        directory: The directory to watch, at any depth; results, hidden and compiled files are ignored.
        more: Returns further files to watch; called at each look.
        at_once: Whether to yield nothing first, as soon as no save is missed any more: what is read then is up to date.
    """
    before = await anyio.to_thread.run_sync(_look, directory, tuple(more()))
    if at_once:
        yield frozenset()
    changed: frozenset[Path] = frozenset()
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        now = await anyio.to_thread.run_sync(_look, directory, tuple(more()))
        # Count further files only if they were watched at both looks: starting to watch a file does not change it
        known = (now.keys() & before.keys()) | {
            path for path in now.keys() ^ before.keys() if directory in path.parents
        }
        changed |= {path for path in known if now.get(path) != before.get(path)}
        before = now
        # An editor may empty a file before it writes to it
        if changed and not any(now[path].size == 0 for path in changed & now.keys()):
            yield changed
            changed = frozenset()


def find_players(directory: Path) -> tuple[Path, ...]:
    """Return the files of a directory, at any depth, that define a function `act`."""
    return tuple(
        sorted(
            path
            for path in _files(directory)
            if path.suffix == ".py" and _ACT.search(path.read_text("utf-8", "replace"))
        )
    )


async def follow_log(unit: Unit, say: Callable[[str], object]) -> None:
    """Pass on each line of a unit's logs as it is written, until the unit has ended and its logs are complete."""
    ended = anyio.Event()

    async def wait() -> None:
        await unit.wait()
        ended.set()

    async with nursery() as tasks:
        tasks.start_soon(wait)
        left: dict[Path, tuple[int, bytes]] = {
            path: (0, b"") for path in (unit.spec.stdout, unit.spec.stderr) if path is not None
        }
        last = more = False
        while not last or more:
            last, more = ended.is_set(), False
            for path, (offset, begun) in left.items():
                data = await anyio.to_thread.run_sync(_from, path, offset)
                more = more or bool(data)
                *lines, rest = (begun + data).split(b"\n")
                left[path] = (offset + len(data), rest)
                for line in lines:
                    say(line.decode("utf-8", "replace"))
            if not last:
                with anyio.move_on_after(_LOOK_SECONDS):
                    await ended.wait()
        for _, rest in left.values():
            if rest:
                say(rest.decode("utf-8", "replace"))


def _from(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(1 << 20)
    except FileNotFoundError:
        return b""


def _look(directory: Path, more: tuple[Path, ...]) -> Mapping[Path, _FileState]:
    seen: dict[Path, _FileState] = {}
    for path in (*_files(directory), *more):
        try:
            status = path.stat()
        except OSError:
            continue
        seen[path] = _FileState(status.st_mtime_ns, status.st_size)
    return seen


def _files(directory: Path) -> list[Path]:
    found: list[Path] = []
    for place, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name not in _LEFT_OUT and not name.startswith(".")]
        found += [Path(place, name) for name in names if Path(name).suffix in _SUFFIXES and not name.startswith(".")]
        if len(found) > _MOST_FILES:
            break
    return found
