"""What the `pip install` lines of a package ask for, as lines of requirements files that any installer can read.

Files that the lines name are read here, from where the Dockerfile copies them. A project is not installed itself, so
that a change of its sources changes nothing that is installed: its dependencies are, if its `pyproject.toml` has them.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from ...errors import BuildError
from ...images.dockerfile import PipInstall
from ._image_layout import Layout

__all__ = ["PACKAGE_FILES", "Requirements", "requirements_of"]

PACKAGE_FILES = ("Dockerfile", "requirements.txt", "pyproject.toml")
"""Files that say what to install."""

_LONG = {
    "-r": "--requirement",
    "-c": "--constraint",
    "-i": "--index-url",
    "--default-index": "--index-url",
    "--index": "--extra-index-url",
    "-f": "--find-links",
    "-e": "--editable",
}
_IN_FILES = frozenset({"--index-url", "--extra-index-url", "--no-index"})
"""Options that mean the same in a requirements file."""
_FLAGS = frozenset({"--pre", "--no-deps"})
"""Options that installers take only as arguments."""
_OURS = re.compile(r"(coworld[-_.](?:core|runner|client|cli))(?![A-Za-z0-9_.-])", re.IGNORECASE)
_LEFT_OUT = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache"})
_MOST_FILES = 100
"""Requirements files that one leads to."""

_Find = Callable[[str], Sequence[Path]]
"""Returns the files that a path in an instruction stands for, which may be a glob."""


class Requirements:
    """What to install: for each `pip install`, lines of a requirements file, and arguments.

    Args:
        who: What it is installed for, in messages.
    """

    def __init__(self, who: str) -> None:
        self.who = who
        self.steps: list[tuple[list[str], list[str]]] = []
        self.local: list[Path] = []
        """Files and directories that lines name by their numbers here, which do not depend on where they are."""
        self.scripts: dict[str, str] = {}
        """Commands of the other projects: `module:function` by name."""
        self._read = hashlib.sha256()
        self._files = 0

    @property
    def digest(self) -> str:
        """Digest of everything that decides what is installed."""
        told = self._read.copy()
        told.update(json.dumps([self.steps, self.scripts], sort_keys=True).encode("utf-8", "surrogatepass"))
        return told.hexdigest()

    def filled(self, line: str, places: Sequence[Path]) -> str:
        """Return a line with the files that it names; `places` has them in the order of `local`."""
        return re.sub(r"\0(\d+)\0", lambda match: str(places[int(match[1])]), line)

    def add(self, arguments: Iterable[str], find: _Find) -> None:
        """Add the arguments of a `pip install`."""
        lines, flags = list[str](), list[str]()
        for word in arguments:
            option, _, value = word.partition("=") if word.startswith("-") else ("", "", "")
            option = _LONG.get(option, option)
            if option in _FLAGS:
                flags.append(option)
            else:
                lines += self._option(option, value, find) if option else self._requirement(word, find)
        if any(not line.startswith("-") for line in lines):
            self.steps.append((lines, flags))

    def _option(self, option: str, value: str, find: _Find) -> list[str]:
        if option == "--requirement":
            path = self._one(value, find)
            return self._dependencies(path, []) if path.name == "pyproject.toml" else self._lines(path)
        if option == "--constraint":
            return [f"--constraint {self._named(self._one(value, find))}"]
        if option == "--editable":
            return self._requirement(value, find)
        if option == "--find-links" and "://" not in value:
            # What is not there is no error for pip either
            return [f"--find-links {self._named(path, content=False)}" for path in find(value)]
        return [f"{option} {value}".rstrip()] if option in {*_IN_FILES, "--find-links"} else []

    def _lines(self, path: Path) -> list[str]:
        """Return the requirements of a file, with those of files that it names."""
        self._files += 1
        if self._files > _MOST_FILES:
            raise self._wrong(f"{path.name} leads to more than {_MOST_FILES} files, perhaps to itself")

        def beside(word: str) -> Sequence[Path]:
            return [found] if (found := path.parent / word).exists() else []

        found: list[str] = []
        for line in re.sub(r"\\\n", " ", self._text(path)).splitlines():
            line = re.sub(r"(^|\s)#.*|\s--hash[= ]\S+", "", line).strip()
            if line.startswith("-"):
                option, _, value = re.sub(r"\s+|=", "=", line, count=1).partition("=")
                found += self._option(_LONG.get(option, option), value.strip(), beside)
            elif line:
                found += self._requirement(line, beside)
        return found

    def _requirement(self, text: str, find: _Find) -> list[str]:
        ours = _OURS.match(text)
        if ours is not None and find_spec(re.sub(r"[-.]", "_", ours[1].lower())) is not None:
            # The Python that runs coworld has it
            return []
        bare, _, extras = text.partition("[") if text.endswith("]") else (text, "", "")
        place = bare.startswith((".", "/")) or bare.endswith((".whl", ".tar.gz", ".zip")) or "/" in bare
        if not place or "://" in text or " @ " in text:
            return [text]
        found: list[str] = []
        for path in self._several(bare, find):
            if path.is_dir():
                found += self._project(path, [extra.strip() for extra in extras.rstrip("]").split(",") if extra])
            else:
                found.append(self._named(path))
        return found

    def _named(self, path: Path, *, content: bool = True) -> str:
        """Return what stands for a file or directory in a line; its content, or only its names, go into the digest."""
        files = [path]
        if path.is_dir():
            for place, directories, names in os.walk(path):
                directories[:] = sorted(set(directories) - _LEFT_OUT)
                files += sorted(Path(place, name) for name in names)
        for file in files:
            if file.is_file():
                self._read.update(f"{file.relative_to(path)}\0".encode("utf-8", "surrogatepass"))
                self._read.update(file.read_bytes() if content else str(file.stat().st_size).encode())
        self.local.append(path.absolute())
        return f"\0{len(self.local) - 1}\0"

    def _project(self, path: Path, extras: Sequence[str]) -> list[str]:
        if (path / "pyproject.toml").is_file():
            project = self._table(path / "pyproject.toml")
            if project and "dependencies" not in project.get("dynamic", ()):
                return self._dependencies(path / "pyproject.toml", extras)
        return [self._named(path) + (f"[{','.join(extras)}]" if extras else "")]

    def _dependencies(self, path: Path, extras: Sequence[str]) -> list[str]:
        project = self._table(path)
        optional = project.get("optional-dependencies", {})
        self.scripts |= {str(name): str(target) for name, target in project.get("scripts", {}).items()}

        def beside(word: str) -> Sequence[Path]:
            return [found] if (found := path.parent / word).exists() else []

        named = [*project.get("dependencies", ()), *(line for extra in extras for line in optional.get(extra, ()))]
        return [line for text in named for line in self._requirement(str(text), beside)]

    def _table(self, path: Path) -> dict[str, Any]:
        import tomllib

        try:
            return cast("dict[str, Any]", tomllib.loads(self._text(path)).get("project", {}))
        except tomllib.TOMLDecodeError as error:
            raise self._wrong(f"{path} cannot be read: {error}") from None

    def _text(self, path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise self._wrong(f"{path} cannot be read: {error}") from None

    def _one(self, word: str, find: _Find) -> Path:
        return self._several(word, find)[0]

    def _several(self, word: str, find: _Find) -> Sequence[Path]:
        found = find(word)
        if not found:
            raise self._wrong(f"{word} is named there, and is not among the files that are copied")
        return found

    def _wrong(self, why: str) -> BuildError:
        return BuildError(
            f"What {self.who} needs cannot be installed: {why}.",
            code="install_failed",
            hint="Correct the pip install line of the Dockerfile, or the file that it names.",
        )


def requirements_of(who: str, context: Path, layout: Layout | None) -> Requirements:
    """Return what to install for a package: what its Dockerfile does, or else its requirements or its project.

    Args:
        who: What it is installed for, in messages.
        context: The build context.
        layout: What its Dockerfile says; None: there is no Dockerfile.

    Raises:
        BuildError: A file that is named is missing or cannot be read (code `install_failed`).
    """
    needed = Requirements(who)
    if layout is not None:
        for install in layout.read.installs:
            needed.add(install.arguments, lambda word, install=install: _in_image(word, install, layout))
        return needed
    for name, word in (("requirements.txt", "--requirement=requirements.txt"), ("pyproject.toml", ".")):
        if (context / name).is_file():
            needed.add([word], lambda word: [context / word])
            break
    return needed


def _in_image(word: str, install: PipInstall, layout: Layout) -> Sequence[Path]:
    place = posixpath.normpath(posixpath.join("/", install.workdir, word))
    found = layout.sources(place, install.copies)
    # A project whose files are copied one by one is where its project file is
    return found or [path.parent for path in layout.sources(f"{place}/pyproject.toml", install.copies)]
