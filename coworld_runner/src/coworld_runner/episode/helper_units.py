"""Runs a program of ours beside an episode, as one more unit of it: in a container where units are containers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from coworld_core.errors import CapabilityError, EnvironmentFault, ImageError, NotReadyError, StartError
from coworld_core.hints import Hint

from ..backend import INPUTS_MOUNT, Backend, HttpProbe, Limits, Placement, Unit, UnitSpec, without_limits
from ..runs.scratch import Scratch
from .episode_inputs import Setup
from .episode_ledger import Ledger

__all__ = ["helper_spec", "open_helper", "require_helper"]

_LIMITS = Limits(memory_bytes=512 << 20, pids=1024, disk_bytes=16 << 20, disk_entries=100, log_bytes=1 << 20)


def require_helper(backend: Backend, what: str, option: str) -> None:
    """Check that a backend can run a program of ours beside an episode.

    Args:
        backend: The backend.
        what: What the program does, for people.
        option: The name of what asks for it.

    Raises:
        CapabilityError: It has no image for that.
    """
    if backend.capabilities.images and not backend.helper_image:
        raise CapabilityError(
            f"The {backend.name} backend {what}.",
            hint=Hint("other_backend", 'Use a backend that can (backend="docker"), or do not ask for it.'),
            context={"backend": backend.name, "capability": option},
        )


def helper_spec(
    setup: Setup,
    scratch: Scratch,
    *,
    name: str,
    package: str,
    module: str,
    argv: tuple[str, ...] = (),
    files: Mapping[str, Path] | None = None,
    environment: Callable[[Placement, str], Mapping[str, str]] = lambda placement, inputs: {},
    limits: Limits = _LIMITS,
    **spec: Any,
) -> UnitSpec:
    """Build the spec of a program of ours.

    Args:
        setup: The episode's surroundings.
        scratch: Holds the program's files.
        name: The unit's name, and that of its log.
        package: The folder of ours that has the program, for Python 3.9 or later without dependencies.
        module: The module in it whose `main` is called.
        argv: Arguments.
        files: Further files for it, by name.
        environment: Its variables, by its placement and the directory of its files.
        limits: Its limits, as far as the backend can enforce them.
        spec: Further fields of the spec.
    """
    from ..backends._own_source import own_sources

    inputs = scratch.directory(f"{name}-files")
    place = inputs / package.rpartition("/")[2]
    place.mkdir()
    for file, source in own_sources(package).items():
        (place / file).write_bytes(source)
    for file, path in (files or {}).items():
        shutil.copyfile(path, inputs / file)
    for path in (*inputs.iterdir(), *place.iterdir()):
        if path.is_file():
            path.chmod(0o644)
    for directory in (inputs, place):
        directory.chmod(0o755)
    contained = setup.backend.capabilities.images
    there = INPUTS_MOUNT if contained else str(inputs)
    code = f"import sys; sys.path.insert(0, {there!r}); from {place.name}.{module} import main; main()"
    fields: dict[str, Any] = {"stdout": setup.layout.logs / f"{name}.log", **spec}
    return without_limits(
        UnitSpec(
            run_id=setup.run.bus.run_id,
            name=name,
            component="proxy",
            image=setup.backend.helper_image if contained else setup.plan.manifest.game.runnable.image,
            argv=("python3" if contained else sys.executable, "-I", "-S", "-c", code, *argv),
            environment=lambda placement: environment(placement, there),
            inputs=inputs,
            limits=limits,
            lifetime=setup.lifetime,
            **fields,
        ),
        setup.backend.capabilities,
    )


@asynccontextmanager
async def open_helper(setup: Setup, ledger: Ledger, spec: UnitSpec, *, what: str) -> AsyncGenerator[Unit]:
    """Run such a program, and yield its unit once it answers.

    Args:
        setup: The episode's surroundings.
        ledger: Receives its events.
        spec: Its spec; its last port answers `/healthz`.
        what: What it is, for people.

    Raises:
        EnvironmentFault: It could not be started.
        ImageError: The image that it runs in cannot be had.
    """
    try:
        await setup.backend.ensure_image(spec.image, publish=ledger.publish)
    except ImageError as error:
        error.hint = f"COWORLD_COLLECTOR_IMAGE names another image with Python 3.9 or later, for {what}."
        raise
    async with AsyncExitStack() as stack:
        try:
            units = setup.backend.units([spec], publish=ledger.publish, grace=0)
            (unit,) = await stack.enter_async_context(units)
            probe = HttpProbe(port=spec.ports[-1].name, timeout=setup.options.ready_timeout_seconds)
            await unit.wait_ready(probe)
        except (StartError, NotReadyError) as error:
            raise EnvironmentFault(
                f"{what[0].upper()}{what[1:]} could not be started: {error.message}",
                code=f"{spec.name.rpartition('-')[2]}_failed",
                hint=error.hint or f"It needs an image with Python 3.9 or later, and runs in {spec.image}.",
                context=error.context,
            ) from error
        yield unit
