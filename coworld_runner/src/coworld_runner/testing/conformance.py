"""The backend contract as checks: subclass :class:`BackendConformance` for each backend and let pytest run it.

::

    class TestMine(BackendConformance):
        def make_backend(self) -> Backend:
            return MyBackend(...)

        def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
            return UnitSpec(run_id=run_id, name=name, component="player", image=..., argv=("python", SUBJECT, *steps))

The checks are coroutines; with pytest-asyncio in its automatic mode they need nothing else. What a backend's
``capabilities`` do not claim is an expected failure, and asking for it must be refused. Nothing measures time: a check
waits for what must happen, within ``deadline``.
"""

# the name of a check is its docstring
# ruff: noqa: D102

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Never

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from coworld_core.errors import BackendError, CapabilityError, ImageError, NotReadyError, StartError, TransferError
from coworld_core.events import (
    BaseEvent,
    Event,
    LeakFound,
    LogTruncated,
    UnitCreated,
    UnitExited,
    UnitReady,
    UnitStarted,
)
from coworld_core.ids import new_run_id
from coworld_core.issues import Issue
from coworld_core.outcome import Exit

from ..backend import Backend, Found, HttpProbe, Limits, Placement, Port, Unit, UnitSpec
from ..scratch import Scratch, open_scratch, remove_tree, scratch_root

__all__ = ["SUBJECT", "Arena", "BackendConformance", "subject_environment"]

SUBJECT = Path(__file__).with_name("subject.py")
"""The program the checks run; needs Python 3.11 and nothing else."""

_HTTP = (Port(name="http"),)


def subject_environment(placement: Placement) -> Mapping[str, str]:
    """What the subject needs to know; a ``UnitSpec.environment``."""
    return {
        "SUBJECT_DIR": placement.directory,
        "SUBJECT_HOST": placement.listen_host,
        "SUBJECT_PORT": str(placement.listen.get("http", 0)),
    }


def _with(extra: Mapping[str, str]) -> Callable[[Placement], Mapping[str, str]]:
    return lambda placement: {**subject_environment(placement), **extra}


def _does_not_apply(reason: str) -> Never:
    """End a check that says nothing about this backend.

    Reported as an expected failure rather than a skip: nothing is missing on this machine that could be installed.
    """
    pytest.xfail(reason)


def _locked(path: Path) -> bool:
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


async def _until(condition: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of; the check's own deadline ends it."""
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.01)


def _units_of(found: Sequence[Found]) -> list[Found]:
    return [item for item in found if item.kind != "directory"]


class Arena:
    """What one check works with: a run of its own, its directory, and the events of its units."""

    def __init__(self, suite: BackendConformance, scratch: Scratch) -> None:
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
        await _until(lambda: text in self.text(name))

    async def locked(self, name: str, lock: str) -> None:
        """Wait until a unit, or one of its children, holds a lock."""
        await _until(lambda: _locked(self.directory(name) / lock))

    def is_locked(self, name: str, lock: str) -> bool:
        """Whether a unit, or one of its children, holds a lock; so whether it lives."""
        return _locked(self.directory(name) / lock)

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
        assert _units_of(await backend.find(self.run_id)) == []


class BackendConformance:
    """The contract of ``coworld_runner.backend`` as checks. Subclass it and fill in the first two methods."""

    deadline: float = 60.0
    """Seconds that one check may take."""

    patience: float = 1.5
    """Seconds after which a check that waits for a unit that is never ready gives it up."""

    def make_backend(self) -> Backend:
        """A new backend, not entered yet."""
        raise NotImplementedError("BackendConformance needs make_backend")

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        """A spec that runs ``subject.py`` with these steps as its arguments; the checks fill in the rest."""
        raise NotImplementedError("BackendConformance needs subject_spec")

    @pytest.fixture
    def arena(self) -> Generator[Arena, None, None]:
        """A run of its own for each check."""
        with open_scratch(new_run_id()) as scratch:
            yield Arena(self, scratch)

    # ------------------------------------------------------------------ opening

    async def test_entering_opens_connections_and_nothing_else(self, arena: Arena) -> None:
        import psutil

        me = psutil.Process()
        before = {child.pid for child in me.children(recursive=True)}
        async with arena.open() as backend:
            assert {child.pid for child in me.children(recursive=True)} <= before
            assert _units_of(await backend.find(arena.run_id)) == []
            assert backend.name
            assert isinstance(backend.engine_version(), str)

    async def test_check_may_be_called_unentered_and_changes_nothing(self, arena: Arena) -> None:
        with anyio.fail_after(self.deadline):
            issues = await self.make_backend().check()
        assert isinstance(issues, tuple)
        for issue in issues:
            assert isinstance(issue, Issue)
            assert issue.hint, f"{issue.code} does not say what to do"
            assert issue.severity != "error", f"this backend cannot be tested here: {issue}"

    async def test_ensure_image_is_shared_by_all_who_ask(self, arena: Arena) -> None:
        image = arena.spec("subject").image
        async with arena.open() as backend:
            infos: list[object] = []

            async def ask() -> None:
                infos.append(await backend.ensure_image(image, publish=arena.publish))

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(ask)
            assert len(infos) == 5
            assert len({repr(info) for info in infos}) == 1

    @pytest.mark.parametrize(
        "image", ["coworld.invalid/no-such-image:never", f"img_{'0' * 8}-0000-4000-8000-{'0' * 12}"]
    )
    async def test_an_image_that_is_not_to_be_had_is_refused_with_a_hint(self, arena: Arena, image: str) -> None:
        async with arena.open() as backend:
            with pytest.raises(ImageError) as caught:
                await backend.ensure_image(image)
        assert image in caught.value.message
        assert caught.value.hint

    # ------------------------------------------------------------------ capabilities

    async def test_what_it_cannot_enforce_it_refuses_before_anything_is_made(self, arena: Arena) -> None:
        can = self.make_backend().capabilities
        asked: list[tuple[bool, dict[str, Any]]] = [
            (can.network_isolation, {"network": "none"}),
            (can.network_isolation, {"network": "game-only", "connects_to": "game"}),
            (can.memory_limit, {"limits": Limits(memory_bytes=1 << 30)}),
            (can.cpu_limit, {"limits": Limits(cpus=1.0)}),
            (can.pids_limit, {"limits": Limits(pids=100)}),
            (can.disk_limit, {"limits": Limits(disk_bytes=1 << 30)}),
        ]
        async with arena.open() as backend:
            for possible, changes in asked:
                if possible:
                    continue
                specs = [arena.spec("first", "hang"), arena.spec("second", "hang", **changes)]
                with pytest.raises(CapabilityError) as caught:
                    async with backend.units(specs, publish=arena.publish):
                        pytest.fail(f"{changes} was not refused")
                assert "second" in caught.value.message
                assert arena.events == []
                await arena.nothing_left(backend)

    async def test_what_it_claims_to_enforce_it_accepts(self, arena: Arena) -> None:
        can = self.make_backend().capabilities
        limits = Limits(
            memory_bytes=1 << 30 if can.memory_limit else None,
            cpus=1.0 if can.cpu_limit else None,
            pids=100 if can.pids_limit else None,
            disk_bytes=1 << 30 if can.disk_limit else None,
        )
        async with arena.open() as backend:
            assert (await arena.run(backend, arena.spec("subject", "exit:0", limits=limits))).ok

    # ------------------------------------------------------------------ making

    async def test_units_come_in_the_order_of_their_specs(self, arena: Arena) -> None:
        names = [f"unit-{index}" for index in range(4)]
        async with (
            arena.open() as backend,
            backend.units([arena.spec(name, "hang", slot=3) for name in names], publish=arena.publish) as units,
        ):
            assert [unit.name for unit in units] == names
            assert len({unit.id for unit in units}) == len(names)
            assert all(unit.id for unit in units)
            for name in names:
                kinds = [type(event) for event in arena.events if getattr(event, "unit", "") == name]
                assert kinds == [UnitCreated, UnitStarted]
            assert {event.slot for event in arena.events if isinstance(event, UnitStarted)} == {3}

    async def test_a_unit_made_without_start_waits_for_it(self, arena: Arena) -> None:
        specs = [arena.spec("one", "print:here", "hang"), arena.spec("never", "print:here", "hang")]
        async with arena.open() as backend:
            async with backend.units(specs, publish=arena.publish, start=False) as (one, never):
                assert arena.of(UnitStarted) == []
                assert len(arena.of(UnitCreated)) == 2
                assert one.exit is None
                assert arena.text("one") == ""
                await one.start()
                await arena.said("one", "here")
                await one.start()
                assert len(arena.of(UnitStarted)) == 1
                assert arena.text("never") == ""
            assert arena.text("one") == "here\n"
            assert arena.text("never") == ""
            assert arena.of(UnitExited, "never") == []
            assert never.exit is not None
            assert never.exit.reason == "stopped"
            await arena.nothing_left(backend)

    async def test_a_start_that_fails_half_way_leaves_nothing(self, arena: Arena) -> None:
        bad = dataclasses.replace(arena.spec("bad"), argv=("coworld-no-such-program",))
        specs = [arena.spec("good", "daemon:alive", "hang"), bad, arena.spec("other", "hang")]
        async with arena.open() as backend:
            with pytest.raises(BackendError) as caught:
                async with backend.units(specs, publish=arena.publish):
                    pytest.fail("a program that does not exist was started")
            assert isinstance(caught.value, StartError)
            assert "coworld-no-such-program" in f"{caught.value.message} {caught.value.hint}"
            await arena.nothing_left(backend)
            assert not arena.is_locked("good", "alive")

    async def test_units_are_found_by_label_as_long_as_they_exist(self, arena: Arena) -> None:
        async with arena.open() as backend:
            for start in (True, False):
                async with backend.units([arena.spec("subject", "hang")], publish=arena.publish, start=start):
                    found = _units_of(await backend.find(arena.run_id))
                    assert any("subject" in item.name for item in found), found
                    assert all(item.alive and item.run_id == arena.run_id for item in found)
                    assert {item.id for item in found} <= {item.id for item in await backend.find()}
                await arena.nothing_left(backend)

    async def test_endpoints_are_on_loopback_and_known_by_name(self, arena: Arena) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            wanted = free.getsockname()[1]
        ports = (Port(name="http"), Port(name="extra", number=9001, host_port=wanted))
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "serve:200", "hang", ports=ports)], publish=arena.publish) as (unit,),
        ):
            host, _, port = unit.endpoint().here.rpartition(":")
            assert host in {"127.0.0.1", "[::1]", "localhost"}
            assert int(port) > 0
            assert unit.endpoint("extra").here == f"127.0.0.1:{wanted}"
            with pytest.raises(KeyError):
                unit.endpoint("none")

    # ------------------------------------------------------------------ ends

    @pytest.mark.parametrize("status", [0, 1, 37])
    async def test_an_exit_status_is_a_value(self, arena: Arena, status: int) -> None:
        async with arena.open() as backend:
            exit = await arena.run(backend, arena.spec("subject", f"exit:{status}"))
        assert (exit.reason, exit.code, exit.signal) == ("exited", status, None)
        assert exit.ok == (status == 0)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
    async def test_an_end_by_a_signal_is_told_from_a_status(self, arena: Arena, number: signal.Signals) -> None:
        async with arena.open() as backend:
            exit = await arena.run(backend, arena.spec("subject", f"die:{int(number)}"))
        assert (exit.reason, exit.signal) == ("signal", int(number))
        assert not exit.ok

    async def test_an_end_is_noticed_when_it_happens_by_all_who_wait(self, arena: Arena) -> None:
        specs = [arena.spec("one", "wait:go", "exit:3"), arena.spec("other", "hang")]
        seen: list[Exit] = []
        async with (
            arena.open() as backend,
            backend.units(specs, publish=arena.publish) as (one, other),
            anyio.create_task_group() as tasks,
        ):

            async def wait() -> None:
                seen.append(await one.wait())

            for _ in range(3):
                tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            assert one.exit is None
            (arena.directory("one") / "go").touch()
            await _until(lambda: len(seen) == 3)
            assert {exit.code for exit in seen} == {3}
            assert one.exit == seen[0] == await one.wait()
            assert other.exit is None
            assert [event.exit for event in arena.of(UnitExited)] == [one.exit]

    async def test_too_much_memory_is_an_end_of_its_own(self, arena: Arena) -> None:
        self._needs(self.make_backend().capabilities.memory_limit, "a memory limit")
        limits = Limits(memory_bytes=64 << 20)
        async with arena.open() as backend:
            within = await arena.run(backend, arena.spec("small", "print:fine", limits=limits))
            exit = await arena.run(backend, arena.spec("large", f"memory:{256 << 20}", limits=limits))
        assert within.ok
        assert exit.reason == "oom", exit
        assert not exit.ok

    async def test_too_many_processes_are_held(self, arena: Arena) -> None:
        self._needs(self.make_backend().capabilities.pids_limit, "a process limit")
        async with arena.open() as backend:
            exit = await arena.run(backend, arena.spec("subject", "processes:60", limits=Limits(pids=30)))
            await arena.nothing_left(backend)
        # over the limit the platform either ends the unit or lets no further process begin
        assert exit.reason == "pids" or exit.code == 1, exit

    async def test_too_much_on_disk_is_an_end_of_its_own(self, arena: Arena) -> None:
        self._needs(self.make_backend().capabilities.disk_limit, "a disk limit")
        limits = Limits(disk_bytes=4 << 20)
        async with arena.open() as backend:
            within = await arena.run(backend, arena.spec("small", f"size:a:{1 << 20}", limits=limits))
            exit = await arena.run(backend, arena.spec("large", f"size:a:{64 << 20}", "hang", limits=limits))
            many = [f"size:{index}:{1 << 20}" for index in range(16)]
            sum_of_many = await arena.run(backend, arena.spec("many", *many, "hang", limits=limits))
        assert within.ok
        assert exit.reason == "disk", exit
        assert sum_of_many.reason == "disk", sum_of_many

    # ------------------------------------------------------------------ logs

    async def test_logs_are_written_while_it_runs(self, arena: Arena) -> None:
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "print:hello", "hang")], publish=arena.publish) as (unit,),
        ):
            await arena.said("subject", "hello\n")
            assert unit.exit is None
            assert "hello" in await unit.log_tail()

    async def test_logs_are_complete_when_wait_has_returned(self, arena: Arena) -> None:
        count = 3_000_000
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", f"flood:{count}", "print:last")], publish=arena.publish) as (unit,),
        ):
            assert (await unit.wait()).ok
            assert arena.log("subject").stat().st_size == count + len("last\n")
            assert (await unit.log_tail()).endswith("last\n")
            assert not unit.log_truncated
            assert arena.of(LogTruncated) == []

    async def test_both_streams_go_where_the_spec_says(self, arena: Arena) -> None:
        steps = ("print:out", "error:err")
        apart = arena.scratch.path / "apart.err"
        async with arena.open() as backend:
            await arena.run(backend, arena.spec("together", *steps))
            await arena.run(backend, arena.spec("apart", *steps, stderr=apart))
            async with backend.units([arena.spec("none", *steps, stdout=None)], publish=arena.publish) as (unit,):
                assert (await unit.wait()).ok
                assert await unit.log_tail() == ""
        assert sorted(arena.text("together").split()) == ["err", "out"]
        assert arena.text("apart") == "out\n"
        assert apart.read_text() == "err\n"
        assert not arena.log("none").exists()

    async def test_a_log_keeps_to_its_limit_and_its_unit_runs_on(self, arena: Arena) -> None:
        limit = 10_000
        spec = arena.spec("subject", "flood:2000000", "exit:5", limits=Limits(log_bytes=limit), slot=2)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            exit = await unit.wait()
            assert (exit.reason, exit.code) == ("exited", 5)
            assert unit.log_truncated
        size = arena.log("subject").stat().st_size
        assert limit // 2 <= size <= limit + 200
        assert "truncated" in arena.text("subject")[-200:]
        assert [(event.unit, event.slot, event.limit_bytes) for event in arena.of(LogTruncated)] == [
            ("subject", 2, limit)
        ]

    async def test_the_tail_is_short_clean_text(self, arena: Arena) -> None:
        raw = b"\x1b[31mred\x1b[0m \x1b]0;title\x07\xff\x00end\n"
        spec = arena.spec("subject", "flood:100000", f"bytes:{raw.hex()}")
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await unit.wait()
            tail = await unit.log_tail(500)
        assert len(tail) <= 500
        assert tail.endswith("red \ufffdend\n")

    # ------------------------------------------------------------------ readiness

    async def test_a_unit_that_answers_is_ready(self, arena: Arena) -> None:
        spec = arena.spec("subject", "serve:200:go", "hang", ports=_HTTP, slot=1)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
            anyio.create_task_group() as tasks,
        ):
            seconds: list[float] = []

            async def ready() -> None:
                seconds.append(await unit.wait_ready(HttpProbe(timeout=self.deadline)))

            tasks.start_soon(ready)
            with pytest.raises(NotReadyError):
                await unit.wait_ready(HttpProbe(timeout=self.patience))
            assert seconds == []
            (arena.directory("subject") / "go").touch()
            await _until(lambda: bool(seconds))
            assert seconds[0] > 0
            assert [(event.unit, event.slot, event.seconds) for event in arena.of(UnitReady)] == [
                ("subject", 1, seconds[0])
            ]

    async def test_a_unit_that_ends_first_is_not_ready_and_says_why(self, arena: Arena) -> None:
        spec = arena.spec("subject", "print:no config", "exit:4", ports=_HTTP)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            with pytest.raises(NotReadyError) as caught:
                await unit.wait_ready(HttpProbe(timeout=self.deadline * 2))
        assert isinstance(caught.value, TimeoutError)
        exit = Exit.model_validate(caught.value.context["exit"])
        assert (exit.reason, exit.code) == ("exited", 4)
        assert "no config" in str(caught.value.context["log_tail"])
        assert arena.of(UnitReady) == []

    @pytest.mark.parametrize(
        ("steps", "last"), [(("hang",), ""), (("serve:503", "hang"), "503"), (("mute", "hang"), "")]
    )
    async def test_a_unit_that_never_answers_is_told_by_what_was_seen(
        self, arena: Arena, steps: tuple[str, ...], last: str
    ) -> None:
        spec = arena.spec("subject", *steps, ports=_HTTP)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            with pytest.raises(NotReadyError) as caught:
                await unit.wait_ready(HttpProbe(timeout=self.patience))
            assert unit.exit is None
        assert caught.value.context["exit"] is None
        assert caught.value.context["last"]
        assert last in str(caught.value.context["last"])
        assert caught.value.hint

    async def test_a_stranger_on_the_port_does_not_count(self, arena: Arena) -> None:
        if self.make_backend().capabilities.images:
            _does_not_apply("the engine listens on the port itself")
        spec = arena.spec("subject", "hang", ports=_HTTP)
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish, start=False) as (unit,),
        ):
            port = int(unit.endpoint().here.rpartition(":")[2])
            async with _stranger(port):
                await unit.start()
                with pytest.raises(NotReadyError) as caught:
                    await unit.wait_ready(HttpProbe(timeout=self.patience))
        assert "stranger" in str(caught.value.context["last"])

    # ------------------------------------------------------------------ stopping

    async def test_stop_asks_first(self, arena: Arena) -> None:
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "polite:7", "print:up", "hang")], publish=arena.publish) as (unit,),
        ):
            await arena.said("subject", "up")
            exit = await unit.stop(self.deadline)
            assert (exit.reason, exit.code) == ("stopped", 7)
            assert arena.text("subject") == "up\ngoodbye\n"

    async def test_stop_kills_what_does_not_listen(self, arena: Arena) -> None:
        spec = arena.spec("subject", "stubborn", "print:up", "hang")
        async with arena.open() as backend:
            async with backend.units([spec], publish=arena.publish) as (unit,):
                await arena.said("subject", "up")
                exit = await unit.stop(0.3)
                assert exit.reason == "stopped"
                assert not exit.ok
            await arena.nothing_left(backend)

    async def test_stop_takes_the_whole_tree(self, arena: Arena) -> None:
        spec = arena.spec("subject", "child:child", "daemon:daemon", "print:up", "hang")
        async with arena.open() as backend:
            async with backend.units([spec], publish=arena.publish) as (unit,):
                await arena.said("subject", "up")
                await arena.locked("subject", "child")
                await arena.locked("subject", "daemon")
                await unit.stop(0.5)
                assert not arena.is_locked("subject", "child")
                assert not arena.is_locked("subject", "daemon")
            await arena.nothing_left(backend)

    async def test_what_a_unit_leaves_behind_ends_with_it(self, arena: Arena) -> None:
        spec = arena.spec("subject", "daemon:daemon", "wait:go", "exit:3")
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await arena.locked("subject", "daemon")
            (arena.directory("subject") / "go").touch()
            # the daemon still has the log open: that must not hold anybody up
            exit = await unit.wait()
            assert (exit.reason, exit.code) == ("exited", 3)
            assert not arena.is_locked("subject", "daemon")

    async def test_stopping_again_changes_nothing(self, arena: Arena) -> None:
        specs = [arena.spec("ended", "exit:6"), arena.spec("running", "hang")]
        async with (
            arena.open() as backend,
            backend.units(specs, publish=arena.publish) as (ended, running),
        ):
            await ended.wait()
            assert (await ended.stop()).code == 6
            exits: list[Exit] = []

            async def stop(grace: float) -> None:
                exits.append(await running.stop(grace))

            async with anyio.create_task_group() as tasks:
                for grace in (5.0, 0.0, 1.0, 5.0):
                    tasks.start_soon(stop, grace)
            assert len(exits) == 4
            assert len(set(map(repr, exits))) == 1
            assert exits[0].reason == "stopped"
            assert await running.stop() == exits[0]
            assert len(arena.of(UnitExited, "running")) == 1

    async def test_leaving_stops_all_at_once(self, arena: Arena) -> None:
        # each ends only when all have been asked to: one after the other, the first would have to be killed
        names = ["one", "two", "three"]
        units: tuple[Unit, ...] = ()
        async with arena.open() as backend:
            async with anyio.create_task_group() as tasks:

                async def release() -> None:
                    for name in names:
                        await arena.said(name, "goodbye")
                    for name in names:
                        (arena.directory(name) / "go").touch()

                specs = [arena.spec(name, "linger:go", "print:up", "hang") for name in names]
                async with backend.units(specs, publish=arena.publish, grace=self.deadline / 4) as units:
                    for name in names:
                        await arena.said(name, "up")
                    tasks.start_soon(release)
            assert [(unit.exit.reason, unit.exit.code) for unit in units if unit.exit is not None] == [
                ("stopped", 0)
            ] * len(names)
            await arena.nothing_left(backend)

    async def test_leaving_stops_and_removes_everything(self, arena: Arena) -> None:
        specs = [arena.spec("tree", "daemon:alive", "hang"), arena.spec("stubborn", "stubborn", "hang")]
        async with arena.open() as backend:
            async with backend.units(specs, publish=arena.publish, grace=0.5) as units:
                await arena.locked("tree", "alive")
            assert all(unit.exit is not None and unit.exit.reason == "stopped" for unit in units)
            assert len(arena.of(UnitExited)) == 2
            assert arena.of(LeakFound) == []
            assert not arena.is_locked("tree", "alive")
            await arena.nothing_left(backend)

    async def test_in_a_hurry_nobody_waits_for_the_grace(self, arena: Arena) -> None:
        specs = [arena.spec(name, "stubborn", "print:up", "hang") for name in ("one", "two")]
        long = self.deadline * 2
        async with arena.open() as backend:
            async with backend.units(specs, publish=arena.publish, grace=long) as (one, _):
                await arena.said("one", "up")
                await arena.said("two", "up")
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(one.stop, long)
                    await anyio.wait_all_tasks_blocked()
                    assert one.exit is None
                    # the second unit's grace is still to come
                    backend.hurry()
            assert [event.exit.reason for event in arena.of(UnitExited)] == ["stopped", "stopped"]
            await arena.nothing_left(backend)

    async def test_cancelling_the_body_stops_everything(self, arena: Arena) -> None:
        units: tuple[Unit, ...] = ()
        specs = [arena.spec("tree", "daemon:alive", "print:kept", "hang"), arena.spec("stubborn", "stubborn", "hang")]
        async with arena.open() as backend:
            with anyio.CancelScope() as scope:
                async with backend.units(specs, publish=arena.publish, grace=0.5) as units:
                    await arena.locked("tree", "alive")
                    await arena.said("tree", "kept")
                    scope.cancel()
                    await anyio.sleep_forever()
            assert scope.cancelled_caught
            assert [unit.exit.reason for unit in units if unit.exit is not None] == ["stopped", "stopped"]
            assert not arena.is_locked("tree", "alive")
            await arena.nothing_left(backend)

    async def test_an_error_in_the_body_comes_out_as_it_is(self, arena: Arena) -> None:
        error = RuntimeError("the body's own")
        async with arena.open() as backend:
            with pytest.raises(RuntimeError) as caught:
                async with backend.units([arena.spec("subject", "hang")], publish=arena.publish):
                    raise error
            assert caught.value is error
            await arena.nothing_left(backend)

    # ------------------------------------------------------------------ files

    async def test_a_file_is_reported_once_its_writer_has_closed_it(self, arena: Arena) -> None:
        text = "0123456789" * 10
        directory = arena.directory("subject")
        async with (
            arena.open() as backend,
            backend.units(
                [arena.spec("subject", f"slow:replay:{text}:go", "hang")], publish=arena.publish, start=False
            ) as (unit,),
            unit.written() as names,
        ):
            await unit.start()
            await arena.said("subject", "half replay")
            # half of it is there, and everything that is complete overtakes it
            for witness in ("w1", "w2", "w3"):
                await _until(lambda: (directory / "replay").stat().st_size == len(text) // 2)
                (directory / witness).write_text("complete")
                assert await names.receive() == witness
            (directory / "go").touch()
            while (name := await names.receive()) != "replay":
                assert name == "go"
            assert (directory / "replay").read_text() == text

    async def test_a_file_renamed_into_place_is_reported(self, arena: Arena) -> None:
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "rename:results.json:{}")], publish=arena.publish, start=False) as (
                unit,
            ),
            unit.written() as names,
        ):
            await unit.start()
            assert "results.json" in [name async for name in names]
            assert (await unit.wait()).ok

    async def test_complete_files_are_reported_first_and_the_stream_ends_with_the_unit(self, arena: Arena) -> None:
        (arena.directory("subject") / "before").write_text("here already")
        spec = arena.spec("subject", "write:a:1", "print:wrote", "wait:go", "write:b:2", "link:c:a", "write:d:4")
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await arena.said("subject", "wrote")
            async with unit.written() as names:
                assert {await names.receive(), await names.receive()} == {"a", "before"}
                (arena.directory("subject") / "go").touch()
                rest = [name async for name in names]
            assert {name for name in rest if name not in {"a", "before"}} == {"go", "b", "d"}

    async def test_fetch_copies_regular_files_only(self, arena: Arena) -> None:
        target = arena.scratch.path / "target"
        spec = arena.spec(
            "subject", "write:results.json:{}", "size:big:100000", "link:link:results.json", "pipe:pipe", "print:ready"
        )
        async with (
            arena.open() as backend,
            backend.units([spec], publish=arena.publish) as (unit,),
        ):
            await unit.wait()
            target.write_text("from before")
            assert await unit.fetch("results.json", target) == 2
            assert target.read_text() == "{}"
            assert await unit.fetch("big", target, limit=100_000) == 100_000
            before = target.read_bytes()
            for name in ("link", "pipe", "../subject.log", "/etc/passwd"):
                with pytest.raises(TransferError):
                    await unit.fetch(name, target)
            with pytest.raises(TransferError):
                await unit.fetch("big", target, limit=99_999)
            with pytest.raises(FileNotFoundError):
                await unit.fetch("none", target)
            assert target.read_bytes() == before

    async def test_a_unit_finds_what_was_put_into_its_directory(self, arena: Arena) -> None:
        (arena.directory("subject") / "input").write_text("put there")

        def environment(placement: Placement) -> Mapping[str, str]:
            assert placement.uri("a b").startswith("file:///")
            return {**subject_environment(placement), "INPUT": f"{placement.directory}/input"}

        async with arena.open() as backend:
            assert (await arena.run(backend, arena.spec("subject", "read:$INPUT", environment=environment))).ok
        assert ": put there" in arena.text("subject")

    async def test_a_read_only_directory_cannot_be_written(self, arena: Arena) -> None:
        self._needs(self.make_backend().capabilities.file_isolation, "file isolation")
        (arena.directory("subject") / "input").write_text("put there")
        async with arena.open() as backend:
            await arena.run(backend, arena.spec("subject", "touch:output", read_only=True))
        assert "cannot write output" in arena.text("subject")
        assert not (arena.directory("subject") / "output").exists()

    async def test_a_unit_sees_no_file_but_its_own(self, arena: Arena) -> None:
        self._needs(self.make_backend().capabilities.file_isolation, "file isolation")
        secret = arena.directory("other") / "tokens"
        secret.write_text("secret")
        async with arena.open() as backend:
            await arena.run(backend, arena.spec("subject", f"read:{secret}"))
        assert f"cannot read {secret}" in arena.text("subject")

    # ------------------------------------------------------------------ secrets and environment

    async def test_secrets_are_in_the_environment_and_nowhere_else(self, arena: Arena) -> None:
        secret = secrets.token_hex(16)
        spec = arena.spec("subject", "env", "arguments", "hang", secret_env={"TOKEN": secret})
        err = arena.scratch.path / "subject.err"
        async with (
            arena.open() as backend,
            backend.units([dataclasses.replace(spec, stderr=err)], publish=arena.publish) as (unit,),
        ):
            await _until(lambda: arena.text("subject").count("\n") == 2)
            environment, arguments = arena.text("subject").splitlines()
            assert json.loads(environment)["TOKEN"] == secret
            assert secret not in arguments
            found = await backend.find(arena.run_id)
            for what in (spec, unit, unit.id, found, backend, arena.events):
                assert secret not in repr(what)
            lines = await anyio.to_thread.run_sync(_command_lines)
            assert not any(secret in line for line in lines)

    async def test_a_unit_gets_the_environment_of_its_spec_and_none_of_the_callers(self, arena: Arena) -> None:
        canary = f"CANARY_{secrets.token_hex(4).upper()}"
        os.environ[canary] = "the caller's own"
        try:
            async with arena.open() as backend:
                await arena.run(backend, arena.spec("subject", "env", environment=_with({"MINE": "a b\n'\"$é"})))
        finally:
            del os.environ[canary]
        environment = json.loads(arena.text("subject"))
        assert environment["MINE"] == "a b\n'\"$é"
        assert canary not in environment

    # ------------------------------------------------------------------ networks

    async def test_clients_reach_their_game_and_nothing_else(self, arena: Arena) -> None:
        self._needs(self.make_backend().capabilities.network_isolation, "network isolation")
        game_spec = arena.spec("game", "serve:200", "hang", ports=_HTTP, clients=("one", "two"), network="game-only")
        isolated: dict[str, Any] = {"connects_to": "game", "network": "game-only"}
        async with arena.open() as backend, _tcp_server() as host_port:
            async with backend.units([game_spec], publish=arena.publish) as (game,):
                await game.wait_ready(HttpProbe())
                there = game.endpoint().there
                one_spec = arena.spec("one", "addresses", "serve:200", "print:up", "hang", **isolated)
                one_spec = dataclasses.replace(
                    one_spec,
                    environment=_with({"SUBJECT_PORT": "8081", "SUBJECT_HOST": "0.0.0.0"}),  # noqa: S104
                )
                async with backend.units([one_spec], publish=arena.publish):
                    await arena.said("one", "up")
                    others = [f"{address}:8081" for address in arena.text("one").split("\n")[0].split()[1:]]
                    assert others, "the other client has no address, so nothing would be checked"
                    hosts = [f"{address}:{host_port}" for address in _host_addresses()]
                    steps = [f"connect:{address}" for address in (there, *others, *hosts)]
                    assert (await arena.run(backend, arena.spec("two", *steps, **isolated))).ok
                    nowhere = arena.spec("nowhere", *steps, network="none")
                    assert (await arena.run(backend, nowhere)).ok
            await arena.nothing_left(backend)
        said = arena.text("two")
        assert f"connected to {there}" in said
        assert said.count("connected to") == 1, said
        assert "connected to" not in arena.text("nowhere")

    # ------------------------------------------------------------------ many

    async def test_runs_at_the_same_time_do_not_clash(self, arena: Arena) -> None:
        with open_scratch(new_run_id()) as scratch:
            other = Arena(self, scratch)
            async with arena.open() as backend:
                specs = [a.spec("game", "serve:200", "hang", ports=_HTTP) for a in (arena, other)]
                async with (
                    backend.units(specs[:1], publish=arena.publish) as (first,),
                    backend.units(specs[1:], publish=other.publish) as (second,),
                ):
                    await first.wait_ready(HttpProbe())
                    await second.wait_ready(HttpProbe())
                    assert first.endpoint().here != second.endpoint().here
                    mine = {item.id for item in await backend.find(arena.run_id)}
                    theirs = {item.id for item in await backend.find(other.run_id)}
                    assert mine
                    assert theirs
                    assert not mine & theirs
                await other.nothing_left(backend)

    async def test_ten_at_once(self, arena: Arena) -> None:
        addresses: set[str] = set()
        async with arena.open() as backend, anyio.create_task_group() as tasks:

            async def play(index: int) -> None:
                with open_scratch(new_run_id()) as scratch:
                    mine = Arena(self, scratch)
                    specs = [
                        mine.spec("game", "serve:200", "hang", ports=_HTTP, clients=("player-0",)),
                        mine.spec("player-0", "hang", slot=0, connects_to="game"),
                    ]
                    async with backend.units(specs, publish=mine.publish) as (game, _):
                        await game.wait_ready(HttpProbe())
                        addresses.add(game.endpoint().here)
                    assert mine.of(LeakFound) == []
                    await mine.nothing_left(backend)

            for index in range(10):
                tasks.start_soon(play, index)
        assert len(addresses) == 10

    # ------------------------------------------------------------------ finding and reaping

    async def test_reaping_leaves_the_living_alone_unless_told_otherwise(self, arena: Arena) -> None:
        async with (
            arena.open() as backend,
            backend.units([arena.spec("subject", "daemon:alive", "hang")], publish=arena.publish) as (unit,),
        ):
            await arena.locked("subject", "alive")
            found = await backend.find(arena.run_id)
            reaped = await backend.reap(found)
            assert [item.found for item in reaped] == list(found)
            assert not any(item.removed for item in reaped)
            assert all(item.reason for item in reaped)
            assert unit.exit is None
            assert arena.is_locked("subject", "alive")

            reaped = await backend.reap(_units_of(found), force=True)
            assert all(item.removed for item in reaped), reaped
            assert not (await unit.wait()).ok
            assert not arena.is_locked("subject", "alive")
            await arena.nothing_left(backend)

    async def test_what_a_dead_run_left_is_found_and_removed(self, arena: Arena) -> None:
        dead = scratch_root() / new_run_id()
        (dead / "game").mkdir(parents=True)
        (dead / "owner.lock").touch()
        (dead / "game" / "config.json").write_text("{}")
        try:
            async with arena.open() as backend:
                found = await backend.find(dead.name)
                assert [(item.kind, item.id, item.alive) for item in found] == [("directory", str(dead), False)]
                reaped = await backend.reap(found)
                assert [item.removed for item in reaped] == [True]
                assert not dead.exists()
                assert await backend.find(dead.name) == ()
                assert arena.scratch.path.exists()
        finally:
            remove_tree(dead)

    async def test_a_killed_runner_leaves_nothing_that_reap_does_not_remove(self, arena: Arena) -> None:
        run_id = new_run_id()
        spec = dataclasses.replace(
            self.subject_spec(run_id, "orphan", "daemon:alive", "hang"), environment=subject_environment
        )
        try:
            data = pickle.dumps((self.make_backend(), spec))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            _does_not_apply(f"the backend cannot be handed to another process: {error}")
        lock = scratch_root() / run_id / "orphan" / "alive"
        async with arena.open() as backend:
            with subprocess.Popen(  # noqa: ASYNC220 - one that must outlive every cancellation here
                [sys.executable, "-m", "coworld_runner.testing.orphan"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as runner:
                assert runner.stdin is not None
                try:
                    runner.stdin.write(data)
                    runner.stdin.close()
                    await _until(lambda: _locked(lock))
                    alive = await backend.find(run_id)
                    assert _units_of(alive)
                    assert all(item.alive for item in alive), alive
                finally:
                    runner.kill()
            try:
                found = await backend.find(run_id)
                assert found
                assert not any(item.alive for item in found), found
                reaped = await backend.reap(found)
                assert all(item.removed for item in reaped), reaped
                assert await backend.find(run_id) == ()
                assert not _locked(lock)
            finally:
                remove_tree(scratch_root() / run_id)

    def _needs(self, capability: bool, what: str) -> None:
        if not capability:
            _does_not_apply(f"the {self.make_backend().name} backend does not claim {what}")


def _command_lines() -> list[str]:
    import psutil

    lines: list[str] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


def _host_addresses() -> list[str]:
    import psutil

    return [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]


_STRANGER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
while True:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
"""


@asynccontextmanager
async def _stranger(port: int) -> AsyncGenerator[None, None]:
    """A process of its own, no unit, that answers everything on a port with 200."""
    with subprocess.Popen(  # noqa: ASYNC220 - killed below, whatever happens
        [sys.executable, "-c", _STRANGER, str(port)], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert await anyio.to_thread.run_sync(process.stdout.readline) == b"up\n"
            yield
        finally:
            process.kill()


@asynccontextmanager
async def _tcp_server() -> AsyncGenerator[int, None]:
    """A port on all addresses of this machine that takes connections."""

    async def serve(stream: anyio.abc.SocketStream) -> None:
        await stream.aclose()

    async with (
        await anyio.create_tcp_listener(local_host="0.0.0.0", local_port=0) as listener,  # noqa: S104
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        yield int(listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610 - no Django here
        tasks.cancel_scope.cancel()
