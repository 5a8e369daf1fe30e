"""Talks to the collector in a pod: follows its reports, and copies files to and from it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread

from coworld_core.errors import BackendError, TransferError
from coworld_core.retries import Backoff, Tries

from ...runs._unit_files import LOGS, check_name, check_size, not_written, write_sparse
from ...web.http_requests import BROKEN, HttpAnswer, NotHttpError, exchange
from ._cluster import Cluster, ClusterGone, ClusterRefused

__all__ = ["Collector", "CollectorGone"]

_CALL_SECONDS = 20.0
_SILENCE = 20.0
"""Seconds without data after which a collector's stream counts as broken; it sends something every five seconds."""
_TIMEOUT = 30.0
"""Seconds for which a collector may be unreachable."""
_BACKOFF = Backoff(base=0.1, cap=1.5)
_PUT_BACKOFF = Backoff(base=2.0, cap=2.0)
_TRIES = 4
"""How often an upload, or the download of a file that keeps changing, is attempted."""
_BREAKS = 5
"""How often in a row a connection may break without delivering a byte."""
_CHUNK = 1 << 18


class CollectorGone(BackendError):
    """A pod's collector cannot be reached."""

    default_code = "transfer_lost"


class Collector:
    """The collector of one pod.

    Args:
        cluster: The pod's cluster.
        pod: The pod's name.
        port: The collector's port.
        token: The token that it requires.
    """

    def __init__(self, cluster: Cluster, pod: str, port: int, token: str) -> None:
        self._cluster = cluster
        self._pod = pod
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}"}

    @asynccontextmanager
    async def _ask(self, method: str, target: str, **more: Any) -> AsyncGenerator[HttpAnswer]:
        """Make one request.

        Raises:
            CollectorGone: It cannot be reached, or the connection broke.
        """
        try:
            async with exchange(
                lambda: self._cluster.forward(self._pod, self._port),
                method,
                target,
                host="collector",
                headers={**self._headers, **more.pop("headers", {})},
                **more,
            ) as answer:
                yield answer
        except CollectorGone:
            raise
        except (ClusterGone, ClusterRefused, *BROKEN) as error:
            raise CollectorGone(
                f"The collector of pod {self._pod} cannot be reached: {error or type(error).__name__}",
                hint="Its node or the API server does not answer, or the pod is gone.",
                context={"pod": self._pod},
            ) from error

    async def call(self, method: str, target: str, *, retry_timeout: float = _TIMEOUT, **more: Any) -> Any:
        """Make a small request, retrying while the collector is unreachable; returns its JSON.

        Raises:
            CollectorGone: It could not be reached within `retry_timeout` seconds, or refused.
        """
        tries = Tries(_BACKOFF, retry_timeout=retry_timeout, clock=anyio.current_time)
        while True:
            try:
                with anyio.fail_after(_CALL_SECONDS):
                    async with self._ask(method, target, **more) as answer:
                        content = json.loads(await answer.read(1 << 20))
                        if answer.status != 200:
                            raise CollectorGone(
                                f"The collector of pod {self._pod} refused {target}: {content.get('error')}",
                                context={"pod": self._pod, "status": answer.status},
                            )
                        return content
            except (CollectorGone, TimeoutError, ValueError) as error:
                refused = isinstance(error, CollectorGone) and "status" in error.context
                pause = tries.again() if not refused else None
                if pause is None:
                    if isinstance(error, CollectorGone):
                        raise
                    raise CollectorGone(
                        f"The collector of pod {self._pod} does not answer.", context={"pod": self._pod}
                    ) from error
            await anyio.sleep(pause)

    async def signal(self, name: str) -> int:
        """Send TERM to the unit's first process, or KILL to all; returns the number of processes."""
        answer = await self.call("POST", f"/signal?name={name}", retry_timeout=10)
        return int(answer["sent"])

    # --- observations

    async def lines(self, target: str, *, heard: Callable[[], object] | None = None) -> AsyncGenerator[dict[str, Any]]:
        """The objects of a stream of lines, until it ends or breaks. The caller must close the generator.

        Args:
            target: The path of the stream.
            heard: Called whenever something arrives, including keep-alives.

        Raises:
            CollectorGone: The stream broke.
        """
        async with self._ask("GET", target) as answer:
            rest = b""
            while True:
                try:
                    with anyio.fail_after(_SILENCE):
                        data = await anext(answer, b"")
                except TimeoutError as error:
                    raise NotHttpError("it fell silent") from error
                if not data:
                    return
                if heard is not None:
                    heard()
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    if line.strip():
                        yield json.loads(line)

    async def follow_written(self, note: Callable[[str], object]) -> None:
        """Report each file that a writer has closed, until the unit has ended and all files are reported.

        Raises:
            CollectorGone: It was unreachable for half a minute.
        """
        since = 0
        tries = Tries(_BACKOFF, retry_timeout=_TIMEOUT, clock=anyio.current_time)
        while True:
            try:
                stream = self.lines(f"/written?since={since}", heard=tries.got_further)
                async with contextlib.aclosing(stream) as lines:
                    async for line in lines:
                        if line.get("end"):
                            return
                        if line["number"] > since:
                            since = line["number"]
                            note(line["name"])
                raise CollectorGone(
                    f"The collector of pod {self._pod} stopped reporting files.", context={"pod": self._pod}
                )
            except CollectorGone:
                pause = tries.again()
                if pause is None:
                    raise
            await anyio.sleep(pause)

    async def until_ready(self, port: int, path: str, interval: float, note: Callable[[str, bool], object]) -> None:
        """Wait until the unit answers 200, reporting each observation, and whether the unit could be reached."""
        query = urlencode({"port": port, "path": path, "interval": interval})
        pauses = _BACKOFF.pauses()
        while True:
            try:
                async with contextlib.aclosing(self.lines(f"/ready?{query}")) as lines:
                    async for line in lines:
                        if line.get("status") == 200:
                            return
                        note(str(line["last"]), True)
            except CollectorGone as error:
                note(error.message, False)
            await anyio.sleep(next(pauses))

    # --- files

    async def left(self) -> tuple[str, ...]:
        """Names of the files that exist now.

        Raises:
            CollectorGone: It cannot be reached any more.
        """
        return tuple((await self.call("GET", "/left"))["names"])

    async def size(self, name: str) -> int | None:
        """Current size of a file in bytes; None if it does not exist."""
        try:
            with anyio.fail_after(_CALL_SECONDS):
                async with self._ask("GET", f"/size/{quote(name, safe='')}") as answer:
                    content = json.loads(await answer.read(1 << 16))
        except (CollectorGone, TimeoutError, ValueError):
            return None
        return content.get("size")

    async def put(self, name: str, path: Path) -> None:
        """Upload a file, before the unit starts.

        Args:
            name: Its path in the collector: `files/NAME` or `inputs/PATH`.
            path: The file.

        Raises:
            CollectorGone: It could not be uploaded.
        """
        size = (await anyio.Path(path).stat()).st_size
        digest = hashlib.sha256()

        async def content() -> AsyncGenerator[bytes]:
            async with await anyio.open_file(path, "rb") as file:
                while data := await file.read(_CHUNK):
                    digest.update(data)
                    yield data

        tries = Tries(_PUT_BACKOFF, most=_TRIES)
        while True:
            digest = hashlib.sha256()
            try:
                async with (
                    contextlib.aclosing(content()) as pieces,
                    self._ask(
                        "PUT",
                        f"/{quote(name)}",
                        content=pieces,
                        headers={"Content-Length": str(size)},
                    ) as answer,
                ):
                    said = json.loads(await answer.read(1 << 16))
                    if said.get("sha256") == digest.hexdigest():
                        return
                # The digest of what arrived differs
                raise CollectorGone(f"{name} could not be uploaded to pod {self._pod}.", context={"pod": self._pod})
            except (CollectorGone, ValueError):
                pause = tries.again()
                if pause is None:
                    raise
            await anyio.sleep(pause)

    async def fetch(self, name: str, target: Path, *, limit: int | None) -> int:
        """Copy a file out completely, checked against the collector's digest, or not at all.

        Returns:
            Its size in bytes.

        Raises:
            FileNotFoundError: There is no such file.
            TransferError: It is not a regular file, is larger than `limit` bytes, or could not be copied.
            CollectorGone: The collector cannot be reached any more.
        """
        check_name(name.removeprefix(LOGS))
        context: dict[str, object] = {"name": name, "target": str(target)}
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            for _ in range(_TRIES):
                size = await self._fetch_once(name, part, limit, context)
                if size is not None:
                    await anyio.to_thread.run_sync(part.replace, target)
                    return size
            raise TransferError(
                f"{name} was changed each time it was fetched.",
                hint="Write it once, or under another name that is renamed into place.",
                context=context,
            )
        finally:
            with contextlib.suppress(OSError):
                part.unlink()

    async def _fetch_once(self, name: str, part: Path, limit: int | None, context: Mapping[str, object]) -> int | None:
        """Copy a file, resuming broken connections; returns its size, or None if it has changed meanwhile."""
        digest = hashlib.sha256()
        copied = 0
        state: str | None = None
        size = 0
        tries = Tries(_BACKOFF, most=_BREAKS)
        refused: tuple[int, str] | None = None
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise not_written(error, context) from error
        try:
            while True:
                headers = {"Range": f"bytes={copied}-"} if copied else {}
                try:
                    async with self._ask("GET", f"/files/{quote(name, safe='')}", headers=headers) as answer:
                        if answer.status not in (200, 206):
                            refused = answer.status, str(json.loads(await answer.read(1 << 16)).get("error"))
                            break
                        if state not in (None, answer.headers.get("etag")):
                            return None
                        state = answer.headers.get("etag")
                        size = copied + int(answer.headers["content-length"])
                        check_size(size, limit, context)
                        while True:
                            with anyio.fail_after(_SILENCE):
                                data = await anext(answer, b"")
                            if not data:
                                break
                            digest.update(data)
                            copied += len(data)
                            failure = await anyio.to_thread.run_sync(_write, descriptor, data)
                            if failure is not None:
                                raise not_written(failure, context)
                            tries.got_further()
                    break
                except (CollectorGone, TimeoutError) as error:
                    pause = tries.again()
                    if pause is None:
                        raise CollectorGone(
                            f"{name} could not be fetched from pod {self._pod}: {error}.",
                            context={"pod": self._pod, "name": name},
                        ) from error
                if copied == size and state is not None:
                    break
                await anyio.sleep(pause)
        finally:
            os.close(descriptor)
        if refused is not None:
            raise _not_fetched(*refused, context)
        said = await self.call("GET", f"/digest/{quote(name, safe='')}")
        same = (said["sha256"], said["size"]) == (digest.hexdigest(), copied)
        return copied if same else None


def _write(descriptor: int, data: bytes) -> OSError | None:
    """Write all data; returns the error, so that it is not mistaken for one of the connection."""
    try:
        write_sparse(descriptor, data)
    except OSError as error:
        return error
    return None


def _not_fetched(status: int, reason: str, context: Mapping[str, object]) -> Exception:
    name = str(context["name"])
    if status == 404:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if status != 409:
        return TransferError(f"{name} is not fetched: {reason}.", code="transfer_lost", context=context)
    return TransferError(
        f"{name} is {reason}, so it is not fetched."
        if reason.startswith("not ")
        else f"{name} is not fetched: {reason}.",
        code="not_regular",
        hint="Write the file itself, readable for everyone; links, pipes and directories are not followed.",
        context=context,
    )
