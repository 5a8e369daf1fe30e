"""The registry's files: blobs by digest, and uploads that survive a dropped connection or a restart.

`registry/sha256/ab/abcd…` in the store of artifacts are complete and verified: an upload moves there once its digest is
right and its bytes are on the disk. `<id>/` in a directory are this server's unfinished uploads, removed after a day
without progress.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio
import anyio.to_thread

from ..data_directory import prepare_directory
from .artifacts import ArtifactStore
from .unpacked_size import UnpackedSize

if TYPE_CHECKING:
    from hashlib import _Hash  # pyright: ignore[reportPrivateUsage]

__all__ = ["BlobStore", "DigestMismatch", "NoRoom", "TooLarge", "Upload", "is_digest"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_UPLOAD = re.compile(r"[0-9a-f]{48}", re.ASCII)
_CHUNK = 1024 * 1024
_PREFIX = "registry/sha256"
_STALE_SECONDS = 24 * 3600
MAX_UNFINISHED = 64
"""Unfinished uploads of one owner; engines push up to ten layers of an image at a time."""


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 digest in the notation of registries."""
    return _DIGEST.fullmatch(text) is not None


class DigestMismatch(Exception):
    """The received bytes do not have the announced digest."""


class NoRoom(Exception):
    """More bytes were received than the owner may store."""


class TooLarge(Exception):
    """One upload has more bytes than allowed."""


@dataclass
class Upload:
    """An unfinished upload of a blob."""

    id: str
    repository: str
    directory: Path
    size: int = 0
    """Bytes received so far."""
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    digest: _Hash | None = None
    """Hash of the received bytes, if this process received all of them."""
    unpacked: UnpackedSize = field(default_factory=UnpackedSize)
    """What they are when they are unpacked, under the same condition."""

    @property
    def counted(self) -> int:
        """The bytes that it takes, unpacked if that is more."""
        return max(self.size, self.unpacked.counted)

    @property
    def owner(self) -> str:
        """The owner: the first part of the repository."""
        return self.repository.partition("/")[0]

    @property
    def data(self) -> Path:
        """The file of the received bytes."""
        return self.directory / "data"


class BlobStore:
    """Blobs in a store, and uploads in a directory.

    Args:
        artifacts: The store of all servers.
        uploads: The directory of this one.
        server_id: With what the ids of its uploads begin, 16 hexadecimal digits.
    """

    def __init__(self, artifacts: ArtifactStore, uploads: Path, server_id: str) -> None:
        self.server_id = server_id
        self._artifacts = artifacts
        self._uploads = prepare_directory(uploads)
        self._open: dict[str, Upload] = {}
        for directory in sorted(self._uploads.iterdir(), key=lambda one: one.stat().st_mtime):
            self._load(directory)

    @staticmethod
    def key(digest: str) -> str:
        """The key of a blob in the store, whether or not it exists.

        Raises:
            ValueError: The text is not a digest.
        """
        if not is_digest(digest):
            raise ValueError(f"not a digest: {digest!r}")
        name = digest.removeprefix("sha256:")
        return f"{_PREFIX}/{name[:2]}/{name}"

    async def size(self, digest: str) -> int | None:
        """A blob's size in bytes, or None if it does not exist."""
        try:
            return await self._artifacts.size(self.key(digest))
        except FileNotFoundError:
            return None

    async def is_stale(self, digest: str) -> bool:
        """Whether a blob was stored more than a day ago; one that is being pushed is not."""
        try:
            return await self._artifacts.age(self.key(digest)) > _STALE_SECONDS
        except FileNotFoundError:
            return False

    async def forget(self, digest: str) -> int | None:
        """Remove a stale blob; returns its size, or None if it is not, or has gone.

        Only within a transaction that writes and finds no row that names it: nobody can begin to use it then.
        """
        size = await self.size(digest)
        if size is None or not await self.is_stale(digest):
            return None
        await self._artifacts.delete([self.key(digest)])
        return size

    async def digests(self) -> list[str]:
        """The digests of all blobs."""
        names = [f"sha256:{key.rpartition('/')[2]}" for key in await self._artifacts.keys(_PREFIX)]
        return [name for name in names if is_digest(name)]

    async def put(self, content: bytes) -> str:
        """Store a few bytes, which are not stale from then on; returns their digest."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        await self._artifacts.put(self.key(digest), content)
        return digest

    async def read(self, digest: str) -> bytes:
        """A small blob's bytes.

        Raises:
            FileNotFoundError: The blob does not exist.
        """
        return await self._artifacts.get(self.key(digest))

    async def start(self, repository: str) -> Upload:
        """Start an upload into a repository, instead of the owner's idle ones that are too many, oldest first.

        Raises:
            NoRoom: As many are receiving bytes at the moment.
        """
        mine = [upload for upload in self._open.values() if upload.owner == repository.partition("/")[0]]
        idle = (upload for upload in mine if not upload.lock.locked())
        for _ in range(len(mine) - MAX_UNFINISHED + 1):
            if (oldest := next(idle, None)) is None:
                raise NoRoom
            async with oldest.lock:
                await self.cancel(oldest)
        name = f"{self.server_id}{secrets.token_hex(16)}"
        upload = Upload(id=name, repository=repository, directory=self._uploads / name, digest=hashlib.sha256())

        def make() -> None:
            upload.directory.mkdir(mode=0o700)
            (upload.directory / "repository").write_text(repository, encoding="utf-8")
            upload.data.touch(mode=0o600)

        await anyio.to_thread.run_sync(make)
        self._open[name] = upload
        return upload

    def find(self, name: str, repository: str) -> Upload | None:
        """Find an upload by id, including one from before a restart; None if this repository has none."""
        if not _UPLOAD.fullmatch(name):
            return None
        upload = self._open.get(name)
        if upload is None:
            upload = self._load(self._uploads / name)
        return upload if upload is not None and upload.repository == repository else None

    def unfinished(self, owner: str) -> int:
        """The number of bytes in an owner's unfinished uploads, unpacked."""
        return sum(upload.counted for upload in self._open.values() if upload.owner == owner)

    def _load(self, directory: Path) -> Upload | None:
        try:
            repository = (directory / "repository").read_text(encoding="utf-8")
            upload = Upload(id=directory.name, repository=repository, directory=directory)
            upload.size = upload.data.stat().st_size
        except FileNotFoundError:
            return None
        self._open[directory.name] = upload
        return upload

    async def append(
        self, upload: Upload, chunks: AsyncIterator[bytes], *, room: int | None = None, most: int | None = None
    ) -> None:
        """Append received bytes to an upload; bytes received before a dropped connection are kept.

        The caller must hold the upload's lock.

        Args:
            upload: The upload.
            chunks: The bytes.
            room: The most bytes in all unfinished uploads of the owner, unpacked; None: no limit.
            most: The most bytes in this one, unpacked; None: no limit.

        Raises:
            NoRoom: There were more bytes than `room`. The upload is cancelled.
            TooLarge: There were more bytes than `most`. The upload is cancelled.
        """
        file = await anyio.open_file(upload.data, "r+b")
        try:
            await file.seek(upload.size)
            await file.truncate()
            async for chunk in chunks:
                left = None if room is None else room - self.unfinished(upload.owner) + upload.counted
                least = min((limit for limit in (left, most) if limit is not None), default=None)
                if not await anyio.to_thread.run_sync(_write, file.wrapped, upload, chunk, least):
                    await self.cancel(upload)
                    raise TooLarge if least == most else NoRoom
        finally:
            with anyio.CancelScope(shield=True):
                await file.aclose()

    async def finish(self, upload: Upload, digest: str, *, most: int | None = None) -> int:
        """Verify an upload and move it to the blobs, where it is not stale.

        The caller must hold the upload's lock. The upload is over in either case.

        Args:
            upload: The upload.
            digest: The digest that its bytes should have.
            most: The most bytes, unpacked; None: no limit.

        Returns:
            The bytes that it takes, unpacked if that is more.

        Raises:
            DigestMismatch: Its bytes do not have the digest.
            TooLarge: There are more bytes than `most`.
        """
        try:
            await anyio.to_thread.run_sync(_verify, upload, digest, most)
            await self._artifacts.adopt(self.key(digest), upload.data)
            return upload.counted
        finally:
            with anyio.CancelScope(shield=True):
                await self.cancel(upload)

    async def cancel(self, upload: Upload) -> None:
        """Discard an upload."""
        self._open.pop(upload.id, None)
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(upload.directory, ignore_errors=True))

    def sweep(self) -> int:
        """Discard uploads without progress for a day; returns their number."""
        swept = 0
        for directory in self._uploads.iterdir():
            try:
                age = time.time() - (directory / "data").stat().st_mtime
            except FileNotFoundError:
                age = time.time() - directory.stat().st_mtime
            if age > _STALE_SECONDS:
                self._open.pop(directory.name, None)
                shutil.rmtree(directory, ignore_errors=True)
                swept += 1
        return swept


def _verify(upload: Upload, digest: str, most: int | None) -> None:
    hashed = upload.digest
    with upload.data.open("rb+") as file:
        if hashed is None:
            hashed, upload.unpacked = hashlib.sha256(), UnpackedSize()
            while chunk := file.read(_CHUNK):
                hashed.update(chunk)
                if not upload.unpacked.add(chunk, most):
                    raise TooLarge
        if f"sha256:{hashed.hexdigest()}" != digest:
            raise DigestMismatch(f"{upload.size} bytes were received, with digest sha256:{hashed.hexdigest()}")


def _write(file: IO[bytes], upload: Upload, chunk: bytes, most: int | None) -> bool:
    """Write a chunk; False, without writing it, if the upload would become larger than `most`."""
    if upload.digest is None:
        fits = most is None or upload.size + len(chunk) <= most
    else:
        fits = upload.unpacked.add(chunk, most)
    if fits:
        file.write(chunk)
        upload.size += len(chunk)
        if upload.digest is not None:
            upload.digest.update(chunk)
    return fits
