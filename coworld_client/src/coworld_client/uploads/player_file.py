"""A player that is one file of Python, read for upload."""

from __future__ import annotations

import ast
from pathlib import Path

from coworld_core.api import MOST_PLAYER_BYTES, PlayerFiles
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.rules.player_directories import player_entry
from coworld_core.rules.player_source import is_hosted, module_contents
from coworld_core.text import listed

__all__ = ["read_player"]

_READ_WHOLE = Hint(
    "read_player_whole",
    "coworld_runner.package reads every kind of player: to_wire(uploaded_player(path)) gives its files.",
)


def read_player(path: Path) -> PlayerFiles:
    """Read a player from one file of Python that has `act`, `Player` or `play`, or is a program.

    Args:
        path: The file, or a directory with nothing beside it.

    Raises:
        UsageError: It cannot be read or is too large (`path_unreadable`), is not one file of Python (`player_not_file`,
            `player_syntax`), nothing in it would run (`player_without_act`), or the directory has no file that is its
            player, or several (`player_not_runnable`).
    """
    if path.is_dir():
        path = _only_file(path)
    if path.suffix != ".py":
        raise UsageError(f"{path} is not a file of Python.", code="player_not_file", hint=_READ_WHOLE)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_PLAYER_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.", code="path_unreadable") from error
    try:
        tree = ast.parse(content, filename=str(path))
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno}: {error.msg}.", code="player_syntax") from error
    except ValueError as error:
        raise UsageError(f"{path} is not Python: {error}.", code="player_syntax") from error
    if beside := sorted(name for name in _imported(tree) if _is_beside(path, name)):
        said = f"{path} imports {', '.join(beside)} from files beside it."
        raise UsageError(said, code="player_not_file", hint=_READ_WHOLE)
    names, works = module_contents(tree)
    hosted = is_hosted(names, works)
    if not hosted and not works:
        raise UsageError(
            f"{path} has no function act(observation, legal, rng), and is not a program either.",
            code="player_without_act",
        )
    seat = ("-m", "coworld_client.seat") if hosted else ()
    command = ("python", *seat, f"{{}}/{path.name}")
    return PlayerFiles.of_bytes({path.name: content}, file=path.name, command=command, needs_client=hosted)


def _only_file(directory: Path) -> Path:
    if any((directory / name).is_file() for name in ("Dockerfile", "pyproject.toml")):
        raise UsageError(f"{directory} is a project.", code="player_not_file", hint=_READ_WHOLE)
    entry = player_entry(directory)
    beside = sorted(path.name for path in directory.iterdir() if path != entry and path.name[0] not in "._")
    if beside:
        said = f"{directory} has {listed(beside, limit=4)} beside {entry.name}."
        raise UsageError(said, code="player_not_file", hint=_READ_WHOLE)
    return entry


def _imported(tree: ast.Module) -> set[str]:
    """The first names of the modules that a file imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module.partition(".")[0])
    return names


def _is_beside(path: Path, name: str) -> bool:
    return (path.parent / f"{name}.py").is_file() or (path.parent / name / "__init__.py").is_file()
