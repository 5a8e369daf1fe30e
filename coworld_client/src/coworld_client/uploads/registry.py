"""Push an image with the OCI distribution protocol, skipping existing blobs and resuming interrupted uploads.

`docker push` cannot be used: it needs a login in the user's configuration, and newer versions ask for a tag in a way
that the platform's registry answers with 403.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import anyio

from coworld_core.errors import CoworldError, EnvironmentFault, unwrapped
from coworld_core.retries import Backoff, Tries, retry_after, says_later

from ..errors import ApiConnectionError, ApiError, ApiTimeoutError
from ..transport._bodies import whole_number
from .docker_images import Blob
from .packed_image import PackedImage

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import URL, AsyncBaseTransport, AsyncClient, Response

__all__ = ["Pushed", "Registry", "RegistryError", "RegistryTarget", "push_image"]

_TRIES = 6
_BACKOFF = Backoff(base=0.3, cap=20.0, longest_wait=300.0)
"""Uploads can be gigabytes, so waiting a few minutes for a retry is cheap."""
_PIECE = 1 << 20
_MAX_ANSWER = 64 << 10


class RegistryError(ApiError):
    """The registry refused, or its answers contradict themselves."""

    default_code = "registry_refused"


class _Passing(Exception):
    """A failure worth retrying, with the error to raise if it persists."""

    def __init__(self, error: ApiError, after: float | None = None, *, status: int | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.after = after
        self.status = status


@dataclass(frozen=True, kw_only=True)
class RegistryTarget:
    """The destination of an image."""

    base: str
    """`https://host[:port]`, or http for a registry on this machine."""
    repository: str
    """Path of the repository, including slashes."""
    tag: str
    authorization: str | None = field(default=None, repr=False)
    """The `Authorization` header; sent to `base` and nowhere else."""

    @classmethod
    def from_pre_signed(cls, info: Mapping[str, Any]) -> RegistryTarget:
        """Read the `pre_signed_info` of an image upload.

        Args:
            info: A mapping with `registry`, `repository`, `tag`, `authorization_token` (base64 of
                `user:password`) and, for a registry without HTTPS, an `endpoint_url`.

        Raises:
            RegistryError: The mapping does not name a usable registry.
        """
        registry, repository, tag = (str(info.get(name) or "") for name in ("registry", "repository", "tag"))
        token, endpoint = info.get("authorization_token"), str(info.get("endpoint_url") or "")
        bare = re.sub(r"^https?://", "", registry).strip("/")
        host, _, prefix = bare.partition("/")
        try:
            parts = urlsplit(f"//{host}")
            sound = bool(parts.hostname) and "@" not in host and parts.port != 0
        except ValueError:
            sound = False
        path = "/".join(part for part in (prefix, repository.strip("/")) if part)
        named = re.fullmatch(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*", path) and re.fullmatch(r"\w[\w.-]{0,127}", tag)
        if not sound or not named or not isinstance(token, str) or not re.fullmatch(r"[A-Za-z0-9+/=_-]+", token):
            raise RegistryError(
                "The server's answer names no registry that an image could be pushed to.",
                code="registry_unknown",
                hint="Tell whoever runs the server.",
                context={"registry": host[:200], "repository": path[:200], "tag": tag[:130]},
            )
        scheme = "http" if endpoint.lower().startswith("http://") else "https"
        return cls(base=f"{scheme}://{host}", repository=path, tag=tag, authorization=f"Basic {token}")


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """The result of a push."""

    digest: str
    """Digest of the image in the registry."""
    size: int
    """Bytes of all blobs."""
    sent: int
    """Bytes of the blobs that the registry did not have yet."""


@asynccontextmanager
async def _opened(
    target: RegistryTarget, transport: AsyncBaseTransport | None, timeout: float, ssl: SSLContext | None
) -> AsyncGenerator[Registry]:
    from httpx2 import Timeout

    from ..transport._connection import http_client

    # A registry reads a whole chunk before it answers, and checking gigabytes takes time
    limits = Timeout(timeout, read=max(timeout, 600.0))
    async with http_client(ssl=ssl, transport=transport, timeout=limits) as client:
        yield Registry(client, target)


async def push_image(
    target: RegistryTarget,
    image: PackedImage,
    *,
    concurrency: int = 4,
    chunk: int | None = None,
    timeout: float = 60.0,
    transport: AsyncBaseTransport | None = None,
    ssl: SSLContext | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> Pushed:
    """Push an image: blobs concurrently, the manifest last.

    Args:
        target: The destination.
        image: The image to push.
        concurrency: Number of blobs sent at a time.
        chunk: Bytes per request; None sends each blob in one request, as `docker push` does. Either way an
            interrupted upload resumes at the offset that the registry reports.
        timeout: Seconds to wait for a connection, or for the next bytes to leave.
        transport: The HTTP transport; sockets by default.
        ssl: Whom to trust; as the environment says by default.
        on_progress: Called with the bytes in the registry so far and the total.

    Raises:
        RegistryError: The registry refused, or reports a different digest from the one sent.
        ApiConnectionError: It cannot be reached, or the connection failed repeatedly.
        EnvironmentFault: A blob's file cannot be read.
    """
    done: dict[str, int] = {}
    sent = 0
    total = image.size

    def progress(blob: Blob, size: int) -> None:
        done[blob.digest] = size
        if on_progress is not None:
            on_progress(sum(done.values()), total)

    async with _opened(target, transport, timeout, ssl) as registry:
        limiter = anyio.CapacityLimiter(concurrency)

        async def push(blob: Blob) -> None:
            nonlocal sent
            async with limiter:
                if await registry.push_blob(blob, chunk=chunk, on_progress=lambda size: progress(blob, size)):
                    sent += blob.size
                progress(blob, blob.size)

        with unwrapped():
            async with anyio.create_task_group() as group:
                for blob in image.blobs:
                    group.start_soon(push, blob)
        await registry.put_manifest(image)
    return Pushed(digest=image.digest, size=total, sent=sent)


class Registry:
    """One repository of a registry."""

    def __init__(self, client: AsyncClient, target: RegistryTarget) -> None:
        from httpx2 import URL

        self._client = client
        self._target = target
        self._base = URL(target.base)
        self._prefix = f"{target.base}/v2/{quote(target.repository)}"

    async def has_blob(self, blob: Blob) -> bool:
        """Return whether the registry has the complete blob.

        Raises:
            RegistryError: The registry refused.
            ApiConnectionError: It cannot be reached.
        """
        response = await self._call("HEAD", f"{self._prefix}/blobs/{blob.digest}", allowed=(200, 404, 301, 302, 307))
        if response.status_code != 200:
            return False
        return response.headers.get("content-length", str(blob.size)) == str(blob.size)

    async def push_blob(self, blob: Blob, *, chunk: int | None, on_progress: Callable[[int], object]) -> bool:
        """Upload a blob unless the registry already has it.

        Returns:
            Whether the blob was sent.

        Raises:
            RegistryError: The registry refused, or reports a different digest from the one sent.
            ApiConnectionError: It cannot be reached, or the connection failed repeatedly.
        """
        if await self.has_blob(blob):
            return False
        tries = Tries(_BACKOFF, most=_TRIES)
        while True:
            try:
                await self._upload(blob, chunk, on_progress)
                return True
            except _Passing as failure:
                await _pause(tries, failure, failure.error)
            # The upload may have succeeded and only the answer been lost
            if await self.has_blob(blob):
                return True

    async def put_manifest(self, image: PackedImage) -> None:
        """Upload the manifest, which tags the pushed image.

        Raises:
            RegistryError: The registry refused, or reports another digest for the image.
            ApiConnectionError: It cannot be reached.
        """
        response = await self._call(
            "PUT",
            f"{self._prefix}/manifests/{quote(self._target.tag)}",
            allowed=(200, 201, 202),
            content=image.manifest,
            headers={"Content-Type": image.media_type},
        )
        self._same_digest(response, image.digest, "the image")

    async def _upload(self, blob: Blob, chunk: int | None, on_progress: Callable[[int], object]) -> None:
        response = await self._call("POST", f"{self._prefix}/blobs/uploads/", allowed=(202,), content=b"")
        location = self._location(response)
        at, tries = 0, Tries(_BACKOFF, most=_TRIES)
        smallest = whole_number(response.headers.get("oci-chunk-min-length"))
        step = blob.size if chunk is None else max(chunk, smallest or 1)
        while at < blob.size:
            end = min(at + step, blob.size)
            try:
                location = await self._patch(location, blob, at, end, on_progress)
                at = end
                tries.got_further()
            except _Passing as failure:
                await _pause(tries, failure)
                location, at = await self._where(location, at, end, failure)
                on_progress(at)
        separator = "&" if "?" in location else "?"
        await self._close(f"{location}{separator}digest={quote(blob.digest, safe='')}", blob)

    async def _close(self, location: str, blob: Blob) -> None:
        tries = Tries(_BACKOFF, most=_TRIES)
        while True:
            try:
                response = await self._once("PUT", location, allowed=(200, 201, 204), content=b"")
            except _Passing as failure:
                # The upload may already be closed: a repeated request would get the same answer
                if failure.status in (404, 416):
                    raise
                await _pause(tries, failure)
                if await self.has_blob(blob):
                    return
            else:
                self._same_digest(response, blob.digest, "a layer" if blob.kind == "layer" else "the config")
                return

    async def _patch(
        self, location: str, blob: Blob, start: int, end: int, on_progress: Callable[[int], object]
    ) -> str:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(end - start)}
        if start or end < blob.size:
            # Omitted for a blob sent whole, as engines do: not every registry accepts chunks
            headers["Content-Range"] = f"{start}-{end - 1}"
        try:
            async with await anyio.open_file(blob.path, "rb") as file:
                content = _pieces(file, start, end, on_progress)
                response = await self._once(
                    "PATCH", location, allowed=(201, 202, 204), content=content, headers=headers
                )
        except OSError as error:
            raise EnvironmentFault(
                f"A layer of the image cannot be read from {blob.path}: {error.strerror or error}.",
                code="layer_unreadable",
            ) from error
        return self._location(response, location)

    async def _where(self, location: str, start: int, end: int, failure: _Passing) -> tuple[str, int]:
        """Return the location and offset at which to resume; raise the failure if the registry does not report them."""
        response = await self._call("GET", location, allowed=(200, 202, 204, 404, 405))
        match = re.fullmatch(r"(?:bytes=)?0-(\d+)", response.headers.get("range", "").strip())
        if response.status_code in (404, 405) or match is None:
            raise failure
        # Some registries report "0-0" for an empty upload
        received = int(match[1]) + 1 if int(match[1]) else 0
        if not start <= received <= end:
            raise failure
        return self._location(response, location), received

    def _location(self, response: Response, default: str | None = None) -> str:
        from httpx2 import InvalidURL

        given = response.headers.get("location") or default
        if given is None:
            raise self._error("began an upload without saying where it goes on", "registry_location")
        try:
            url = response.request.url.join(given)
        except InvalidURL as error:
            raise self._error("named a place for an upload that is no address", "registry_location") from error
        if _origin(url) != _origin(self._base):
            raise self._error(
                f"wants the image sent to another place, {url.scheme}://{url.host}, which is not done",
                "registry_location",
            )
        return str(url)

    def _same_digest(self, response: Response, expected: str, what: str) -> None:
        got = response.headers.get("docker-content-digest")
        if got is not None and got != expected:
            raise self._error(
                f"took {what} for {got[:90]}, and it is {expected}",
                "registry_digest",
                hint="What arrived is not what was sent: try again.",
            )

    async def _call(self, method: str, url: str, **more: Any) -> Response:
        """Send a request, retrying on failures that may pass."""
        tries = Tries(_BACKOFF, most=_TRIES)
        while True:
            try:
                return await self._once(method, url, **more)
            except _Passing as failure:
                await _pause(tries, failure, failure.error)

    async def _once(
        self,
        method: str,
        url: str,
        *,
        allowed: tuple[int, ...],
        content: bytes | AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        import httpx2

        fields = dict(headers or {})
        if self._target.authorization is not None:
            fields["Authorization"] = self._target.authorization
        request = self._client.build_request(method, url, content=content, headers=fields)
        try:
            response = await self._client.send(request, stream=True)
            try:
                words = await _text(response)
            finally:
                await response.aclose()
        except httpx2.TimeoutException as error:
            message = f"The registry {self._base.host} did not answer in time."
            raise _Passing(ApiTimeoutError(message, hint="Try again later; what was sent stays there.")) from error
        except httpx2.RequestError as error:
            message = f"The connection to the registry {self._base.host} failed: {error or type(error).__name__}."
            raise _Passing(ApiConnectionError(message, hint="Try again; what was sent stays there.")) from error
        if response.status_code in allowed:
            return response
        failure = self._refused(response, words)
        status = response.status_code
        if says_later(status) or (method in ("PATCH", "PUT") and status in (404, 416)):
            raise _Passing(failure, retry_after(response.headers), status=status)
        raise failure

    def _refused(self, response: Response, message: str) -> RegistryError:
        status = response.status_code
        hints = {
            401: "The permission to push may have ended: try again.",
            403: "The permission to push may have ended: try again.",
            413: "The image is larger than the registry takes.",
        }
        said = f": {message}" if message else ""
        return RegistryError(
            f"The registry {self._base.host} answered {status} to {response.request.method}{said}.",
            hint=hints.get(status, "Try again later; what was sent stays there."),
            context={"status": status, "host": self._base.host, "repository": self._target.repository},
        )

    def _error(self, what: str, code: str, *, hint: str = "Tell whoever runs the registry.") -> RegistryError:
        return RegistryError(
            f"The registry {self._base.host} {what}.", code=code, hint=hint, context={"host": self._base.host}
        )


async def _pause(tries: Tries, failure: _Passing, error: CoworldError | None = None) -> None:
    """Wait before the next try; raise the error once no tries are left."""
    pause = tries.again(failure.after)
    if pause is None:
        raise error or failure from failure.__cause__
    await anyio.sleep(pause)


async def _pieces(
    file: anyio.AsyncFile[bytes], start: int, end: int, on_progress: Callable[[int], object]
) -> AsyncIterator[bytes]:
    await file.seek(start)
    at = start
    while at < end and (piece := await file.read(min(_PIECE, end - at))):
        yield piece
        at += len(piece)
        on_progress(at)


async def _text(response: Response) -> str:
    """Return the registry's error message as one line; empty on success."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > _MAX_ANSWER:
            break
    if response.is_success:
        return ""
    try:
        errors: Any = json.loads(body)["errors"]
        words = "; ".join(f"{entry.get('message') or entry.get('code')}" for entry in errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        words = body[:300].decode("utf-8", "replace")
    return " ".join("".join(char if char.isprintable() else " " for char in words).split())[:500].rstrip(".")


def _origin(url: URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme, 0)
