"""The build context as it is sent to the engine: a tar archive of a directory, filtered by `.dockerignore`."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio.from_thread

from coworld_core.files.lfs_pointers import is_lfs_pointer

from .compose import Build
from .dockerfile import without_frontend

__all__ = ["ContextError", "Ignore", "SentContext", "dockerfile_of", "ignore_of", "write_context"]

_INLINE = ".coworld.Dockerfile"
"""Name in the archive for a Dockerfile that is inline, outside the context, or changed before it is sent."""


class ContextError(Exception):
    """A build context cannot be sent; the message completes a sentence that begins with the service."""


class Ignore:
    """The patterns of a `.dockerignore` file, as the engine's own client reads them.

    The last pattern that matches a path, or a directory above it, decides; `!` includes a path again. `*` and `?`
    do not match a slash, `**` does.

    Args:
        text: The file's text.

    Raises:
        ContextError: A pattern is malformed.
    """

    def __init__(self, text: str) -> None:
        self._patterns: list[tuple[bool, re.Pattern[str], tuple[str, ...]]] = []
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
            if line.startswith("#"):
                continue
            pattern = line.strip()
            keeps = pattern.startswith("!")
            pattern = pattern[1:].strip() if keeps else pattern
            if not pattern:
                continue
            pattern = os.path.normpath(pattern.replace("\\", "/") if os.sep == "\\" else pattern).replace(os.sep, "/")
            pattern = pattern.lstrip("/") or "."
            try:
                self._patterns.append((keeps, re.compile(_expression(pattern)), tuple(pattern.split("/"))))
            except re.error as error:
                raise ContextError(f"has a .dockerignore whose line {number} is malformed: {error}") from None

    def match(self, path: str, above: Sequence[bool]) -> tuple[bool, tuple[bool, ...]]:
        """Return whether a path is excluded, and which patterns it matched, for the entries below it.

        Args:
            path: The path, relative to the context and with forward slashes.
            above: Which patterns the parent directory matched; empty for an entry at the top of the context.
        """
        ignored = False
        matched: list[bool] = []
        for index, (keeps, expression, _) in enumerate(self._patterns):
            # A pattern that cannot change the result is skipped and counts as unmatched for the entries below;
            # the engine's own client does the same, and packages rely on it
            hit = bool(above and above[index]) or (keeps == ignored and expression.fullmatch(path) is not None)
            matched.append(hit)
            if hit:
                ignored = not keeps
        return ignored, tuple(matched)

    def ignores(self, path: str) -> bool:
        """Whether a path is excluded, by itself or with a directory above it."""
        ignored, matched = False, ()
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            ignored, matched = self.match("/".join(parts[:count]), matched)
        return ignored

    def hides(self, directory: str) -> bool:
        """Whether no pattern can include anything below an ignored directory again."""
        inside = directory.split("/")
        for keeps, _, parts in self._patterns:
            if not keeps:
                continue
            for ours, theirs in zip(parts, inside, strict=False):
                if "**" in ours:
                    return False
                if not re.fullmatch(_expression(ours), theirs):
                    break
            else:
                if len(parts) > len(inside):
                    return False
        return True


def _expression(pattern: str) -> str:
    out: list[str] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == "*" and pattern.startswith("*", index):
            index += 1
            slash = pattern.startswith("/", index)
            index += slash
            out.append(".*" if index >= len(pattern) else "(?:.*/)?" if slash else ".*")
        elif character == "*":
            out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "\\" and index < len(pattern):
            out.append(re.escape(pattern[index]))
            index += 1
        elif character == "[":
            end = pattern.find("]", index + 1)
            if end < 0:
                raise re.error("a bracket is never closed")
            out.append(f"[{pattern[index:end]}]")
            index = end + 1
        else:
            out.append(re.escape(character))
    return "".join(out)


@dataclass(frozen=True, kw_only=True)
class SentContext:
    """The archive that `write_context` wrote."""

    dockerfile: str
    """Path of the Dockerfile in the archive."""
    size: int
    """Size of the archive in bytes."""
    files: int
    """Number of files in the archive."""


def dockerfile_of(build: Build) -> tuple[str, str, Path | None]:
    """Return the Dockerfile of a build: its text, its path in the archive, and its file (None if it is inline).

    Raises:
        ContextError: The context is not a directory, or the Dockerfile is missing or unreadable.
    """
    if not build.context.is_dir():
        problem = "is not a directory" if build.context.exists() else "does not exist"
        raise ContextError(f"has the build context {build.context}, which {problem}")
    if build.dockerfile_inline is not None:
        return build.dockerfile_inline, _INLINE, None
    path = Path(os.path.normpath(build.context / (build.dockerfile or "Dockerfile")))
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ContextError(f"has no Dockerfile: there is no {path}") from None
    except UnicodeDecodeError:
        raise ContextError(f"has a Dockerfile that is not UTF-8 text: {path}") from None
    except OSError as error:
        raise ContextError(f"has a Dockerfile that cannot be read: {path}: {error.strerror}") from None
    try:
        inside = path.relative_to(build.context)
    except ValueError:
        return text, _INLINE, path
    return text, inside.as_posix(), path


def write_context(build: Build, sink: IO[bytes], *, buildkit: bool = False) -> SentContext:
    """Write the build context as a tar archive. Runs in a worker thread and stops when its task is cancelled.

    Owners and their names are left out, so that the same files give the same image for every user.
    `<Dockerfile>.dockerignore` beside the Dockerfile takes precedence over `.dockerignore` in the context.

    Args:
        build: What to build.
        sink: The file to write the archive to.
        buildkit: Whether the archive is for BuildKit, which should then use its own frontend.

    Raises:
        ContextError: Something in the context cannot be read.
        OSError: The sink cannot be written.
    """
    text, name, path = dockerfile_of(build)
    ignore = ignore_of(build, path)
    if buildkit and (plain := without_frontend(text)) != text:
        text, name = plain, _INLINE
    files = 0
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        if name == _INLINE:
            data = text.encode()
            info = tarfile.TarInfo(_INLINE)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
            files += 1
        # Always sent, even if ignored; the engine itself removes ignored ones before it builds
        for relative, entry in _walk(build.context, ignore, always=(name, ".dockerignore")):
            anyio.from_thread.check_cancelled()
            files += _add(archive, relative, entry)
    return SentContext(dockerfile=name, size=sink.tell(), files=files)


def ignore_of(build: Build, dockerfile: Path | None) -> Ignore:
    """Return the ignore patterns of a build context.

    Args:
        build: What to build.
        dockerfile: Its Dockerfile; None if it is inline.

    Raises:
        ContextError: The file with the patterns cannot be read, or a pattern is malformed.
    """
    candidates = [build.context / ".dockerignore"]
    if dockerfile is not None:
        candidates.insert(0, dockerfile.with_name(f"{dockerfile.name}.dockerignore"))
    for candidate in candidates:
        try:
            return Ignore(candidate.read_bytes().decode("utf-8"))
        except FileNotFoundError:
            continue
        except UnicodeDecodeError:
            raise ContextError(f"has a {candidate.name} that is not UTF-8 text") from None
        except OSError as error:
            raise ContextError(f"has a {candidate.name} that cannot be read: {error.strerror}") from None
    return Ignore("")


def _walk(root: Path, ignore: Ignore, *, always: Sequence[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all entries to send, directories before their contents, in a fixed order."""

    def below(directory: Path, prefix: str, above: Sequence[bool]) -> Iterator[tuple[str, os.DirEntry[str]]]:
        anyio.from_thread.check_cancelled()
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            shown = prefix.rstrip("/") or "."
            raise ContextError(
                f"has a directory in its context that cannot be read: {shown}: {error.strerror}"
            ) from None
        for entry in entries:
            relative = prefix + entry.name
            needed = relative in always
            ignored, matched = ignore.match(relative, above)
            ignored = ignored and not needed
            if not ignored:
                yield relative, entry
            if entry.is_dir(follow_symlinks=False):
                leads_on = any(path.startswith(f"{relative}/") for path in always)
                if not ignored or leads_on or not ignore.hides(relative):
                    yield from below(Path(entry.path), f"{relative}/", matched)

    yield from below(root, "", ())


def _add(archive: tarfile.TarFile, relative: str, entry: os.DirEntry[str]) -> int:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            # Sockets, pipes and devices mean nothing to the engine
            return 0
        info = archive.gettarinfo(entry.path, arcname=relative)
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        # A fraction of a second would add a header to every file
        info.mtime = int(info.mtime)
        if os.name == "nt":
            info.mode = info.mode & 0o755 | 0o111
        if not info.isreg():
            archive.addfile(info)
            return 0
        with Path(entry.path).open("rb") as file:
            if is_lfs_pointer(file.read(100)):
                raise ContextError(
                    f"has a Git LFS pointer in place of a file in its context: {relative}; get the file with "
                    "`git lfs pull`, or list it in .dockerignore if the image does not need it"
                )
            file.seek(0)
            archive.addfile(info, _Polled(file))
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise ContextError(
            f"has a file in its context that cannot be read: {relative}: {error.strerror or error}; "
            "list it in .dockerignore if the image does not need it"
        ) from None
    return 1


class _Polled(io.RawIOBase):
    """A file whose reads fail once the task that needs them is cancelled."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        anyio.from_thread.check_cancelled()
        return self._file.read(size)
