"""Builds one image on an engine: sends the context, follows the steps, reports which step failed and its output."""

from __future__ import annotations

import collections
import re
import secrets
import tempfile
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import IO, Any, Protocol

import anyio
import anyio.to_thread

from coworld_core.docker_address import EngineGone, EngineRefused, docker_config
from coworld_core.episode.events import ImageProgressed, Notice
from coworld_core.errors import BackendError, CoworldError, EnvironmentFault
from coworld_core.text.size_text import shown_size
from coworld_core.text.terminal import strip_controls

from ...backend import Publish
from ...errors import BuildError
from ...images.build_context import ContextError, SentContext, write_context
from ...images.compose import Build
from ._buildkit import BuildkitTrace
from ._engine import Engine, is_full, json_objects

__all__ = ["build_image"]

_CHUNK = 1 << 18
_TAIL_LINES = 40
_LINE_LENGTH = 500
_MAX_LINES = 5000
"""How many lines of one build's output become events; a run's events are kept in memory."""
_LARGE_CONTEXT = 256 << 20
_REPORT_SECONDS = 0.2


class _Log(Protocol):
    """Reads an engine's progress stream."""

    image_id: str
    failure: str

    def take(self, item: Mapping[str, Any]) -> Iterator[str]:
        """Yield the lines to show for one item of the stream."""
        ...

    def failed_step(self) -> tuple[str, list[str]]:
        """Return the step that failed, and the last lines it printed."""
        ...


async def build_image(
    engine: Engine,
    *,
    service: str,
    build: Build,
    image: str,
    args: Mapping[str, str],
    platform: str | None,
    no_cache: bool,
    buildkit: str,
    publish: Publish,
    labels: Mapping[str, str] | None = None,
) -> str:
    """Build an image and tag it.

    Args:
        engine: The engine that builds.
        service: The name of the service, for messages.
        build: What to build.
        image: The image's tag.
        args: Build arguments.
        platform: os/architecture, or None for the engine's own.
        no_cache: Run every step again.
        buildkit: The feature of the Dockerfile that needs BuildKit; empty: use the classic builder.
        publish: Receives progress events.
        labels: Labels to add to those of the Dockerfile.

    Returns:
        The image's id, `sha256:…`.

    Raises:
        BuildError: A step failed, or the context cannot be sent.
        EnvironmentFault: There is no disk space left, on this machine or where the engine keeps its images.
        BackendError: The engine stopped answering.
    """
    log: _Log = _BuildkitLog() if buildkit else _ClassicLog()
    shown = 0

    def show(line: str) -> None:
        nonlocal shown
        shown += 1
        if shown <= _MAX_LINES:
            publish(ImageProgressed(image=image, status=line))
        elif shown == _MAX_LINES + 1:
            publish(Notice(message=f"{image}: the build printed more than {_MAX_LINES} lines; the rest is not shown."))

    with _spool() as file:
        sent = await _packed(service, build, file, buildkit=bool(buildkit))
        if sent.size > _LARGE_CONTEXT:
            size = shown_size(sent.size)
            message = f"{service}: the build context {build.context} has {size}; a .dockerignore would make it smaller."
            publish(Notice(message=message))
        query = {
            "t": image,
            "dockerfile": sent.dockerfile,
            "buildargs": {**_proxies(), **args},
            "labels": dict(labels) if labels else None,
            "target": build.target,
            "platform": platform,
            "nocache": no_cache,
            # Never ask a registry for local images
            "pull": None,
            "rm": True,
            "forcerm": True,
            **({"version": 2, "buildid": secrets.token_hex(16)} if buildkit else {}),
        }
        refused = ""
        try:
            async with (
                aclosing(_pieces(file, sent.size, image, publish)) as content,
                engine.stream(
                    "POST", "/build", query=query, headers={"Content-Type": "application/x-tar"}, content=content
                ) as answer,
            ):
                async for item in json_objects(answer):
                    for text in log.take(item):
                        show(text)
        except EngineRefused as error:
            refused = error.server_message
        except EngineGone as error:
            raise BackendError(
                f"The Docker engine stopped answering while it built the image of service {service!r}: "
                f"{error.server_message}.",
                code="engine_lost",
                hint="See whether it still runs: docker info.",
                context={"service": service, "image": image},
            ) from error
    if refused or log.failure:
        raise _failed(service, image, buildkit, refused, log)
    if log.image_id:
        return log.image_id
    found = await engine.call("GET", f"/images/{image}/json")
    return str(found["Id"])


def _failed(service: str, image: str, buildkit: str, refused: str, log: _Log) -> CoworldError:
    step, tail = log.failed_step()
    words = " ".join(strip_controls(refused or log.failure).split()).rstrip(".")
    context: dict[str, object] = {"service": service, "image": image}
    if any(is_full(line) for line in (words, *tail[-3:])):
        return EnvironmentFault(
            f"There is no room left to build the image of service {service!r}: {words}.",
            code="disk_full",
            hint="Make room where the engine keeps its images: docker system df shows what takes it.",
            context=context,
        )
    if refused and buildkit and "buildkit" in words.lower():
        hint = f"The Dockerfile uses {buildkit}, which this engine cannot do."
    elif refused and "unknown flag" in words.lower():
        hint = "The engine's own BuildKit does not know that yet; a newer engine does."
    elif tail:
        hint = "The last lines that it printed say more."
    else:
        hint = "Correct the Dockerfile."
    at = f" at {_shortened(step)}" if step else ""
    if status := _STATUS.search(words):
        # The step already contains the command
        words = f"it ended with status {status[1]}"
    context |= {"step": step, "log_tail": "\n".join(tail)}
    return BuildError(f"The image of service {service!r} could not be built{at}: {words}.", hint=hint, context=context)


_STATUS = re.compile(r"(?:returned a non-zero code|exit code): (\d+)$")


def _shortened(text: str) -> str:
    return text if len(text) <= 160 else text[:159] + "…"


# --- the context -------------------------------------------------------------------------------------------------


def _spool() -> IO[bytes]:
    try:
        # Has no name, so it cannot be left behind
        return tempfile.TemporaryFile()
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> EnvironmentFault:
    return EnvironmentFault(
        f"The build context cannot be kept in {tempfile.gettempdir()}: {error.strerror}.",
        code="disk_full",
        hint="Free some room, or set TMPDIR to a directory with more.",
    )


async def _packed(service: str, build: Build, file: IO[bytes], *, buildkit: bool) -> SentContext:
    try:
        return await anyio.to_thread.run_sync(_pack, build, file, buildkit)
    except ContextError as error:
        raise BuildError(
            f"The service {service!r} {error}.", code="build_context", context={"service": service}
        ) from error
    except OSError as error:
        raise _no_room(error) from error


def _pack(build: Build, file: IO[bytes], buildkit: bool) -> SentContext:
    sent = write_context(build, file, buildkit=buildkit)
    file.seek(0)
    return sent


async def _pieces(file: IO[bytes], size: int, image: str, publish: Publish) -> AsyncGenerator[bytes]:
    """Yield the archive in chunks, and publish the progress."""
    done, due = 0, 0.0
    while data := await anyio.to_thread.run_sync(file.read, _CHUNK):
        done += len(data)
        if done == size or anyio.current_time() >= due:
            due = anyio.current_time() + _REPORT_SECONDS
            publish(ImageProgressed(image=image, status="Sending the build context", done=done, total=size))
        yield data


def _proxies() -> dict[str, str]:
    """Return the proxies of the docker command's configuration, which that command also passes to its builds."""
    _, config = docker_config()
    try:
        kept = config["proxies"]["default"]
        names = {"httpProxy": "http_proxy", "httpsProxy": "https_proxy", "noProxy": "no_proxy", "ftpProxy": "ftp_proxy"}
        found = {name: str(kept[key]) for key, name in names.items() if kept.get(key)}
    except (KeyError, TypeError, AttributeError):
        return {}
    return found | {name.upper(): value for name, value in found.items()}


# --- the engine's output -----------------------------------------------------------------------------------------

_STEP = re.compile(r"Step (?P<step>\d+/\d+) : (?P<what>.*)")


_ENGINE_WORDS = ("Step ", " ---> ", "Removing intermediate container ", "Successfully ")
"""How lines begin that the engine adds to the output of the steps."""


class _ClassicLog:
    def __init__(self) -> None:
        self.image_id = ""
        self.failure = ""
        self._step = ""
        self._tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self._rest = ""

    def take(self, item: Mapping[str, Any]) -> Iterator[str]:
        if "error" in item:
            self.failure = str(item["error"])
            if self._rest:
                yield from self._line(self._rest)
        elif "stream" in item:
            if self._rest and str(item["stream"]).startswith(_ENGINE_WORDS):
                # The last line of a step may lack a line break
                yield from self._line(self._rest)
                self._rest = ""
            *lines, self._rest = strip_controls(self._rest + str(item["stream"])).split("\n")
            for line in lines:
                yield from self._line(line)
        elif isinstance(item.get("aux"), dict):
            self.image_id = str(item["aux"].get("ID") or "") or self.image_id
        elif item.get("status"):
            yield str(item["status"])[:_LINE_LENGTH]

    def _line(self, line: str) -> Iterator[str]:
        line = line.rstrip()[:_LINE_LENGTH]
        if not line:
            return
        if match := _STEP.fullmatch(line):
            self._step = f"step {match['step']} ({match['what']})"
            self._tail.clear()
        elif not line.startswith(_ENGINE_WORDS):
            self._tail.append(line)
        yield line

    def failed_step(self) -> tuple[str, list[str]]:
        return self._step, list(self._tail)


class _BuildkitLog:
    def __init__(self) -> None:
        self.image_id = ""
        self.failure = ""
        self._trace = BuildkitTrace()
        self._tails: dict[str, collections.deque[str]] = {}

    def take(self, item: Mapping[str, Any]) -> Iterator[str]:
        if "error" in item:
            self.failure = str(item["error"])
        elif item.get("id") == "moby.image.id" and isinstance(item.get("aux"), dict):
            self.image_id = str(item["aux"].get("ID") or "")
        elif item.get("id") == "moby.buildkit.trace" and isinstance(item.get("aux"), str):
            for digest, text in self._trace.take(item["aux"]):
                for line in strip_controls(text).split("\n"):
                    if line := line.rstrip()[:_LINE_LENGTH]:
                        if line != self._trace.names.get(digest):
                            self._tails.setdefault(digest, collections.deque(maxlen=_TAIL_LINES)).append(line)
                        yield line

    def failed_step(self) -> tuple[str, list[str]]:
        failed = self._trace.failed
        name = self._trace.names.get(failed, "")
        return f"step {name}" if name else "", list(self._tails.get(failed, ()))
