"""Backends that break one rule each: the conformance suite must reject every one of them.

Each is a wrapper around a backend that keeps all rules, with one member changed. The wrapper alone changes nothing and
passes; a check without a backend that breaks it fails the last test here.
"""

from __future__ import annotations

import dataclasses
import fcntl
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from coworld_core.episode.events import LogTruncated, UnitExited, UnitStarted
from coworld_core.episode.outcome import Exit
from coworld_core.errors import NotReadyError, StartError
from coworld_core.ids import new_run_id
from coworld_core.issues import Issue
from coworld_runner.backend import Backend, Found, HttpProbe, ImageInfo, Limits, Publish, Reaped, Unit, UnitSpec
from coworld_runner.backends import ProcessBackend
from coworld_runner.runs.scratch import make_scratch
from coworld_runner.testing import Arena, BackendConformance, FakeBackend
from coworld_runner.testing.conformance import SUBJECT

pytestmark = pytest.mark.slow


def passing_on(kind: type) -> type:
    """A subclass whose public members are those of the object `inner`."""

    def member(name: str, what: Any) -> Any:
        if isinstance(what, property):
            return property(lambda self: getattr(self.inner, name))
        return lambda self, *args, **named: getattr(self.inner, name)(*args, **named)

    public = {
        name: member(name, what)
        for name, what in vars(kind).items()
        if name in kind.__abstractmethods__ or (name[0] != "_" and (callable(what) or isinstance(what, property)))
    }
    return type(f"Same{kind.__name__}", (kind,), public)


class Same(passing_on(Unit)):
    """A unit like the one inside."""

    def __init__(self, inner: Unit, spec: UnitSpec) -> None:
        super().__init__(spec)
        self.inner = inner


class Wrapper(passing_on(Backend)):
    """A backend like the one inside."""

    name = "broken"
    unit = Same
    processes = False
    """Whether the one inside is the process backend, not the fake one."""

    def __init__(self) -> None:
        self.inner = _process_backend() if self.processes else FakeBackend(executables={"python"})
        self.made: list[Unit] = []
        self.background: Any = None
        self.released = anyio.Event()

    def __reduce__(self) -> tuple[Any, ...]:
        # For the check that kills a runner: it is this side that is broken, not the one that is killed
        return _process_backend, ()

    async def __aenter__(self) -> Wrapper:
        await self.inner.__aenter__()
        return self

    def change(self, spec: UnitSpec) -> UnitSpec:
        """What the backend inside is told to run."""
        return spec

    def tell(self, publish: Publish) -> Publish:
        """Where the backend inside tells of it."""
        return publish

    def wrap(self, inner: Iterable[Unit], specs: Sequence[UnitSpec]) -> tuple[Unit, ...]:
        self.made += (made := tuple(map(self.unit, inner, specs)))
        return made

    @asynccontextmanager
    async def units(self, specs: Sequence[UnitSpec], *, publish: Publish, **how: Any) -> AsyncGenerator[Any]:
        changed = [self.change(spec) for spec in specs]
        async with self.inner.units(changed, publish=self.tell(publish), **how) as units:
            yield self.wrap(units, specs)

    async def detached(self, specs: Sequence[UnitSpec], **how: Any) -> tuple[Unit, ...]:
        """Units that nobody stops until the test is over."""

        async def hold(*, task_status: Any) -> None:
            async with self.inner.units(specs, **{**how, "grace": 0}) as units:
                task_status.started(self.wrap(units, specs))
                await self.released.wait()

        return await self.background.start(hold)


def _process_backend() -> Backend:
    return ProcessBackend(contexts={"subject": SUBJECT.parent})


class TestWrapper(BackendConformance):
    """The wrapper alone breaks nothing, so that a rejection below is due to what it changes."""

    ready_timeout = 0.5

    def make_backend(self) -> Backend:
        return Wrapper()

    def subject_spec(self, run_id: str, name: str, *steps: str) -> UnitSpec:
        argv = ("python", str(SUBJECT), *steps)
        return UnitSpec(run_id=run_id, name=name, component="player", image="subject", argv=argv)

    async def test_a_killed_runner_leaves_nothing_that_reap_does_not_remove(self, arena: Arena) -> None:
        """Its units live in one process; there is nothing to kill."""


# --- what is changed --------------------------------------------------------------------------------------------

replace = dataclasses.replace
_numbers = itertools.count(1)
_locks: list[Any] = []


def answering(make: Callable[..., Any]) -> Any:
    """A method that asks nothing of what is inside."""

    async def answer(self: Any, *args: Any, **named: Any) -> Any:
        return make(self, *args, **named)

    return answer


def changed(name: str, change: Callable[[Any], Any]) -> Any:
    """A method whose result is changed."""

    async def answer(self: Any, *args: Any, **named: Any) -> Any:
        return change(await getattr(self.inner, name)(*args, **named))

    return answer


def never(self: Any, *_: Any, **__: Any) -> Any:
    return anyio.sleep_forever()


def claiming(**capabilities: bool) -> property:
    return property(lambda self: replace(self.inner.capabilities, **capabilities))


def running(**fields: Any) -> Any:
    """Has the backend inside run another spec."""
    return lambda self, spec: replace(spec, **fields)


def placed(**places: str) -> Any:
    """Tells a unit of other places than its own."""
    return lambda self, spec: replace(
        spec, environment=lambda placement: spec.environment(replace(placement, **places))
    )


def telling(change: Callable[[Any], Any]) -> Any:
    """Tells of other events, or none."""

    def tell(self: Any, publish: Publish) -> Publish:
        return lambda event: publish(told) if (told := change(event)) is not None else None

    return tell


def handling(**how: Any) -> Any:
    """Makes units in another way than it was asked to."""
    return lambda self, specs, **asked: Wrapper.units(self, specs, **{**asked, **how})


def writing(*, first: tuple[str, ...] = (), hidden: str = "", ends: bool = True) -> Any:
    """Reports files that are not complete, hides some, or never ends."""

    @asynccontextmanager
    async def written(self: Same) -> AsyncGenerator[Any]:
        send, receive = anyio.create_memory_object_stream[str](100)

        async def pass_on(names: Any) -> None:
            with send:
                for name in first:
                    send.send_nowait(name)
                async for name in names:
                    if name != hidden:
                        send.send_nowait(name)
                if not ends:
                    await anyio.sleep_forever()

        async with self.inner.written() as names, anyio.create_task_group() as tasks, receive:
            tasks.start_soon(pass_on, names)
            try:
                yield receive
            finally:
                tasks.cancel_scope.cancel()

    return written


class StartsSomethingOnEntering(Wrapper):
    async def __aenter__(self) -> Wrapper:
        self.stray = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])  # noqa: ASYNC220
        return await super().__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        self.stray.kill()
        self.stray.wait()
        await super().__aexit__(*exc)


@asynccontextmanager
async def refuses_too_late(self: Wrapper, specs: Sequence[UnitSpec], **how: Any) -> AsyncGenerator[Any]:
    async with self.inner.units([replace(spec, network="open", limits=Limits()) for spec in specs], **how) as units:
        self.refuse_unenforceable(specs)
        yield units


@asynccontextmanager
async def leaves_the_good_ones(self: Wrapper, specs: Sequence[UnitSpec], **how: Any) -> AsyncGenerator[Any]:
    await self.detached([spec for spec in specs if spec.argv[0] == "python"], **how)
    async with Wrapper.units(self, specs, **how) as units:
        yield units


@asynccontextmanager
async def stops_one_after_the_other(self: Wrapper, specs: Sequence[UnitSpec], **how: Any) -> AsyncGenerator[Any]:
    async with Wrapper.units(self, specs, **how) as units:
        yield units
        for unit in units:
            await unit.stop(0.1)


@asynccontextmanager
async def leaves_them_running(self: Wrapper, specs: Sequence[UnitSpec], **how: Any) -> AsyncGenerator[Any]:
    yield await self.detached(specs, **how)


@asynccontextmanager
async def wraps_errors(self: Wrapper, specs: Sequence[UnitSpec], **how: Any) -> AsyncGenerator[Any]:
    async with anyio.create_task_group(), Wrapper.units(self, specs, **how) as units:
        yield units


@asynccontextmanager
async def shows_secrets_on_a_command_line(self: Wrapper, specs: Sequence[UnitSpec], **how: Any) -> AsyncGenerator[Any]:
    """Like one that runs a tool with `-e NAME=VALUE`."""
    tool = [sys.executable, "-c", "import signal; signal.pause()", *(v for s in specs for v in s.secret_env.values())]
    with subprocess.Popen(tool) as process:  # noqa: ASYNC220
        try:
            async with Wrapper.units(self, specs, **how) as units:
                yield units
        finally:
            process.kill()


async def loses_the_end_of_the_log(self: Same) -> Exit:
    exit = await self.inner.wait()
    if self.spec.stdout is not None:
        os.truncate(self.spec.stdout, self.spec.stdout.stat().st_size // 65536 * 65536)
    return exit


async def tells_no_reason(self: Same, probe: HttpProbe) -> float:
    try:
        return await self.inner.wait_ready(probe)
    except NotReadyError as error:
        raise NotReadyError(error.message, context={"exit": None, "last": ""}) from None


async def leaves_a_daemon(self: Same, grace: float = 5.0) -> Exit:
    exit = await self.inner.stop(grace)
    # Holds a subject's lock, as something of its tree that was not ended would
    _locks.append((self.spec.directory / "daemon").open("w"))
    fcntl.flock(_locks[-1], fcntl.LOCK_EX)
    return exit


def puts_inputs_into_its_directory(self: Wrapper, spec: UnitSpec) -> UnitSpec:
    shutil.copytree(spec.inputs, spec.directory, dirs_exist_ok=True)
    return replace(spec, inputs=spec.directory)


def takes_inputs_too_early(self: Wrapper, spec: UnitSpec) -> UnitSpec:
    return replace(spec, inputs=Path(shutil.copytree(spec.inputs, spec.inputs.with_name("taken"))))


def hands_the_callers_environment_on(self: Wrapper, spec: UnitSpec) -> UnitSpec:
    return replace(spec, environment=lambda placement: {**os.environ, **spec.environment(placement)})


def has_one_port_for_all(self: Wrapper, spec: UnitSpec) -> UnitSpec:
    return replace(spec, ports=tuple(replace(port, host_port=19321) for port in spec.ports))


# --- one rule each ----------------------------------------------------------------------------------------------

BROKEN: list[Any] = []

REJECTED = (AssertionError, pytest.fail.Exception)
PATIENCE = 0.7
"""Seconds until a check gives up a backend that hangs; by far more than one that does not takes."""


def breaks(
    rule: str,
    how: str,
    /,
    *,
    base: type[Wrapper] = Wrapper,
    unit: dict[str, Any] | None = None,
    arguments: dict[str, Any] | None = None,
    rejected: Any = REJECTED,
    hangs: bool = False,
    **members: Any,
) -> None:
    """Note a backend with the check that must reject it.

    Args:
        rule: What it breaks: the name of a check.
        how: What the backend does wrong.
        base: The class to change.
        unit: Members of its units.
        arguments: The check's arguments.
        rejected: How the suite may say no.
        hangs: Whether it does so by its deadline.
        members: Members of the backend.
    """
    if unit is not None:
        members["unit"] = type("Broken", (Same,), unit)
    kind = type("Broken", (base,), members)
    BROKEN.append(
        pytest.param(
            f"test_{rule}",
            kind,
            arguments or {},
            TimeoutError if hangs else rejected,
            PATIENCE if hangs else 10.0,
            id=how,
        )
    )


CLAIMS: dict[str, Any] = {
    "capabilities": claiming(file_isolation=True, network_isolation=True),
    "change": running(network="open"),
    "processes": True,
}
NAMES_NO_LIMIT: dict[str, Any] = {
    "unit": {"wait": changed("wait", lambda exit: exit if exit.ok else Exit(reason="signal", signal=9))},
    "processes": True,
}

breaks("entering_opens_connections_and_nothing_else", "starts something", base=StartsSomethingOnEntering)
breaks(
    "check_may_be_called_unentered_and_changes_nothing",
    "complains without advice",
    check=answering(lambda self: (Issue(code="odd", severity="warning", message="Something is odd."),)),
)
breaks(
    "ensure_image_is_shared_by_all_who_ask",
    "answers each differently",
    ensure_image=answering(lambda self, image, **_: ImageInfo(image=image, digest=f"sha256:{next(_numbers)}")),
)
breaks(
    "an_image_that_is_not_to_be_had_is_refused_with_a_hint",
    "has every image",
    arguments={"image": "coworld.invalid/none"},
    ensure_image=answering(lambda self, image, **_: ImageInfo(image=image)),
)
IMAGES = "an_image_is_here_once_a_unit_has_run_from_it"
breaks(IMAGES, "says that it has every image", has_image=answering(lambda self, image: True))
breaks(IMAGES, "sees no image", capabilities=claiming(images=True), hangs=True)
TROUBLE = "no_trouble_is_told_of_while_there_is_none"
breaks(TROUBLE, "complains all the time", trouble=lambda self: "the moon is full")
breaks(
    TROUBLE,
    "takes a failure for trouble",
    trouble=lambda self: " ".join(unit.name for unit in self.made if unit.exit is not None and not unit.exit.ok),
)
REFUSES = "what_it_cannot_enforce_it_refuses_before_anything_is_made"
breaks(REFUSES, "runs what it cannot enforce", change=running(network="open", limits=Limits()))
breaks(REFUSES, "refuses too late", units=refuses_too_late)
breaks(
    "what_it_claims_to_enforce_it_accepts",
    "claims more than it takes",
    capabilities=claiming(cpu_limit=True),
    rejected=Exception,
)
ORDER = "units_come_in_the_order_of_their_specs"
breaks(ORDER, "turns them round", wrap=lambda self, *units: Wrapper.wrap(self, *units)[::-1])
breaks(ORDER, "tells nobody", tell=telling(lambda event: None))
breaks(
    ORDER,
    "tells only names",
    tell=telling(lambda event: event.model_copy(update={"component": ""} if isinstance(event, UnitStarted) else {})),
)
breaks("a_unit_made_without_start_waits_for_it", "starts at once", units=handling(start=True))
breaks("a_start_that_fails_half_way_leaves_nothing", "leaves the good ones", units=leaves_the_good_ones)
FOUND = "units_are_found_by_label_as_long_as_they_exist"
breaks(FOUND, "finds nothing", find=answering(lambda self, run_id=None: ()))
breaks(FOUND, "finds only what is named", find=lambda self, run_id=None: self.inner.find(run_id or "none"))
GONE = Found(kind="process", id="1", name="subject", run_id="?", alive=True)
breaks(
    FOUND,
    "finds what is long gone",
    find=changed("find", lambda found: (*found, replace(GONE, **({"run_id": found[0].run_id} if found else {})))),
)
ENDPOINTS = "endpoints_are_on_loopback_and_known_by_name"
breaks(
    ENDPOINTS,
    "listens on every address",
    unit={"endpoint": lambda self, port="http": replace(self.inner.endpoint(port), here="0.0.0.0:1")},
)
breaks(
    ENDPOINTS,
    "knows ports that nobody named",
    unit={"endpoint": lambda self, port="http": self.inner.endpoint("http" if port == "none" else port)},
)
breaks(
    "an_exit_status_is_a_value",
    "tells of no crash",
    arguments={"status": 37},
    unit={"wait": changed("wait", lambda exit: Exit(reason="exited", code=0))},
)
breaks(
    "an_end_by_a_signal_is_told_from_a_status",
    "takes signals for statuses",
    arguments={"number": 11},
    unit={"wait": changed("wait", lambda exit: Exit(reason="exited", code=128 + (exit.signal or 0)))},
)
NOTICED = "an_end_is_noticed_when_it_happens_by_all_who_wait"
breaks(NOTICED, "looks only at the end", unit={"wait": never}, hangs=True)
breaks(NOTICED, "publishes no end", tell=telling(lambda event: None if isinstance(event, UnitExited) else event))
breaks("too_much_memory_is_an_end_of_its_own", "names no memory limit", **NAMES_NO_LIMIT)
breaks("too_many_processes_are_held", "names no process limit", **NAMES_NO_LIMIT)
breaks("too_much_on_disk_is_an_end_of_its_own", "names no disk limit", **NAMES_NO_LIMIT)
breaks("logs_are_written_while_it_runs", "keeps logs elsewhere", change=running(stdout=None), hangs=True)
breaks("logs_are_complete_when_wait_has_returned", "loses the end of it", unit={"wait": loses_the_end_of_the_log})
STREAMS = "both_streams_go_where_the_spec_says"
breaks(STREAMS, "mixes the streams", change=running(stderr=None))
breaks(STREAMS, "drops errors", change=lambda self, spec: replace(spec, stderr=spec.stderr or Path(os.devnull)))
LIMITED = "a_log_keeps_to_its_limit_and_its_unit_runs_on"
breaks(LIMITED, "keeps every byte", change=running(limits=Limits()))
breaks(LIMITED, "cuts in silence", tell=telling(lambda event: None if isinstance(event, LogTruncated) else event))
TAIL = "the_tail_is_short_clean_text"
breaks(
    TAIL,
    "shows control sequences",
    unit={"log_tail": answering(lambda self, limit: self.spec.stdout.read_bytes()[-limit:].decode("utf-8", "replace"))},
)
breaks(TAIL, "shows the whole log", unit={"log_tail": lambda self, limit: self.inner.log_tail(1_000_000)})
READY_AT_ONCE = {"wait_ready": answering(lambda self, probe: 0.1)}
breaks("a_unit_that_answers_is_ready", "believes in every unit", unit=READY_AT_ONCE)
breaks("a_stranger_on_the_port_does_not_count", "takes anybody's answer", unit=READY_AT_ONCE)
breaks(
    "a_unit_that_ends_first_is_not_ready_and_says_why",
    "says only that it is not ready",
    unit={"wait_ready": tells_no_reason},
    rejected=(*REJECTED, ValueError),
)
breaks(
    "a_unit_that_never_answers_is_told_by_what_was_seen",
    "does not say what it saw",
    arguments={"steps": ("serve:503", "hang"), "last": "503"},
    unit={"wait_ready": tells_no_reason},
)
REACHED = "a_unit_that_does_not_answer_is_reached_all_the_same"
breaks(
    REACHED,
    "takes silence for a broken way",
    unit={"reach": lambda self: self.inner.wait_ready(HttpProbe(timeout=1000))},
    hangs=True,
)
breaks(
    REACHED,
    "looks for the way to the dead",
    unit={"reach": lambda self: anyio.sleep(0 if self.exit is None else 1000)},
    hangs=True,
)
breaks("stop_asks_first", "never asks", unit={"stop": lambda self, grace: self.inner.stop(0)})
breaks(
    "stop_kills_what_does_not_listen",
    "only asks",
    unit={"stop": lambda self, grace: self.inner.stop(1000)},
    units=handling(grace=0.1),
    hangs=True,
)
breaks("stop_takes_the_whole_tree", "leaves daemons", unit={"stop": leaves_a_daemon})
# As who reads a pipe to its end, which a daemon holds open
breaks("what_a_unit_leaves_behind_ends_with_it", "waits for the log", unit={"wait": never}, hangs=True)
breaks(
    "stopping_again_changes_nothing",
    "stops each time anew",
    unit={"stop": answering(lambda self, grace=5.0: Exit(reason="stopped", code=6, detail=str(next(_numbers))))},
)
breaks("leaving_stops_all_at_once", "stops one after the other", units=stops_one_after_the_other)
breaks("leaving_stops_and_removes_everything", "forgets on leaving", units=leaves_them_running)
breaks("cancelling_the_body_stops_everything", "forgets when cancelled", units=leaves_them_running)
breaks(
    "in_a_hurry_nobody_waits_for_the_grace",
    "is never in a hurry",
    end_waits=lambda self: None,
    units=handling(grace=0.1),
    hangs=True,
)
breaks("an_error_in_the_body_comes_out_as_it_is", "wraps errors", units=wraps_errors, rejected=RuntimeError)
breaks(
    "a_file_is_reported_once_its_writer_has_closed_it",
    "reports files that exist",
    unit={"written": writing(first=("replay",))},
)
breaks("a_file_renamed_into_place_is_reported", "overlooks renames", unit={"written": writing(hidden="results.json")})
COMPLETE = "complete_files_are_reported_first_and_the_stream_ends_with_the_unit"
breaks(COMPLETE, "overlooks what is there", unit={"written": writing(hidden="before")}, hangs=True)
breaks(COMPLETE, "reports for ever", unit={"written": writing(ends=False)}, hangs=True)
FETCHED = "fetch_copies_regular_files_only"
breaks(
    FETCHED,
    "follows links",
    unit={
        "fetch": answering(
            lambda self, name, target, limit=None: (
                Path(shutil.copyfile(self.spec.directory / name, target)).stat().st_size
            )
        )
    },
)
breaks(
    FETCHED, "fetches any size", unit={"fetch": lambda self, name, target, limit=None: self.inner.fetch(name, target)}
)
SIZES = "the_size_of_a_file_is_what_it_is_just_now"
breaks(
    SIZES,
    "tells sizes afterwards",
    unit={"size": lambda self, name: self.inner.size("none" if self.exit is None else name)},
)
breaks(
    SIZES,
    "forgets sizes at the end",
    unit={"size": lambda self, name: self.inner.size(name if self.exit is None else "none")},
)
breaks(SIZES, "takes no file for an empty one", unit={"size": changed("size", lambda size: size or 0)})
breaks("a_unit_finds_what_was_put_into_its_directory", "gives another", change=placed(directory="/not/where/it/is"))
INPUTS = "inputs_are_there_before_it_starts_apart_from_what_it_writes"
breaks(INPUTS, "gives no inputs", change=placed(inputs="/not/where/they/are"))
breaks(INPUTS, "puts inputs into its directory", change=puts_inputs_into_its_directory)
breaks(INPUTS, "takes inputs too early", change=takes_inputs_too_early)
breaks("inputs_cannot_be_written", "writes its inputs", **CLAIMS)
breaks("a_unit_sees_no_file_but_its_own", "sees the files of others", **CLAIMS)
breaks("clients_reach_their_game_and_nothing_else", "reaches everything", **CLAIMS)
SECRETS = "secrets_are_in_the_environment_and_nowhere_else"
breaks(
    SECRETS,
    "puts secrets into arguments",
    change=lambda self, spec: replace(spec, argv=(*spec.argv, *(f"print:{it}" for it in spec.secret_env.values()))),
)
breaks(SECRETS, "shows secrets in its repr", unit={"__repr__": lambda self: f"{dict(self.spec.secret_env)}"})
breaks(SECRETS, "shows secrets on a command line", units=shows_secrets_on_a_command_line)
breaks(
    "a_unit_gets_the_environment_of_its_spec_and_none_of_the_callers",
    "hands the caller's environment on",
    change=hands_the_callers_environment_on,
)
CLASH = "runs_at_the_same_time_do_not_clash"
breaks(CLASH, "has one port for all", change=has_one_port_for_all, rejected=StartError)
breaks(CLASH, "takes all runs for one", find=lambda self, run_id=None: self.inner.find())
breaks("ten_at_once", "has one port for ten", change=has_one_port_for_all, rejected=StartError)
REAPED = "reaping_leaves_the_living_alone_unless_told_otherwise"
breaks(
    REAPED,
    "reaps the living",
    reap=lambda self, found, force=False: self.inner.reap([it for it in found if it.kind != "directory"], force=True),
)
breaks(REAPED, "cannot be forced", reap=lambda self, found, force=False: self.inner.reap(found))
breaks(
    "what_a_dead_run_left_is_found_and_removed",
    "says that it reaped",
    reap=answering(lambda self, found, force=False: tuple(Reaped(found=it, removed=True) for it in found)),
)
breaks(
    "a_killed_runner_leaves_nothing_that_reap_does_not_remove",
    "believes the dead alive",
    processes=True,
    find=changed("find", lambda found: tuple(replace(it, alive=True) for it in found)),
)


# --- and each is rejected ---------------------------------------------------------------------------------------


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return [leaf for item in inner for leaf in _leaves(item)]


@pytest.mark.parametrize(("check", "kind", "arguments", "rejected", "deadline"), BROKEN)
async def test_conformance_suite_rejects_broken_backends(
    check: str, kind: type[Wrapper], arguments: dict[str, Any], rejected: Any, deadline: float
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

            suite = TestWrapper()
            suite.make_backend, suite.deadline = make, deadline
            try:
                await getattr(BackendConformance, check)(suite, Arena(suite, scratch), **arguments)
            except BaseException as error:
                failures = _leaves(error)
            # What a broken one left running is stopped before its directory goes
            while _locks:
                _locks.pop().close()
            for backend in made:
                backend.released.set()
    assert failures, "the suite found nothing wrong"
    unproven = pytest.xfail.Exception | pytest.skip.Exception
    assert not any(isinstance(failure, unproven) for failure in failures), failures
    assert all(isinstance(failure, rejected) for failure in failures), failures


def test_every_check_has_a_backend_that_breaks_it() -> None:
    checks = {name for name in dir(BackendConformance) if name.startswith("test_")}
    assert {str(item.values[0]) for item in BROKEN} == checks
