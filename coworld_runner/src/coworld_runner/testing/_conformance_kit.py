"""What the checks of the backend contract stand on: the subject, a run for each check, and what to fill in."""

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
    """What the subject needs to know; a ``UnitSpec.environment``."""
    return {
        "SUBJECT_DIR": placement.directory,
        "SUBJECT_HOST": placement.listen_host,
        "SUBJECT_PORT": str(placement.listen.get("http", 0)),
    }


def with_environment(extra: Mapping[str, str]) -> Callable[[Placement], Mapping[str, str]]:
    return lambda placement: {**subject_environment(placement), **extra}


def does_not_apply(reason: str) -> Never:
    """End a check that says nothing about this backend.

    Reported as an expected failure rather than a skip: nothing is missing on this machine that could be installed.
    """
    pytest.xfail(reason)


def locked(path: Path) -> bool:
    """Whether somebody who lives holds the subject's lock on a file."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of; the check's own deadline ends it."""
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.01)


def units_of(found: Sequence[Found]) -> list[Found]:
    return [item for item in found if item.kind != "directory"]


class Arena:
    """What one check works with: a run of its own, its directory, and the events of its units."""

    def __init__(self, suite: Suite, scratch: Scratch) -> None:
        self.suite = suite
        self.scratch = scratch
        self.run_id = scratch.run_id
        self.events: list[BaseEvent] = []

    def publish(self, event: BaseEvent) -> None:
        """Keep an event, having made sure that it is one of the closed union."""
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
        """The directory of one unit as the unit has it, to be looked into and written to while it runs."""
        return self.suite.inside(self.run_id, name, self.directory(name))

    def log(self, name: str) -> Path:
        """The log of one unit."""
        return self.scratch.path / f"{name}.log"

    def spec(self, name: str, *steps: str, **changes: Any) -> UnitSpec:
        """The subject as a unit of this run that takes these steps."""
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

    async def said(self, name: str, text: str) -> None:
        """Wait until a unit has written a text."""
        await until(lambda: text in self.text(name))

    async def locked(self, name: str, lock: str) -> None:
        """Wait until a unit, or one of its children, holds a lock."""
        await until(lambda: locked(self.inside(name) / lock))

    def is_locked(self, name: str, lock: str) -> bool:
        """Whether a unit, or one of its children, holds a lock; so whether it lives."""
        return locked(self.inside(name) / lock)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Backend, None]:
        """The backend, entered, for as long as a check may take."""
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
    """What a suite must be told, and may be; the groups of checks are its subclasses."""

    deadline: float = 60.0
    """Seconds that one check may take."""

    patience: float = 3.0
    """Seconds after which a check that waits for a unit that is never ready gives it up."""

    # not abstract: of a suite that lacks one of these each check says so, where pytest could only not make its class

    def make_backend(self) -> Backend:
        """A new backend, not entered yet."""
        raise NotImplementedError("BackendConformance needs make_backend")

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        """A spec that runs ``subject.py`` with these steps as its arguments; the checks fill in the rest."""
        raise NotImplementedError("BackendConformance needs subject_spec")

    def inside(self, run_id: str, name: str, directory: Path) -> Path:
        """Where the directory of a unit that runs can be looked into and written to.

        For a backend whose units see the directory itself that is the directory. One whose units are elsewhere says
        where, on a machine that the tests can look into; a path where there is nothing while the unit does not exist.
        """
        return directory

    @pytest.fixture
    def arena(self) -> Generator[Arena, None, None]:
        """A run of its own for each check."""
        with make_scratch(new_run_id()) as scratch:
            yield Arena(self, scratch)

    def needs(self, capability: bool, what: str) -> None:
        """End a check of what this backend does not claim."""
        if not capability:
            does_not_apply(f"the {self.make_backend().name} backend does not claim {what}")
