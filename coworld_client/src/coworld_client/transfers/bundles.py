"""Open and extract an episode bundle, checking the zip before anything is extracted.

Bundles are untrusted. Their declared names, sizes and compression ratio are checked first, files are written under
names that this module chooses, and no more bytes are unpacked than declared.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import anyio.from_thread
import anyio.to_thread

from coworld_core.errors import UsageError
from coworld_core.files.zips import BROKEN_ZIP
from coworld_core.text.size_text import shown_size

from ._parts import storage
from .files import DEFAULT_LIMIT, TransferRefused

__all__ = ["Bundle", "BundleFile", "extract_bundle", "extract_files", "open_bundle"]

MANIFEST = "manifest.json"

_MAX_ENTRIES = 10_000
_MAX_MANIFEST = 4 << 20
_HARMLESS = 256 << 20
"""Unpacked bytes below which the compression ratio is not limited: a log may repeat one line ten million times."""
_RATIO = 200
_CHUNK = 1 << 20
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


@dataclass(frozen=True, kw_only=True)
class BundleFile:
    """A file in a bundle."""

    token: str
    """Its kind: `results`, `replay`, `error_info`, `game_logs`, `player_logs`, `player_artifact`, ..."""
    key: str | None
    """Distinguishes files of one kind: a slot, or the kind of log; None if there is only one."""
    entry: str
    """Its name in the zip."""
    name: str
    """The path to extract it to, relative to the target directory; chosen by this module."""
    size: int
    """Unpacked size in bytes, as declared in the zip."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The contents of an episode bundle."""

    path: Path
    episode_id: str
    """`ereq_<uuid>`."""
    status: str
    """`success` or `failed`."""
    files: tuple[BundleFile, ...]
    manifest: Mapping[str, Any] = field(repr=False)
    """The parsed `manifest.json`."""


async def open_bundle(path: Path, *, limit: int = DEFAULT_LIMIT) -> Bundle:
    """Check a bundle and list its files.

    Args:
        path: The zip.
        limit: Maximum unpacked size in bytes.

    Raises:
        UsageError: There is no such file (`path_missing`).
        TransferRefused: The file is not a valid bundle, or is unsafe to unpack (`bundle_unreadable`,
            `bundle_name`, `bundle_bomb`, `bundle_too_large`).
    """
    return await anyio.to_thread.run_sync(_open, path, limit)


async def extract_bundle(path: Path, directory: Path, *, limit: int = DEFAULT_LIMIT) -> Bundle:
    """Extract a bundle: `manifest.json`, `results.json`, `replay`, `logs/…`, `artifacts/…`.

    Args:
        path: The zip.
        directory: The target directory; must not exist, and is created only if everything was extracted.
        limit: Maximum unpacked size in bytes.

    Raises:
        UsageError: There is no such file (`path_missing`), or the directory exists (`path_exists`).
        TransferRefused: As for `open_bundle`, or the contents are damaged.
        EnvironmentFault: The directory cannot be written.
    """
    return await anyio.to_thread.run_sync(_extract, path, directory, limit)


async def extract_files(path: Path, directory: Path, *, limit: int = DEFAULT_LIMIT) -> None:
    """Extract all files of a zip under their own names, which cannot lead out of the directory.

    Args:
        path: The zip.
        directory: The target directory; must not exist, and is created only if everything was extracted.
        limit: Maximum unpacked size in bytes.

    Raises:
        UsageError: There is no such file (`path_missing`), or the directory exists (`path_exists`).
        TransferRefused: The file is not a valid zip, or is unsafe to unpack.
        EnvironmentFault: The directory cannot be written.
    """
    await anyio.to_thread.run_sync(_extract_files, path, directory, limit)


def _open(path: Path, limit: int) -> Bundle:
    with _zip(path) as archive:
        return _checked(path, archive, limit)


@contextlib.contextmanager
def _zip(path: Path) -> Generator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        raise UsageError(f"There is no bundle at {path}.", code="path_missing") from None
    except BROKEN_ZIP as error:
        raise _refused(path, f"it is damaged, or not a zip ({error})", "unreadable") from error


def _entries(path: Path, archive: zipfile.ZipFile, limit: int) -> dict[str, zipfile.ZipInfo]:
    """The entries of a zip by name, after checking that they can be unpacked safely."""
    entries = archive.infolist()
    if len(entries) > _MAX_ENTRIES:
        raise _refused(path, f"it has more than {_MAX_ENTRIES} entries", "bomb")
    names: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        if why := _trouble(entry):
            raise _refused(path, f"its entry {entry.filename[:120]!r} {why}", "name")
        if names.setdefault(entry.filename.casefold(), entry) is not entry:
            raise _refused(path, f"it holds {entry.filename[:120]!r} twice", "name")
    total = sum(entry.file_size for entry in entries)
    if total > limit:
        raise _refused(path, f"it would unpack to {shown_size(total)}, more than {shown_size(limit)}", "too_large")
    if total > max(_HARMLESS, _RATIO * path.stat().st_size):
        raise _refused(path, f"it would unpack to {shown_size(total)}, {_RATIO} times its size or more", "bomb")
    return {entry.filename: entry for entry in entries}


def _checked(path: Path, archive: zipfile.ZipFile, limit: int) -> Bundle:
    entries = _entries(path, archive, limit)
    manifest = _manifest(path, archive)
    files = tuple(_files(path, manifest, entries))
    return Bundle(
        path=path,
        episode_id=str(manifest.get("ereq_id") or ""),
        status=str(manifest.get("status") or ""),
        files=files,
        manifest=manifest,
    )


def _trouble(entry: zipfile.ZipInfo) -> str | None:
    name = entry.filename
    parts = name.removesuffix("/").split("/")
    # Zipfile cuts names at a NUL, and replaces backslashes on some systems: check the original name
    raw = getattr(entry, "orig_filename", name)
    if "\\" in raw or "\0" in raw or not name.isprintable() or re.match(r"[A-Za-z]:", name):
        return "has a name that means different things on different machines"
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in parts) or len(parts) > 16:
        return "leads out of the bundle"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is neither a file nor a directory"
    if entry.flag_bits & 0x1:
        return "is encrypted"
    return None if entry.compress_type in _METHODS else "is packed in a way that bundles are not"


def _manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        with archive.open(MANIFEST) as file:
            data = file.read(_MAX_MANIFEST + 1)
    except KeyError:
        raise _refused(path, f"there is no {MANIFEST} in it", "unreadable") from None
    try:
        value: object = json.loads(data) if len(data) <= _MAX_MANIFEST else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _refused(path, f"its {MANIFEST} is not a JSON object", "unreadable")
    return cast("dict[str, Any]", value)


def _files(path: Path, manifest: dict[str, Any], entries: Mapping[str, zipfile.ZipInfo]) -> Iterator[BundleFile]:
    listed = manifest.get("files")
    if not isinstance(listed, dict):
        raise _refused(path, f"its {MANIFEST} does not say what is in it", "unreadable")
    seen: set[str] = {MANIFEST}
    for token, value in cast("dict[str, object]", listed).items():
        places = cast("dict[str, object]", value) if isinstance(value, dict) else {"": value}
        for key, entry in places.items():
            if not isinstance(entry, str) or entry not in entries or entries[entry].is_dir():
                raise _refused(path, f"{str(entry)[:120]!r}, which it names, is not in it", "unreadable")
            name = _name(token, key)
            if name is None or name in seen:
                raise _refused(path, f"it names {token[:40]!r} {key[:40]!r}, which is not known or not once", "name")
            seen.add(name)
            yield BundleFile(token=token, key=key or None, entry=entry, name=name, size=entries[entry].file_size)


_SINGLE = {"results": "results.json", "replay": "replay", "error_info": "error_info.json"}
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def _name(token: str, key: str) -> str | None:
    """The path to extract a file to; never the name in the bundle. None if the token or key is invalid."""
    if not _KEY.fullmatch(token) or (key and not _KEY.fullmatch(key)):
        return None
    if not key:
        return _SINGLE.get(token, f"other/{token}")
    match token:
        case "game_logs":
            return "logs/game.log" if key == "combined" else f"logs/game.{key}.log"
        case "player_logs":
            return f"logs/policy_agent_{key}.log"
        case "player_artifact":
            return f"artifacts/policy_artifact_{key}.zip"
        case _:
            return f"other/{token}-{key}"


def _extract(path: Path, directory: Path, limit: int) -> Bundle:
    with _new_directory(directory) as place, _zip(path) as archive, storage(directory):
        bundle = _checked(path, archive, limit)
        wanted = {file.entry: file.name for file in bundle.files} | {MANIFEST: MANIFEST}
        _copy_entries(path, archive, wanted, place)
    return bundle


def _extract_files(path: Path, directory: Path, limit: int) -> None:
    with _new_directory(directory) as place, _zip(path) as archive, storage(directory):
        entries = _entries(path, archive, limit)
        _copy_entries(path, archive, {name: name for name, entry in entries.items() if not entry.is_dir()}, place)


@contextlib.contextmanager
def _new_directory(directory: Path) -> Generator[Path]:
    """A directory beside the target that becomes the target if all goes well."""
    if directory.exists():
        raise UsageError(f"{directory} already exists.", code="path_exists", hint="Name another directory.")
    with storage(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{directory.name[:100]}.part-", dir=directory.parent))
    try:
        yield place
        with storage(directory):
            place.chmod(0o755)
            place.rename(directory)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy_entries(path: Path, archive: zipfile.ZipFile, wanted: Mapping[str, str], place: Path) -> None:
    for entry, name in wanted.items():
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, target.open("xb") as sink:
            _copy(path, source, sink, archive.getinfo(entry).file_size)


def _copy(path: Path, source: IO[bytes], sink: IO[bytes], promised: int) -> None:
    size = 0
    while piece := source.read(_CHUNK):
        anyio.from_thread.check_cancelled()
        size += len(piece)
        if size > promised:
            raise _refused(path, "it unpacks to more than it says", "bomb")
        sink.write(piece)
    if size != promised:
        raise _refused(path, "it unpacks to less than it says", "unreadable")


def _refused(path: Path, why: str, code: str) -> TransferRefused:
    return TransferRefused(
        f"The bundle {path} is not opened: {why}.",
        code=f"bundle_{code}",
        hint="Download it again; if it persists, tell whoever runs the server.",
        context={"path": str(path)},
    )
