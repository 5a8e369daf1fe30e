"""Makes images present on an engine: finds or pulls them, and checks their platform."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from coworld_core.docker_address import EngineGone, EngineRefused
from coworld_core.episode.events import ImageProgressed, Notice
from coworld_core.errors import ImageError
from coworld_core.hints import Hint
from coworld_core.images import runs_on
from coworld_core.retries import Backoff, Tries

from ...backend import ImageInfo, Publish
from ..start_causes import cause_of
from ._engine import Engine, json_objects, path_segment
from ._registry_logins import registry_headers

__all__ = ["Images", "image_platform", "pull_refusal", "split_name"]

_UNPUBLISHED = re.compile(r"img_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BACKOFF = Backoff(base=2.0)
_TRIES = 4
"""How often a pull is tried that fails for a reason that may pass, within about ten seconds."""
_REPORT_SECONDS = 0.2
"""Seconds between progress events of a download; a change of status is always published."""


@dataclass
class _Flight:
    """Work on one image that several callers wait for."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    callers: int = 0
    outcome: ImageInfo | ImageError | None = None


class Images:
    """Makes images present on one engine.

    Args:
        engine: The engine.
        pull: `missing` pulls missing images; `never` refuses them.
        logins: User and password by registry, instead of those stored by `docker login`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        pull: Literal["missing", "never"],
        logins: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self._engine = engine
        self._pull = pull
        self._logins = logins
        self._flights: dict[tuple[str, str | None], _Flight] = {}

    async def ensure(self, image: str, *, platform: str | None, publish: Publish | None) -> ImageInfo:
        """Make an image present; overlapping calls share the work and its outcome.

        Raises:
            ImageError: The image is not available.
        """
        flight = self._flights.setdefault((image, platform), _Flight())
        flight.callers += 1
        try:
            # The lock's holder does the work; if it is cancelled, the next caller takes over
            async with flight.lock:
                if flight.outcome is None:
                    try:
                        flight.outcome = await self._ensure(image, platform, publish)
                    except ImageError as error:
                        flight.outcome = error
        finally:
            flight.callers -= 1
            if flight.callers == 0:
                self._flights.pop((image, platform), None)
        if isinstance(flight.outcome, ImageError):
            # A new error for each caller, since raising one adds a traceback to it
            error = flight.outcome
            raise ImageError(
                error.message, code=error.code, hint=error.hint, context=error.context
            ) from error.__cause__
        return flight.outcome

    async def inspect(self, image: str) -> Mapping[str, Any] | None:
        """Return the engine's description of an image; None if it is not present.

        Raises:
            ImageError: The name is invalid, or the engine does not answer.
        """
        try:
            return await self._engine.call("GET", f"/images/{path_segment(image)}/json")
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise ImageError(
                f"{image!r} is not the name of an image: {error.server_message}",
                hint="It looks like name:tag or registry/name:tag, in lower case.",
                context={"image": image},
            ) from error
        except EngineGone as error:
            raise ImageError(error.message, hint=error.hint, context={"image": image}) from error

    async def _ensure(self, image: str, platform: str | None, publish: Publish | None) -> ImageInfo:
        if _UNPUBLISHED.fullmatch(image):
            raise ImageError(
                f"{image!r} is the id of an image that was not published when this package was downloaded; no engine "
                "knows it.",
                hint="Download the package again once it is published, or build its image and name that instead.",
                context={"image": image},
            )
        found = await self.inspect(image)
        if found is None and self._pull == "missing":
            await self._fetch(image, platform, publish)
            found = await self.inspect(image)
        if found is None:
            raise ImageError(
                f"The image {image!r} is not on this machine.",
                hint=Hint("build_or_pull", "Build it with build_coworld, or let it be pulled."),
                context={"image": image},
            )
        return self._checked(image, platform, found)

    def _checked(self, image: str, platform: str | None, found: Mapping[str, Any]) -> ImageInfo:
        actual = image_platform(found)
        if platform is not None and not _same_platform(platform, actual):
            raise ImageError(
                f"The image {image!r} is for {actual}, not for {platform}.",
                code="image_wrong_platform",
                hint=f"Build it again for that platform: docker build --platform {platform} ...",
                context={"image": image, "platform": actual, "wanted": platform},
            )
        return ImageInfo(
            image=image,
            digest=str(found.get("Id") or ""),
            platform=actual,
            emulated=not runs_on(actual, self._engine.platform),
        )

    # --- fetching

    async def _fetch(self, image: str, platform: str | None, publish: Publish | None) -> None:
        if re.fullmatch(r"(sha256:)?[0-9a-f]{12,64}", image):
            raise pull_refusal(image, "it is named by its id, which no registry knows.")
        tries = Tries(_BACKOFF, most=_TRIES)
        while reason := await self._pulled(image, platform, publish):
            passes = cause_of(reason, otherwise="image_unreachable").passes
            pause = tries.again() if passes else None
            if pause is None:
                raise pull_refusal(image, reason)
            if publish is not None:
                publish(Notice(message=f"{image} is pulled again in {pause:.0f} s: {reason}"))
            await anyio.sleep(pause)

    async def _pulled(self, image: str, platform: str | None, publish: Publish | None) -> str:
        """Pull an image; return the engine's message if that fails."""
        name, tag = split_name(image)
        report = _Report(image, publish)
        headers = await registry_headers(name, self._logins)
        try:
            async with self._engine.stream(
                "POST",
                "/images/create",
                query={"fromImage": name, "tag": tag, "platform": platform},
                headers=headers,
            ) as answer:
                async for said in json_objects(answer):
                    if reason := report.take(said):
                        return reason
        except (EngineRefused, EngineGone) as error:
            return error.server_message
        return ""


def pull_refusal(image: str, reason: str) -> ImageError:
    """The error for an image that an engine could not pull, by the engine's words."""
    code = cause_of(reason, otherwise="image_unreachable").code
    hints = {
        "disk_full": "Make room where the engine keeps its images: docker system df shows what takes it.",
        "registry_unavailable": Hint(
            "build_or_wait",
            "If it is yours, build it with build_coworld. Otherwise see whether this machine reaches its registry.",
        ),
    }
    usual = Hint(
        "build_or_log_in",
        "If it is yours, build it with build_coworld. If its registry wants a login: docker login.",
    )
    return ImageError(
        f"The image {image!r} is not on this machine and could not be pulled: {reason}",
        code=code,
        hint=hints.get(code, usual),
        context={"image": image},
    )


class _Report:
    """Sums up the engine's progress messages about the layers of one image."""

    def __init__(self, image: str, publish: Publish | None) -> None:
        self._image = image
        self._publish = publish
        self._layers: dict[str, tuple[int, int]] = {}
        self._status = ""
        self._next = 0.0

    def take(self, line: Mapping[str, Any]) -> str:
        """Take one line of progress; return the engine's message if it is a failure."""
        if "error" in line:
            return str(line["error"])
        status = str(line.get("status") or "")
        progress = line.get("progressDetail")
        if isinstance(progress, dict) and progress.get("total") and status == "Downloading":  # pyright: ignore[reportUnknownMemberType]
            self._layers[str(line.get("id"))] = (int(progress["current"]), int(progress["total"]))  # pyright: ignore[reportUnknownArgumentType]
        elif status == "Download complete" and (layer := self._layers.get(str(line.get("id")))):
            self._layers[str(line.get("id"))] = (layer[1], layer[1])
        now = anyio.current_time()
        if self._publish is not None and status and (status != self._status or now >= self._next):
            self._status, self._next = status, now + _REPORT_SECONDS
            self._publish(
                ImageProgressed(
                    image=self._image,
                    status=status,
                    done=sum(done for done, _ in self._layers.values()) if self._layers else None,
                    total=sum(total for _, total in self._layers.values()) if self._layers else None,
                )
            )
        return ""


def image_platform(found: Mapping[str, Any]) -> str:
    """os/architecture[/variant] of an inspected image."""
    return "/".join(str(found[key]) for key in ("Os", "Architecture", "Variant") if found.get(key))


def _same_platform(wanted: str, actual: str) -> bool:
    """Whether os and architecture agree, and the variant where both name one."""
    return all(one == other for one, other in zip(wanted.lower().split("/"), actual.lower().split("/"), strict=False))


def split_name(image: str) -> tuple[str, str]:
    """Split a name into name and tag, as the engine expects them; without a tag it would pull all tags."""
    if "@" in image:
        name, _, digest = image.partition("@")
        return name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name, digest
    head, slash, last = image.rpartition("/")
    last, _, tag = last.partition(":")
    return head + slash + last, tag or "latest"
