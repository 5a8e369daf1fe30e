"""Backups: a directory with all data of an Observatory except its key, from any database and store.

The database is copied first, as one snapshot; then the files that its rows name, which never change. The server may
keep running meanwhile. A backup is itself a data directory, with SQLite and local artifacts, and can be restored to any
database and store.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.text import listed

from ..data_directory import locked_directory, prepare_directory
from ..services import Services, open_services
from ..settings import Settings, database_url
from ..store.audit import audit
from ..store.blobs import BlobStore, is_digest
from ..store.columns import JsonObject, now
from ..store.database import Database, newest_revision, open_database
from ..store.models import Artifact, Base, RegistryBlob, RegistryManifest, RoleRun, ServerRow, WorkerRow
from ..store.vault import Vault

__all__ = ["back_up", "restore"]

_NOTE = "backup.json"
"""Marks the directory as a complete backup; written last."""
_FORMAT = 1
_ROWS = 500
_WIDTH = 8
"""The number of files copied at a time."""


async def back_up(services: Services, to: Path, *, replace: bool = False) -> JsonObject:
    """Copy all data of an Observatory except its key; the server may keep running.

    Args:
        services: The Observatory.
        to: A directory that does not exist or is empty; it appears once the backup is complete.
        replace: Whether an earlier backup in the directory may be replaced.

    Returns:
        The content of the backup: `rows`, `images` (blobs), `artifacts`, and the keys of those that are `missing` from
        the store.

    Raises:
        UsageError: The directory is not empty (code `not_empty`), or it is to be replaced and holds something else
            than a backup (`no_backup`).
    """
    if not replace:
        _require_empty(to, "Name another directory, or say --replace.")
    else:
        await anyio.to_thread.run_sync(_require_backup, to)
    part = prepare_directory(to.with_name(f".{to.name}.part"))
    try:
        here = Settings(data=part)
        async with open_database(here.database_url) as copy:
            await copy.upgrade()
            rows = await _copy_rows(services.database, copy)
            digests, keys = await _files(copy)
        blobs = [BlobStore.key(digest) for digest in digests]
        missing = await _copied([*blobs, *keys], lambda key: _fetch(services, key, part / "artifacts" / key))
        note: JsonObject = {
            "format": _FORMAT,
            "made_at": now().isoformat(),
            "observatory": metadata.version("observatory"),
            "revision": newest_revision(),
            "rows": rows,
            "images": len({*blobs}.difference(missing)),
            "artifacts": len({*keys}.difference(missing)),
            "missing": sorted(missing),
        }
        (part / _NOTE).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        await anyio.to_thread.run_sync(_put_in_place, part, to)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(part, ignore_errors=True))
        raise
    async with services.database.writing() as session:
        audit(session, "platform.backed_up", rows=rows, artifacts=note["artifacts"], missing=len(note["missing"]))
    return note


async def restore(source: Path, settings: Settings, *, replace: bool = False) -> JsonObject:
    """Restore a backup into a directory, database and store.

    Args:
        source: The backup.
        settings: The target; its key must exist.
        replace: Whether existing content may be replaced.

    Returns:
        The content of the backup, as from `back_up`.

    Raises:
        UsageError: The directory is not a backup (code `no_backup`), damaged (`backup_damaged`) or of a newer version
            (`newer_backup`), or the target is not empty (`not_empty`). Nothing was replaced then.
        EnvironmentFault: The key is missing or wrong, a server is running there, or a store cannot be reached.
    """
    note = await anyio.to_thread.run_sync(_read_note, source)
    hint = "Name another place, or say --replace: what is there is lost then."
    if not replace:
        _require_empty(settings.data, hint)
    async with _opened_copy(source) as copy:
        # A damaged backup, or another key, is found before anything is replaced
        await Vault.open(copy, settings.key_file)
    prepare_directory(settings.data)
    with locked_directory(settings.data):
        async with open_database(settings.database_url) as database:
            if await database.revision() is not None:
                if not replace:
                    raise UsageError("That database already contains an Observatory.", code="not_empty", hint=hint)
                await database.empty()
            else:
                # Without an Observatory, what has the name of its directories is somebody else's
                _require_empty(settings.uploads, "Name another place, or move that elsewhere first.")
            await database.upgrade()
            async with _opened_copy(source) as copy:
                await _copy_rows(copy, database)
                digests, keys = await _files(copy)
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(settings.uploads, ignore_errors=True))
        async with open_services(settings) as services:
            keys += [BlobStore.key(digest) for digest in digests]
            await _copied(keys, lambda key: _stored(services, key, source / "artifacts" / key))
            async with services.database.writing() as session:
                audit(session, "platform.restored", subject=f"backup of {note['made_at']}")
    return note


async def _copy_rows(source: Database, target: Database) -> int:
    """Copy all rows of one snapshot, replacing those inserted by migrations; returns their number."""
    engine, count = source.engine, 0
    if source.dialect == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    async with engine.connect() as reading, target.engine.execution_options(writing=True).begin() as writing:
        for table in Base.metadata.sorted_tables:
            await writing.execute(sa.delete(table))
            if table in (WorkerRow.__table__, ServerRow.__table__):
                continue  # Describes those of the source.
            found = await reading.stream(sa.select(table))
            async for rows in found.mappings().partitions(_ROWS):
                await writing.execute(sa.insert(table), [dict(row) for row in rows])
                count += len(rows)
    return count


async def _files(copy: Database) -> tuple[list[str], list[str]]:
    """Digests of blobs and keys of artifacts that the rows name."""
    async with copy.reading() as session:
        digests = await session.scalars(sa.union(sa.select(RegistryBlob.digest), sa.select(RegistryManifest.digest)))
        written = sa.select(RoleRun.output_key).where(RoleRun.output_key.is_not(None))
        keys = await session.scalars(sa.union_all(sa.select(Artifact.key), written))
        return list(digests), [str(key) for key in keys]


async def _copied(names: Iterable[str], copy: Callable[[str], Awaitable[None]]) -> list[str]:
    """Copy named files, several at a time; returns the missing ones, which were removed since or lost before."""
    missing: list[str] = []
    limit = anyio.Semaphore(_WIDTH)

    async def one(name: str) -> None:
        try:
            await copy(name)
        except FileNotFoundError:
            missing.append(name)
        finally:
            limit.release()

    async with anyio.create_task_group() as group:
        for name in names:
            await limit.acquire()
            group.start_soon(one, name)
    return missing


async def _fetch(services: Services, key: str, to: Path) -> None:
    to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    await services.artifacts.fetch(key, to)


async def _stored(services: Services, key: str, source: Path) -> None:
    await services.artifacts.put(key, source)


@asynccontextmanager
async def _opened_copy(source: Path) -> AsyncGenerator[Database]:
    """An upgraded copy of a backup's database; the backup itself is not changed.

    Raises:
        UsageError: It is not what was backed up (code `backup_damaged`).
    """
    with tempfile.TemporaryDirectory(prefix="observatory-restore-") as directory:
        place = Settings(data=Path(directory))
        name = Path(place.database_url.partition(":///")[2]).name
        async with open_database(database_url(None, Path(directory))) as copy:
            try:
                await anyio.to_thread.run_sync(shutil.copy2, source / name, Path(directory) / name)
                await copy.upgrade()
                await _check(copy)
            except (SQLAlchemyError, EnvironmentFault, OSError, ValueError, LookupError, TypeError) as error:
                raise UsageError(
                    f"The database in {source} is damaged, or was changed after the backup: "
                    f"{str(error).partition(chr(10))[0][:200]}",
                    code="backup_damaged",
                    hint="Restore another backup.",
                ) from error
            yield copy


async def _check(copy: Database) -> None:
    """Read every row of a backup once.

    Raises:
        ValueError: A row names a file that no Observatory would have written.
    """
    async with copy.engine.connect() as reading:
        for table in Base.metadata.sorted_tables:
            async for _ in (await reading.stream(sa.select(table))).partitions(_ROWS):
                pass
    digests, keys = await _files(copy)
    for name in (*(digest for digest in digests if not is_digest(digest)), *(key for key in keys if not _is_key(key))):
        raise ValueError(f"{name[:80]!r} is the name of no file of a backup")


def _is_key(key: str) -> bool:
    return bool(key) and not key.startswith("/") and "\\" not in key and not {"", ".", ".."} & set(key.split("/"))


def _read_note(source: Path) -> JsonObject:
    try:
        note = cast("JsonObject", json.loads((source / _NOTE).read_text(encoding="utf-8")))
        made, revision, _ = note["format"], str(note["revision"]), str(note["made_at"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "Name a directory that `observatory backup` has made."
        raise UsageError(f"{source} is not a backup: {error}.", code="no_backup", hint=hint) from error
    if made != _FORMAT or revision > newest_revision():
        raise UsageError(
            f"{source} was made by a newer Observatory, {note.get('observatory')}.",
            code="newer_backup",
            hint="Upgrade this Observatory first.",
        )
    return note


def _require_empty(directory: Path, hint: str) -> None:
    """Require that a directory is missing or empty.

    Raises:
        UsageError: It is not (code `not_empty`).
    """
    if directory.exists() and (
        not directory.is_dir() or any(path.name != "server.lock" for path in directory.iterdir())
    ):
        raise UsageError(f"{directory} is not empty.", code="not_empty", hint=hint)


def _require_backup(directory: Path) -> None:
    """Require that a directory is missing or empty, or holds a backup and nothing else.

    Raises:
        UsageError: It does not (code `no_backup`).
    """
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    _read_note(directory)
    here = Settings(data=directory)
    known = {_NOTE, "artifacts"}
    database = Path(here.database_url.partition(":///")[2]).name
    foreign = sorted(path.name for path in directory.iterdir() if path.name not in known)
    foreign = [name for name in foreign if not name.startswith(database)]
    if foreign:
        raise UsageError(
            f"{directory} contains more than a backup: {listed(foreign[:3])}. Nothing was removed.",
            code="no_backup",
            hint="Name another directory, or move that elsewhere first.",
        )


def _put_in_place(part: Path, to: Path) -> None:
    if to.exists():
        shutil.rmtree(to)
    part.rename(to)
