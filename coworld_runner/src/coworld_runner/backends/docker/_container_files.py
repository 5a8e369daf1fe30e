"""Reads files that a container created as another user through the engine, and makes its directories removable.

Root in a container is root outside. If the runner is not root, it cannot read such files with mode 0600 or empty such
directories. The engine can do both, and needs nothing from the image.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.docker_address import EngineGone, EngineRefused
from coworld_core.errors import TransferError

from ...runs._unit_files import check_size, not_regular, not_written, write_sparse
from ._engine import Engine, path_segment

__all__ = ["fetch_archived", "hand_back", "read_head"]

_BLOCK = 512
_AT_ONCE = 1000
"""How many directories of other users one call makes accessible."""
_LONGEST = 2000
"""Bytes of a name below the unit's directory that the engine accepts, wherever it keeps that directory."""
_SECONDS = 20.0
"""How long making directories accessible may take."""


async def fetch_archived(
    engine: Engine, container: str, mount: str, name: str, target: Path, *, limit: int | None
) -> int:
    """Copy one regular file out of a container atomically, whatever its permissions.

    Raises:
        FileNotFoundError: There is no such file.
        TransferError: It is not a regular file, is larger than `limit` bytes, or could not be copied.
    """
    context: dict[str, object] = {"name": name, "target": str(target)}
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        # Opened first: inside the stream, an OSError would be taken for one of the engine's connection
        async with (
            await anyio.open_file(part, "xb", buffering=0) as file,
            engine.stream(
                "GET", f"/containers/{path_segment(container)}/archive", query={"path": f"{mount}/{name}"}
            ) as answer,
        ):
            archive = _Blocks(answer)
            size = await _regular_size(archive, context)
            check_size(size, limit, context)
            left = size
            while left:
                data = await archive.some(left)
                left -= len(data)
                try:
                    await anyio.to_thread.run_sync(write_sparse, file.wrapped.fileno(), data)
                except OSError as error:
                    raise not_written(error, context) from error
        part.replace(target)
    except EngineRefused as error:
        if error.status == 404:
            raise FileNotFoundError(f"{name} is not in the unit's directory.") from error
        raise TransferError(f"{name} cannot be read: {error.server_message}", context=context) from error
    except EngineGone as error:
        raise TransferError(
            f"{name} cannot be read: {error.server_message}", code="transfer_lost", context=context
        ) from error
    except OSError as error:
        raise not_written(error, context) from error
    finally:
        part.unlink(missing_ok=True)
    return size


async def read_head(engine: Engine, container: str, path: str, count: int) -> bytes:
    """Read the first bytes of a regular file in a container; empty if it is something else.

    Raises:
        EngineRefused: There is no such file.
        EngineGone: There is no answer.
    """
    query = {"path": path}
    async with engine.stream("GET", f"/containers/{path_segment(container)}/archive", query=query) as answer:
        archive = _Blocks(answer)
        try:
            size = await _regular_size(archive, {})
        except TransferError:
            return b""
        return await archive.exactly(min(size, count))


class _Blocks:
    """Reads a stream in pieces of a given size."""

    def __init__(self, source: AsyncIterator[bytes]) -> None:
        self._source = source
        self._rest = b""

    async def some(self, most: int) -> bytes:
        """Read at least one byte and at most `most`."""
        if not self._rest:
            try:
                self._rest = await anext(self._source)
            except StopAsyncIteration:
                raise EngineGone("GET archive", "the copy broke off") from None
        data, self._rest = self._rest[:most], self._rest[most:]
        return data

    async def exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            parts.append(await self.some(count))
            count -= len(parts[-1])
        return b"".join(parts)


async def _regular_size(archive: _Blocks, context: dict[str, object]) -> int:
    """Read up to the beginning of the file's content; return its size."""
    while True:
        header = tarfile.TarInfo.frombuf(await archive.exactly(_BLOCK), "utf-8", "surrogateescape")
        if header.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME):
            # Skip headers with times and long names
            await archive.exactly((header.size + _BLOCK - 1) // _BLOCK * _BLOCK)
            continue
        if not header.isreg():
            raise not_regular(context)
        return header.size


async def hand_back(engine: Engine, container: str, directory: Path, mount: str) -> None:
    """Make directories that the container created in the unit's directory removable by the runner's user.

    The engine unpacks an archive of nothing but directories over the existing ones, which sets their mode and owner.
    It accepts names up to a length, so deeper directories are moved up once they are accessible. Directories that are
    not done in time stay, and the failure to remove them is reported later.
    """
    if not hasattr(os, "getuid") or os.getuid() == 0:
        return
    opened: set[str] = set()
    with anyio.move_on_after(_SECONDS):
        while foreign := await anyio.to_thread.run_sync(_foreign, directory, opened):
            opened.update(foreign)
            try:
                async with engine.stream(
                    "PUT",
                    f"/containers/{path_segment(container)}/archive",
                    query={"path": mount},
                    content=_directories(foreign),
                ):
                    pass
            except (EngineRefused, EngineGone):
                return


def _foreign(directory: Path, opened: set[str]) -> list[str]:
    """List visible directories below that belong to other users, except those in `opened`."""
    found: list[str] = []
    try:
        top = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return found
    try:
        ahead = ["."]
        while ahead and len(found) < _AT_ONCE:
            _look_into(ahead.pop(), top, ahead, found, opened)
    finally:
        os.close(top)
    return found


def _look_into(name: str, top: int, ahead: list[str], found: list[str], opened: set[str]) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
        try:
            with os.scandir(descriptor) as entries:
                below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            for each in below:
                path = each if name == "." else f"{name}/{each}"
                status = os.stat(each, dir_fd=descriptor, follow_symlinks=False)
                length = len(os.fsencode(path))
                if status.st_uid != os.getuid() and path not in opened:
                    if length > _LONGEST:
                        continue  # Retried once a directory above it has been moved up
                    found.append(path)
                elif length > _LONGEST // 2:
                    up = f".deep-{secrets.token_hex(8)}"
                    os.rename(each, up, src_dir_fd=descriptor, dst_dir_fd=top)
                    opened.add(up)
                    path = up
                ahead.append(path)
        finally:
            os.close(descriptor)


def _directories(names: list[str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o777
            entry.uid, entry.gid = os.getuid(), os.getgid()
            archive.addfile(entry)
    return content.getvalue()
