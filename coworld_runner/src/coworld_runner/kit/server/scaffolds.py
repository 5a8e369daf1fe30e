"""Creates new games, players and supporting roles from the files in `templates`, which work as they are."""

from __future__ import annotations

import keyword
import os
import re
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from coworld_core.errors import UsageError
from coworld_core.manifest.models import GAME_HOSTED
from coworld_core.roles.role_record import Role
from coworld_core.rules.seat_wire import PROTOCOL

from ...package.kit_programs import rules_served

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from coworld_core.manifest.models import Manifest

    from ...package.resolver import Package

__all__ = [
    "NewFiles",
    "new_game",
    "new_player",
    "new_role",
    "new_sample",
    "new_trainee",
    "rules_names",
    "write_files",
]

_TEMPLATES: Final = files("coworld_runner.kit.server") / "templates"
_LEFT = frozenset({"coworld_manifest.json", "results", "wheels"})
"""Names of files and directories that builds and runs leave in a package."""


_KIT_REPLAY = (
    "episode.replay, tick by tick:",
    "  from coworld_core.rules import read_replay",
    "  replay = read_replay(episode.replay)",
    "  replay.header.config, replay.header.seed, replay.header.names",
    "  for tick in replay.ticks:",
    "      tick.tick, tick.actions  (of each seat that was to act: what it did, or None if it missed its turn)",
)


@dataclass(frozen=True, kw_only=True)
class NewFiles:
    """The files that were written.

    Attributes:
        directory: The directory that contains them.
        paths: Their paths, relative to the directory.
    """

    directory: Path
    paths: tuple[str, ...]


def new_game(name: str, *, directory: Path | None = None) -> NewFiles:
    """Create the directory of a new game: rules, a player, the manifest template, and the files to build an image from.

    Args:
        name: The game's name: lower-case letters, digits, hyphens and underscores. Without a directory it may also be
            the directory's path, whose last part is the name.
        directory: The directory; by default one of that name in the current directory.

    Raises:
        UsageError: The name is not valid for a game, or the directory is not empty.
    """
    place, name = (Path(name), Path(name).name) if directory is None else (directory, name)
    require_game_directory(name, place)
    module, class_name = rules_names(name)
    words = {
        "NEWGAME": module.upper(),
        "NewGame": class_name,
        "newgame:NewGame": f"{module}:{class_name}",
        "newgame.py": f"{module}.py",
        "import newgame": f"import {module}",
        "newgame": name,
    }
    return write_files(_TEMPLATES / "game", place, words)


def require_game_directory(name: str, directory: Path) -> None:
    """Check that a new game may have a name and a directory.

    Raises:
        UsageError: The name is not valid for a game, or the directory is not empty or cannot be made.
    """
    module, _ = rules_names(name)
    if not re.fullmatch(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*", name):
        raise UsageError(
            f"{name!r} is not a valid name for a game.",
            code="bad_name",
            hint="Use lower-case letters, digits and single hyphens or underscores, a letter first: connect-four.",
        )
    if keyword.iskeyword(module) or module in sys.stdlib_module_names:
        raise UsageError(f"{name!r} is a name that Python uses itself.", code="bad_name", hint="Choose another one.")
    _require_room(directory)


def rules_names(name: str) -> tuple[str, str]:
    """Return the module and the class of the rules of a game with this name."""
    module = name.replace("-", "_")
    return module, "".join(part.capitalize() for part in module.split("_"))


def new_sample(source: Traversable, directory: Path, *, known_as: str) -> NewFiles:
    """Copy a whole package, to run, change and build.

    Args:
        source: The package's directory, perhaps inside an installed distribution.
        directory: The directory of the copy, which must be new or empty.
        known_as: The name of the package's directory in its own files; the copy's files name `directory` instead.

    Raises:
        UsageError: The directory is not empty, or a file is in its place.
    """
    _require_room(directory)
    return write_files(source, directory, {known_as: str(directory)}, without=_LEFT)


def new_player(path: Path, *, manifest: Manifest | None = None) -> NewFiles:
    """Create the file of a new player, which plays random actions in any game made with the kit.

    Args:
        path: The file: `.py` for Python, or `.mjs` for JavaScript, a program for Node.
        manifest: The game that it is for; the file then describes its messages. If the game has a protocol of its own,
            the player is a session that fails with the first message it was sent, until its author answers that.

    Raises:
        UsageError: The file exists already, its name has another suffix, or the game takes no such player.
    """
    if path.suffix not in (".py", ".mjs"):
        hint = f"Write {path.with_suffix('.py')} for Python, or {path.with_suffix('.mjs')} for JavaScript."
        raise UsageError(f"{path} is not a Python or JavaScript file.", code="bad_name", hint=hint)
    form = "bot" if manifest is None else _form(manifest, path)
    made = _new_file("player", f"{form}{path.suffix}", path)
    if path.suffix == ".mjs":
        path.chmod(path.stat().st_mode | 0o111)
    if manifest is not None:
        _append_comment(path, f"{_about(manifest)}\n\n{manifest.game.protocols.player.value}")
    return made


def new_trainee(directory: Path, *, package: Package) -> NewFiles:
    """Create the directory of a new player that learns: its file, and the program that trains it.

    Args:
        directory: The directory, which must be new or empty.
        package: The game that it is to learn, which must be one of the kit.

    Raises:
        UsageError: The directory is not empty, or the rules of the game are not in a file of the package.
    """
    game = package.manifest.game
    served = rules_served(package.manifest)
    module, _, rules = served[1].partition(":") if served is not None else ("", "", "")
    file = package.contexts.get(game.runnable.image, Path()) / f"{module.replace('.', '/')}.py"
    if served is None or not file.is_file():
        raise UsageError(
            f"{game.name} has no file of rules, by which a player could be trained in one process.",
            code="no_rules",
            hint="SeatEnv plays a seat of any game for a training program: see the page about training.",
        )
    _require_room(directory)
    place = os.path.relpath(file.resolve(), directory.resolve())
    words = {'HERE.parent / "nim" / "nim.py"': f"HERE / {place!r}", 'CLASS = "Nim"': f"CLASS = {rules!r}"}
    return write_files(_TEMPLATES / "trainable", directory, words, only=".py", without=("run", "examples", "tests"))


def new_role(role: Role, path: Path, *, manifest: Manifest | None = None) -> NewFiles:
    """Create the file of a new supporting role, which works with the episodes of any game.

    Args:
        role: The role.
        path: The file, `.py`.
        manifest: The game that it is for; the file then describes its results and its replay.

    Raises:
        UsageError: The file exists already, or its name has another suffix.
    """
    if path.suffix != ".py":
        hint = f"Write {path.with_suffix('.py')}, or a program in another language: the page about the role says how."
        raise UsageError(f"{path} is not a Python file.", code="bad_name", hint=hint)
    made = _new_file("role", f"{role}.py", path)
    if manifest is not None:
        _append_comment(path, f"{_about(manifest)}\n\n{_evidence(manifest)}")
    return made


def _new_file(kind: str, template: str, path: Path) -> NewFiles:
    """Write one of the templates of a kind to a file that does not exist."""
    if path.exists():
        raise UsageError(f"{path} already exists.", code="path_taken", hint="Name a new file.")
    return write_files(_TEMPLATES / kind, path.parent, {template: path.name}, only=template)


def _append_comment(path: Path, text: str) -> None:
    mark = "#" if path.suffix == ".py" else "//"
    lines = [f"{mark} {line}".rstrip() for line in text.splitlines()]
    path.write_text("\n".join([path.read_text("utf-8"), "", *lines, ""]), encoding="utf-8")


def _about(manifest: Manifest) -> str:
    return f"{manifest.game.name}: {manifest.game.description}"


def _evidence(manifest: Manifest) -> str:
    """What an episode of a game leaves: the fields of its results, and how its replay is read."""
    fields = cast("Mapping[str, Mapping[str, Any] | bool]", manifest.game.results_schema.get("properties") or {})
    lines = ["episode.results:"]
    for name, schema in fields.items():
        told = [] if isinstance(schema, bool) else [schema.get(key) for key in ("type", "description")]
        lines.append("  " + "  ".join(str(word) for word in (name, *told) if word))
    if PROTOCOL in manifest.game.protocols.player.value:
        return "\n".join([*lines, "", *_KIT_REPLAY])
    return "\n".join([*lines, "", "episode.replay: bytes in the game's own form; episode.replay_json() reads JSON."])


def _form(manifest: Manifest, path: Path) -> str:
    """The template for a player of a game."""
    game = manifest.game
    if game.player_runtime == GAME_HOSTED:
        raise UsageError(
            f"{game.name} runs its players itself, from files in a form of its own.",
            code="other_protocol",
            hint="Its documentation, or the files of its own players, say what that is.",
        )
    if PROTOCOL in game.protocols.player.value:
        return "bot"
    if path.suffix != ".py":
        raise UsageError(
            f"{game.name} has a protocol of its own, which a new {path.suffix} player does not speak.",
            code="other_protocol",
            hint=f"Write {path.with_suffix('.py')}: its messages are the game's own.",
        )
    return "session"


def _require_room(directory: Path) -> None:
    if directory.is_file() or (directory.is_dir() and any(directory.iterdir())):
        raise UsageError(f"{directory} already exists.", code="path_taken", hint="Name a new directory.")
    above = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise UsageError(f"{directory} cannot be written: see {above}.", code="path_unwritable")


def write_files(
    source: Traversable,
    directory: Path,
    replacements: Mapping[str, str],
    *,
    only: str = "",
    without: Container[str] = (),
) -> NewFiles:
    """Copy the files of a folder, replacing words in their contents and names.

    Args:
        source: The folder.
        directory: The target directory.
        replacements: The words to replace, each with its replacement.
        only: Suffix of the file names to copy.
        without: Names of files and directories to leave out.

    Raises:
        UsageError: A file cannot be written.
    """
    # The longest words first, as a shorter one may be part of a longer one.
    pattern = re.compile("|".join(map(re.escape, sorted(replacements, key=len, reverse=True))))

    def renamed(text: str) -> str:
        return pattern.sub(lambda found: replacements[found[0]], text)

    made: list[str] = []
    try:
        for name, file in _files(source, without=without):
            if not name.endswith(only):
                continue
            target = directory / renamed(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(renamed(file.read_text("utf-8")), encoding="utf-8")
            made.append(str(target.relative_to(directory)))
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror}.", code="path_unwritable") from error
    return NewFiles(directory=directory, paths=tuple(sorted(made)))


def _files(folder: Traversable, under: str = "", *, without: Container[str] = ()) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.name in without:
            continue
        if entry.is_dir():
            found += [] if entry.name == "__pycache__" else _files(entry, f"{under}{entry.name}/")
        else:
            # In this tree, a file named .dockerignore would take effect itself.
            name = ".dockerignore" if entry.name == "dockerignore" else entry.name
            found.append((under + name, entry))
    return found
