"""The place that a run's driver and its pods share: a directory, S3 and what speaks it, Google's or Azure's storage.

Nothing but whole objects is read and written, and some of them can be created once: that is all of the agreement
between processes that may die at any time. `obstore` reaches the storage, signs and retries.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from coworld_core.errors import BackendUnavailable, EnvironmentFault, RecordError, UsageError
from coworld_core.files.regular import MAX_FILE
from coworld_core.hints import Hint
from coworld_core.issues import Issue, Report
from coworld_core.text.size_text import shown_size
from coworld_core.text.urls import shown_url

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

__all__ = ["JobStore", "StoredObject", "store_environment"]

_T = TypeVar("_T")

_AWAY = dt.timedelta(minutes=5)
"""How long the storage may be away before a call fails."""
_MOST_CELLS = 1000
_PAUSE = dt.timedelta(seconds=5)

_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TENANT_ID",
)
"""Variables with which storage is reached; the pods of a run get those that its driver has."""


@dataclass(frozen=True)
class StoredObject:
    """An object as it is listed."""

    name: str
    size: int
    """Bytes."""
    tag: str
    """Changes whenever the object is written."""
    changed: dt.datetime
    """When it was written last, by the storage's clock."""


class JobStore:
    """The objects of one run, by name.

    Args:
        url: A directory, or `s3://BUCKET/PREFIX`, `gs://…`, `az://…`; credentials are those of the usual variables.

    Raises:
        UsageError: There is no such kind of storage.
        BackendUnavailable: The library for it is not installed.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        self._store = _opened(self.url)

    def __str__(self) -> str:
        return shown_url(self.url) if "://" in self.url else self.url

    async def create(self, name: str, data: bytes) -> bool:
        """Write an object, unless there is one of that name; whether it was written.

        A call that was cut off may have been carried out, so one who finds an object there may have written it.
        """
        from obstore.exceptions import AlreadyExistsError

        try:
            await self._reached(self._store.put_async(name, data, mode="create"))
        except AlreadyExistsError:
            return False
        return True

    async def put(self, name: str, data: bytes | Path) -> None:
        """Write an object, in place of one of that name."""
        await self._reached(self._store.put_async(name, data))

    async def get(self, name: str, *, most: int = MAX_FILE) -> bytes | None:
        """Read an object; None if there is none.

        Raises:
            RecordError: It has more than `most` bytes.
        """
        try:
            found = await self._reached(self._store.get_async(name))
            if (size := found.meta["size"]) > most:
                why = f"it has {shown_size(size)}, and at most {shown_size(most)} are read"
                raise self.wrong(name, why)
            return bytes(await self._reached(found.bytes_async()))
        except FileNotFoundError:
            return None

    async def delete(self, name: str) -> None:
        """Remove an object, if there is one."""
        try:
            await self._reached(self._store.delete_async(name))
        except FileNotFoundError:
            return

    async def list(self, prefix: str, *, after: str = "") -> list[StoredObject]:
        """The objects below a prefix, in the order of their names.

        Args:
            prefix: Whole parts of names.
            after: Leave out names up to this one.
        """
        from obstore.exceptions import InvalidPathError

        pages = self._store.list(prefix, offset=after or None)
        try:
            rows = await self._reached(pages.collect_async())
        except InvalidPathError as error:
            raise self.wrong(prefix, f"a name below it leads elsewhere ({_first_line(error)})") from error
        return _stored(rows)

    async def top(self) -> tuple[dict[str, StoredObject], list[str]]:
        """The objects right in the store, by name, and the names below which there are others, sorted."""
        found = await self._reached(self._store.list_with_delimiter_async())
        return {one.name: one for one in _stored(found["objects"])}, sorted(found["common_prefixes"])

    def below(self, name: str) -> JobStore:
        """The store at a name right below this one."""
        return JobStore(f"{self.url.rstrip('/')}/{name}")

    async def cells(self) -> dict[str, JobStore]:
        """What may be stores of runs right below this one, by their names, which are plain parts of paths, sorted."""
        _, names = await self.top()
        plain = [name for name in names if name.isprintable() and name[0] != "." and not {*name} & {"/", "\\"}]
        return {name: self.below(name) for name in plain[:_MOST_CELLS]}

    def wrong(self, name: str, why: str) -> RecordError:
        """The error for an object that is not what this run has written."""
        report = Report(source=f"{self}/{name}", issues=(Issue(code="store_foreign", message=why, pointer=""),))
        return RecordError(
            report, code="store_foreign", hint="Somebody else writes there too: give the run a place of its own."
        )

    async def _reached(self, call: Awaitable[_T]) -> _T:
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            InvalidPathError,
            PermissionDeniedError,
            UnauthenticatedError,
        )

        try:
            return await call
        except (AlreadyExistsError, InvalidPathError, FileNotFoundError):
            raise
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
            raise EnvironmentFault(
                f"{self} denies access: {_first_line(error)}",
                code="store_denied",
                hint="Check the credentials in the environment, and what they allow.",
            ) from error
        except (BaseError, OSError) as error:
            raise EnvironmentFault(
                f"{self} does not answer: {_first_line(error)}",
                code="store_unreachable",
                hint="What was played is kept. Run the same command again once it is there.",
            ) from error


def _stored(rows: Sequence[ObjectMeta]) -> list[StoredObject]:
    found = [
        StoredObject(row["path"], row["size"], f"{row['e_tag']} {row['last_modified']}", row["last_modified"])
        for row in rows
    ]
    return sorted(found, key=lambda one: one.name)


def store_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What of an environment reaches the storage."""
    return {name: environ[name] for name in _VARIABLES if environ.get(name)}


def _opened(url: str) -> ObjectStore:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url
    except ImportError as error:
        raise BackendUnavailable(
            "Storage that pods share needs the library obstore, which is not installed.",
            code="library_missing",
            hint=Hint("install_jobs", "Install it with: pip install 'coworld-runner[jobs]'"),
        ) from error
    if "://" not in url:
        return LocalStore(Path(url).expanduser().absolute(), mkdir=True)
    if url.startswith("file://"):
        return LocalStore(Path(url.removeprefix("file://")), mkdir=True)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    on_s3 = url.startswith(("s3://", "s3a://"))
    try:
        return from_url(
            url,
            # A storage of one's own is often reached without TLS
            client_options={"allow_http": True} if on_s3 and endpoint.startswith("http://") else None,
            retry_config={
                "max_retries": 100,
                "retry_timeout": _AWAY,
                "backoff": {"max_backoff": dt.timedelta(seconds=5)},
            },
            **({"endpoint": endpoint} if on_s3 and endpoint else {}),
        )
    except (BaseError, ValueError) as error:
        raise UsageError(
            f"{shown_url(url)} cannot be used as a store: {_first_line(error)}",
            code="bad_store",
            hint="Name a directory, or something like s3://BUCKET/PREFIX.",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
