"""A player that is a directory: with a Dockerfile, a Python project, both, or a file that plays."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from coworld_core.errors import UsageError
from coworld_core.files.lfs_pointers import read_whole
from coworld_core.rules.player_directories import player_entry
from coworld_core.text.phrases import listed

from ...images.dockerfile import read_dockerfile
from .own_player import MOST_BYTES, MOST_FILES, PYTHON, OwnPlayer, too_large
from .player_file import parse_python, read_file

__all__ = ["CACHES", "KEPT", "LITTER", "directory_files", "read_directory"]

KEPT = frozenset({".git", ".hg", ".svn", ".venv", "node_modules"})
"""Names of directories beside a player's files that a person would miss."""
CACHES = KEPT | {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
"""Names of directories that are not part of a player."""
LITTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Names of files that a file manager leaves in every directory that it shows; not part of a player either."""
# As with `python DIRECTORY`, the directory is all of `sys.argv`.
_CALLED = "import importlib,os,sys;os.chdir(sys.argv[1]);del sys.argv[0];sys.path[:0]=[sys.argv[0]+'/src',sys.argv[0]];"
_IN_DIRECTORY = ("/bin/sh", "-c", 'cd "$0" && exec "$@"')


def read_directory(path: Path, *, name: str = "") -> OwnPlayer:
    """Read a player from a directory.

    Args:
        path: The directory.
        name: The player's name; by default that of the directory.

    Raises:
        UsageError: The directory does not say how to run it, holds an invalid file, or is too large.
        OSError: It cannot be read.
    """
    project, recipe = path / "pyproject.toml", path / "Dockerfile"
    file = path.resolve().name or "player"
    name = name or file
    if not project.is_file() and not recipe.is_file():
        entry = player_entry(path)
        files, runnable = directory_files(path)
        return replace(read_file(entry, entry.stat()), name=name, file=file, path=path, files=files, runnable=runnable)
    command: tuple[str, ...] = ()
    if recipe.is_file():
        command = _dockerfile_command(recipe)
    if project.is_file() and (script := _script(project, needed=not recipe.is_file())):
        module, function = script
        _check_module(path, module)
        code = f"{_CALLED}sys.exit(getattr(importlib.import_module({module!r}),{function!r})())"
        command = (PYTHON, "-c", code, "{}")
    files, runnable = directory_files(path)
    return OwnPlayer(
        name=name,
        file=file,
        path=path,
        files=files,
        command=command,
        runnable=runnable,
        dockerfile=recipe.is_file(),
    )


def _check_module(path: Path, module: str) -> None:
    """Check that the files a script starts from are valid Python; what they import is not checked."""
    parts = module.split(".")
    for root in (path / "src", path):
        places = [root.joinpath(*parts[: count + 1]) for count in range(len(parts))]
        for file in (*(place / "__init__.py" for place in places), places[-1].with_suffix(".py")):
            if file.is_file():
                parse_python(file, read_whole(file))


def directory_files(path: Path) -> tuple[dict[str, bytes], frozenset[str]]:
    """Return the files of a player's directory by relative path, and the names of those that are executable.

    Raises:
        UsageError: They are too many or too large.
        OSError: One cannot be read.
    """
    files: dict[str, bytes] = {}
    runnable: set[str] = set()
    left = MOST_BYTES
    for place, directories, names in os.walk(path):
        directories[:] = sorted(set(directories) - CACHES)
        for name in sorted(names):
            entry = Path(place, name)
            if name in LITTER or not entry.is_file():
                continue
            left -= entry.stat().st_size
            if left < 0 or len(files) == MOST_FILES:
                raise too_large(path)
            relative = entry.relative_to(path).as_posix()
            files[relative] = read_whole(entry)
            if entry.stat().st_mode & 0o111:
                runnable.add(relative)
    return files, frozenset(runnable)


def _dockerfile_command(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text.", code="dockerfile_invalid", hint="Is it another file?") from None
    read = read_dockerfile(text)
    if read.mistake is not None:
        line, words = read.mistake
        raise UsageError(
            f"{path}:{line}: {words}",
            code="dockerfile_invalid",
            hint="Correct the Dockerfile; nothing was built.",
            context={"path": str(path), "line": line},
        )
    return (*_IN_DIRECTORY, "{}", *read.command) if read.command else ()


def _script(path: Path, *, needed: bool) -> tuple[str, str] | None:
    """Return the module and function of the player's script: the project's only one, or the one with its name.

    None if there is no such script and none is needed.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", code="pyproject_invalid", hint="Correct it.") from None
    project = _table(document.get("project"))
    scripts = {name: target for name, target in _table(project.get("scripts")).items() if isinstance(target, str)}
    name = project.get("name")
    chosen = next(iter(scripts.values())) if len(scripts) == 1 else scripts.get(name if isinstance(name, str) else "")
    if chosen is None:
        if not needed:
            return None
        several = f" Its scripts are {listed(scripts)}." if scripts else ""
        raise UsageError(
            f"{path} does not say which script is the player.{several}",
            code="player_not_runnable",
            hint='Add [project.scripts] with one entry, such as player = "my_player:main".',
        )
    module, _, function = chosen.partition(":")
    function = function.partition("[")[0].strip()
    if not module.strip() or not function.isidentifier():
        raise UsageError(
            f"{path} has a script {chosen!r}, which is not module:function.",
            code="pyproject_invalid",
            hint="Correct it.",
        )
    return module.strip(), function


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
