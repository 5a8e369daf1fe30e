"""Checks whether this machine can run Coworlds, without changing anything."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from coworld_core.errors import CoworldError, EnvironmentFault, UsageError
from coworld_core.hints import Hint
from coworld_core.issues import Issue
from coworld_core.operating_system import SYSTEMS, plays_here, require_posix
from coworld_core.text.phrases import plural

from .backend import Backend
from .backends.registry import ClusterOptions, backend_names
from .episode.backend_choice import make_backend
from .runs.processors import usable_processors
from .runs.reaper import Sweep, sweep
from .runs.scratch import scratch_root, scratch_roots

__all__ = ["Check", "Machine", "check_machine", "leftovers", "machine_versions"]

DISTRIBUTIONS = ("coworld-cli", "coworld-runner", "coworld-core", "coworld-client")
_PUBLISHED = "coworld"

_TIMEOUT = 10.0
"""Seconds for an engine to answer; a slower one is too slow for episodes."""
_REMOTE_TIMEOUT = 60.0
"""Seconds for an engine on another machine to answer."""
_QUICK = 2.0
"""Seconds for an engine to report its version when that is only additional information."""

_STATUS: Mapping[str, Literal["ok", "warn", "fail"]] = {"info": "ok", "warning": "warn", "error": "fail"}

_LITTLE_ROOM = 2 * 1024**3
_NO_ROOM = 200 * 1024**2
_FEW_INOTIFY = 64
_PRESSURE = Path("/proc/pressure/cpu")
_PRESSURE_SECONDS = 0.3
"""Seconds over which CPU wait is measured."""
_BUSY_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check."""

    name: str
    status: Literal["ok", "warn", "fail"]
    message: str
    """The finding, in at most one sentence."""
    hint: str | None = None
    """What to do about it."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The state of this machine."""

    checks: tuple[Check, ...]
    backends: tuple[str, ...]
    """Names of the backends that work."""

    @property
    def ok(self) -> bool:
        """Whether at least one backend works and the directory for temporary files is usable."""
        return bool(self.backends) and all(check.status != "fail" for check in self.checks if check.name == "temp")


async def check_machine(*, backends: Sequence[str] | None = None, cluster: ClusterOptions | None = None) -> Machine:
    """Check everything that a run depends on: Python, system, processors, disk space, file watching, each backend.

    Args:
        backends: Names of backends; None: those of this machine.
        cluster: The cluster, for backends that run on one.

    Returns:
        A result for each check, and the backends that work. A backend that does not work is only a warning if another
        one works.

    Raises:
        UsageError: There is no backend of that name.
    """
    # Elsewhere no backend works, and that is said once
    chosen, broken = _made(backends, cluster) if plays_here() else ({}, {})
    found: dict[str, tuple[Check, ...]] = {}
    async with anyio.create_task_group() as group:

        async def note(name: str, backend: Backend) -> None:
            found[name] = await _check_backend(name, backend)

        for name, backend in chosen.items():
            group.start_soon(note, name, backend)
    found |= {name: (_failed(name, error),) for name, error in broken.items()}
    names = sorted(found)
    working = tuple(name for name in names if all(check.status != "fail" for check in found[name]))
    looked_at = [
        check
        if check.status != "fail" or not working
        else Check(name=check.name, status="warn", message=check.message, hint=check.hint)
        for name in names
        for check in found[name]
    ]
    checks = (
        _check_coworld(),
        _check_python(),
        _check_system(),
        await _check_processors(),
        *await anyio.to_thread.run_sync(lambda: (_check_temp(), _check_inotify())),
        *looked_at,
        await _check_leftovers(working, cluster),
    )
    return Machine(checks=tuple(check for check in checks if check is not None), backends=working)


def _made(
    names: Sequence[str] | None, cluster: ClusterOptions | None
) -> tuple[dict[str, Backend], dict[str, Exception]]:
    """Return backends by name, not entered, and the errors of those that cannot be made.

    Raises:
        UsageError: There is no backend of that name.
    """
    made: dict[str, Backend] = {}
    broken: dict[str, Exception] = {}
    for name in names or backend_names():
        try:
            backend = make_backend(name, cluster=cluster)
            remote = backend.capabilities.remote
        except Exception as error:  # Backends may be third-party, and the others must still be checked
            if names and isinstance(error, UsageError):
                raise
            broken[name] = error
            continue
        # Backends on other machines are checked only when they are named
        if names or not remote:
            made[name] = backend
    return made, broken


async def machine_versions() -> Mapping[str, str | None]:
    """Return the versions of coworld, Python, the platform and the Docker engine; None for those that are missing.

    An engine that does not answer within two seconds counts as missing.
    """
    found: dict[str, str | None] = {name: _version(name) for name in DISTRIBUTIONS}
    found["python"] = platform.python_version()
    found["platform"] = await anyio.to_thread.run_sync(platform.platform)
    found["docker"] = None
    with anyio.move_on_after(_QUICK):
        try:
            async with make_backend("docker") as backend:
                found["docker"] = backend.engine_version() or None
        except CoworldError:
            pass
    return found


async def leftovers(
    *,
    backends: Sequence[str] | None = None,
    run_id: str | None = None,
    apply: bool = False,
    force: bool = False,
    cluster: ClusterOptions | None = None,
) -> Sweep:
    """Look for the leftovers of killed runs on all given backends (see `reaper.sweep`).

    Args:
        backends: Names of backends; None: those of this machine. One that cannot be reached or used is reported in
            `unavailable`.
        run_id: Only this run.
        apply: Whether to remove the leftovers.
        force: Whether to remove what a living runner owns, too.
        cluster: The cluster, for backends that run on one.

    Raises:
        UsageError: There is no backend of that name.
    """
    made, broken = _made(backends, cluster)
    # Without any that can be asked, nothing was meant that this machine has
    asked = tuple(made.values())
    swept = await sweep(asked, run_id=run_id, apply=apply, force=force) if asked or backends is None else Sweep(())
    missing = [f"{name}: {error}" for name, error in broken.items()]
    return Sweep(swept.found, swept.reaped, (*missing, *swept.unavailable))


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _check_coworld() -> Check:
    found = {name: _version(name) for name in DISTRIBUTIONS}
    text = ", ".join(f"{name.removeprefix('coworld-')} {number}" for name, number in found.items() if number)
    if (published := _version(_PUBLISHED)) is None:
        return Check(name="coworld", status="ok", message=text)
    return Check(
        name="coworld",
        status="warn",
        message=f"{text}; the published {_PUBLISHED} {published} is installed, too, and has that command as well",
        hint="Keep them in separate environments: whichever is uninstalled takes the command of both away.",
    )


def _check_python() -> Check:
    message = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    return Check(name="python", status="ok", message=message)


def _check_system() -> Check:
    try:
        require_posix()
    except EnvironmentFault as error:
        return _failed("system", error)
    message = f"{platform.system()} {platform.release()}; coworld plays on {SYSTEMS}"
    return Check(name="system", status="ok", message=message)


async def _check_processors() -> Check:
    """Check how many processors this process may use, and whether they are busy."""
    count, there = usable_processors(), os.cpu_count() or 1
    what = plural(count, "processor")
    if count < there:
        what += f" of the machine's {there} (affinity or a cgroup's quota leaves no more)"
    before, began = _stalled_seconds(), time.monotonic()
    await anyio.sleep(_PRESSURE_SECONDS)
    after, elapsed = _stalled_seconds(), time.monotonic() - began
    if before is None or after is None:
        return Check(name="processors", status="ok", message=f"{what}; the kernel does not say whether they are short")
    waited = min(1.0, max(0.0, (after - before) / elapsed))
    share = f"{round(100 * waited)} %"
    if waited >= _BUSY_SHARE:
        return Check(
            name="processors",
            status="warn",
            message=f"{what}, busy just now; CPU wait: {share}",
            hint="Games run in real time: on a busy machine players answer late, and scores change.",
        )
    return Check(name="processors", status="ok", message=f"{what}; CPU wait: {share}")


def _stalled_seconds() -> float | None:
    """Return the seconds since boot in which some task waited for a processor; None if the kernel does not tell."""
    try:
        for line in _PRESSURE.read_text("ascii").splitlines():
            if line.startswith("some "):
                return int(line.rsplit("total=", 1)[1]) / 1e6
    except (OSError, ValueError, IndexError):
        return None
    return None


def _check_temp() -> Check:
    root = Path(tempfile.gettempdir())
    try:
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"coworld")
        free = shutil.disk_usage(root).free
        limits = os.statvfs(root) if hasattr(os, "statvfs") else None
    except OSError as error:
        return Check(
            name="temp",
            status="fail",
            message=f"{root} cannot be written to: {error.strerror}",
            hint="Set TMPDIR to a directory you can write to.",
        )
    message = f"{root} has {free / 1024**3:.1f} GiB free"
    hint = "Free some room, or set TMPDIR to a directory on another disk."
    if limits is not None and limits.f_files and limits.f_favail < 1000:
        return Check(name="temp", status="warn", message=f"{message}, but almost no free inodes", hint=hint)
    if free < _NO_ROOM:
        return Check(name="temp", status="fail", message=message, hint=hint)
    if free < _LITTLE_ROOM:
        return Check(name="temp", status="warn", message=message, hint=hint)
    if why := scratch_roots()[scratch_root()]:
        return Check(name="temp", status="fail", message=f"{scratch_root()} {why}", hint="Remove it, or set TMPDIR.")
    return Check(name="temp", status="ok", message=message)


def _check_inotify() -> Check | None:
    """Check whether files can be watched; without inotify they are polled, which is a little slower."""
    if sys.platform != "linux":
        return None
    try:
        instances = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text("ascii"))
    except (OSError, ValueError):
        return Check(
            name="inotify",
            status="warn",
            message="this kernel has none; files are polled instead",
            hint="Episodes end a little later than they could.",
        )
    if instances < _FEW_INOTIFY:
        return Check(
            name="inotify",
            status="warn",
            message=f"{instances} watchers per user",
            hint="For many parallel episodes: sysctl fs.inotify.max_user_instances=512",
        )
    return Check(name="inotify", status="ok", message=f"{instances} watchers per user")


async def _check_backend(name: str, backend: Backend) -> tuple[Check, ...]:
    """Check one backend: a remote one gives a result for each of its requirements, a local one a single result."""
    try:
        remote = backend.capabilities.remote
        time_limit = _REMOTE_TIMEOUT if remote else _TIMEOUT
        with anyio.move_on_after(time_limit):
            issues = await backend.check()
            if remote:
                return tuple(_issue_check(name, issue) for issue in issues)
            errors = [issue for issue in issues if issue.severity == "error"]
            if errors:
                return (Check(name=name, status="fail", message=_joined(errors), hint=errors[0].hint),)
            async with backend:
                engine = backend.engine_version()
            warnings = [issue for issue in issues if issue.severity == "warning"]
            message = "; ".join(filter(None, (engine or "works", _joined(warnings))))
            return (Check(name=name, status="ok", message=message, hint=warnings[0].hint if warnings else None),)
    except Exception as error:  # noqa: BLE001 - backends may be third-party, and the others must still be checked
        return (_failed(name, error),)
    return (
        Check(
            name=name,
            status="fail",
            message=f"does not answer within {time_limit:g} s",
            hint="Check whether it can be reached." if remote else "Look at the engine's own log, or restart it.",
        ),
    )


def _issue_check(name: str, issue: Issue) -> Check:
    hint = issue.hint if issue.severity != "info" else None
    return Check(name=f"{name}/{issue.code}", status=_STATUS[issue.severity], message=issue.message, hint=hint)


def _failed(name: str, error: Exception) -> Check:
    if isinstance(error, CoworldError):
        return Check(name=name, status="fail", message=error.message, hint=error.hint)
    return Check(
        name=name,
        status="fail",
        message=f"its check failed: {type(error).__name__}: {error}",
        hint="This is a bug in the backend: report it to its author.",
    )


def _joined(issues: Sequence[Issue]) -> str:
    return " ".join(issue.message for issue in issues)


async def _check_leftovers(working: Sequence[str], cluster: ClusterOptions | None) -> Check:
    swept = await leftovers(backends=working, cluster=cluster)
    dead = [item for item in swept.found if not item.alive]
    if not dead:
        return Check(name="leftovers", status="ok", message="none")
    runs = len({item.run_id for item in dead})
    return Check(
        name="leftovers",
        status="warn",
        message=f"{len(dead)} object{'s' if len(dead) != 1 else ''} of {runs} killed run{'s' if runs != 1 else ''}",
        hint=Hint("sweep_leftovers", "sweep lists them, and removes them with apply=True."),
    )
