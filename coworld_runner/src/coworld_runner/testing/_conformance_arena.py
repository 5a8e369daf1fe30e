"""The basis of the backend checks: the subject, a run for each check, and the methods that a suite implements."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Never

import anyio
import pytest

from coworld_core.episode.events import BaseEvent, Event
from coworld_core.episode.outcome import Exit
from coworld_core.files.locks import flock
from coworld_core.ids import new_run_id

from ..backend import Backend, Found, Placement, Port, UnitSpec
from ..runs.scratch import Scratch, make_scratch

__all__ = [
    "HTTP",
    "SUBJECT",
    "Arena",
    "Suite",
    "does_not_apply",
    "locked",
    "subject_environment",
    "units_of",
    "until",
    "with_environment",
]


SUBJECT = Path(__file__).with_name("subject.py")
"""The program the checks run; needs Python 3.11 and nothing else."""

HTTP = (Port(name="http"),)


def subject_environment(placement: Placement) -> Mapping[str, str]:
    """The variables that the subject needs; a `UnitSpec.environment`."""
    return {
        "SUBJECT_DIR": placement.directory,
        "SUBJECT_HOST": placement.listen_host,
        "SUBJECT_PORT": str(placement.listen.get("http", 0)),
    }


def with_environment(extra: Mapping[str, str]) -> Callable[[Placement], Mapping[str, str]]:
    return lambda placement: {**subject_environment(placement), **extra}


def does_not_apply(reason: str) -> Never:
    """End a check that does not apply to this backend.

    It is reported as an expected failure rather than a skip, since installing something would not make it apply.
    """
    pytest.xfail(reason)


def locked(path: Path) -> bool:
    """Whether a living process holds the subject's lock on a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not flock(descriptor, shared=True)
    finally:
        os.close(descriptor)


async def until(condition: Callable[[], bool]) -> None:
    """Poll until a condition that has no event is true; the check's own deadline ends the wait."""
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.01)


def units_of(found: Sequence[Found]) -> list[Found]:
    return [item for item in found if item.kind != "directory"]


class Arena:
    """What one check works with: its own run, the run's directory, and the events of its units."""

    def __init__(self, suite: Suite, scratch: Scratch) -> None:
        self.suite = suite
        self.scratch = scratch
        self.run_id = scratch.run_id
        self.events: list[BaseEvent] = []

    def publish(self, event: BaseEvent) -> None:
        """Record an event, after asserting that it belongs to the closed union of events."""
        assert isinstance(event, Event.__origin__.__args__), event  # type: ignore[attr-defined]
        self.events.append(event)

    def of(self, kind: type[BaseEvent], name: str = "") -> list[Any]:
        """The events of one kind so far, of one unit or of all."""
        return [e for e in self.events if isinstance(e, kind) and (not name or getattr(e, "unit", "") == name)]

    def directory(self, name: str) -> Path:
        """The directory of one unit."""
        path = self.scratch.path / name
        return path if path.is_dir() else self.scratch.directory(name, shared=True)

    def inside(self, name: str) -> Path:
        """The directory of one unit as the unit sees it, for reading and writing while it runs."""
        return self.suite.inside(self.run_id, name, self.directory(name))

    def log(self, name: str) -> Path:
        """The log of one unit."""
        return self.scratch.path / f"{name}.log"

    def spec(self, name: str, *steps: str, **changes: Any) -> UnitSpec:
        """A spec that runs the subject with these steps as a unit of this run."""
        return dataclasses.replace(
            self.suite.subject_spec(self.run_id, name, *steps),
            **{
                "directory": self.directory(name),
                "environment": subject_environment,
                "stdout": self.log(name),
                **changes,
            },
        )

    def text(self, name: str) -> str:
        """What a unit has written so far."""
        try:
            return self.log(name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    async def until_written(self, name: str, text: str) -> None:
        """Wait until a unit has written a text."""
        await until(lambda: text in self.text(name))

    async def locked(self, name: str, lock: str) -> None:
        """Wait until a unit, or one of its children, holds a lock."""
        await until(lambda: locked(self.inside(name) / lock))

    def is_locked(self, name: str, lock: str) -> bool:
        """Whether a unit, or one of its children, holds a lock, and so is alive."""
        return locked(self.inside(name) / lock)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Backend, None]:
        """Enter a new backend, for as long as a check may take."""
        with anyio.fail_after(self.suite.deadline):
            async with self.suite.make_backend() as backend:
                yield backend

    async def run(self, backend: Backend, spec: UnitSpec) -> Exit:
        """Run one unit to its end."""
        async with backend.units([spec], publish=self.publish) as (unit,):
            return await unit.wait()

    async def nothing_left(self, backend: Backend) -> None:
        """Assert that no unit of this run exists any more."""
        assert units_of(await backend.find(self.run_id)) == []


class Suite:
    """The methods and settings that a suite fills in or overrides; the groups of checks are its subclasses."""

    deadline: float = 60.0
    """Seconds that one check may take."""

    ready_timeout: float = 3.0
    """Seconds that a check waits for a unit that never becomes ready."""

    # Not abstract: each check of an incomplete suite says what is missing, where pytest could only fail to create it

    def make_backend(self) -> Backend:
        """A new backend, not entered yet."""
        raise NotImplementedError("BackendConformance needs make_backend")

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        """A spec that runs `subject.py` with these steps as its arguments; the checks fill in the rest."""
        raise NotImplementedError("BackendConformance needs subject_spec")

    def inside(self, run_id: str, name: str, directory: Path) -> Path:
        """Where the tests can read and write the directory of a running unit.

        By default, the directory itself. A suite whose units run elsewhere returns a path that the tests can reach, at
        which nothing exists while the unit does not.
        """
        return directory

    @pytest.fixture
    def arena(self) -> Generator[Arena, None, None]:
        """A new run for each check."""
        with make_scratch(new_run_id()) as scratch:
            yield Arena(self, scratch)

    def needs(self, capability: bool, what: str) -> None:
        """End the check unless this backend claims a capability."""
        if not capability:
            does_not_apply(f"the {self.make_backend().name} backend does not claim {what}")
