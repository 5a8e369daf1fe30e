"""The backend that runs the program of a role."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..backend import Backend
from ..episode.run_context import entered_backend
from ..package.own_players.component_file import require_wasmtime
from ..package.resolver import Package
from ..runs.scratch import open_scratch
from .role_program import RoleProgram

__all__ = ["role_backend"]


@asynccontextmanager
async def role_backend(program: RoleProgram, backend: Backend | str, package: Package) -> AsyncGenerator[Backend]:
    """Open the backend that runs a program, unless the caller has entered it.

    A WebAssembly component needs no image, and wasmtime keeps it from files, network and environment: it runs as a
    local process whatever the backend, since images of games seldom have wasmtime.

    Args:
        program: The program.
        backend: The backend, or its name.
        package: The Coworld.

    Raises:
        UsageError: There is no such backend, or it is a component, and wasmtime is not installed (`wasmtime_missing`).
    """
    if not program.is_component:
        async with entered_backend(backend, package) as entered:
            yield entered
        return
    require_wasmtime()
    from ..backends.process.process_backend import ProcessBackend

    async with open_scratch() as scratch, ProcessBackend(default_context=scratch.directory("image")) as local:
        yield local
