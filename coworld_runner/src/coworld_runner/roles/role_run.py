"""Runs the program of a role on finished episodes, on any backend, and reads what it leaves.

A program gets copies of its inputs, writes into a directory of its own, has no network unless that is asked for, and a
deadline. What it leaves is checked before it counts; a failure is recorded with its cause, and never raised.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio.to_thread

from coworld_core.episode.events import FaultSeen
from coworld_core.episode.outcome import Fault
from coworld_core.errors import CoworldError, UsageError
from coworld_core.ids import new_run_id

from ..backend import Backend, Limits, Network, Placement, Port, Publish, enforceable, to_nobody
from ..episode.program import Program, ProgramInput, ProgramOptions, ProgramOutcome, RunningProgram, run_program
from ..episode.unit_specs import game_place
from ..package.own_players.component_file import require_wasmtime
from .reporter_socket import ask_reporter
from .role_program import RoleProgram

__all__ = ["RoleOptions", "RoleOutcome", "RoleWork", "run_role"]

GIBIBYTE = 1024**3

_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """How the program of a role is run. Times are in seconds."""

    timeout: float = 600.0
    """From the beginning to the program's end."""
    socket: bool = False
    """Whether a reporter serves the socket `/reporter`, as on a platform, and is asked there."""
    network: Network = "none"
    """`none`, or `open` for a program that calls a service. A backend that cannot isolate gives every program its
    network, and says so in a warning."""
    limits: Limits = field(default_factory=lambda: Limits(memory_bytes=2 * GIBIBYTE, pids=512, disk_bytes=GIBIBYTE))
    """Defaults that a backend cannot enforce are dropped."""
    secret_env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secret variables, such as the key of a service."""
    platform: str | None = None
    """os/architecture of images; None: the engine's default."""

    def identity(self) -> dict[str, Any]:
        """What may change what a program says. Secrets are told by name: values cannot be found out by trying."""
        return {
            **({"socket": True} if self.socket else {}),
            "network": self.network == "open",
            "secret_env": sorted(self.secret_env),
        }


@dataclass(frozen=True, kw_only=True)
class RoleWork(Generic[_Value]):
    """What a program gets, and how its output is read."""

    inputs: Mapping[str, ProgramInput]
    """Files and directories, by plain name."""
    variables: Callable[[Placement], Mapping[str, str]]
    """The variables of its contract."""
    documents: Mapping[str, Callable[[Placement], str]] = field(
        default_factory=dict[str, Callable[[Placement], str]], repr=False
    )
    """Texts that depend on where the other inputs are."""
    request: Callable[[Placement], str] | None = None
    """What a reporter is asked on its socket; None: it finds everything in its environment, and ends by itself."""
    output: str
    """The name of its output."""
    read: Callable[[Path], _Value]
    """Reads and checks the output; raises a `CoworldError` that says what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class RoleOutcome(Generic[_Value]):
    """How the program of a role ended, and what it said."""

    program: RoleProgram
    run: ProgramOutcome
    value: _Value | None
    """What it left; None if that is missing or not valid."""
    fault: Fault | None
    """What went wrong; None if nothing did."""

    @property
    def ok(self) -> bool:
        """Whether it ended with status 0, in time, and what it left is valid."""
        return self.fault is None


async def run_role(
    program: RoleProgram,
    work: RoleWork[_Value],
    *,
    backend: Backend,
    directory: Path,
    options: RoleOptions | None = None,
    publish: Publish | None = None,
    run_id: str | None = None,
) -> RoleOutcome[_Value]:
    """Run the program of a role to its end, and read what it leaves.

    Args:
        program: The program.
        work: What it gets and leaves.
        backend: An entered backend.
        directory: The directory for its output (`outputs/`) and logs (`logs/`); must be new or empty.
        options: How to run it.
        publish: Receives events.
        run_id: The run's label; a new one by default.

    Raises:
        WorkspaceError: The directory is not fresh or not writable; nothing was started.
        UsageError: It is a WebAssembly component, and wasmtime is not installed (`wasmtime_missing`), or it is to be
            asked on a socket, and is only a function or a component (`role_not_runnable`).
        CapabilityError: It requires something that the backend cannot enforce; nothing was started.
        ImageError: The image is not available; nothing was started.
        EnvironmentFault: The machine or the engine failed.
    """
    options = options or RoleOptions()
    can = backend.capabilities
    ask = work.request
    if program.is_component and not can.images:
        require_wasmtime()
    if ask is not None and program.is_hosted:
        raise UsageError(
            f"{program} serves no socket: it is played by ours, which is asked in its environment.",
            code="role_not_runnable",
            hint="Ask it there; one that serves is a program of its own.",
        )
    runnable = program.runnable
    publish = publish or to_nobody
    network = "game-only" if ask is not None and options.network == "none" else options.network

    def environment(placement: Placement) -> Mapping[str, str]:
        place = game_place(placement) if ask is not None else {}
        return {**runnable.env, **place, **work.variables(placement)}

    async def talk(running: RunningProgram) -> None:
        assert ask is not None
        await ask_reporter(running.unit, ask(running.placement), program.id, publish=publish)

    run = await run_program(
        Program(
            name=program.role,
            component=program.role,
            image=runnable.image,
            argv=tuple(runnable.run),
            own=program.own,
            environment=environment,
            secret_env=options.secret_env,
            inputs=work.inputs,
            documents=work.documents,
            outputs=(work.output,),
            ports=(Port(name="http"),) if ask is not None else (),
            network=network if can.network_isolation else "open",
            limits=enforceable(options.limits, can),
            platform=options.platform,
        ),
        backend=backend,
        directory=directory,
        options=ProgramOptions(timeout=options.timeout),
        talk=talk if ask is not None else None,
        publish=publish,
        run_id=run_id or new_run_id(),
    )
    value, fault = None, run.fault
    if fault is None:
        try:
            value = await anyio.to_thread.run_sync(work.read, run.path(work.output))
        except CoworldError as error:
            fault = _refused(program, work.output, error, run)
            publish(FaultSeen(fault=fault))
    return RoleOutcome(program=program, run=run, value=value, fault=fault)


def _refused(program: RoleProgram, output: str, error: CoworldError, run: ProgramOutcome) -> Fault:
    return Fault(
        party="program",
        error_type="output_refused",
        message=f"What the {program.role} wrote to {output} is not valid: {error.message}",
        hint=error.hint,
        phase="collect",
        time=dt.datetime.now(dt.UTC),
        seconds=run.seconds,
        exit=run.unit.exit,
        log=run.unit.logs[-1] if run.unit.logs else None,
        log_tail=run.log_tail,
    )
