"""Backends that break one rule each: the conformance suite must reject every one of them.

Each is a wrapper around a backend that keeps all rules, which it changes in one place. The wrapper alone changes
nothing and passes; a check without a backend that breaks it fails the last test here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import anyio
import anyio.abc
import pytest
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from coworld_core.episode.events import BaseEvent, UnitStarted
from coworld_core.episode.outcome import Exit
from coworld_core.errors import NotReadyError, StartError
from coworld_core.ids import new_run_id
from coworld_core.issues import Issue
from coworld_runner.backend import (
    Backend,
    Capabilities,
    Endpoint,
    Found,
    HttpProbe,
    ImageInfo,
    Limits,
    Placement,
    Publish,
    Reaped,
    Unit,
    UnitSpec,
)
from coworld_runner.backends import ProcessBackend
from coworld_runner.runs.scratch import make_scratch
from coworld_runner.testing import Arena, BackendConformance, FakeBackend
from coworld_runner.testing.conformance import SUBJECT

pytestmark = pytest.mark.slow

Rejected = (AssertionError, pytest.fail.Exception)


class Same(Unit):
    """A unit like the one inside."""

    def __init__(self, inner: Unit, spec: UnitSpec, publish: Publish) -> None:
        super().__init__(spec)
        self.inner = inner
        self.publish = publish

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def exit(self) -> Exit | None:
        return self.inner.exit

    @property
    def log_truncated(self) -> bool:
        return self.inner.log_truncated

    def endpoint(self, port: str = "http") -> Endpoint:
        return self.inner.endpoint(port)

    async def start(self) -> None:
        await self.inner.start()

    async def wait(self) -> Exit:
        return await self.inner.wait()

    async def wait_ready(self, probe: HttpProbe) -> float:
        return await self.inner.wait_ready(probe)

    async def reach(self) -> None:
        await self.inner.reach()

    async def size(self, name: str) -> int | None:
        return await self.inner.size(name)

    async def log_tail(self, limit: int = 4000) -> str:
        return await self.inner.log_tail(limit)

    async def stop(self, grace: float = 5.0) -> Exit:
        return await self.inner.stop(grace)

    def written(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[str]]:
        return self.inner.written()

    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        return await self.inner.fetch(name, target, limit=limit)

    def lock(self, name: str) -> int:
        """Hold a subject's lock, as something of its tree that was not ended would."""
        assert self.spec.directory is not None
        descriptor = os.open(self.spec.directory / name, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor


class Wrapper(Backend):
    """A backend like the one inside; those below change one thing each."""

    name = "broken"
    rejected: ClassVar[type[BaseException] | tuple[type[BaseException], ...]] = Rejected
    """How the suite may say no."""
    deadline: ClassVar[float] = 10.0
    processes: ClassVar[bool] = False
    """Whether the one inside is the process backend, not the fake one."""
    unit: ClassVar[type[Same]] = Same

    def __init__(self) -> None:
        if self.processes:
            self.inner: Backend = ProcessBackend(contexts={"subject": SUBJECT.parent})
        else:
            self.inner = FakeBackend(executables={"python"})
        self.background: TaskGroup | None = None
        self.released = anyio.Event()

    def __reduce__(self) -> tuple[Any, ...]:
        # For the check that kills a runner: it is this side that is broken, not the one that is killed
        return _process_backend, ()

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.inner.__aexit__(*exc)

    def end_waits(self) -> None:
        self.inner.end_waits()

    async def check(self) -> tuple[Issue, ...]:
        return await self.inner.check()

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        return await self.inner.ensure_image(image, platform=platform, publish=publish)

    async def has_image(self, image: str) -> bool:
        return await self.inner.has_image(image)

    def trouble(self) -> str:
        return self.inner.trouble()

    def change(self, spec: UnitSpec) -> UnitSpec:
        """What the backend inside is told to run."""
        return spec

    def tell(self, publish: Publish) -> Publish:
        """Where the backend inside tells of it."""
        return publish

    def wrap(self, inner: Iterable[Unit], specs: Sequence[UnitSpec], publish: Publish) -> tuple[Unit, ...]:
        return tuple(self.unit(unit, spec, publish) for unit, spec in zip(inner, specs, strict=True))

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        changed = [self.change(spec) for spec in specs]
        async with self.inner.units(changed, publish=self.tell(publish), start=start, grace=grace) as units:
            yield self.wrap(units, specs, publish)

    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        return await self.inner.find(run_id)

    async def reap(self, found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
        return await self.inner.reap(found, force=force)

    async def detached(self, specs: Sequence[UnitSpec], publish: Publish, start: bool = True) -> tuple[Unit, ...]:
        """Units that nobody stops until the test is over."""
        assert self.background is not None

        async def hold(*, task_status: anyio.abc.TaskStatus[tuple[Unit, ...]]) -> None:
            async with self.inner.units(specs, publish=publish, start=start, grace=0) as units:
                task_status.started(self.wrap(units, specs, publish))
                await self.released.wait()

        return await self.background.start(hold)


def _process_backend() -> Backend:
    return ProcessBackend(contexts={"subject": SUBJECT.parent})


class Suite(BackendConformance):
    ready_timeout = 1.5

    def __init__(self, make: Callable[[], Backend], deadline: float) -> None:
        self._make = make
        self.deadline = deadline

    def make_backend(self) -> Backend:
        return self._make()

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        argv = ("python", str(SUBJECT), *steps)
        return UnitSpec(run_id=run_id, name=name, component="player", image="subject", argv=argv)


class TestWrapper(BackendConformance):
    """The wrapper alone breaks nothing, so that a rejection below is due to what it changes."""

    ready_timeout = 1.5

    def make_backend(self) -> Backend:
        return Wrapper()

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        argv = ("python", str(SUBJECT), *steps)
        return UnitSpec(run_id=run_id, name=name, component="player", image="subject", argv=argv)

    async def test_a_killed_runner_leaves_nothing_that_reap_does_not_remove(self, arena: Arena) -> None:
        """Its units live in one process; there is nothing to kill."""


# --- one rule each ----------------------------------------------------------------------------------------------

BROKEN: list[Any] = []


def breaks(check: str, **arguments: object) -> Callable[[type[Wrapper]], type[Wrapper]]:
    """Register a backend with the check that must reject it."""

    def register(kind: type[Wrapper]) -> type[Wrapper]:
        BROKEN.append(pytest.param(f"test_{check}", kind, arguments, id=kind.__name__))
        return kind

    return register


@breaks("entering_opens_connections_and_nothing_else")
class StartsSomethingOnEntering(Wrapper):
    async def __aenter__(self) -> Self:
        self.stray = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])  # noqa: ASYNC220
        return await super().__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        self.stray.kill()
        self.stray.wait()
        await super().__aexit__(*exc)


@breaks("check_may_be_called_unentered_and_changes_nothing")
class ComplainsWithoutAdvice(Wrapper):
    async def check(self) -> tuple[Issue, ...]:
        return (Issue(code="odd", severity="warning", message="Something is odd."),)


@breaks("ensure_image_is_shared_by_all_who_ask")
class AnswersEachDifferently(Wrapper):
    asked = 0

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        self.asked += 1
        return ImageInfo(image=image, digest=f"sha256:{self.asked}")


@breaks("an_image_that_is_not_to_be_had_is_refused_with_a_hint", image="coworld.invalid/none")
class HasEveryImage(Wrapper):
    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        return ImageInfo(image=image)


@breaks("an_image_is_here_once_a_unit_has_run_from_it")
class SaysThatItHasEveryImage(Wrapper):
    async def has_image(self, image: str) -> bool:
        return True


@breaks("an_image_is_here_once_a_unit_has_run_from_it")
class SeesNoImage(Wrapper):
    rejected = TimeoutError
    deadline = 1.5

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(self.inner.capabilities, images=True)


@breaks("no_trouble_is_told_of_while_there_is_none")
class ComplainsAllTheTime(Wrapper):
    def trouble(self) -> str:
        return "the moon is full"


class _NotesFailures(Same):
    async def wait(self) -> Exit:
        exit = await super().wait()
        if not exit.ok:
            _failed.add(self.name)
        return exit


_failed: set[str] = set()


@breaks("no_trouble_is_told_of_while_there_is_none")
class TakesAFailureForTrouble(Wrapper):
    unit = _NotesFailures

    def trouble(self) -> str:
        return " ".join(_failed)


@breaks("what_it_cannot_enforce_it_refuses_before_anything_is_made")
class RunsWhatItCannotEnforce(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        return dataclasses.replace(spec, network="open", limits=Limits())


@breaks("what_it_cannot_enforce_it_refuses_before_anything_is_made")
class RefusesTooLate(Wrapper):
    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        bare = [dataclasses.replace(spec, network="open", limits=Limits()) for spec in specs]
        async with self.inner.units(bare, publish=publish, start=start, grace=grace) as units:
            self.refuse_unenforceable(specs)
            yield units


@breaks("what_it_claims_to_enforce_it_accepts")
class ClaimsMoreThanItTakes(Wrapper):
    rejected = (*Rejected, Exception)

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(self.inner.capabilities, cpu_limit=True)


@breaks("units_come_in_the_order_of_their_specs")
class TurnsThemRound(Wrapper):
    def wrap(self, inner: Iterable[Unit], specs: Sequence[UnitSpec], publish: Publish) -> tuple[Unit, ...]:
        return super().wrap(inner, specs, publish)[::-1]


@breaks("units_come_in_the_order_of_their_specs")
class TellsNobody(Wrapper):
    def tell(self, publish: Publish) -> Publish:
        return lambda _event: None


@breaks("units_come_in_the_order_of_their_specs")
class TellsOnlyNames(Wrapper):
    def tell(self, publish: Publish) -> Publish:
        def without_component(event: BaseEvent) -> None:
            publish(event.model_copy(update={"component": ""}) if isinstance(event, UnitStarted) else event)

        return without_component


@breaks("a_unit_made_without_start_waits_for_it")
class StartsAtOnce(Wrapper):
    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        async with super().units(specs, publish=publish, start=True, grace=grace) as units:
            yield units


class _StartsTwice(Same):
    async def start(self) -> None:
        await super().start()
        self.publish(UnitStarted(unit=self.name))


@breaks("a_unit_made_without_start_waits_for_it")
class StartsAsOftenAsAsked(Wrapper):
    unit = _StartsTwice


@breaks("a_start_that_fails_half_way_leaves_nothing")
class LeavesTheGoodOnes(Wrapper):
    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        await self.detached([spec for spec in specs if spec.argv[0] == "python"], publish)
        async with super().units(specs, publish=publish, start=start, grace=grace) as units:
            yield units


@breaks("a_start_that_fails_half_way_leaves_nothing")
class RaisesAGroup(Wrapper):
    rejected = StartError  # A group is not what was asked for, and comes through as it is

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        try:
            async with self.inner.units(specs, publish=publish, start=start, grace=grace) as units:
                yield units
        except StartError as error:
            raise ExceptionGroup("unhandled errors in a task group", [error]) from None


@breaks("units_are_found_by_label_as_long_as_they_exist")
class FindsNothing(Wrapper):
    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        return ()


@breaks("units_are_found_by_label_as_long_as_they_exist")
class FindsOnlyWhatIsNamed(Wrapper):
    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        return await self.inner.find(run_id) if run_id is not None else ()


@breaks("units_are_found_by_label_as_long_as_they_exist")
class FindsWhatIsLongGone(Wrapper):
    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        gone = Found(kind="process", id="1", name="subject", run_id=run_id or "?", alive=True)
        return (*await self.inner.find(run_id), gone)


class _OnEveryAddress(Same):
    def endpoint(self, port: str = "http") -> Endpoint:
        inner = super().endpoint(port)
        return dataclasses.replace(inner, here=inner.here.replace("127.0.0.1", "0.0.0.0"))


@breaks("endpoints_are_on_loopback_and_known_by_name")
class ListensOnEveryAddress(Wrapper):
    unit = _OnEveryAddress


class _AnyPort(Same):
    def endpoint(self, port: str = "http") -> Endpoint:
        try:
            return super().endpoint(port)
        except KeyError:
            return super().endpoint()


@breaks("endpoints_are_on_loopback_and_known_by_name")
class KnowsPortsNobodyNamed(Wrapper):
    unit = _AnyPort


class _AlwaysFine(Same):
    async def wait(self) -> Exit:
        await super().wait()
        return Exit(reason="exited", code=0)


@breaks("an_exit_status_is_a_value", status=37)
class TellsOfNoCrash(Wrapper):
    unit = _AlwaysFine


class _Raises(Same):
    async def wait(self) -> Exit:
        exit = await super().wait()
        if not exit.ok:
            raise RuntimeError(f"exited with {exit.code}")
        return exit


@breaks("an_exit_status_is_a_value", status=1)
class RaisesFromWait(Wrapper):
    rejected = RuntimeError
    unit = _Raises


class _ShellStatus(Same):
    async def wait(self) -> Exit:
        exit = await super().wait()
        return Exit(reason="exited", code=128 + exit.signal) if exit.signal else exit


@breaks("an_end_by_a_signal_is_told_from_a_status", number=11)
class TakesSignalsForStatuses(Wrapper):
    unit = _ShellStatus


class _LooksOnLeaving(Same):
    async def wait(self) -> Exit:
        await anyio.sleep_forever()
        raise AssertionError


@breaks("an_end_is_noticed_when_it_happens_by_all_who_wait")
class LooksOnlyAtTheEnd(Wrapper):
    rejected = TimeoutError
    deadline = 1.5
    unit = _LooksOnLeaving


@breaks("an_end_is_noticed_when_it_happens_by_all_who_wait")
class PublishesNoEnd(Wrapper):
    def tell(self, publish: Publish) -> Publish:
        def told(event: BaseEvent) -> None:
            if type(event).__name__ != "UnitExited":
                publish(event)

        return told


class _WithoutLimits(Wrapper):
    processes = True

    def change(self, spec: UnitSpec) -> UnitSpec:
        return dataclasses.replace(spec, limits=Limits())


@breaks("too_much_memory_is_an_end_of_its_own")
class HoldsNoMemory(_WithoutLimits):
    rejected = TimeoutError
    deadline = 2.5


@breaks("too_many_processes_are_held")
class HoldsNoProcesses(_WithoutLimits):
    rejected = TimeoutError
    deadline = 2.5


@breaks("too_much_on_disk_is_an_end_of_its_own")
class HoldsNoDisk(_WithoutLimits):
    rejected = TimeoutError
    deadline = 2.5


class _NamesNoLimit(Same):
    async def wait(self) -> Exit:
        exit = await super().wait()
        return Exit(reason="signal", signal=9) if exit.reason == "oom" else exit


@breaks("too_much_memory_is_an_end_of_its_own")
class CallsItASignal(Wrapper):
    processes = True
    unit = _NamesNoLimit


class _Later(Wrapper):
    """Keeps logs elsewhere, and brings them on leaving."""

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        elsewhere = [
            dataclasses.replace(spec, stdout=spec.stdout.with_suffix(".tmp") if spec.stdout else None) for spec in specs
        ]
        async with self.inner.units(elsewhere, publish=publish, start=start, grace=grace) as units:
            yield self.wrap(units, specs, publish)
        for spec, other in zip(specs, elsewhere, strict=True):
            if spec.stdout and other.stdout:
                other.stdout.replace(spec.stdout)


@breaks("logs_are_written_while_it_runs")
class BringsLogsAtTheEnd(_Later):
    rejected = TimeoutError
    deadline = 1.5


class _LosesTheEnd(Same):
    async def wait(self) -> Exit:
        exit = await super().wait()
        if self.spec.stdout is not None:
            data = self.spec.stdout.read_bytes()
            self.spec.stdout.write_bytes(data[: len(data) // 65536 * 65536])
        return exit


@breaks("logs_are_complete_when_wait_has_returned")
class LosesTheEndOfTheLog(Wrapper):
    unit = _LosesTheEnd


@breaks("both_streams_go_where_the_spec_says")
class MixesTheStreams(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        return dataclasses.replace(spec, stderr=None)


@breaks("both_streams_go_where_the_spec_says")
class DropsErrors(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        return dataclasses.replace(spec, stderr=spec.stderr or Path(os.devnull))


@breaks("a_log_keeps_to_its_limit_and_its_unit_runs_on")
class KeepsEveryByte(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        return dataclasses.replace(spec, limits=Limits())


@breaks("a_log_keeps_to_its_limit_and_its_unit_runs_on")
class CutsLogsInSilence(Wrapper):
    def tell(self, publish: Publish) -> Publish:
        def told(event: BaseEvent) -> None:
            if type(event).__name__ != "LogTruncated":
                publish(event)

        return told


class _RawTail(Same):
    async def log_tail(self, limit: int = 4000) -> str:
        assert self.spec.stdout is not None
        return self.spec.stdout.read_bytes()[-limit:].decode("utf-8", "replace")


@breaks("the_tail_is_short_clean_text")
class ShowsControlSequences(Wrapper):
    unit = _RawTail


class _LongTail(Same):
    async def log_tail(self, limit: int = 4000) -> str:
        return await super().log_tail(1_000_000)


@breaks("the_tail_is_short_clean_text")
class ShowsTheWholeLog(Wrapper):
    unit = _LongTail


class _ReadyAtOnce(Same):
    async def wait_ready(self, probe: HttpProbe) -> float:
        return 0.1


@breaks("a_unit_that_answers_is_ready")
class BelievesInEveryUnit(Wrapper):
    unit = _ReadyAtOnce


class _TellsNoReason(Same):
    async def wait_ready(self, probe: HttpProbe) -> float:
        try:
            return await super().wait_ready(probe)
        except NotReadyError as error:
            raise NotReadyError(error.message, context={"exit": None, "last": ""}) from None


@breaks("a_unit_that_ends_first_is_not_ready_and_says_why")
class SaysOnlyThatItIsNotReady(Wrapper):
    rejected = (*Rejected, ValueError)
    unit = _TellsNoReason


class _WaitsOn(Same):
    async def wait_ready(self, probe: HttpProbe) -> float:
        await anyio.sleep(probe.timeout)
        raise NotReadyError("time is up", context={"exit": None, "last": "refused", "log_tail": ""})


@breaks("a_unit_that_ends_first_is_not_ready_and_says_why")
class AsksTheDead(Wrapper):
    rejected = TimeoutError
    deadline = 1.5
    unit = _WaitsOn


@breaks("a_unit_that_never_answers_is_told_by_what_was_seen", steps=("serve:503", "hang"), last="503")
class SaysNotWhatItSaw(Wrapper):
    unit = _TellsNoReason


class _ReachedOnceItAnswers(Same):
    async def reach(self) -> None:
        await self.inner.wait_ready(HttpProbe(timeout=1000))


@breaks("a_unit_that_does_not_answer_is_reached_all_the_same")
class TakesSilenceForABrokenWay(Wrapper):
    rejected = TimeoutError
    deadline = 1.5
    unit = _ReachedOnceItAnswers


class _ReachesOnlyTheLiving(Same):
    async def reach(self) -> None:
        if self.exit is not None:
            await anyio.sleep_forever()


@breaks("a_unit_that_does_not_answer_is_reached_all_the_same")
class LooksForTheWayToTheDead(Wrapper):
    rejected = TimeoutError
    deadline = 1.5
    unit = _ReachesOnlyTheLiving


class _ReadyIfAnybodyAnswers(Same):
    async def wait_ready(self, probe: HttpProbe) -> float:
        host, _, port = self.endpoint().here.rpartition(":")
        while True:
            with contextlib.suppress(OSError):
                async with await anyio.connect_tcp(host, int(port)):
                    return 0.1
            await anyio.sleep(0.01)


@breaks("a_stranger_on_the_port_does_not_count")
class TakesAnybodysAnswer(Wrapper):
    unit = _ReadyIfAnybodyAnswers


class _KillsAtOnce(Same):
    async def stop(self, grace: float = 5.0) -> Exit:
        return await super().stop(0)


@breaks("stop_asks_first")
class NeverAsks(Wrapper):
    unit = _KillsAtOnce


class _OnlyAsks(Same):
    async def stop(self, grace: float = 5.0) -> Exit:
        return await super().stop(1000)


@breaks("stop_kills_what_does_not_listen")
class OnlyAsks(Wrapper):
    rejected = TimeoutError
    deadline = 1.5
    unit = _OnlyAsks


class _LeavesADaemon(Same):
    async def stop(self, grace: float = 5.0) -> Exit:
        exit = await super().stop(grace)
        self.descriptor = self.lock("daemon")
        return exit

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


@breaks("stop_takes_the_whole_tree")
class LeavesDaemons(Wrapper):
    unit = _LeavesADaemon


class _WaitsForTheLog(Same):
    async def wait(self) -> Exit:
        await anyio.sleep_forever()  # As who reads a pipe to its end, which a daemon holds open
        raise AssertionError


@breaks("what_a_unit_leaves_behind_ends_with_it")
class WaitsForWhoeverHoldsTheLog(Wrapper):
    rejected = TimeoutError
    deadline = 1.5
    unit = _WaitsForTheLog


class _StopsAgain(Same):
    count = 0

    async def stop(self, grace: float = 5.0) -> Exit:
        self.count += 1
        await super().stop(grace)
        return Exit(reason="stopped", detail=f"for the {self.count}th time")


@breaks("stopping_again_changes_nothing")
class StopsEachTimeAnew(Wrapper):
    unit = _StopsAgain


@breaks("leaving_stops_all_at_once")
class StopsOneAfterTheOther(Wrapper):
    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        async with super().units(specs, publish=publish, start=start, grace=grace) as units:
            try:
                yield units
            finally:
                for unit in units:
                    await unit.stop(grace / 10)


class LeavesThemRunning(Wrapper):
    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        yield await self.detached(specs, publish, start)


@breaks("leaving_stops_and_removes_everything")
class ForgetsOnLeaving(LeavesThemRunning):
    pass


@breaks("cancelling_the_body_stops_everything")
class ForgetsWhenCancelled(LeavesThemRunning):
    pass


@breaks("in_a_hurry_nobody_waits_for_the_grace")
class IsNeverInAHurry(Wrapper):
    rejected = TimeoutError
    deadline = 1.5

    def end_waits(self) -> None:
        """What was begun is brought to its end."""

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        async with super().units(specs, publish=publish, start=start, grace=0.1) as units:
            yield units


@breaks("an_error_in_the_body_comes_out_as_it_is")
class WrapsErrors(Wrapper):
    rejected = RuntimeError

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        async with anyio.create_task_group(), super().units(specs, publish=publish, start=start, grace=grace) as units:
            yield units


class _SeesNames(Same):
    @asynccontextmanager
    async def written(self) -> AsyncGenerator[MemoryObjectReceiveStream[str], None]:
        send, receive = anyio.create_memory_object_stream[str](100)

        async def look() -> None:
            assert self.spec.directory is not None
            seen: set[str] = set()
            with send:
                while self.exit is None:
                    for path in sorted(self.spec.directory.iterdir()):
                        if path.name not in seen and path.is_file():
                            seen.add(path.name)
                            send.send_nowait(path.name)
                    await anyio.sleep(0.005)

        async with anyio.create_task_group() as tasks, receive:
            tasks.start_soon(look)
            yield receive
            tasks.cancel_scope.cancel()


@breaks("a_file_is_reported_once_its_writer_has_closed_it")
class ReportsFilesThatExist(Wrapper):
    unit = _SeesNames


class _Filtered(Same):
    hidden: ClassVar[frozenset[str]] = frozenset()
    ends: ClassVar[bool] = True

    @asynccontextmanager
    async def written(self) -> AsyncGenerator[MemoryObjectReceiveStream[str], None]:
        send, receive = anyio.create_memory_object_stream[str](100)

        async def pass_on(names: MemoryObjectReceiveStream[str]) -> None:
            with send:
                async for name in names:
                    if name not in self.hidden:
                        send.send_nowait(name)
                if not self.ends:
                    await anyio.sleep_forever()

        async with super().written() as names, anyio.create_task_group() as tasks, receive:
            tasks.start_soon(pass_on, names)
            try:
                yield receive
            finally:
                tasks.cancel_scope.cancel()


class _SeesNoRenames(_Filtered):
    hidden = frozenset({"results.json"})


@breaks("a_file_renamed_into_place_is_reported")
class OverlooksRenames(Wrapper):
    unit = _SeesNoRenames


class _SeesOnlyNewFiles(_Filtered):
    hidden = frozenset({"before"})


@breaks("complete_files_are_reported_first_and_the_stream_ends_with_the_unit")
class OverlooksWhatIsThere(Wrapper):
    rejected = TimeoutError
    deadline = 1.5
    unit = _SeesOnlyNewFiles


class _NeverEnds(_Filtered):
    ends = False


@breaks("complete_files_are_reported_first_and_the_stream_ends_with_the_unit")
class ReportsForEver(Wrapper):
    rejected = TimeoutError
    deadline = 1.5
    unit = _NeverEnds


class _Copies(Same):
    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        assert self.spec.directory is not None
        source = self.spec.directory / name
        if name == "pipe":
            return await super().fetch(name, target, limit=limit)
        shutil.copyfile(source, target)
        return 2


@breaks("fetch_copies_regular_files_only")
class FollowsLinks(Wrapper):
    unit = _Copies


class _TakesAnySize(Same):
    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        return await super().fetch(name, target)


@breaks("fetch_copies_regular_files_only")
class FetchesAnySize(Wrapper):
    unit = _TakesAnySize


class _SizesOfWholeFiles(Same):
    async def size(self, name: str) -> int | None:
        return await super().size(name) if self.exit is not None else None


@breaks("the_size_of_a_file_is_what_it_is_just_now")
class TellsSizesAfterwards(Wrapper):
    unit = _SizesOfWholeFiles


class _FirstSize(Same):
    first: int | None = None

    async def size(self, name: str) -> int | None:
        self.first = self.first or await super().size(name)
        return self.first


@breaks("the_size_of_a_file_is_what_it_is_just_now")
class KeepsTheFirstSize(Wrapper):
    unit = _FirstSize


class _NoSizesOfTheDead(Same):
    async def size(self, name: str) -> int | None:
        return await super().size(name) if self.exit is None else None


@breaks("the_size_of_a_file_is_what_it_is_just_now")
class ForgetsSizesAtTheEnd(Wrapper):
    unit = _NoSizesOfTheDead


class _EmptyForNone(Same):
    async def size(self, name: str) -> int | None:
        return await super().size(name) or 0


@breaks("the_size_of_a_file_is_what_it_is_just_now")
class TakesNoFileForAnEmptyOne(Wrapper):
    unit = _EmptyForNone


@breaks("a_unit_finds_what_was_put_into_its_directory")
class GivesAnotherDirectory(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        def elsewhere(placement: Placement) -> Mapping[str, str]:
            return spec.environment(dataclasses.replace(placement, directory="/not/where/it/is"))

        return dataclasses.replace(spec, environment=elsewhere)


class _ClaimsIsolation(Wrapper):
    processes = True

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(self.inner.capabilities, file_isolation=True, network_isolation=True)

    def change(self, spec: UnitSpec) -> UnitSpec:
        return dataclasses.replace(spec, network="open")


@breaks("inputs_are_there_before_it_starts_apart_from_what_it_writes")
class GivesNoInputs(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        def elsewhere(placement: Placement) -> Mapping[str, str]:
            return spec.environment(dataclasses.replace(placement, inputs="/not/where/they/are"))

        return dataclasses.replace(spec, environment=elsewhere)


@breaks("inputs_are_there_before_it_starts_apart_from_what_it_writes")
class PutsInputsIntoItsDirectory(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        assert spec.directory is not None
        if spec.inputs is not None:
            shutil.copytree(spec.inputs, spec.directory, dirs_exist_ok=True)
        return dataclasses.replace(spec, inputs=spec.directory)


@breaks("inputs_are_there_before_it_starts_apart_from_what_it_writes")
class TakesInputsTooEarly(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        if spec.inputs is None:
            return spec
        return dataclasses.replace(
            spec, inputs=Path(shutil.copytree(spec.inputs, spec.inputs.with_name("taken"), dirs_exist_ok=True))
        )


@breaks("inputs_cannot_be_written")
class WritesItsInputs(_ClaimsIsolation):
    pass


@breaks("a_unit_sees_no_file_but_its_own")
class SeesOthersFiles(_ClaimsIsolation):
    pass


@breaks("clients_reach_their_game_and_nothing_else")
class ReachesEverything(_ClaimsIsolation):
    pass


@breaks("secrets_are_in_the_environment_and_nowhere_else")
class PutsSecretsIntoArguments(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        return dataclasses.replace(spec, argv=(*spec.argv, *(f"print:{value}" for value in spec.secret_env.values())))


class _ShowsSecrets(Same):
    def __repr__(self) -> str:
        return f"{self.name} with {dict(self.spec.secret_env)}"


@breaks("secrets_are_in_the_environment_and_nowhere_else")
class ShowsSecretsInItsRepr(Wrapper):
    unit = _ShowsSecrets


@breaks("secrets_are_in_the_environment_and_nowhere_else")
class ShowsSecretsOnACommandLine(Wrapper):
    """Like one that runs a tool with `-e NAME=VALUE`."""

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        values = [value for spec in specs for value in spec.secret_env.values()]
        tool = [sys.executable, "-c", "import signal; signal.pause()", *values]
        with subprocess.Popen(tool) as process:  # noqa: ASYNC220
            try:
                async with super().units(specs, publish=publish, start=start, grace=grace) as units:
                    yield units
            finally:
                process.kill()


def _inherit(spec: UnitSpec) -> UnitSpec:
    def environment(placement: Placement) -> Mapping[str, str]:
        return {**os.environ, **spec.environment(placement)}

    return dataclasses.replace(spec, environment=environment)


@breaks("a_unit_gets_the_environment_of_its_spec_and_none_of_the_callers")
class HandsTheCallersEnvironmentOn(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        return _inherit(spec)


class _OnePort(Wrapper):
    def change(self, spec: UnitSpec) -> UnitSpec:
        return dataclasses.replace(spec, ports=tuple(dataclasses.replace(port, host_port=19321) for port in spec.ports))


@breaks("runs_at_the_same_time_do_not_clash")
class HasOnePortForAll(_OnePort):
    rejected = StartError


@breaks("runs_at_the_same_time_do_not_clash")
class TakesAllRunsForOne(Wrapper):
    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        return await self.inner.find()


@breaks("ten_at_once")
class HasOnePortForTen(_OnePort):
    rejected = StartError


@breaks("reaping_leaves_the_living_alone_unless_told_otherwise")
class ReapsTheLiving(Wrapper):
    async def reap(self, found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
        units = [item for item in found if item.kind != "directory"]
        return await self.inner.reap(units, force=True)


@breaks("reaping_leaves_the_living_alone_unless_told_otherwise")
class CannotBeForced(Wrapper):
    async def reap(self, found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
        return await self.inner.reap(found)


@breaks("what_a_dead_run_left_is_found_and_removed")
class SaysItReaped(Wrapper):
    async def reap(self, found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
        return tuple(Reaped(found=item, removed=True) for item in found)


@breaks("a_killed_runner_leaves_nothing_that_reap_does_not_remove")
class BelievesTheDeadAlive(Wrapper):
    processes = True

    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        return tuple(dataclasses.replace(item, alive=True) for item in await self.inner.find(run_id))


# --- and each is rejected ---------------------------------------------------------------------------------------


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return [leaf for item in inner for leaf in _leaves(item)]


@pytest.mark.parametrize(("check", "kind", "arguments"), BROKEN)
async def test_conformance_suite_rejects_broken_backends(
    check: str, kind: type[Wrapper], arguments: dict[str, object]
) -> None:
    failures: list[BaseException] = []
    made: list[Wrapper] = []
    with make_scratch(new_run_id()) as scratch:
        async with anyio.create_task_group() as background:

            def make() -> Backend:
                backend = kind()
                backend.background = background
                made.append(backend)
                return backend

            suite = Suite(make, kind.deadline)
            try:
                await getattr(suite, check)(Arena(suite, scratch), **arguments)
            except BaseException as error:
                failures = _leaves(error)
            # What a broken one left running is stopped before its directory goes
            for backend in made:
                backend.released.set()
    assert failures, "the suite found nothing wrong"
    assert not any(isinstance(failure, pytest.xfail.Exception | pytest.skip.Exception) for failure in failures), (
        failures
    )
    assert all(isinstance(failure, kind.rejected) for failure in failures), failures


def test_every_check_has_a_backend_that_breaks_it() -> None:
    checks = {name for name in dir(BackendConformance) if name.startswith("test_")}
    broken = {str(item.values[0]) for item in BROKEN}
    assert broken == checks
