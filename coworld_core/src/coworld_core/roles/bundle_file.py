"""Bundles as files: written piece by piece, and read and extracted after they were checked.

Bundles are untrusted. Their declared names, sizes and compression are checked first, files are written under names that
`bundle` chooses, and no more bytes are unpacked than declared.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ..documents.json_text import parse_json
from ..documents.records import read_as
from ..errors import CoworldError, RecordError, UsageError
from ..files.zips import ZipReader, ZipWriter, open_zip
from .bundle import BUNDLE_MANIFEST, BundleItem, BundleManifest, BundlePlan, order_in_bundle, target_name

__all__ = [
    "BUNDLE_HINT",
    "BUNDLE_LIMIT",
    "Bundle",
    "BundleError",
    "BundleFile",
    "Pieces",
    "extract_bundle",
    "is_bundle",
    "items_of",
    "pack_bundle",
    "read_bundle",
    "unpack_directory",
]

BUNDLE_LIMIT = 8 << 30
"""Default maximum of a bundle's unpacked size in bytes."""

Pieces = Callable[[], Iterable[bytes]]
"""Gives the content of a file, piece by piece."""

_MAX_MANIFEST = 4 << 20
BUNDLE_HINT = "Make or download it again; if it persists, tell whoever it came from."
"""What to do about a bundle that is not valid."""
_LOCAL_HEADER = b"PK\x03\x04"
_NAME_AT = 30
"""Where the name begins in an entry's header."""


class BundleError(CoworldError):
    """A bundle is not valid, or not safe to unpack."""

    kind = "answer"
    default_code = "bundle_unreadable"


@dataclass(frozen=True, kw_only=True)
class BundleFile:
    """A file in a bundle."""

    token: str
    """Its part: `results`, `replay`, `error_info`, `game_logs`, `player_logs`, `player_artifact`, ..."""
    key: str | None
    """Distinguishes files of one part: a slot, or the kind of log; None if there is only one."""
    entry: str
    """Its name in the zip."""
    name: str
    """The path to extract it to, relative to the target directory; chosen by this package."""
    size: int
    """Unpacked size in bytes, as declared in the zip."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The contents of an episode bundle, which stay in its file until they are asked for."""

    path: Path
    episode_id: str
    """`ereq_<uuid>`, or the run id of a local episode."""
    status: str
    """`success` or `failed`."""
    files: tuple[BundleFile, ...]
    """By part and slot."""
    manifest: Mapping[str, Any] = field(repr=False)
    """The parsed `manifest.json`."""
    limit: int = field(default=BUNDLE_LIMIT, repr=False)
    """Maximum unpacked size in bytes."""
    error: type[CoworldError] = field(default=BundleError, repr=False)
    """The class of errors for a bundle that is not valid."""

    def file(self, token: str, key: str | None = None) -> BundleFile | None:
        """The file of a part, or the first of its files if no key is given; None if it was not delivered."""
        return next((file for file in self.files if file.token == token and key in (None, file.key)), None)

    def pieces(self, file: BundleFile) -> Iterator[bytes]:
        """Unpack a file piece by piece.

        Raises:
            CoworldError: The bundle is not valid any more, or the file is damaged.
        """
        with _opened(self.path, self.limit, self.error) as archive:
            if file.entry not in archive.entries:
                raise archive.refuse(f"its entry {file.entry[:120]!r} is gone", "unreadable")
            yield from archive.pieces(file.entry)

    def extract(self, file: BundleFile, target: Path, *, pause: Callable[[], object] | None = None) -> None:
        """Unpack a file to a path, where nothing may be yet.

        Args:
            file: The file.
            target: The path.
            pause: Called between pieces; may raise to stop early.

        Raises:
            CoworldError: The bundle is not valid any more, or the file is damaged.
            OSError: The path cannot be written.
        """
        with _opened(self.path, self.limit, self.error) as archive:
            archive.extract({file.entry: target.name}, target.parent, pause=pause)


# --- writing ------------------------------------------------------------------------------------------------------


def pack_bundle(plan: BundlePlan[Pieces]) -> Iterator[bytes]:
    """Generate the bytes of a bundle; memory does not grow with its size, and the same content gives the same bytes.

    Args:
        plan: What it contains.
    """
    ready: list[bytes] = []
    with ZipWriter(ready.append) as archive:
        for name, content in plan.documents:
            archive.add(name, content)
        for item in plan.items:
            with archive.entry(item.name, compress=item.compress) as file:
                for piece in item.source():
                    file.write(piece)
                    yield b"".join(ready)
                    ready.clear()
    yield b"".join(ready)


# --- reading ------------------------------------------------------------------------------------------------------


def is_bundle(path: Path) -> bool:
    """Whether a file is a bundle, perhaps a damaged one, and not another zip or any other file.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_NAME_AT + len(BUNDLE_MANIFEST))
    if not head.startswith(_LOCAL_HEADER):
        return False
    try:
        with _opened(path, BUNDLE_LIMIT, BundleError) as archive:
            found = BUNDLE_MANIFEST in archive.entries
            value: object = json.loads(archive.read(BUNDLE_MANIFEST, limit=_MAX_MANIFEST)) if found else None
    except (CoworldError, ValueError, RecursionError):
        # A download that was cut short has lost the list of its entries, which is at the end
        return head[_NAME_AT:] == BUNDLE_MANIFEST.encode()
    return isinstance(value, dict) and {"ereq_id", "files"} <= cast("dict[str, Any]", value).keys()


def read_bundle(
    path: Path, *, limit: int = BUNDLE_LIMIT, error: type[CoworldError] = BundleError, hint: str = BUNDLE_HINT
) -> Bundle:
    """Check a bundle and list its files. Those of the published platform are read, too.

    Args:
        path: The zip.
        limit: Maximum unpacked size in bytes.
        error: The class of errors to raise.
        hint: What to do about a bundle that is not valid.

    Raises:
        UsageError: There is no such file (`path_missing`).
        CoworldError: Of the given class: it is not a valid bundle, or is unsafe to unpack (`bundle_unreadable`,
            `bundle_name`, `bundle_bomb`, `bundle_too_large`); the message names the entry.
    """
    with _opened(path, limit, error, hint) as archive:
        return _checked(archive, limit, error)


def extract_bundle(
    path: Path,
    directory: Path,
    *,
    limit: int = BUNDLE_LIMIT,
    error: type[CoworldError] = BundleError,
    hint: str = BUNDLE_HINT,
    pause: Callable[[], object] | None = None,
) -> Bundle:
    """Extract a bundle: `manifest.json`, `results.json`, `replay`, `logs/…`, `artifacts/…`.

    Args:
        path: The zip.
        directory: The target directory; must not exist, and is created only if everything was extracted.
        limit: Maximum unpacked size in bytes.
        error: The class of errors to raise.
        hint: What to do about a bundle that is not valid.
        pause: Called between pieces; may raise to stop early.

    Raises:
        UsageError: There is no such file (`path_missing`), or the directory exists (`path_exists`).
        CoworldError: As for `read_bundle`, or the contents are damaged.
        OSError: The directory cannot be written.
    """
    with unpack_directory(directory) as place, _opened(path, limit, error, hint) as archive:
        bundle = _checked(archive, limit, error)
        names = {file.entry: file.name for file in bundle.files} | {BUNDLE_MANIFEST: BUNDLE_MANIFEST}
        archive.extract(names, place, pause=pause)
    return bundle


@contextlib.contextmanager
def unpack_directory(directory: Path) -> Generator[Path]:
    """A directory beside the target that becomes the target if all goes well, and else is removed.

    Raises:
        UsageError: The target exists (`path_exists`).
        OSError: It cannot be created.
    """
    if directory.exists():
        raise UsageError(f"{directory} already exists.", code="path_exists", hint="Name another directory.")
    directory.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{directory.name[:100]}.part-", dir=directory.parent))
    try:
        yield place
        place.chmod(0o755)
        place.rename(directory)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def items_of(bundle: Bundle) -> tuple[BundleItem[Pieces], ...]:
    """The files of a bundle, to make another of them."""

    def pieces(file: BundleFile) -> Pieces:
        return lambda: bundle.pieces(file)

    return tuple(BundleItem(part=file.token, key=file.key, source=pieces(file)) for file in bundle.files)


def _opened(
    path: Path, limit: int, error: type[CoworldError], hint: str = BUNDLE_HINT
) -> contextlib.AbstractContextManager[ZipReader]:
    return open_zip(path, limit=limit, what="bundle", error=error, hint=hint)


def _checked(archive: ZipReader, limit: int, error: type[CoworldError]) -> Bundle:
    if BUNDLE_MANIFEST not in archive.entries:
        raise archive.refuse(f"there is no {BUNDLE_MANIFEST} in it", "unreadable")
    document = parse_json(archive.read(BUNDLE_MANIFEST, limit=_MAX_MANIFEST), source=BUNDLE_MANIFEST)
    try:
        manifest = read_as(BundleManifest, document, what="manifest of a bundle")
    except RecordError as failure:
        issue = failure.report.issues[0]
        where = f" at {issue.pointer}" if issue.pointer else ""
        raise archive.refuse(
            f"its {BUNDLE_MANIFEST} is not valid{where}: {issue.message.rstrip('.')}", "unreadable"
        ) from None
    return Bundle(
        path=archive.path,
        episode_id=manifest.ereq_id,
        status=manifest.status,
        files=tuple(sorted(_files(archive, manifest), key=lambda file: order_in_bundle(file.token, file.key))),
        manifest=document.value,
        limit=limit,
        error=error,
    )


def _files(archive: ZipReader, manifest: BundleManifest) -> Iterator[BundleFile]:
    seen, taken = {BUNDLE_MANIFEST}, set[str]()
    for token, value in manifest.files.items():
        places: dict[str | None, str] = {None: value} if isinstance(value, str) else {**value}
        for key, entry in places.items():
            if entry not in archive.entries or archive.entries[entry].is_dir():
                what = f"{entry[:120]!r}, which its {BUNDLE_MANIFEST} names for {token[:40]!r}"
                raise archive.refuse(f"{what}, is not in it", "unreadable")
            name = target_name(token, key)
            if entry in taken:
                raise archive.refuse(f"its {BUNDLE_MANIFEST} names {entry[:120]!r} twice", "name")
            if name is None or name.casefold() in seen:
                words = " ".join(repr(word[:40]) for word in (token, key) if word is not None)
                raise archive.refuse(f"its {BUNDLE_MANIFEST} names {words}, which is not known or not once", "name")
            seen.add(name.casefold())
            # Otherwise a small bundle could be extracted to more than its size
            taken.add(entry)
            yield BundleFile(token=token, key=key, entry=entry, name=name, size=archive.entries[entry].file_size)
