"""The directories in which runs are looked for: those that were named once, and those in which commands left runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from coworld_core.files.atomic import write_whole
from coworld_core.files.locks import while_opening
from coworld_core.files.regular import read_regular
from coworld_core.operating_system import plays_here

__all__ = ["default_index", "known_places", "remember_directory", "workspaces_at"]

_MARKS = frozenset({"events.ndjson", "episode.json", "episodes.jsonl", "certification.json", "tournament.toml"})
"""Files of which one is in every workspace."""
_RESULTS = ("results", "coworld-results")
_MOST = 5000


def default_index() -> Path:
    """The user's index: `coworld/runs.sqlite3` below `XDG_CACHE_HOME`, else `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "coworld" / "runs.sqlite3"


def _list() -> Path:
    """The list of directories: `coworld/places` below `XDG_STATE_HOME`, else `~/.local/state`."""
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "coworld" / "places"


def known_places() -> list[Path]:
    """The directories that were remembered, in that order; some may not exist any more."""
    try:
        lines = read_regular(_list()).splitlines()
    except OSError:
        return []
    return [Path(os.fsdecode(line)) for line in lines if line.startswith(b"/")]


def remember_directory(directory: Path) -> None:
    """Have runs at a directory found from now on: a workspace, or a directory with results.

    Nothing happens where that cannot be noted: runs do not depend on being found.
    """
    directory = directory.expanduser().absolute()
    known = known_places()
    if (
        not plays_here()
        or "\n" in str(directory)
        or directory in known
        or any(directory.parent == other for other in known)
    ):
        return
    with contextlib.suppress(OSError):
        path = _list()
        path.parent.mkdir(parents=True, exist_ok=True)
        with while_opening(path.parent):
            known = known_places()
            if len(known) >= _MOST:
                known = [other for other in known if other.exists()][-_MOST:]
            write_whole(path, b"".join(os.fsencode(other) + b"\n" for other in [*known, directory]))


def workspaces_at(places: Iterable[Path], known: Collection[str]) -> Iterator[Path]:
    """Find workspaces of runs.

    A place may be a workspace, a directory of workspaces, such as `results`, or a directory with packages: then the
    results of those that are at most two levels below are looked through, as for `latest`. No link is followed.

    Args:
        places: Where to look.
        known: Workspaces that are known, which are not looked at again.
    """
    found: set[str] = set()
    for place in places:
        for path in _at(os.fspath(place), known):
            if path not in found:
                found.add(path)
                yield Path(path)


def _at(place: str, known: Collection[str]) -> Iterator[str]:
    if place in known or _is_workspace(place):
        yield place
        return
    yield from _below(place, known)
    first = list(_directories(place))
    second = [path for directory in first for path in _directories(directory)]
    for package in (place, *first, *second):
        for name in _RESULTS:
            if os.path.isdir(results := os.path.join(package, name)):  # noqa: PTH112, PTH118 - thousands of them
                yield from _below(results, known)


def _below(results: str, known: Collection[str]) -> Iterator[str]:
    """Workspaces in a directory, and in directories in it that are none themselves, such as `certification`."""
    for path in _directories(results):
        if path in known or _is_workspace(path):
            yield path
        else:
            yield from (inner for inner in _directories(path) if inner in known or _is_workspace(inner))


def _directories(place: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if not entry.name.startswith((".", "__pycache__", "node_modules")) and entry.is_dir(follow_symlinks=False):
                yield entry.path


def _is_workspace(place: str) -> bool:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        return any(entry.name in _MARKS for entry in entries)
    return False
