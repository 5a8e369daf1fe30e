"""Artifacts: bytes under a key, on the disk or wherever fsspec reaches, there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import anyio
import anyio.to_thread
import fsspec  # pyright: ignore[reportMissingTypeStubs]

from coworld_core.errors import EnvironmentFault

from .settings import prepare_directory

__all__ = ["ArtifactStore", "StoredObject", "artifact_store"]

CHUNK = 256 * 1024
"""Bytes read or written at a time."""


@dataclass(frozen=True)
class StoredObject:
    """What was stored."""

    key: str
    size: int
    """In bytes."""
    sha256: str
    """In hexadecimal."""


class ArtifactStore:
    """A place for bytes.

    On the local disk a file is written beside its place and renamed; elsewhere the place itself makes a whole upload
    visible at its end, as S3 does.

    Args:
        filesystem: fsspec's file system.
        root: Prefix of all keys in it.
        url: What was configured, for messages.
    """

    def __init__(self, filesystem: Any, root: str, url: str) -> None:
        self._fs = filesystem
        self._root = root.rstrip("/")
        self.url = url
        self.local = "file" in _protocols(filesystem)

    async def put(self, key: str, content: bytes | Path) -> StoredObject:
        """Store bytes, or the content of a file, in the place of what was there."""
        return await anyio.to_thread.run_sync(self._put, key, content)

    async def get(self, key: str) -> bytes:
        """All bytes under a key.

        Raises:
            FileNotFoundError: When there is nothing.
        """
        return cast("bytes", await anyio.to_thread.run_sync(self._fs.cat_file, self._path(key)))

    async def size(self, key: str) -> int:
        """How many bytes there are under a key.

        Raises:
            FileNotFoundError: When there is nothing.
        """
        return int(await anyio.to_thread.run_sync(self._fs.size, self._path(key)))

    @asynccontextmanager
    async def reading(
        self, key: str, *, start: int = 0, stop: int | None = None
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The bytes under a key from ``start`` to before ``stop``, in chunks.

        Raises:
            FileNotFoundError: When there is nothing.
        """
        file = await anyio.to_thread.run_sync(self._open, key, start)
        try:
            yield _chunks(file, None if stop is None else stop - start)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(file.close)

    async def delete(self, keys: Iterable[str]) -> None:
        """Forget what is under some keys; what is not there is forgotten already."""
        await anyio.to_thread.run_sync(self._delete, list(keys))

    async def forget(self, prefix: str) -> None:
        """Forget everything below a prefix; that there is nothing is as good."""
        await anyio.to_thread.run_sync(self._forget, prefix)

    async def check(self) -> None:
        """Write, read and forget a few bytes.

        Raises:
            EnvironmentFault: When that does not work (code ``artifacts_unreachable``).
        """
        key, content = f".check-{secrets.token_hex(6)}", b"observatory"
        try:
            await self.put(key, content)
            same = await self.get(key) == content
            await self.delete([key])
        except Exception as error:
            raise EnvironmentFault(
                f"Artifacts cannot be kept at {self.url}: {error}.",
                code="artifacts_unreachable",
                hint="Check that it exists and that this user may write there.",
            ) from error
        if not same:
            raise EnvironmentFault(f"{self.url} gave back other bytes.", code="artifacts_unreachable")

    def _path(self, key: str) -> str:
        # keys are made by us from ids; this holds even if one were not
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

    def _open(self, key: str, start: int) -> IO[bytes]:
        file = cast("IO[bytes]", self._fs.open(self._path(key), "rb"))
        if start:
            file.seek(start)
        return file

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
    """The store an fsspec URL means; directories of the local disk are made, private.

    Raises:
        EnvironmentFault: For a URL fsspec does not know, or whose driver is not installed (code ``bad_artifacts_url``).
    """
    try:
        filesystem, root = cast("tuple[Any, str]", fsspec.core.url_to_fs(url))  # pyright: ignore[reportUnknownMemberType]
    except (ImportError, ValueError) as error:
        raise EnvironmentFault(
            f"{url} is no place for artifacts: {error}.",
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


async def _chunks(file: IO[bytes], left: int | None) -> AsyncIterator[bytes]:
    while left is None or left > 0:
        chunk = await anyio.to_thread.run_sync(file.read, CHUNK if left is None else min(CHUNK, left))
        if not chunk:
            return
        if left is not None:
            left -= len(chunk)
        yield chunk
