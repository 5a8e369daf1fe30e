"""The few calls to the local Docker engine that uploads and downloads need."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from coworld_core.docker_engine import Answer, Engine, EngineRefused, path_segment, resolve_address
from coworld_core.errors import BackendError, ImageError
from coworld_core.images import ImageRef, Platform

__all__ = ["DockerEngine", "EngineImage", "connect_docker"]

_SILENCE = 300.0
"""Longest silence in seconds while the engine pulls an image; registries can be slow."""
_SAVE_SILENCE = 900.0
"""Longest silence in seconds during an export; some versions write the whole image to disk before the first byte."""
_CHUNK = 1 << 18
"""Least number of bytes to pass on at a time, because each piece costs a switch between threads."""


@dataclass(frozen=True, kw_only=True)
class EngineImage:
    """An image of an engine."""

    reference: str
    """The reference or id that was asked for."""
    id: str
    """``sha256:<hex>``, which identifies the image's content."""
    platform: Platform
    size: int
    """Bytes, as the engine counts them."""
    digests: tuple[str, ...] = ()
    """``name@sha256:...`` references under which registries have it."""


@asynccontextmanager
async def connect_docker(host: str | None = None) -> AsyncGenerator[DockerEngine]:
    """Connect to a Docker engine while the context is open.

    Args:
        host: Its address, such as ``tcp://builder:2376``; None: the one that the ``docker`` command would use.

    Raises:
        BackendUnavailable: There is no engine, or it does not answer.
    """
    async with Engine.connect(
        resolve_address(host), otherwise=lambda hint: f"{hint} Or set DOCKER_HOST to where one runs."
    ) as engine:
        yield DockerEngine(engine)


class DockerEngine:
    """A connected engine, created by ``connect_docker``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def inspect(self, reference: str) -> EngineImage:
        """Look up an image by a reference or an id.

        Raises:
            ImageError: The engine has no such image (``image_missing``), or the reference is invalid.
            BackendError: The engine refused or stopped answering.
        """
        _checked(reference)
        try:
            content = await self._engine.call("GET", f"/images/{path_segment(reference)}/json")
        except EngineRefused as error:
            if error.status != 404:
                raise
            raise _missing(reference) from error
        try:
            platform = Platform.parse(f"{content['Os']}/{content['Architecture']}")
            digests = tuple(str(item) for item in content.get("RepoDigests") or ())
            return EngineImage(
                reference=reference,
                id=str(content["Id"]),
                platform=platform,
                size=int(content.get("Size") or 0),
                digests=digests,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BackendError(
                f"The Docker engine at {self._engine.address} gave an answer about the image {reference} that cannot "
                "be understood.",
                code="engine_nonsense",
                hint="Docker Engine 20.10 or later is needed.",
            ) from error

    @asynccontextmanager
    async def save(self, reference: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Stream an image as a tar (see ``docker_images``).

        Raises:
            ImageError: The engine has no such image.
            BackendError: The engine refused or stopped answering; the stream may raise this, too.
        """
        _checked(reference)
        path = f"/images/{path_segment(reference)}/get"
        try:
            async with (
                self._engine.stream("GET", path, silence=_SAVE_SILENCE) as answer,
                aclosing(_gathered(answer)) as pieces,
            ):
                yield pieces
        except EngineRefused as error:
            if error.status != 404:
                raise
            raise _missing(reference) from error

    async def pull(
        self,
        reference: str,
        *,
        login: tuple[str, str] | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Pull an image from its registry.

        Args:
            reference: The image.
            login: User and password for the registry; None: anonymous, even if this machine has stored a login.
            on_progress: Called with the bytes fetched, and the total known so far.

        Raises:
            ImageError: The registry has no such image or refused (``image_unreachable``).
            BackendError: The engine refused or stopped answering.
        """
        parsed = _checked(reference)
        account = dict(zip(("username", "password"), login, strict=True)) if login else {}
        headers = {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(account).encode()).decode()}
        query = {"fromImage": parsed.name, "tag": parsed.digest or parsed.tag or "latest"}
        layers: dict[str, tuple[int, int]] = {}
        try:
            async with self._engine.stream(
                "POST", "/images/create", query=query, headers=headers, silence=_SILENCE
            ) as answer:
                async for said in answer.objects():
                    if error := said.get("error"):
                        raise _unreachable(reference, str(error))
                    detail: Any = said.get("progressDetail") or {}
                    if said.get("status") == "Downloading" and detail.get("total"):
                        layers[str(said.get("id"))] = (int(detail.get("current") or 0), int(detail["total"]))
                        if on_progress is not None:
                            done, sizes = zip(*layers.values(), strict=True)
                            on_progress(sum(done), sum(sizes))
        except EngineRefused as error:
            raise _unreachable(reference, error.words) from error

    async def tag(self, image: str, target: str) -> None:
        """Add a name to an image of the engine.

        Raises:
            ImageError: The engine has no such image.
            BackendError: The engine refused or stopped answering.
        """
        parsed = _checked(target)
        query = {"repo": parsed.name, "tag": parsed.tag or "latest"}
        try:
            await self._engine.call("POST", f"/images/{path_segment(image)}/tag", query=query)
        except EngineRefused as error:
            if error.status != 404:
                raise
            raise _missing(image) from error


def _checked(reference: str) -> ImageRef:
    if reference.startswith("sha256:"):
        return ImageRef(reference, "digest", name=reference)
    return ImageRef.parse(reference).require_runnable(f"The image {reference!r}")


def _missing(reference: str) -> ImageError:
    return ImageError(
        f"The Docker engine has no image {reference}.",
        code="image_missing",
        hint="Build it, or fetch it with: docker pull.",
        context={"image": reference},
    )


async def _gathered(answer: Answer) -> AsyncGenerator[bytes]:
    waiting = bytearray()
    async for data in answer:
        waiting += data
        if len(waiting) >= _CHUNK:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


def _unreachable(reference: str, words: str) -> ImageError:
    return ImageError(
        f"The image {reference} could not be fetched: {words.rstrip('.')}.",
        code="image_unreachable",
        hint="Check the reference, and that its registry can be reached.",
        context={"image": reference},
    )
