"""New games and players, made of the files in `templates`, which are a game and a player that work."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coworld_core.errors import UsageError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["NewFiles", "new_game", "new_player", "new_sample", "rules_names", "write_files"]

_TEMPLATES: Final = files("coworld_runner.serving") / "templates"
_LEFT = frozenset({"coworld_manifest.json", "results", "wheels"})
"""What builds and runs leave beside a package."""


@dataclass(frozen=True, kw_only=True)
class NewFiles:
    """What was made.

    Attributes:
        directory: Where.
        paths: The files, relative to it.
    """

    directory: Path
    paths: tuple[str, ...]


def new_game(name: str, *, directory: Path | None = None) -> NewFiles:
    """Make the directory of a new game: rules, a player, the manifest template, and what an image is built of.

    Args:
        name: The game's name: small letters, digits, hyphens and underscores.
        directory: Where; by default a directory of that name here.

    Raises:
        UsageError: It is no name for a game, or there is something at that place.
    """
    module, class_name = rules_names(name)
    if not re.fullmatch(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*", name):
        raise UsageError(
            f"{name!r} is no name for a game.",
            code="bad_name",
            hint="Small letters, digits and single hyphens or underscores, a letter first: connect-four.",
        )
    if keyword.iskeyword(module) or module in sys.stdlib_module_names:
        raise UsageError(f"{name!r} is a name of Python's own.", code="bad_name", hint="Take another one.")
    place = directory or Path(name)
    _require_room(place)
    words = {
        "NEWGAME": module.upper(),
        "NewGame": class_name,
        "newgame:NewGame": f"{module}:{class_name}",
        "newgame.py": f"{module}.py",
        "import newgame": f"import {module}",
        "newgame": name,
    }
    return write_files(_TEMPLATES / "game", place, words)


def rules_names(name: str) -> tuple[str, str]:
    """The module and the class of rules that a game with this name has."""
    module = name.replace("-", "_")
    return module, "".join(part.capitalize() for part in module.split("_"))


def new_sample(source: Traversable, directory: Path, *, known_as: str) -> NewFiles:
    """Make a copy of a whole package, to run, change and build as one's own.

    Args:
        source: The package's directory, perhaps inside an installed distribution.
        directory: Where; it must be new or empty.
        known_as: How its own texts name its directory; the copy's name the copy's.

    Raises:
        UsageError: There is something at that place.
    """
    _require_room(directory)
    return write_files(source, directory, {known_as: str(directory)}, without=_LEFT)


def new_player(path: Path) -> NewFiles:
    """Make the file of a new player, which plays any game of the kit, at random.

    Args:
        path: The file: `.py` for Python, `.mjs` for JavaScript, which is a program for Node.

    Raises:
        UsageError: There is something at that place, or its name has another ending.
    """
    if path.suffix not in (".py", ".mjs"):
        hint = f"Write {path.with_suffix('.py')} for Python, or {path.with_suffix('.mjs')} for JavaScript."
        raise UsageError(f"{path} is no file of Python or JavaScript.", code="bad_name", hint=hint)
    if path.exists():
        raise UsageError(f"There is something at {path} already.", code="path_taken", hint="Name a new file.")
    made = write_files(_TEMPLATES / "player", path.parent, {f"bot{path.suffix}": path.name}, only=path.suffix)
    if path.suffix == ".mjs":
        path.chmod(path.stat().st_mode | 0o111)
    return made


def _require_room(place: Path) -> None:
    if place.is_file() or (place.is_dir() and any(place.iterdir())):
        raise UsageError(f"There is something at {place} already.", code="path_taken", hint="Name a new directory.")


def write_files(
    source: Traversable, place: Path, words: Mapping[str, str], *, only: str = "", without: Container[str] = ()
) -> NewFiles:
    """Write the files of a folder, with other words in them and in their names.

    Args:
        source: The folder.
        place: Where.
        words: What is replaced, by what.
        only: How the name of a file must end.
        without: Names that are left out.

    Raises:
        UsageError: It cannot be written.
    """
    # The longest first: a part of it may be a word as well.
    pattern = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))))

    def renamed(text: str) -> str:
        return pattern.sub(lambda found: words[found[0]], text)

    made: list[str] = []
    try:
        for name, file in _files(source, without=without):
            if not name.endswith(only):
                continue
            target = place / renamed(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(renamed(file.read_text("utf-8")), encoding="utf-8")
            made.append(str(target.relative_to(place)))
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {error.strerror}.", code="path_unwritable") from error
    return NewFiles(directory=place, paths=tuple(sorted(made)))


def _files(folder: Traversable, under: str = "", *, without: Container[str] = ()) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.name in without:
            continue
        if entry.is_dir():
            found += [] if entry.name == "__pycache__" else _files(entry, f"{under}{entry.name}/")
        else:
            # A file that is named so in the tree would count there.
            name = ".dockerignore" if entry.name == "dockerignore" else entry.name
            found.append((under + name, entry))
    return found
