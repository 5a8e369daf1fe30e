"""The backend contract: the interface to places that run things, in three terms.

A **backend** is a connection to a place that runs things. A **unit** is one running process, container or pod.
An **endpoint** is the address of a named port, as seen from this process and as seen from another unit.

Every backend obeys these rules (`coworld_runner.testing.BackendConformance` checks them):

* `async with Backend(...)` opens connections and nothing else.
* A backend refuses what it cannot enforce: a spec that asks for more than `capabilities` raises `CapabilityError`
  from `units` before anything is created.
* `units` creates all units concurrently; when one fails, everything already made is removed before it raises.
  On leaving, all units are stopped concurrently, shielded from cancellation and within a deadline; what could not
  be removed is published as `LeakFound`, never raised over the body's own error.
* Everything carries the run's label from its creation on, so `find` sees it after the runner was killed.
* A unit's end is noticed at once. `wait` returns a value and never raises for what the unit did.
* Logs are written to their files while the unit runs, up to the limit, and are complete when `wait` has returned.
"""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from coworld_core.episode.events import BaseEvent
from coworld_core.episode.outcome import Exit
from coworld_core.errors import CapabilityError
from coworld_core.hints import Hint
from coworld_core.issues import Issue
from coworld_core.role_kinds import RunnableType

if TYPE_CHECKING:
    from coworld_core.episode.record import ImageRecord

__all__ = [
    "INPUTS_MOUNT",
    "Backend",
    "Capabilities",
    "Component",
    "Endpoint",
    "Found",
    "HttpProbe",
    "ImageInfo",
    "Limits",
    "Network",
    "Placement",
    "Port",
    "Publish",
    "Reaped",
    "Unit",
    "UnitSpec",
    "missing_module",
    "to_nobody",
]

Publish = Callable[[BaseEvent], None]
"""Takes an event; never blocks, never raises."""


def to_nobody(_: BaseEvent) -> None:
    """A `Publish` for whoever reads no events."""


Component = Literal["replay", "proxy", RunnableType]
"""The role a unit plays."""

INPUTS_MOUNT = "/coworld-inputs"
"""Where a container sees its `inputs`."""

_NO_MODULE = re.compile(r"No module named '?([A-Za-z_]\w*(?:\.\w+)*)")

_OTHER_MACHINE = re.compile(r"\bexec format error\b", re.IGNORECASE)
"""The words of a kernel for a program that it cannot run, as whatever was to run it repeats them."""

Network = Literal["open", "game-only", "none"]
"""`open`: the machine's network; `game-only`: only the units named by `connects_to` and `proxies`; `none`: no
network."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a backend enforces. A spec that asks for a feature that is False here is refused."""

    images: bool
    """Runs container images; False runs the command in the image's build context."""
    network_isolation: bool
    """Can keep a unit from the internet, the host and other units (`network` other than `open`)."""
    file_isolation: bool
    """A unit sees no file of the host or of another unit, except its own directory and its inputs, which are
    read-only."""
    memory_limit: bool
    """Can hold a unit below `Limits.memory_bytes`."""
    cpu_limit: bool
    """Can hold a unit below `Limits.cpus`."""
    pids_limit: bool
    """Can hold a unit below `Limits.pids`."""
    disk_limit: bool
    """Can stop a unit that writes more than `Limits.disk_bytes`, or more files than `Limits.disk_entries`."""
    remote: bool
    """Units run on another machine: no shared directories, endpoints are forwarded."""
    gpu: bool = False
    """Can give a unit a graphics processor."""
    builds: bool = False
    """Builds images from a Dockerfile (`Backend.build_image`)."""
    separate_streams: bool = True
    """Keeps standard output and standard error apart; False writes both to the log of standard output."""
    proxies: bool = False
    """Can let a unit reach further ones, its `proxies`, and has a `helper_image` to run that in."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a unit may use. None means no limit."""

    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None
    disk_bytes: int | None = None
    """Bytes a unit may write in all, its own directory included."""
    disk_entries: int | None = None
    """Files and directories a unit may leave on the machine, mainly in its own directory."""
    log_bytes: int = 32 * 1024 * 1024
    """Size limit of each log file, in bytes; the rest is dropped and `LogTruncated` is published once."""

    @property
    def of_disk(self) -> bool:
        """Whether there is a limit on what a unit may write."""
        return self.disk_bytes is not None or self.disk_entries is not None


@dataclass(frozen=True, kw_only=True)
class Port:
    """A TCP port the unit listens on."""

    name: str
    number: int = 8080
    """The port inside a container. A backend without containers picks another one and reports it in the placement."""
    host_port: int = 0
    """The port on this machine's loopback; 0 lets the backend choose."""
    fixed: bool = False
    """The unit always listens on `number` (extra ports); a backend without containers must use that number."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """How to reach a port."""

    here: str
    """`host:port` from this process; the host is always a loopback address."""
    there: str
    """`host:port` from a unit that `connects_to` this one."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What a unit's environment may depend on; known before the unit starts."""

    directory: str
    """Absolute path of the unit's own directory as the unit sees it (no trailing slash); empty without one."""
    listen_host: str
    """Address to bind: 0.0.0.0 in a container, 127.0.0.1 for a local process."""
    listen: Mapping[str, int]
    """Port number to bind, by port name."""
    endpoints: Mapping[str, Endpoint]
    """How to reach those ports. `here` is final for ports with a `host_port` and for `fixed` ones; for others it
    is final once the unit has started (`Unit.endpoint`)."""
    inputs: str = ""
    """Absolute path of the unit's inputs as the unit sees them (no trailing slash); empty without any."""

    def uri(self, name: str) -> str:
        """The `file://` URI of a file in the unit's directory, percent-encoded."""
        return _file_uri(self.directory, name)

    def input_uri(self, name: str) -> str:
        """The `file://` URI of one of the unit's inputs, percent-encoded."""
        return _file_uri(self.inputs, name)


def _file_uri(directory: str, name: str) -> str:
    from urllib.parse import quote

    return f"file://{quote(directory)}/{quote(name)}"


def missing_module(tail: str, *, here: bool = False) -> str:
    """The module that a Python program lacked by the end of its log, with the version of its package; empty if none.

    Args:
        tail: The end of its log.
        here: Whether it ran with the Python that runs this.
    """
    module = (_NO_MODULE.findall(tail) or [""])[-1]
    # Python names a module with a dot only if it has found the package above it
    top, inside, _ = module.partition(".")
    if not inside:
        return module
    from importlib import metadata

    names = metadata.packages_distributions().get(top) if here else None
    return f"{module}, but {top} {metadata.version(names[0]) if names else 'of another version'}"


def no_environment(_: Placement) -> Mapping[str, str]:
    """The environment of a unit that needs no variables."""
    return {}


@dataclass(frozen=True, kw_only=True)
class UnitSpec:
    """What to run, and under which rules. A plain value; nothing happens until `Backend.units`."""

    run_id: str
    """The run's label."""
    name: str
    """Unique within the run: game, player-0, replay, ..."""
    component: Component
    image: str
    argv: tuple[str, ...] = ()
    """The program and its arguments; empty: the image's own command."""
    ahead: Mapping[str, str] | None = None
    """The variables that all units of its program have alike, if that can be started ahead and fork for each unit;
    None: it cannot. A backend may heed it."""
    environment: Callable[[Placement], Mapping[str, str]] = no_environment
    """Returns the unit's whole environment, except secrets and the backend's own variables. Called before the unit
    starts; files that it writes to `directory` or `inputs` reach the unit like the files that were already
    there."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secret variables; they never appear in an argument list, a log, a repr or a label."""
    slot: int | None = None
    directory: Path | None = None
    """A directory on this machine that belongs to this unit alone. The unit finds the directory's files when it starts,
    and files that it writes appear there. The runner creates and removes the directory; the backend mounts it."""
    mount: str = "/coworld"
    """The path of `directory` inside a container."""
    inputs: Path | None = None
    """A directory on this machine with input files, separate from `directory`. The unit finds all regular files in
    it, at any depth; they are read-only if the backend claims `file_isolation`. The runner creates and removes the
    directory and does not change it after the unit has started. Every user must be able to read it."""
    ports: tuple[Port, ...] = ()
    clients: tuple[str, ...] = ()
    """Names of units that will connect to this one; they cannot reach each other."""
    connects_to: str | None = None
    """Name of the unit this one connects to, if any."""
    proxies: tuple[str, ...] = ()
    """Names of the units through which this one may call out; the network of those is `open`."""
    network: Network = "open"
    direct: tuple[str, ...] = ()
    """Hosts that it reaches without a proxy, whatever proxies its image or its variables name."""
    drops_privileges: bool = False
    """Whether a start script of its image may prepare directories as root and then become another user, as those of
    games always may."""
    gpu: bool = False
    """Whether it gets one graphics processor."""
    limits: Limits = field(default_factory=Limits)
    stdout: Path | None = None
    """Log file for standard output, and for standard error if `stderr` is None. None keeps no log."""
    stderr: Path | None = None
    platform: str | None = None
    """os/architecture to run, e.g. linux/amd64; None: the engine's default."""
    lifetime: float | None = None
    """Seconds after its start when the platform ends the unit, if it can, in case the runner has died by then."""


@dataclass(frozen=True, kw_only=True)
class ImageInfo:
    """The image that a reference resolves to on this backend."""

    image: str
    digest: str = ""
    platform: str = ""
    emulated: bool = False
    context: Path | None = None
    """Directory the command runs in, for a backend without images."""

    def record(self) -> ImageRecord:
        """The image as records describe it."""
        from coworld_core.episode.record import ImageRecord

        return ImageRecord(image=self.image, digest=self.digest, platform=self.platform, emulated=self.emulated)


@dataclass(frozen=True, kw_only=True)
class HttpProbe:
    """The unit is ready when `GET path` on the named port answers 200."""

    port: str = "http"
    path: str = "/healthz"
    timeout: float = 60.0
    """Seconds until the unit counts as not ready."""
    interval: float = 0.02
    """Seconds between attempts while nothing answers."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """An object created by this project, found by its label."""

    kind: Literal["process", "container", "network", "volume", "directory", "pod", "service", "secret", "policy", "job"]
    id: str
    """The backend's identifier: a pid, a container id, a path, ..."""
    name: str
    run_id: str
    alive: bool
    """Whether the runner that created it is still running; `reap` skips such objects unless forced."""
    age_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Reaped:
    """The outcome of removing one found object."""

    found: Found
    removed: bool
    reason: str = ""
    """Why it still exists, if it does."""


class Unit(abc.ABC):
    """One running (or prepared) process, container or pod. Created by `Backend.units` only."""

    def __init__(self, spec: UnitSpec) -> None:
        self.spec = spec

    @property
    def name(self) -> str:
        """The unit's name within its run."""
        return self.spec.name

    @property
    @abc.abstractmethod
    def id(self) -> str:
        """The backend's identifier: a pid, a container id, ..."""

    @property
    @abc.abstractmethod
    def exit(self) -> Exit | None:
        """How it ended, or None while it has not."""

    @property
    @abc.abstractmethod
    def log_truncated(self) -> bool:
        """Whether a log reached its limit."""

    @property
    def image_digest(self) -> str:
        """The digest of the image that it was started from, where only this tells; else empty."""
        return ""

    @abc.abstractmethod
    def endpoint(self, port: str = "http") -> Endpoint:
        """Return how to reach a port of this unit; final once it has started.

        Raises:
            KeyError: The spec has no port of that name.
        """

    def processes(self) -> Iterable[int]:
        """Pids of the unit's processes on this machine; empty if not visible from here or if the unit has ended."""
        return ()

    @abc.abstractmethod
    async def start(self) -> None:
        """Start a unit created with `start=False`; does nothing if it has been started.

        Raises:
            StartError: It could not be started, with the platform's own reason.
        """

    @abc.abstractmethod
    async def wait(self) -> Exit:
        """Wait until the unit has ended and its logs are complete. Any number of tasks may wait."""

    @abc.abstractmethod
    async def wait_ready(self, probe: HttpProbe) -> float:
        """Wait until the unit answers, and return the seconds since its start.

        The answer must come from the unit itself, not from a stranger on the same port.

        Raises:
            NotReadyError: The unit ended first (`context['exit']` is the `Exit` as data) or the time ran out
                (`context['exit']` is None; `context['last']` is the last observation: refused, status 503, ...).
        """

    async def reach(self) -> None:  # noqa: B027 - a local unit needs no connection
        """Wait until the connection to the unit works, or the unit has ended.

        A request that did not reach the unit says nothing about the unit. Call this to tell a broken connection from a
        unit that does not answer.
        """

    @abc.abstractmethod
    async def log_tail(self, limit: int = 4000) -> str:
        """The last bytes of the logs as text, with undecodable bytes replaced and control sequences stripped."""

    def missed(self, port: str) -> str:
        """Where the unit listens, if that is why others cannot reach the port; empty if that cannot be seen."""
        return ""

    def missing_hint(self, tail: str) -> str:
        """Say what to change where the unit runs, if the end of its log shows that it needs that; else empty."""
        if _OTHER_MACHINE.search(tail):
            return "Its image, or the program in it, is for another machine: build it for the one that it is to run on."
        missing = missing_module(tail)
        return f"Its image has no {missing}: install it in a Dockerfile beside it." if missing else ""

    async def unlike_image(self, tail: str) -> str:
        """Say how the unit's surroundings differ from its image, if the end of its log suggests that this matters.

        The words complete a sentence; they are empty where units run in their images.
        """
        return ""

    @abc.abstractmethod
    async def stop(self, grace: float = 5.0) -> Exit:
        """Send TERM to the process tree, then KILL after `grace` seconds. Idempotent. Returns how the unit ended.

        A unit that was still running ends with reason `stopped`; one that had already ended keeps its own exit.
        """

    @abc.abstractmethod
    def written(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[str]]:
        """Stream the names of regular files in the unit's directory as writers close them or rename them into place.

        Files that were complete before the stream was opened are reported first. The stream ends with the unit.
        """

    @abc.abstractmethod
    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        """Copy a file out of the unit's directory, atomically, without following links. Works after the unit has ended.

        Returns:
            Its size in bytes.

        Raises:
            FileNotFoundError: There is no such file.
            TransferError: It is not a regular file, is larger than `limit` bytes, or could not be copied.
        """

    async def left(self) -> tuple[str, ...]:
        """Return the names of the files that an ended unit has left, sorted, in the form that `fetch` takes.

        Besides files in its directory, names may be `logs/NAME`. If there are very many files, only the first few
        thousand are listed.
        """
        async with self.written() as names:
            return tuple(sorted({name async for name in names}))

    async def size(self, name: str) -> int | None:
        """Current size in bytes of a file in the unit's directory; None if it does not exist or cannot be seen."""
        try:
            return (self.spec.directory / name).lstat().st_size if self.spec.directory is not None else None
        except OSError:
            return None


class Backend(abc.ABC):
    """A connection to a place that runs things. Configure by keyword, enter with `async with`."""

    name: str = ""

    @property
    def starts_together(self) -> bool:
        """Whether a queue admits the units of a run as one: then all are created before the first one starts."""
        return False

    _hurried: bool = False
    _scopes: set[anyio.CancelScope] | None = None

    @property
    def _patient(self) -> set[anyio.CancelScope]:
        """The waits that `end_waits` ends; created on demand, so implementers need not call an `__init__`."""
        if self._scopes is None:
            self._scopes = set()
        return self._scopes

    def end_waits(self) -> None:
        """End all grace periods: every current and future stop goes from TERM to KILL at once."""
        self._hurried = True
        for scope in tuple(self._patient):
            scope.cancel()

    @contextmanager
    def grace_period(self, seconds: float) -> Generator[anyio.CancelScope]:
        """Limit a wait for a unit to end by itself: to `seconds`, or until `end_waits` is called."""
        with anyio.move_on_after(0 if self._hurried else seconds) as scope:
            self._patient.add(scope)
            try:
                yield scope
            finally:
                self._patient.discard(scope)

    @property
    @abc.abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend enforces."""

    @abc.abstractmethod
    async def __aenter__(self) -> Self:
        """Open connections, and nothing else.

        Raises:
            BackendUnavailable: The engine is not installed, not running or not permitted; the message says which.
        """

    @abc.abstractmethod
    async def __aexit__(self, *exc: object) -> None:
        """Close connections."""

    @abc.abstractmethod
    async def check(self) -> tuple[Issue, ...]:
        """Check the backend without side effects. Each issue has a hint. May be called before entering."""

    @abc.abstractmethod
    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Pull an image unless it exists locally. Concurrent calls for one image share the work.

        Raises:
            ImageError: The image is absent and cannot be pulled, is for another platform, or is an unpublished `img_`
                id.
        """

    @property
    def helper_image(self) -> str:
        """An image with Python 3.9 or later, for programs of ours that run beside units; empty without `proxies`."""
        return ""

    async def has_image(self, image: str) -> bool:
        """Return whether an image is already present, without fetching anything; False on backends without images."""
        return False

    async def images_of(self, registry: str) -> tuple[str, ...]:
        """References by digest of images that are present and came from a registry, given by its host and port.

        None on backends that keep no images of their own.
        """
        return ()

    async def remove_image(self, reference: str) -> bool:
        """Remove an image that `images_of` names; returns False if it has gone, or something uses it."""
        return False

    async def build_image(
        self,
        image: str,
        context: Path,
        *,
        labels: Mapping[str, str],
        platform: str | None = None,
        publish: Publish | None = None,
    ) -> ImageInfo:
        """Build an image from a directory, unless an image of that name exists already.

        Args:
            image: Its name, which must identify its content for good.
            context: The directory, with its `Dockerfile`; nothing else of this machine is sent.
            labels: The labels to set on it.
            platform: os/architecture; None: the engine's default.
            publish: Receives progress events.

        Raises:
            CapabilityError: This backend does not claim `builds`.
            BuildError: A step of the Dockerfile failed.
            ImageError: The base image is not available.
        """
        raise CapabilityError(
            f"The {self.name} backend builds no images.",
            hint="Build the image, push it to a registry that the backend pulls from, and name it.",
            context={"backend": self.name, "image": image},
        )

    async def ensure_packages(self, name: str, directory: Path, *, publish: Publish | None = None) -> None:  # noqa: B027
        """Install what the files of a player ask for, on a backend without images that is to install; else do nothing.

        Args:
            name: The player, for messages.
            directory: Its files. A unit has them as its inputs.
            publish: Receives progress events.

        Raises:
            BuildError: Something cannot be installed.
        """

    @abc.abstractmethod
    def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AbstractAsyncContextManager[tuple[Unit, ...]]:
        """Create units concurrently, in the order of the specs; stop and remove them all on leaving.

        Args:
            specs: What to run.
            publish: Receives the units' events.
            start: Whether to start them too; otherwise each is created and waits for `Unit.start`.
            grace: Seconds between TERM and KILL on leaving.

        Raises:
            CapabilityError: A spec asks for what this backend cannot enforce; nothing was created.
            StartError: One could not be created or started; nothing is left.
        """

    @abc.abstractmethod
    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        """Everything created by this project that exists here, by label; of one run, or of all."""

    @abc.abstractmethod
    async def reap(self, found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
        """Remove what `find` found, concurrently. Objects of a running runner are removed only with `force`."""

    def engine_version(self) -> str:
        """Name and version of the engine, for the record; empty if there is none."""
        return ""

    def trouble(self) -> str:
        """Return why the platform is not answering at the moment, in words; empty while it answers."""
        return ""

    def refuse_unenforceable(self, specs: Sequence[UnitSpec]) -> None:
        """Raise for the first spec that asks for more than `capabilities` offers.

        Raises:
            CapabilityError: Names the unit, the requirement and the backend.
        """
        can = self.capabilities
        for spec in specs:
            asked = {
                "network isolation": (spec.network != "open", can.network_isolation),
                "a memory limit": (spec.limits.memory_bytes is not None, can.memory_limit),
                "a processor limit": (spec.limits.cpus is not None, can.cpu_limit),
                "a process limit": (spec.limits.pids is not None, can.pids_limit),
                "a disk limit": (spec.limits.of_disk, can.disk_limit),
                "a way out through a proxy": (bool(spec.proxies), can.proxies),
            }
            for what, (wanted, possible) in asked.items():
                if wanted and not possible:
                    raise CapabilityError(
                        f"The {self.name} backend cannot enforce {what}, which was asked for unit {spec.name!r}.",
                        hint=Hint("other_backend", 'Use a backend that can (backend="docker"), or do not ask for it.'),
                        context={"backend": self.name, "unit": spec.name, "asked": what},
                    )


def without_limits(spec: UnitSpec, capabilities: Capabilities) -> UnitSpec:
    """Return the spec without *default* limits that the backend cannot enforce; explicit ones are checked elsewhere."""
    return dataclasses.replace(
        spec,
        network=spec.network if capabilities.network_isolation else "open",
        limits=enforceable(spec.limits, capabilities),
    )


def enforceable(limits: Limits, capabilities: Capabilities) -> Limits:
    """The given limits, reduced to those that a backend can enforce."""
    return dataclasses.replace(
        limits,
        memory_bytes=limits.memory_bytes if capabilities.memory_limit else None,
        cpus=limits.cpus if capabilities.cpu_limit else None,
        pids=limits.pids if capabilities.pids_limit else None,
        disk_bytes=limits.disk_bytes if capabilities.disk_limit else None,
        disk_entries=limits.disk_entries if capabilities.disk_limit else None,
    )
