"""Artifacts: bytes under a key, on the disk or in any store that fsspec supports. Writes are atomic."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import secrets
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import anyio
import anyio.to_thread
import fsspec  # pyright: ignore[reportMissingTypeStubs]

from coworld_core.errors import EnvironmentFault
from coworld_core.files import BROKEN_ZIP

from ..data_directory import prepare_directory

__all__ = ["ArtifactStore", "MemberTooLarge", "NoMember", "StoredObject", "artifact_store"]

CHUNK = 256 * 1024
"""Bytes read or written at a time."""

BLOCK = 4 * 1024 * 1024
"""Bytes per request to a remote store; the drivers' own block sizes are meant for reading whole files."""

T = TypeVar("T")


@dataclass(frozen=True)
class StoredObject:
    """The description of a stored artifact."""

    key: str
    size: int
    """In bytes."""
    sha256: str
    """In hexadecimal."""


class NoMember(Exception):
    """A stored zip has no such file, or cannot be read as a zip."""


class MemberTooLarge(Exception):
    """A file in a stored zip is too large."""


class ArtifactStore:
    """A store of artifacts.

    On the local disk a file is written under a temporary name and renamed. Elsewhere the store itself makes an upload
    visible only when it is complete, as S3 does. An unreachable store raises `OSError`, whichever driver is used.

    Args:
        filesystem: The fsspec file system.
        root: Prefix of all keys in it.
        url: The configured URL, for messages.
    """

    def __init__(self, filesystem: Any, root: str, url: str) -> None:
        self._fs = filesystem
        self._root = root.rstrip("/")
        self.url = url
        self.local = "file" in _protocols(filesystem)

    async def put(self, key: str, content: bytes | Path) -> StoredObject:
        """Store bytes or the content of a file, replacing an earlier value."""
        return await self._in_thread(self._put, key, content)

    async def adopt(self, key: str, path: Path) -> None:
        """Store the content of a file that is the caller's own, as new; on the same disk it is moved."""
        await self._in_thread(self._adopt, key, path)

    async def get(self, key: str) -> bytes:
        """All bytes under a key.

        Raises:
            FileNotFoundError: When there is nothing.
        """
        return cast("bytes", await self._in_thread(self._fs.cat_file, self._path(key)))

    async def fetch(self, key: str, to: Path) -> None:
        """Copy the bytes under a key into a file.

        Raises:
            FileNotFoundError: When there is nothing.
        """
        await self._in_thread(self._fs.get_file, self._path(key), str(to))

    async def size(self, key: str) -> int:
        """The number of bytes under a key.

        Raises:
            FileNotFoundError: When there is nothing.
        """
        return int(await self._in_thread(self._fs.size, self._path(key)))

    async def age(self, key: str) -> float:
        """Seconds since the bytes under a key were stored, by the store's clock.

        Raises:
            FileNotFoundError: When there is nothing.
        """
        stored = cast("dt.datetime", await self._in_thread(self._fs.modified, self._path(key)))
        return (dt.datetime.now(dt.UTC) - stored).total_seconds()

    async def keys(self, prefix: str) -> list[str]:
        """All keys below a prefix."""
        paths = cast("list[str]", await self._in_thread(self._fs.find, self._path(prefix)))
        return [path.removeprefix(f"{self._root}/") for path in paths]

    @asynccontextmanager
    async def reading(
        self, key: str, *, start: int = 0, stop: int | None = None
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The bytes under a key from `start` to before `stop`, in chunks.

        Raises:
            FileNotFoundError: When there is nothing.
        """
        file = await self._in_thread(self._open, key, start)
        try:
            yield self._chunks(file, None if stop is None else stop - start)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(file.close)

    async def member(self, key: str, name: str, *, limit: int) -> bytes:
        """Unpack one file of a stored zip; only the necessary parts of the zip are read.

        Raises:
            FileNotFoundError: There is nothing under the key.
            NoMember: It cannot be read as a zip, or has no file of that name.
            MemberTooLarge: The file has more than `limit` bytes, whatever size the zip declares.
        """
        return await self._in_thread(self._member, key, name, limit)

    async def members(self, key: str) -> frozenset[str]:
        """The names of the files in a stored zip.

        Raises:
            FileNotFoundError: There is nothing under the key.
            NoMember: It cannot be read as a zip.
        """
        return await self._in_thread(self._members, key)

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete the values of some keys; missing keys are ignored."""
        await self._in_thread(self._delete, list(keys))

    async def forget(self, prefix: str) -> None:
        """Delete everything below a prefix, if there is anything."""
        await self._in_thread(self._forget, prefix)

    async def check(self) -> None:
        """Write, read and delete a few bytes.

        Raises:
            EnvironmentFault: That fails (code `artifacts_unreachable`).
        """
        key, content = f".check-{secrets.token_hex(6)}", b"observatory"
        try:
            await self.put(key, content)
            same = await self.get(key) == content
            await self.delete([key])
        except Exception as error:
            raise EnvironmentFault(
                f"Artifacts cannot be stored at {self.url}: {error}.",
                code="artifacts_unreachable",
                hint="Check that it exists and that this user may write there.",
            ) from error
        if not same:
            raise EnvironmentFault(f"{self.url} returned different bytes.", code="artifacts_unreachable")

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        try:
            return await anyio.to_thread.run_sync(function, *arguments)
        except (OSError, ValueError, NoMember, MemberTooLarge):
            raise
        except Exception as error:
            raise OSError(f"{self.url} cannot be used: {error}") from error

    async def _chunks(self, file: IO[bytes], left: int | None) -> AsyncIterator[bytes]:
        while left is None or left > 0:
            chunk = await self._in_thread(file.read, CHUNK if left is None else min(CHUNK, left))
            if not chunk:
                return
            if left is not None:
                left -= len(chunk)
            yield chunk

    def _path(self, key: str) -> str:
        # Keys are made from ids; this check protects against one that is not.
        if not key or any(part in ("", ".", "..") for part in key.split("/")) or "\\" in key or "\0" in key:
            raise ValueError(f"not a key: {key!r}")
        return f"{self._root}/{key}"

    def _put(self, key: str, content: bytes | Path) -> StoredObject:
        path = self._path(key)
        if not self.local:
            with self._fs.open(path, "wb") as target:
                return _copy(content, target, key)
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = Path(f"{path}.part-{secrets.token_hex(6)}")
        try:
            with part.open("wb") as target:
                stored = _copy(content, target, key)
                target.flush()
                os.fsync(target.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return stored

    def _adopt(self, key: str, path: Path) -> None:
        if not self.local or Path(self._root).stat().st_dev != path.stat().st_dev:
            self._put(key, path)
            return
        target = Path(self._path(key))
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            os.utime(file.fileno())
        path.replace(target)
        directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _open(self, key: str, start: int) -> IO[bytes]:
        options = {} if self.local else {"block_size": BLOCK}
        file = cast("IO[bytes]", self._fs.open(self._path(key), "rb", **options))
        if start:
            file.seek(start)
        return file

    def _member(self, key: str, name: str, limit: int) -> bytes:
        with self._open(key, 0) as stored:
            try:
                with zipfile.ZipFile(stored) as archive, archive.open(name) as file:
                    content = file.read(limit + 1)
            except (KeyError, *BROKEN_ZIP) as error:
                # Encrypted, compressed with an unknown method, or malformed on purpose.
                raise NoMember(name) from error
        if len(content) > limit:
            raise MemberTooLarge(name)
        return content

    def _members(self, key: str) -> frozenset[str]:
        with self._open(key, 0) as stored:
            try:
                with zipfile.ZipFile(stored) as archive:
                    return frozenset(archive.namelist())
            except BROKEN_ZIP as error:
                raise NoMember(key) from error

    def _delete(self, keys: list[str]) -> None:
        for key in keys:
            try:
                self._fs.rm_file(self._path(key))
            except FileNotFoundError:
                continue

    def _forget(self, prefix: str) -> None:
        try:
            self._fs.rm(self._path(prefix), recursive=True)
        except FileNotFoundError:
            return


def artifact_store(url: str) -> ArtifactStore:
    """The store of an fsspec URL; local directories are created, readable by their owner only.

    Raises:
        EnvironmentFault: fsspec does not know the URL, or its driver is not installed (code `bad_artifacts_url`).
    """
    try:
        filesystem, root = cast("tuple[Any, str]", fsspec.core.url_to_fs(url, use_listings_cache=False))  # pyright: ignore[reportUnknownMemberType]
    except (ImportError, ValueError) as error:
        raise EnvironmentFault(
            f"{url} cannot store artifacts: {error}.",
            code="bad_artifacts_url",
            hint="Give a directory, or something like s3://BUCKET/PREFIX with the package's extra `s3` installed.",
        ) from error
    store = ArtifactStore(filesystem, root, url)
    if store.local:
        prepare_directory(Path(root))
    return store


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _copy(content: bytes | Path, target: IO[bytes], key: str) -> StoredObject:
    digest, size = hashlib.sha256(), 0
    for chunk in _pieces(content):
        digest.update(chunk)
        size += len(chunk)
        target.write(chunk)
    return StoredObject(key=key, size=size, sha256=digest.hexdigest())


def _pieces(content: bytes | Path) -> Iterable[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as source:
        while chunk := source.read(CHUNK):
            yield chunk
