"""One program: what becomes of it in every case, what it finds and what it leaves."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.waiting import wait_until

from coworld_core.episode.events import ArtifactCollected, BaseEvent, FaultSeen, UnitExited
from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendUnavailable, CapabilityError, ImageError, StartError, UsageError, WorkspaceError
from coworld_core.ids import new_run_id
from coworld_runner import Program, ProgramOptions, ProgramOutcome, open_program, run_program
from coworld_runner.backend import Backend, HttpProbe, ImageInfo, Limits, Placement, Port, Publish
from coworld_runner.backends import ProcessBackend
from coworld_runner.runs.event_bus import EventBus
from coworld_runner.testing import FakeBackend
from coworld_runner.testing.conformance import SUBJECT, subject_environment
from coworld_runner.testing.fake_backend import FakeContext

Code = Callable[[FakeContext], Awaitable[int | Exit]]


def grader(**more: Any) -> Program:
    """A program that is to write a grade."""
    wanted: dict[str, Any] = {
        "name": "grader",
        "component": "grader",
        "image": "grader",
        "argv": ("grade",),
        "outputs": ("grade.json",),
        "environment": subject_environment,
    }
    return Program(**{**wanted, **more})


async def run(
    code: Code, directory: Path, program: Program | None = None, *, backend: Backend | None = None, **more: Any
) -> ProgramOutcome:
    """Run what a coroutine function does as a program."""
    async with backend or FakeBackend({"grader": code}, executables={"grade"}) as opened:
        return await run_program(program or grader(), backend=opened, directory=directory / "run", **more)


def own(context: FakeContext, name: str) -> Path:
    assert context.directory is not None
    return context.directory / name


def own_text(directory: str, name: str) -> str:
    return (Path(directory) / name).read_text()


async def grade(context: FakeContext) -> int:
    own(context, "grade.json").write_text("{}")
    return 0


# --- how it went --------------------------------------------------------------------------------------------------


async def _says_and_fails(context: FakeContext) -> int:
    context.err("the bundle makes no sense\n")
    return 3


async def _killed(context: FakeContext) -> Exit:
    await grade(context)
    return Exit(reason="signal", signal=11)


async def _out_of_memory(_: FakeContext) -> Exit:
    return Exit(reason="oom")


async def _lost(_: FakeContext) -> Exit:
    return Exit(reason="lost", detail="its node is gone")


async def _hangs(context: FakeContext) -> int:
    await grade(context)
    context.out("waiting\n")
    await anyio.sleep_forever()
    return 0


async def _writes_nothing(_: FakeContext) -> int:
    return 0


async def _writes_a_link(context: FakeContext) -> int:
    own(context, "elsewhere").write_text("{}")
    own(context, "grade.json").symlink_to("elsewhere")
    return 0


async def _writes_a_pipe(context: FakeContext) -> int:
    os.mkfifo(own(context, "grade.json"))
    return 0


async def _writes_much(context: FakeContext) -> int:
    own(context, "grade.json").write_bytes(bytes(2000))
    return 0


ROWS: list[tuple[str, Code, dict[str, Any], tuple[str, str | None, str]]] = [
    ("well", grade, {}, ("ok", None, "")),
    ("status", _says_and_fails, {}, ("program_error", "program", "The grader exited with status 3.")),
    ("signal", _killed, {}, ("program_error", "program", "The grader was ended by signal 11.")),
    ("memory", _out_of_memory, {}, ("program_error", "program", "The grader was killed: out of memory.")),
    ("lost", _lost, {}, ("platform_error", "platform", "The grader vanished from the platform (its node is gone).")),
    (
        "deadline",
        _hangs,
        {"timeout": 0.2},
        ("program_timeout", "program", "The grader had not ended at the deadline of 0.2 s."),
    ),
    ("nothing", _writes_nothing, {}, ("output_missing", "program", "The grader has not written grade.json.")),
    (
        "link",
        _writes_a_link,
        {},
        ("output_refused", "program", "grade.json is not a regular file, so it is not fetched."),
    ),
    (
        "pipe",
        _writes_a_pipe,
        {},
        ("output_refused", "program", "grade.json is not a regular file, so it is not fetched."),
    ),
    (
        "large",
        _writes_much,
        {"file_bytes": 1999},
        ("output_refused", "program", "grade.json has more than the 1999 bytes it may have."),
    ),
    (
        "large in all",
        _writes_much,
        {"total_bytes": 1000},
        ("output_refused", "program", "grade.json has more than the 1000 bytes it may have."),
    ),
    (
        "slow disk",
        grade,
        {"collect_timeout": 0.0},
        ("artifact_transport_error", "platform", "grade.json could not be fetched within 0 s."),
    ),
]


@pytest.mark.parametrize(("code", "options", "wanted"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
async def test_every_outcome_of_a_program(
    tmp_path: Path, code: Code, options: dict[str, Any], wanted: tuple[str, str | None, str]
) -> None:
    seen: list[BaseEvent] = []
    outcome = await run(code, tmp_path, options=ProgramOptions(**options), publish=seen.append)
    fault = outcome.fault
    found = (outcome.outcome, fault.party if fault else None, fault.message if fault else "")
    assert found == wanted
    assert outcome.ok is (fault is None)
    assert [event.fault for event in seen if isinstance(event, FaultSeen)] == ([fault] if fault else [])
    assert outcome.unit.exit is not None
    assert (outcome.unit.image.image, outcome.unit.run) == ("grader", ("grade",))


async def test_program_log_is_kept_and_named_by_the_fault(tmp_path: Path) -> None:
    outcome = await run(_says_and_fails, tmp_path)
    assert outcome.fault is not None
    assert (outcome.fault.phase, outcome.fault.log) == ("run", "logs/grader.stderr.log")
    assert outcome.log_tail == outcome.fault.log_tail == "the bundle makes no sense\n"
    assert outcome.unit.logs == ("logs/grader.stdout.log", "logs/grader.stderr.log")
    assert (outcome.directory / "logs" / "grader.stderr.log").read_text() == outcome.log_tail


async def test_at_the_deadline_it_is_stopped_and_what_it_wrote_is_kept(tmp_path: Path) -> None:
    outcome = await run(_hangs, tmp_path, options=ProgramOptions(timeout=0.2))
    assert outcome.unit.exit is not None
    assert outcome.unit.exit.reason == "timeout"
    assert outcome.path("grade.json").read_text() == "{}"


async def test_a_program_that_is_not_there_never_started(tmp_path: Path) -> None:
    outcome = await run(grade, tmp_path, grader(argv=("nonsense",)))
    assert outcome.fault is not None
    assert (outcome.outcome, outcome.fault.party, outcome.fault.phase) == ("program_never_started", "program", "start")
    assert (outcome.unit.exit, outcome.unit.logs, outcome.outputs) == (None, (), {})


async def test_a_port_that_is_taken_is_for_whoever_asked_for_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = Port(name="http", host_port=taken.getsockname()[1])
        outcome = await run(grade, tmp_path, grader(ports=(port,)))
    assert outcome.fault is not None
    assert (outcome.outcome, outcome.fault.party) == ("program_never_started", "operator")


class _Changed(FakeBackend):
    """A backend on which something is different."""

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        if image == "slow":
            await anyio.sleep_forever()
        if image == "gone":
            raise BackendUnavailable("The engine has gone.")
        return await super().ensure_image(image)

    @asynccontextmanager
    async def units(self, *args: Any, **more: Any) -> AsyncGenerator[Any]:
        if args[0][0].image == "refused":
            raise StartError("The engine has no room.")
        async with super().units(*args, **more) as units:
            yield units

    def trouble(self) -> str:
        return "the engine does not answer"


async def test_time_spent_before_the_program_runs_is_not_its_fault(tmp_path: Path) -> None:
    outcome = await run(grade, tmp_path, grader(image="slow"), backend=_Changed(), options=ProgramOptions(timeout=0.1))
    assert outcome.fault is not None
    assert (outcome.outcome, outcome.fault.party, outcome.fault.phase) == ("program_timeout", "platform", "prepare")


async def test_unobservable_program_is_not_blamed_at_the_deadline(tmp_path: Path) -> None:
    outcome = await run(grade, tmp_path, backend=_Changed({"grader": _hangs}), options=ProgramOptions(timeout=0.1))
    assert outcome.fault is not None
    assert (outcome.outcome, outcome.fault.party) == ("platform_error", "platform")
    assert "the engine does not answer" in outcome.fault.message


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"image": "unknown"}, ImageError),
        ({"image": "gone"}, BackendUnavailable),
        ({"image": "refused"}, StartError),
        ({"network": "none"}, CapabilityError),
        ({"limits": Limits(memory_bytes=1 << 30)}, CapabilityError),
        ({"name": "../grader"}, UsageError),
        ({"outputs": ("a/b",)}, UsageError),
        ({"inputs": {"": Path(__file__)}}, UsageError),
        ({"inputs": {"replay": Path("gone")}}, UsageError),
        ({"inputs": {"device": Path("/dev/null")}}, UsageError),
    ],
)
async def test_errors_outside_the_program_are_raised(
    tmp_path: Path, more: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = _Changed({"grader": grade, "refused": grade})
    with pytest.raises(error):
        await run(grade, tmp_path, grader(**more), backend=backend)


async def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "grade.json").write_text("that of another run")
    with pytest.raises(WorkspaceError):
        await run(grade, tmp_path)


async def test_cancelled_it_is_stopped_and_nothing_stays(tmp_path: Path) -> None:
    seen: list[BaseEvent] = []
    with anyio.CancelScope() as scope:

        async def cancels(context: FakeContext) -> int:
            await grade(context)
            scope.cancel()
            await anyio.sleep_forever()
            return 0

        await run(cancels, tmp_path, publish=seen.append)
    assert scope.cancelled_caught
    assert [event.exit.reason for event in seen if isinstance(event, UnitExited)] == ["stopped"]
    assert list((tmp_path / "run" / "outputs").iterdir()) == []


# --- what it finds ------------------------------------------------------------------------------------------------


async def test_its_inputs_are_copies_by_their_own_names(tmp_path: Path) -> None:
    bundle, episodes = tmp_path / "b.zip", tmp_path / "episodes"
    bundle.write_text("a bundle")
    (episodes / "one").mkdir(parents=True)
    (episodes / "one" / "results.json").write_text("[1]")
    (tmp_path / "latest").symlink_to("episodes")
    found: dict[str, str] = {}

    def asked(path: Path) -> None:
        path.write_text("asked")

    async def look(context: FakeContext) -> int:
        assert context.inputs is not None
        found.update(context.env)
        for path in sorted(context.inputs.rglob("*")):
            if path.is_file():
                found[str(path.relative_to(context.inputs))] = path.read_text()
                path.write_text("spoilt")
        return await grade(context)

    def environment(place: Placement) -> Mapping[str, str]:
        return {"BUNDLE": place.input_uri("bundle.zip"), "GRADE": place.uri("grade.json")}

    def told(place: Placement) -> str:
        return f"read {place.input_uri('bundle.zip')}"

    program = grader(
        inputs={
            "bundle.zip": bundle,
            "episodes": tmp_path / "latest",
            "request": asked,
        },
        documents={"told": told},
        environment=environment,
    )
    assert (await run(look, tmp_path, program)).ok
    assert found["BUNDLE"].startswith("file:///")
    assert found["BUNDLE"].endswith("/bundle.zip")
    assert Path(found["BUNDLE"]).parent != Path(found["GRADE"]).parent
    assert found["told"] == f"read {found['BUNDLE']}"
    assert {name: found[name] for name in ("bundle.zip", "episodes/one/results.json", "request")} == {
        "bundle.zip": "a bundle",
        "episodes/one/results.json": "[1]",
        "request": "asked",
    }
    assert (bundle.read_text(), (episodes / "one" / "results.json").read_text()) == ("a bundle", "[1]")


async def test_links_in_a_directory_are_no_way_to_other_files(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="link is not a regular file"):
        await run(grade, tmp_path, grader(inputs={"given": tmp_path / "given"}))


async def test_long_inputs_and_outputs_are_never_in_memory(tmp_path: Path) -> None:
    size = 50_000_000
    long = tmp_path / "replay"
    with long.open("wb") as file:
        file.truncate(size)

    async def copy(context: FakeContext) -> int:
        assert context.inputs is not None
        os.link(context.inputs / "replay", own(context, "grade.json"))
        return 0

    tracemalloc.start()
    try:
        outcome = await run(copy, tmp_path, grader(inputs={"replay": long}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.outputs["grade.json"].size == size
    assert peak < size / 4


# --- what it leaves -----------------------------------------------------------------------------------------------


async def test_outputs_have_their_size_and_digest_and_others_are_kept_too(tmp_path: Path) -> None:
    async def report(context: FakeContext) -> int:
        own(context, "trace.jsonl").write_text("[]\n")
        own(context, ".part").write_text("[1]")
        own(context, ".part").rename(own(context, "report.zip"))
        own(context, "deep").mkdir()
        return await grade(context)

    seen: list[BaseEvent] = []
    bus = EventBus("run", seen.append)
    outcome = await run(report, tmp_path, publish=bus.publish, run_id="00ff00ff00ff00ff")
    assert list(outcome.outputs) == ["grade.json", "report.zip", "trace.jsonl"]
    record = outcome.outputs["report.zip"]
    assert (record.path, record.size, record.sha256) == ("outputs/report.zip", 3, hashlib.sha256(b"[1]").hexdigest())
    assert outcome.path("report.zip").read_text() == "[1]"
    with pytest.raises(KeyError):
        outcome.path("deep")
    collected = {event.name for event in seen if isinstance(event, ArtifactCollected)}
    assert collected == {f"outputs/{name}" for name in outcome.outputs}
    assert (outcome.run_id, outcome.warnings) == ("00ff00ff00ff00ff", ())


async def test_optional_outputs_over_the_limit_are_reported_without_losing_required_ones(tmp_path: Path) -> None:
    async def write(context: FakeContext) -> int:
        for name in ("a", "b", "c"):
            own(context, name).write_bytes(bytes(400))
        own(context, "huge").write_bytes(bytes(600))
        own(context, os.fsdecode(b"odd\xff")).touch()
        own(context, "grade.json").write_bytes(bytes(500))
        return 0

    outcome = await run(write, tmp_path, options=ProgramOptions(file_bytes=500, total_bytes=1000))
    assert outcome.ok
    assert "grade.json" in outcome.outputs
    assert len(outcome.outputs) == 2
    assert len(outcome.warnings) == 4
    assert sum("is not kept" in warning for warning in outcome.warnings) == 4
    assert sum(path.stat().st_size for path in (outcome.directory / "outputs").iterdir()) <= 1000


async def test_files_without_end_are_not_kept(tmp_path: Path) -> None:
    async def litter(context: FakeContext) -> int:
        for number in range(1100):
            own(context, f"file-{number}").touch()
        return await grade(context)

    outcome = await run(litter, tmp_path)
    assert outcome.ok
    assert len(outcome.outputs) == 1001
    assert outcome.warnings == ("The grader wrote more than 1000 further files; the rest is not kept.",)


# --- one that serves ----------------------------------------------------------------------------------------------


async def test_serving_program_runs_while_its_context_is_open(tmp_path: Path) -> None:
    program = Program(
        name="reporter",
        component="reporter",
        image="subject",
        argv=("python", "write:state:1", "serve:200", "hang"),
        environment=subject_environment,
        inputs={"request": lambda path: path.write_text("{}")},
        ports=(Port(name="http"),),
    )
    async with FakeBackend() as backend:
        async with open_program(program, backend=backend, publish=_ignore, logs=tmp_path) as running:
            await running.unit.wait_ready(HttpProbe())
            assert running.unit.endpoint().here == f"127.0.0.1:{running.placement.listen['http']}"
            assert own_text(running.placement.inputs, "request") == "{}"
            assert await running.unit.fetch("state", tmp_path / "state") == 1
        assert running.unit.exit is not None
        assert running.unit.exit.reason == "stopped"
        assert await backend.find(running.run_id) == ()
    assert own_text(str(tmp_path), "reporter.stdout.log") == own_text(str(tmp_path), "reporter.stderr.log") == ""


def _ignore(_: BaseEvent) -> None:
    pass


# --- as a process -------------------------------------------------------------------------------------------------


def on_a_process(*steps: str, **more: Any) -> Program:
    """The subject as a program of this machine."""

    def environment(place: Placement) -> Mapping[str, str]:
        return {**subject_environment(place), "BUNDLE": f"{place.inputs}/bundle"}

    return grader(image="subject", argv=("python", str(SUBJECT), *steps), environment=environment, **more)


def processes() -> ProcessBackend:
    return ProcessBackend(contexts={"subject": SUBJECT.parent})


async def test_as_a_process_it_reads_and_writes(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_text("a bundle")
    program = on_a_process(
        "read:$BUNDLE",
        "write:grade.json:1",
        "error:done",
        "env",
        inputs={"bundle": tmp_path / "bundle"},
        secret_env={"KEY": "a secret"},
    )
    async with processes() as backend:
        outcome = await run_program(program, backend=backend, directory=tmp_path / "run")
    assert outcome.ok
    said = (tmp_path / "run" / "logs" / "grader.stdout.log").read_text()
    assert "/bundle: a bundle" in said
    assert "a secret" in said
    assert outcome.log_tail.endswith("done\n")
    assert "a secret" not in repr(program)
    assert outcome.path("grade.json").read_text() == "1"


@pytest.mark.parametrize(
    ("steps", "limits", "word"),
    [
        (("write:grade.json:1", "die:11"), Limits(), "signal"),
        (("size:grade.json:3000000", "hang"), Limits(disk_bytes=2_000_000), "disk"),
        (("write:grade.json:1", "stubborn", "hang"), Limits(), "timeout"),
    ],
)
async def test_as_a_process_it_is_ended(tmp_path: Path, steps: tuple[str, ...], limits: Limits, word: str) -> None:
    options = ProgramOptions(timeout=3.0 if word == "timeout" else 60.0, stop_grace=0.1)
    async with processes() as backend:
        outcome = await run_program(
            on_a_process(*steps, limits=limits), backend=backend, directory=tmp_path / "run", options=options
        )
    assert outcome.unit.exit is not None
    assert outcome.unit.exit.reason == word
    assert outcome.outcome == ("program_timeout" if word == "timeout" else "program_error")


_VICTIM = """
import sys, anyio
from pathlib import Path
from coworld_runner import Program, run_program
from coworld_runner.backends import ProcessBackend

async def main(subject, directory, run_id):
    program = Program(name="grader", component="grader", image="subject", argv=("python", subject, "print:up", "hang"))
    async with ProcessBackend(default_context=Path(subject).parent) as backend:
        await run_program(program, backend=backend, directory=Path(directory), run_id=run_id)

anyio.run(main, *sys.argv[1:])
"""


async def test_a_killed_runner_leaves_what_is_found_by_its_label(tmp_path: Path) -> None:
    run_id, log = new_run_id(), tmp_path / "run" / "logs" / "grader.stdout.log"
    arguments = [str(SUBJECT), str(tmp_path / "run"), run_id]
    with subprocess.Popen([sys.executable, "-c", _VICTIM, *arguments]) as runner:  # noqa: ASYNC220
        try:
            await anyio.to_thread.run_sync(
                lambda: wait_until(lambda: log.exists() and "up" in log.read_text(), seconds=60, what="a program")
            )
        finally:
            runner.send_signal(signal.SIGKILL)
    async with processes() as backend:
        found = await backend.find(run_id)
        assert [(item.kind, item.alive) for item in found if item.kind == "directory"] == [("directory", False)]
        assert all(done.removed for done in await backend.reap(found))
        assert await backend.find(run_id) == ()
