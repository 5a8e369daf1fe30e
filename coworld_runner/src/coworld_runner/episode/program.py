"""Runs one program with read-only inputs, separate outputs, a deadline, and a recorded outcome.

Every program that is neither a game nor a player runs this way: replay viewers, reporters, graders, diagnosers.
`run_program` runs one to its end, or talks to one that serves requests and keeps what it then has left; `open_program`
keeps one that serves requests running while a context is open.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

import anyio
import anyio.to_thread

from coworld_core.episode.events import ArtifactCollected, FaultSeen, LeakFound, Notice
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import ErrorType, Exit, Fault, FaultParty
from coworld_core.episode.record import ArtifactRecord, ImageRecord, UnitRecord
from coworld_core.errors import StartError, TransferError, UsageError
from coworld_core.hints import Hint
from coworld_core.ids import new_run_id
from coworld_core.text.phrases import listed

from ..backend import (
    INPUTS_MOUNT,
    Backend,
    Component,
    ImageInfo,
    Limits,
    Network,
    Placement,
    Port,
    Publish,
    Unit,
    UnitSpec,
    no_environment,
    to_nobody,
)
from ..errors import OWN_DOING, PLATFORM_ENDS, TalkError, unwrapped
from ..package.own_players.own_player import OwnPlayer
from ..runs._file_fetch import Fetched, SpaceLeft, Wanted, fetch_all, worth_keeping
from ..runs._unit_files import LOGS, check_name, copy_input
from ..runs.scratch import open_scratch
from ..runs.workspace import digest, prepare_workspace, unwritable
from .player_images import house_own

__all__ = ["Program", "ProgramOptions", "ProgramOutcome", "RunningProgram", "Talk", "open_program", "run_program"]

MEBIBYTE = 1024 * 1024
_OUTPUTS = "outputs"
_OWN = "program"
"""Directory of the user's own files among the inputs."""
_SPARE_SECONDS = 600.0
"""Seconds that a program may live beyond its deadline, so that its outputs can be fetched."""

ProgramInput = Path | Callable[[Path], object]
"""A file or directory, which is copied; or a function that writes a file to the given path, in a worker thread."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program to run, with its inputs and limits. A backend refuses limits that it cannot enforce."""

    name: str
    """A plain name, used for the unit and its logs."""
    component: Component
    """The role it plays."""
    image: str
    argv: tuple[str, ...] = ()
    """The program and its arguments; empty: the image's own command."""
    own: OwnPlayer | None = None
    """Files of the user that run in the image instead of `argv`; with a Dockerfile, in an image built from them, if the
    backend builds images."""
    environment: Callable[[Placement], Mapping[str, str]] = no_environment
    """Returns its whole environment except secrets: `place.input_uri(name)` is the address of an input,
    `place.uri(name)` that of an output, `place.listen` has the ports to listen on."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secret variables; they never appear in an argument list, a log, a repr or a label."""
    inputs: Mapping[str, ProgramInput] = field(default_factory=dict[str, ProgramInput])
    """Its read-only inputs, by plain name. It gets copies, in a directory of their own. Links within a directory are
    refused, and empty directories may be omitted."""
    documents: Mapping[str, Callable[[Placement], str]] = field(
        default_factory=dict[str, Callable[[Placement], str]], repr=False
    )
    """Further inputs, by plain name: short texts that depend on the program's placement, such as a request with the
    addresses of the other inputs, and that may be too long for the environment."""
    outputs: tuple[str, ...] = ()
    """Plain names of the required output files. Other files in the same directory are kept too."""
    ports: tuple[Port, ...] = ()
    network: Network = "open"
    """`open`: the machine's network; `none`: no network; `game-only`: its ports can be reached, but it cannot
    connect anywhere."""
    direct: tuple[str, ...] = ()
    """Hosts that it reaches without a proxy."""
    limits: Limits = field(default_factory=Limits)
    platform: str | None = None
    """os/architecture of the image; None: the engine's default."""


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """How to run a program to its end. Times are in seconds."""

    timeout: float = 3600.0
    """The overall deadline, from the beginning to the program's end."""
    stop_grace: float = 5.0
    """Time between TERM and KILL at the deadline."""
    collect_timeout: float = 300.0
    """Time for fetching the required outputs, and again for the others."""
    file_bytes: int = 200 * MEBIBYTE
    """Size limit of each output."""
    total_bytes: int = 1024 * MEBIBYTE
    """Size limit of all outputs together; required ones come first."""


@dataclass(frozen=True)
class RunningProgram:
    """A running program."""

    run_id: str
    unit: Unit
    image: ImageInfo
    _places: Sequence[Placement] = field(repr=False)

    @property
    def placement(self) -> Placement:
        """The latest placement that the program got."""
        return self._places[-1]


Talk = Callable[[RunningProgram], Awaitable[object]]
"""What is done with a program that serves requests, from its start until its part is over. It raises a `TalkError` if
the program has not done its part."""


@dataclass(frozen=True, kw_only=True)
class ProgramOutcome:
    """How a program ended, and the files that it left."""

    run_id: str
    directory: Path
    """The directory of its outputs and logs."""
    unit: UnitRecord
    """What ran, how and when it ended, and its logs relative to `directory`."""
    outputs: Mapping[str, ArtifactRecord]
    """Its outputs by name: path relative to `directory`, size and digest."""
    fault: Fault | None
    """What went wrong, and whose fault it was; None if nothing did."""
    log_tail: str
    """The last lines of its logs."""
    warnings: tuple[str, ...]
    """Remarks that are not faults: files that were not kept, and why."""
    seconds: float
    """Duration of the whole run."""

    @property
    def ok(self) -> bool:
        """Whether it ended with status 0, in time, and left all required outputs."""
        return self.fault is None

    @property
    def outcome(self) -> Literal["ok"] | ErrorType:
        """The outcome as one word.

        `ok`; `program_error` (it ended with a status other than 0); `program_timeout`; `program_never_started`;
        `output_missing`; `output_refused` (not a regular file, unreadable or too large);
        `artifact_transport_error` (an output could not be fetched, through no fault of the program);
        `platform_error` (the platform removed or lost it).
        """
        return "ok" if self.fault is None else self.fault.error_type

    def path(self, output: str) -> Path:
        """The path of an output on this machine.

        Raises:
            KeyError: The program left no output of that name.
        """
        return self.directory / self.outputs[output].path


@asynccontextmanager
async def open_program(
    program: Program,
    *,
    backend: Backend,
    publish: Publish | None = None,
    run_id: str | None = None,
    logs: Path | None = None,
    start: bool = True,
    stop_grace: float = 5.0,
    lifetime: float | None = None,
) -> AsyncGenerator[RunningProgram]:
    """Run a program for as long as the context is open, and stop and remove it on leaving.

    Its files are removed with it, unless they are fetched before (`RunningProgram.unit.fetch`).

    Args:
        program: What to run.
        backend: An entered backend.
        publish: Receives events.
        run_id: The run's label; must differ from those of all running runs. A new one by default.
        logs: A directory for its logs, `NAME.stdout.log` and `NAME.stderr.log`; None: logs are not kept.
        start: Whether to start it too; otherwise it is created and waits for `Unit.start`.
        stop_grace: Seconds between TERM and KILL on leaving.
        lifetime: Seconds after its start when the platform ends it, if it can, in case this process has died by then.

    Yields:
        The program, which may not be ready yet (`Unit.wait_ready`).

    Raises:
        UsageError: A name is not a plain name, or an input cannot be used.
        CapabilityError: It requires something that the backend cannot enforce; nothing was started.
        ImageError: The image is not available; nothing was started.
        StartError: It could not be started.
        EnvironmentFault: The machine or the engine failed.
    """
    _check_names(program)
    publish = publish or to_nobody
    run_id = run_id or new_run_id()
    places: list[Placement] = []

    def environment(placement: Placement) -> Mapping[str, str]:
        places.append(placement)
        if spec.inputs is not None:
            for name, text in program.documents.items():
                _put(functools.partial(_write, text(placement)), spec.inputs / name)
        return program.environment(placement)

    def leaked(path: Path, reason: str) -> None:
        publish(LeakFound(what=f"directory {path}", reason=reason))

    async with open_scratch(run_id, on_leak=leaked) as scratch:
        stdout, stderr = _logs(logs or scratch.path, program.name)
        can = backend.capabilities
        given = program.inputs or program.documents or program.own is not None
        inputs = scratch.directory("inputs", shared=True) if given else None
        image, argv = program.image, program.argv
        if program.own is not None and program.own.dockerfile and can.images:
            image, argv = program.own.image, ()
        elif program.own is not None:
            assert inputs is not None
            own = inputs / _OWN
            own.mkdir()
            await anyio.to_thread.run_sync(program.own.put, own)
            argv = program.own.argv(f"{INPUTS_MOUNT}/{_OWN}" if can.images else str(own), in_image=can.images)
        spec = UnitSpec(
            run_id=run_id,
            name=program.name,
            component=program.component,
            image=image,
            argv=argv,
            environment=environment,
            secret_env=program.secret_env,
            directory=scratch.directory("outputs", shared=True),
            inputs=inputs,
            ports=program.ports,
            network=program.network,
            direct=program.direct,
            limits=program.limits,
            stdout=stdout,
            stderr=stderr,
            platform=program.platform,
            lifetime=lifetime,
        )
        backend.refuse_unenforceable([spec])
        if program.own is not None:
            found = await house_own(program.own, program.image, backend, platform=program.platform, publish=publish)
        else:
            found = await backend.ensure_image(program.image, platform=program.platform, publish=publish)
        if spec.inputs is not None:
            for name, given in program.inputs.items():
                await _give(name, given, spec.inputs / name)
        async with backend.units([spec], publish=publish, start=start, grace=stop_grace) as (unit,):
            yield RunningProgram(run_id, unit, found, places)


async def run_program(
    program: Program,
    *,
    backend: Backend,
    directory: Path,
    options: ProgramOptions | None = None,
    talk: Talk | None = None,
    publish: Publish | None = None,
    run_id: str | None = None,
) -> ProgramOutcome:
    """Run a program to its end or its deadline, and keep its outputs.

    Args:
        program: What to run.
        backend: An entered backend.
        directory: The directory for outputs (`outputs/`) and logs (`logs/`); must be new or empty.
        options: How to run it.
        talk: What is done with a program that serves requests; it is stopped afterwards. None: it ends by itself.
        publish: Receives events, such as an `EventBus`'s `publish`.
        run_id: The run's label; a new one by default.

    Returns:
        The outcome. Failures of the program, and its loss by the platform, are recorded there and never raised.

    Raises:
        WorkspaceError: The directory is not fresh or not writable; nothing was started.
        UsageError: A name is not a plain name, or an input cannot be used; nothing was started.
        CapabilityError: It requires something that the backend cannot enforce; nothing was started.
        ImageError: The image is not available; nothing was started.
        EnvironmentFault: The machine or the engine failed.
    """
    _check_names(program)
    layout = prepare_workspace(directory)
    outputs = layout.workspace / _OUTPUTS
    try:
        outputs.mkdir()
    except OSError as error:
        raise unwritable(outputs, error) from error
    run = _Run(
        program,
        backend,
        layout,
        options or ProgramOptions(),
        talk,
        publish or to_nobody,
        run_id or new_run_id(),
    )
    return await run.play()


class _Run:
    """One program, from the beginning to its outcome."""

    def __init__(
        self,
        program: Program,
        backend: Backend,
        layout: EpisodeLayout,
        options: ProgramOptions,
        talk: Talk | None,
        publish: Publish,
        run_id: str,
    ) -> None:
        self._program = program
        self._backend = backend
        self._layout = layout
        self._options = options
        self._talk = talk
        self._publish = publish
        self._run_id = run_id
        self._begun = time.monotonic()
        self._who = f"The {program.component}"
        self._image = ImageRecord(image=program.image)
        self._outputs: dict[str, ArtifactRecord] = {}
        self._warnings: list[str] = []
        self._fault: Fault | None = None
        self._started: float | None = None
        self._ended: float | None = None
        self._exit: Exit | None = None
        self._log_truncated = False
        self._log_tail = ""

    async def play(self) -> ProgramOutcome:
        deadline = anyio.current_time() + self._options.timeout
        try:
            with anyio.CancelScope(deadline=deadline) as preparing:
                async with open_program(
                    self._program,
                    backend=self._backend,
                    publish=self._publish,
                    run_id=self._run_id,
                    logs=self._layout.logs,
                    start=False,
                    stop_grace=self._options.stop_grace,
                    lifetime=self._options.timeout + _SPARE_SECONDS,
                ) as running:
                    # From now on only the program has a deadline, and not the work on its outputs
                    preparing.deadline = math.inf
                    await self._run(running, deadline)
            if preparing.cancelled_caught:
                self._late("Its image was still being fetched, or it was still being made,", phase="prepare")
        except StartError as error:
            if error.code not in OWN_DOING:
                raise
            party = "operator" if error.code == "port_taken" else "program"
            self._blame("program_never_started", party, error.message, phase="start", hint=error.hint)
        return self._outcome()

    async def _run(self, running: RunningProgram, deadline: float) -> None:
        unit, late, refused = running.unit, False, None
        self._image = running.image.record()
        with anyio.CancelScope(deadline=deadline) as scope:
            await unit.start()
            self._started = self._seconds()
            refused = await self._talked(running)
        if scope.cancelled_caught:
            late = (await unit.stop(self._options.stop_grace)).reason == "stopped"
        elif self._talk is not None:
            await unit.stop(self._options.stop_grace)
        self._ended = self._seconds()
        self._log_truncated = unit.log_truncated
        self._log_tail = await unit.log_tail()
        if self._started is None:
            self._late("It was still being started", phase="start")
            return
        self._exit = await unit.wait()
        if late:
            self._exit = self._exit.model_copy(update={"reason": "timeout"})
            if trouble := self._backend.trouble():
                self._blame("platform_error", "platform", f"Nothing could be seen of it at {self._limit}: {trouble}.")
            else:
                hint = Hint(
                    "allow_program_longer",
                    "Read its log for what it waited for, or allow more: ProgramOptions(timeout=...).",
                )
                self._blame("program_timeout", "program", f"{self._who} had not ended at {self._limit}.", hint=hint)
        elif self._exit.reason in PLATFORM_ENDS:
            self._blame("platform_error", "platform", f"{self._who} {self._exit}.")
        elif not self._exit.ok and not (self._talk is not None and self._exit.reason == "stopped"):
            self._blame("program_error", "program", f"{self._who} {self._exit}.", hint="Read its log.")
        elif refused is not None:
            self._blame(cast("ErrorType", refused.code), "program", refused.message, hint=refused.hint)
        await self._collect(unit)

    async def _talked(self, running: RunningProgram) -> TalkError | None:
        """Talk to the program until its part is over, or wait for its end; returns why its part is not done."""
        if self._talk is None:
            await running.unit.wait()
            return None
        try:
            await self._talk(running)
        except TalkError as error:
            # A program that fails usually exits, and its exit says more than what was heard of it
            with anyio.move_on_after(1.0):
                await running.unit.wait()
            return error
        return None

    # --- outputs

    async def _collect(self, unit: Unit) -> None:
        room = SpaceLeft(self._options.total_bytes)
        target = self._layout.workspace / _OUTPUTS
        results: dict[str, Fetched] = {}

        async def take(wanted: Wanted, fetched: Fetched) -> None:
            results[wanted.name] = fetched
            if isinstance(fetched, int):
                path = self._layout.relative(wanted.target)
                sha256 = await anyio.to_thread.run_sync(digest, wanted.target)
                self._outputs[wanted.name] = ArtifactRecord(path=path, size=fetched, sha256=sha256)
                self._publish(ArtifactCollected(name=path, size=fetched))

        besides = [
            name for name in await unit.left() if name not in self._program.outputs and not name.startswith(LOGS)
        ]
        besides = worth_keeping(besides, who=self._who, warn=self._warn_once)
        for names in (dict.fromkeys(self._program.outputs), besides):
            wanted = [
                Wanted(unit=unit, name=name, target=target / name, limit=self._options.file_bytes) for name in names
            ]
            with unwrapped():
                await fetch_all(wanted, seconds=self._options.collect_timeout, tell=take, room=room)
        self._judge_outputs(results)
        for name in besides:
            if isinstance(error := results[name], TransferError):
                self._warn_once(f"{name}, which {self._who.lower()} wrote besides, is not kept: {error.message}")

    def _judge_outputs(self, results: Mapping[str, Fetched]) -> None:
        missing = [name for name in self._program.outputs if isinstance(results[name], FileNotFoundError)]
        for name in self._program.outputs:
            error = results[name]
            if isinstance(error, TransferError):
                of_the_program = error.party == "writer"
                self._blame(
                    "output_refused" if of_the_program else "artifact_transport_error",
                    "program" if of_the_program else "platform",
                    error.message,
                    phase="collect",
                    hint=error.hint,
                )
        if missing:
            self._blame(
                "output_missing",
                "program",
                f"{self._who} has not written {listed(missing)}.",
                phase="collect",
                hint="It must write them, before it ends, to the addresses in its environment.",
            )

    # --- the outcome

    @property
    def _limit(self) -> str:
        return f"the deadline of {self._options.timeout:g} s"

    def _seconds(self) -> float:
        return round(time.monotonic() - self._begun, 3)

    def _late(self, what: str, *, phase: str) -> None:
        hint = Hint("fetch_first", "Fetch the image beforehand, or allow more: ProgramOptions(timeout=...).")
        self._blame("program_timeout", "platform", f"{what} at {self._limit}.", phase=phase, hint=hint)

    def _warn_once(self, message: str) -> None:
        if message not in self._warnings:
            self._warnings.append(message)
            self._publish(Notice(level="warning", message=message))

    def _blame(
        self, error_type: ErrorType, party: FaultParty, message: str, *, phase: str = "run", hint: str | None = None
    ) -> None:
        """Record what went wrong; the first observation decides, and later ones follow from it."""
        if self._fault is not None:
            return
        stdout, stderr = _logs(self._layout.logs, self._program.name)
        log = stderr if self._backend.capabilities.separate_streams else stdout
        self._fault = Fault(
            party=party,
            error_type=error_type,
            message=message,
            hint=hint,
            phase=phase,
            time=dt.datetime.now(dt.UTC),
            seconds=self._seconds(),
            exit=self._exit,
            log=self._layout.relative(log) if log.exists() else None,
            log_tail=self._log_tail,
        )
        self._publish(FaultSeen(fault=self._fault))

    def _outcome(self) -> ProgramOutcome:
        logs = _logs(self._layout.logs, self._program.name)
        return ProgramOutcome(
            run_id=self._run_id,
            directory=self._layout.workspace,
            unit=UnitRecord(
                image=self._image,
                run=self._program.argv if self._program.own is None else self._program.own.shown(),
                exit=self._exit,
                started_seconds=self._started,
                ended_seconds=self._ended,
                logs=tuple(self._layout.relative(path) for path in logs if path.exists()),
                log_truncated=self._log_truncated,
            ),
            outputs=dict(sorted(self._outputs.items())),
            fault=self._fault,
            log_tail=self._log_tail,
            warnings=tuple(self._warnings),
            seconds=self._seconds(),
        )


def _logs(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}.stdout.log", directory / f"{name}.stderr.log"


def _check_names(program: Program) -> None:
    for what, names in (
        ("program", (program.name,)),
        ("input", (*program.inputs, *program.documents)),
        ("output", program.outputs),
    ):
        for name in names:
            try:
                check_name(name)
            except TransferError as error:
                raise UsageError(
                    f"{name!r} cannot be the name of a program's {what}: it must be a plain file name."
                    if what != "program"
                    else f"{name!r} cannot be the name of a program: it must be a plain file name.",
                    code="file_name",
                    context={"name": name},
                ) from error


def _write(text: str, target: Path) -> None:
    target.write_text(text, encoding="utf-8")


def _put(content: ProgramInput, target: Path) -> None:
    if isinstance(content, Path):
        copy_input(content, target)
    else:
        content(target)
        target.chmod(0o644)  # A container reads it under another user id


async def _give(name: str, content: ProgramInput, target: Path) -> None:
    """Put an input where the program will find it."""
    try:
        await anyio.to_thread.run_sync(_put, content, target)
    except (OSError, TransferError) as error:
        if isinstance(error, TransferError) and error.party == "platform":
            raise
        reason = error.message if isinstance(error, TransferError) else f"{error.strerror or error}."
        raise UsageError(
            f"The input {name!r} cannot be used: {reason}",
            code="input_unusable",
            hint="Name a file or a directory of files that can be read; links in a directory are not followed.",
            context={"name": name},
        ) from error
