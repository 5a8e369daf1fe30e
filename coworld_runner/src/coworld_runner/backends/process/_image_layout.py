"""Lays out an image's files on this machine as its Dockerfile would.

Local processes need this because their commands name paths in an image: `python /app/player.py` must run the
package's own file. The results of build steps (`RUN`) are missing; units that need them need the image.

For Python the files are links, so that what it compiles is kept. Other programs see through links: Node looks for
modules beside the file that a link leads to, and a module that compares its own place with its program's finds another.
So they get real files: hard links, or copies on another disk.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...images.compose import Build
from ...images.dockerfile import Copies, Dockerfile, read_dockerfile

__all__ = ["ImageLayout", "Layout", "layout_of"]

_NOT_HERE = frozenset({"PATH", "HOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD"})
"""Variables that refer to the image's own files and would break a program outside it."""
_KEPT_AS_LINKS = frozenset({"node_modules", ".git", ".venv", "venv"})
"""Directories that hold many files and nothing that depends on where they are."""
_LARGE_BYTES = 1 << 20


@dataclass(frozen=True)
class ImageLayout:
    """An image's files, laid out below a directory."""

    root: Path
    workdir: Path | None
    """Where its commands run; None: nothing was copied there, or it is the root directory."""
    env: Mapping[str, str]
    """Its variables, with paths below `root`."""

    def here(self, text: str) -> str:
        """Replace a path in the image, in a word of a command or variable, with the path of that file here."""
        parts = text.split(":") if text.startswith("/") and ":" in text else [text]
        return ":".join(self._place(part) for part in parts)

    def argv(self, command: Sequence[str]) -> tuple[str, ...]:
        """Replace paths in the image with paths here in each word of a command."""
        return tuple(map(self.here, command))

    def _place(self, text: str) -> str:
        if not text.startswith("/") or text == "/" or "\0" in text:
            return text
        place = self.root / posixpath.normpath(text).lstrip("/")
        return str(place) if os.path.lexists(place) and not Path(text).exists() else text


@dataclass(frozen=True)
class Layout:
    """The files, variables and command that a Dockerfile gives to an image.

    Args:
        context: The build context.
        read: The Dockerfile.
    """

    context: Path
    read: Dockerfile

    @property
    def command(self) -> tuple[str, ...]:
        """The command that a container runs by default."""
        return self.read.command

    def put(self, root: Path, *, program: str = "python") -> ImageLayout:
        """Create a directory and lay the files out below it.

        Args:
            root: The directory.
            program: The first word of the command that will run.

        Raises:
            OSError: The directory cannot be written to.
        """
        root.mkdir(parents=True, exist_ok=True)
        linked = posixpath.basename(program).startswith("python")
        for sources, target in self.read.copies:
            for source, place in self._placed(sources, target):
                _lay(source, root, [part for part in place.split("/") if part], linked=linked)
        workdir = root / self.read.workdir.lstrip("/")
        filled = workdir != root and workdir.is_dir() and any(workdir.iterdir())
        laid = ImageLayout(root, workdir if filled else None, {})
        env = {name: laid.here(value) for name, value in self.read.env.items() if name not in _NOT_HERE}
        if installed := self._installed(root):
            env["PYTHONPATH"] = os.pathsep.join(filter(None, (env.get("PYTHONPATH"), *installed)))
        return ImageLayout(root, laid.workdir, env)

    def unmade(self, argv: Sequence[str]) -> tuple[str, Path] | None:
        """The first word of a command that names a file copied from a missing source, and the file's path there."""
        for word in argv:
            is_path = posixpath.isabs(word) or "/" in word or posixpath.splitext(word)[1]
            # Not Path.exists: a whole program may be an argument, and too long for a name
            if not is_path or os.path.exists(word):  # noqa: PTH110
                continue
            path = posixpath.normpath(posixpath.join("/", self.read.workdir, word))
            for sources, target in self.read.copies:
                for source in sources:
                    place = posixpath.join(target, posixpath.basename(source)) if target.endswith("/") else target
                    below = posixpath.relpath(path, posixpath.normpath(place))
                    made = self.context / source.lstrip("/")
                    if not below.startswith("..") and not made.exists() and not set(source) & set("*?["):
                        return word, made / below
        return None

    def sources(self, place: str, copies: Copies) -> list[Path]:
        """Return the files or directories of the context that are copied to a path in the image, perhaps a glob."""
        found: list[Path] = []
        for sources, target in copies:
            for source, into in self._placed(sources, target):
                below = posixpath.relpath(place, into)
                if below == ".":
                    found.append(source)
                elif not below.startswith("..") and source.is_dir():
                    found += sorted(source.glob(below))
                elif source.is_file() and fnmatch.fnmatch(into, place):
                    found.append(source)
        return found

    def _installed(self, root: Path) -> list[str]:
        """The module directories of projects that a build step would install, as in an editable install."""
        places = (root / target.strip("/") for _, target in self.read.copies)
        return list(
            dict.fromkeys(
                str((place / "src").resolve())
                for place in places
                if (place / "pyproject.toml").is_file() and (place / "src").is_dir()
            )
        )

    def _placed(self, sources: Sequence[str], target: str) -> Iterator[tuple[Path, str]]:
        """Yield each source of one COPY with its target; a directory's content goes into the target."""
        found = [path for source in sources for path in self._found(source)]
        into = target.endswith("/") or len(sources) > 1 or any(set(source) & set("*?[") for source in sources)
        for path in found:
            if path.is_dir() or not into:
                yield path, posixpath.normpath(target)
            else:
                yield path, posixpath.join(posixpath.normpath(target), path.name)

    def _found(self, source: str) -> list[Path]:
        relative = posixpath.normpath(source.lstrip("/") or ".")
        if relative.startswith(".."):
            return []
        if set(relative) & set("*?["):
            return sorted(self.context.glob(relative))
        path = self.context / relative
        return [path] if path.exists() else []


def layout_of(build: Build) -> tuple[Layout | None, str]:
    """Read the layout that the Dockerfile of a build describes.

    Returns:
        The layout, or None if there is no Dockerfile that can be read; and the error with its line, or an empty string.
    """
    path = build.context / (build.dockerfile or "Dockerfile")
    text = build.dockerfile_inline
    try:
        text = path.read_text(encoding="utf-8") if text is None else text
    except FileNotFoundError as error:
        return None, f"{path} cannot be read: {error.strerror}." if build.dockerfile else ""
    except (OSError, UnicodeDecodeError) as error:
        return None, f"{path} cannot be read: {error}."
    read = read_dockerfile(text, args=build.args, target=build.target)
    if read.mistake is not None:
        line, words = read.mistake
        where = path if build.dockerfile_inline is None else "dockerfile_inline"
        return None, f"{where}:{line}: {words}"
    return Layout(build.context, read), ""


def _lay(source: Path, root: Path, parts: Sequence[str], *, linked: bool) -> None:
    """Lay a file or directory out at a path; if a directory is there already, lay the source's entries out in it."""
    place = root
    for part in parts[:-1]:
        place /= part
        _open(place)
    place = place / parts[-1] if parts else place
    if source.is_dir():
        whole = linked or source.is_symlink() or source.name in _KEPT_AS_LINKS
        if not parts or place.exists() or not whole:
            _open(place)
            for entry in source.iterdir():
                _lay(entry, place, [entry.name], linked=linked)
        else:
            place.symlink_to(source.absolute(), target_is_directory=True)
        return
    if place.is_symlink() or place.is_file():
        place.unlink()
    if not place.exists() and (linked or _is_machine_code(source) or not _copied(source.resolve(), place)):
        place.symlink_to(source.absolute())


def _is_machine_code(source: Path) -> bool:
    """Whether a file looks for nothing beside itself, so that errors may name the file that it comes from."""
    try:
        with source.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _copied(source: Path, place: Path) -> bool:
    """Make a file the same as another; a large one only if that takes no room."""
    try:
        os.link(source, place)
    except OSError:
        try:
            if source.stat().st_size > _LARGE_BYTES:
                return False
            shutil.copy2(source, place)
        except OSError:
            return False
    return True


def _open(place: Path) -> None:
    """Make a real directory at a path; a link to a directory is replaced by links to its entries."""
    if place.is_symlink():
        source = place.resolve()
        place.unlink()
        place.mkdir()
        if source.is_dir():
            for entry in source.iterdir():
                (place / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
    else:
        place.mkdir(exist_ok=True)
