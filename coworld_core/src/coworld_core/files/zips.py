"""Zips: of others, checked before anything is unpacked; and our own, whose bytes depend on their contents alone."""

from __future__ import annotations

import contextlib
import errno
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self, cast

from ..errors import CoworldError, UsageError
from ..text.size_text import shown_size
from ..text.terminal import strip_controls
from .lfs_pointers import refuse_lfs_pointer

__all__ = ["BROKEN_ZIP", "ZipReader", "ZipTrouble", "ZipWriter", "open_zip"]

BROKEN_ZIP: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    # An unknown compression or encryption, a missing password, a name that cannot be decoded
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    ValueError,
)
"""Exceptions that the `zipfile` module may raise for a damaged or malicious file."""

_MAX_ENTRIES = 10_000
_MAX_DIRECTORY = 4 << 20
"""Most bytes of the list of entries, which `zipfile` reads as a whole."""
_HARMLESS = 1 << 30
"""Unpacked bytes below which the compression ratio is not limited: the logs of many players, each of 32 MiB and packed
to a thousandth, may repeat one line over and over."""
_RATIO = 200
_CHUNK = 1 << 20
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_UTF8 = 0x800
_ENCRYPTED = 0x1
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


@dataclass(frozen=True)
class ZipTrouble:
    """Why a zip is not opened."""

    code: str
    """`name`, `bomb` or `too_large`."""
    why: str
    """What is wrong, as a part of a sentence about the zip."""
    entry: str | None = None
    """The entry that is to blame."""


class ZipReader:
    """A zip whose entries were checked: `open_zip` opens one.

    Attributes:
        path: The file.
        entries: Its entries by name, directories among them.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, refuse: Callable[[str, str], CoworldError]) -> None:
        self.path = path
        self.entries: Mapping[str, zipfile.ZipInfo] = {}
        self.refuse = refuse
        self._archive = archive

    def check(self, limit: int, troubles: list[ZipTrouble] | None = None) -> None:
        """Check that the entries can be unpacked safely, and list them in `entries`.

        Args:
            limit: Maximum unpacked size in bytes.
            troubles: Receives all troubles; `entries` remains empty then. None: the first of them is raised.
        """
        found = False
        for trouble in self._troubles(limit):
            if troubles is None:
                raise self.refuse(trouble.why, trouble.code)
            found = True
            troubles.append(trouble)
        if not found:
            self.entries = {entry.filename: entry for entry in self._archive.infolist()}

    def _troubles(self, limit: int) -> Iterator[ZipTrouble]:
        entries = self._archive.infolist()
        if len(entries) > _MAX_ENTRIES:
            yield ZipTrouble("bomb", f"it has more than {_MAX_ENTRIES} entries")
            return
        names: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            name = entry.filename
            if why := _trouble(entry):
                yield ZipTrouble("name", f"its entry {_shown(name)} {why}", name)
            folded = name.removesuffix("/").casefold()
            if names.setdefault(folded, entry) is not entry:
                yield ZipTrouble("name", f"it holds {_shown(name)} twice", name)
        for folded, entry in names.items():
            above = folded
            while (above := above.rpartition("/")[0]) != "":
                if above in names and not names[above].is_dir():
                    upper = _shown(names[above].filename)
                    why = f"its entry {_shown(entry.filename)} is below {upper}, which is a file"
                    yield ZipTrouble("name", why, entry.filename)
        total = sum(entry.file_size for entry in entries)
        if total > limit:
            largest = max(entries, key=lambda entry: entry.file_size)
            why = f"it would unpack to {shown_size(total)}, more than {shown_size(limit)} {_most(largest)}"
            yield ZipTrouble("too_large", why, largest.filename)
        elif total > max(_HARMLESS, _RATIO * self.path.stat().st_size):
            largest = max(entries, key=lambda entry: entry.file_size)
            why = f"it would unpack to {shown_size(total)}, {_RATIO} times its size or more {_most(largest)}"
            yield ZipTrouble("bomb", why, largest.filename)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Unpack an entry piece by piece, and no more bytes of it than the zip says.

        Raises:
            CoworldError: The entry is damaged; of the class that `open_zip` was given.
        """
        size = 0
        try:
            with self._archive.open(name) as source:
                while piece := source.read(_CHUNK):
                    size += len(piece)
                    yield piece
        except (*BROKEN_ZIP, OSError) as error:
            # A place before the beginning of the file, and no failure of the disk
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise
            raise self.refuse(f"its entry {_shown(name)} is damaged ({error})", "unreadable") from error
        if size != self.entries[name].file_size:
            raise self.refuse(f"its entry {_shown(name)} does not unpack to the size that the zip says", "unreadable")

    def read(self, name: str, *, limit: int) -> bytes:
        """Unpack an entry of at most `limit` bytes.

        Raises:
            CoworldError: The entry is damaged or larger; of the class that `open_zip` was given.
        """
        if (size := self.entries[name].file_size) > limit:
            why = f"its entry {_shown(name)} has {shown_size(size)}, more than {shown_size(limit)}"
            raise self.refuse(why, "too_large")
        return b"".join(self.pieces(name))

    def extract_all(self, directory: Path, *, pause: Callable[[], object] | None = None) -> None:
        """Unpack all files into a directory under their own names, as `extract` does."""
        names = {name: name for name, entry in self.entries.items() if not entry.is_dir()}
        self.extract(names, directory, pause=pause)

    def extract(self, names: Mapping[str, str], directory: Path, *, pause: Callable[[], object] | None = None) -> None:
        """Unpack entries into a directory.

        Args:
            names: The relative path of each file to write, by the entry's name.
            directory: The directory; the files must not exist.
            pause: Called between pieces; may raise to stop early.

        Raises:
            CoworldError: An entry is damaged; of the class that `open_zip` was given.
            OSError: A file cannot be written.
        """
        for entry, name in names.items():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as sink:
                for piece in self.pieces(entry):
                    if pause is not None:
                        pause()
                    sink.write(piece)


@contextlib.contextmanager
def open_zip(
    path: Path,
    *,
    limit: int,
    what: str,
    error: type[CoworldError],
    hint: str | None = None,
    troubles: list[ZipTrouble] | None = None,
) -> Generator[ZipReader]:
    """Open a zip that may be malicious, after checking its entries: their number, names, kinds, sizes and compression.

    Args:
        path: The zip.
        limit: Maximum unpacked size in bytes.
        what: A noun for messages and for the prefix of codes, such as "bundle".
        error: The class of errors to raise.
        hint: What to do about such a zip.
        troubles: Receives all that is wrong with the entries, and the zip is open without any. None: it is raised.

    Raises:
        UsageError: There is no such file (`path_missing`).
        CoworldError: Of the given class: it is not a zip, or not safe to unpack; the message names the entry. Codes
            `<what>_unreadable`, `<what>_name`, `<what>_bomb` and `<what>_too_large`.
    """

    def refuse(why: str, code: str) -> CoworldError:
        context = {"path": str(path)}
        return error(f"The {what} {path} is not opened: {why}.", code=f"{what}_{code}", hint=hint, context=context)

    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            refuse_lfs_pointer(file.read(100), path)
            archive = stack.enter_context(zipfile.ZipFile(cast("IO[bytes]", _WithinLimits(file))))
        except FileNotFoundError:
            raise UsageError(
                f"There is no {what} at {path}.", code="path_missing", context={"path": str(path)}
            ) from None
        except OSError as failure:
            why = f"The {what} {path} cannot be read: {failure.strerror or failure}."
            raise UsageError(why, code="path_unreadable", context={"path": str(path)}) from failure
        except _DirectoryTooLarge:
            raise refuse(f"its list of entries has more than {shown_size(_MAX_DIRECTORY)}", "bomb") from None
        except UnicodeDecodeError as failure:
            name = failure.object.decode("utf-8", "backslashreplace")
            raise refuse(f"its entry {_shown(name)} has a name that is not UTF-8", "name") from failure
        except BROKEN_ZIP as failure:
            raise refuse(f"it is damaged, or not a zip ({failure})", "unreadable") from failure
        reader = ZipReader(path, archive, refuse)
        reader.check(limit, troubles)
        yield reader


class _DirectoryTooLarge(Exception):
    """The list of a zip's entries is too large."""


class _WithinLimits:
    """A file of which no more than a few MiB are read at a time: `zipfile` reads whole lists of entries."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable, self.close = file.seek, file.tell, file.seekable, file.close

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size if 0 <= size <= _MAX_DIRECTORY else _MAX_DIRECTORY + 1)
        if len(data) > _MAX_DIRECTORY:
            raise _DirectoryTooLarge
        return data


def _trouble(entry: zipfile.ZipInfo) -> str | None:
    name = entry.filename
    parts = name.removesuffix("/").split("/")
    # Zipfile cuts names at a NUL, and replaces backslashes on some systems: check the original name
    raw = getattr(entry, "orig_filename", name)
    if not name.isascii() and not entry.flag_bits & _UTF8:
        return "has a name that is not UTF-8"
    if "\\" in raw or "\0" in raw or not name.isprintable() or re.match(r"[A-Za-z]:", name):
        return "has a name that means different things on different machines"
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in parts) or len(parts) > 16:
        return "leads out of the zip"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is neither a file nor a directory"
    if entry.flag_bits & _ENCRYPTED:
        return "is encrypted"
    return None if entry.compress_type in _METHODS else "is compressed in an unusual way"


def _shown(name: str) -> str:
    return repr(strip_controls(name)[:120])


def _most(entry: zipfile.ZipInfo) -> str:
    return f"(its entry {_shown(entry.filename)}: {shown_size(entry.file_size)})"


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


class ZipWriter:
    """Writes a zip piece by piece, without seeking: the same names and contents in the same order give the same bytes.

    Use as a context manager; the zip is complete when the block ends.

    Args:
        write: Takes the bytes of the zip as they are ready.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._archive = zipfile.ZipFile(cast("IO[bytes]", _Outlet(write)), "w", allowZip64=True)

    @contextlib.contextmanager
    def entry(self, name: str, *, compress: bool = True) -> Generator[_Sink]:
        """Begin a file, and give what its content is to be written to."""
        with self._archive.open(_fixed_entry(name, compress), "w", force_zip64=True) as file:
            yield file

    def add(self, name: str, content: bytes, *, compress: bool = True) -> None:
        """Write a whole file."""
        with self.entry(name, compress=compress) as file:
            file.write(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._archive.close()


class _Outlet(io.RawIOBase):
    """Passes on at once what a zip writer writes; not seekable."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._pass_on = write

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = bytes(data)
        self._pass_on(piece)
        return len(piece)


def _fixed_entry(name: str, compress: bool) -> zipfile.ZipInfo:
    """The entry of a file, with a fixed time and fixed attributes."""
    info = zipfile.ZipInfo(name, date_time=_TIME)
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.create_system = _UNIX
    return info
