"""Prepares a run: resolves the package, opens the backend and names the workspace."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.ids import new_run_id

from ..backend import Backend
from ..package.plan import EpisodePlan, plan_episode
from ..package.resolver import Package, default_results_dir, resolve_package
from ..runs.workspace import default_workspace
from .backend_choice import open_backend

__all__ = ["RunContext", "find_plan", "open_run_context"]


@dataclass(frozen=True)
class RunContext:
    """The backend and the workspace of a run."""

    backend: Backend
    """The backend, entered."""
    workspace: Path
    latest: bool
    """Whether to point `latest` beside the workspace at it."""
    run_id: str


async def find_plan(
    what: EpisodePlan | Package | str | os.PathLike[str],
    *,
    variant: str | None,
    players: Sequence[str],
    seed: int | None,
) -> tuple[EpisodePlan, Package | None]:
    """Return the plan of what to play, and its package; the package is None if a plan was given.

    Raises:
        UsageError: A plan was given together with an option that it already contains.
    """
    if not isinstance(what, EpisodePlan):
        package = await resolve_package(what)
        return plan_episode(package, variant=variant, players=players, seed=seed), package
    if variant is not None or players or seed is not None:
        raise UsageError(
            "A plan already contains variant, players and seed.",
            code="plan_excludes_options",
            hint="Give them to plan_episode, or name the package instead of the plan.",
        )
    return what, None


@asynccontextmanager
async def open_run_context(
    package: Package | None,
    *,
    source: str,
    backend: Backend | str,
    workspace: str | os.PathLike[str] | None,
    latest: bool,
    run_id: str | None,
    below: str = "",
) -> AsyncGenerator[RunContext]:
    """Open an entered backend and name a workspace, given ones or new ones.

    Args:
        package: The package to run, if known.
        source: Where its manifest was read from.
        backend: An entered backend, or the name of one that is opened for this run.
        workspace: The directory for the evidence; None: a fresh one, with `latest` beside it pointing at it.
        latest: Whether to point `latest` at a given workspace, too.
        run_id: The run's label; None: a new one.
        below: Subdirectory of the package's results for fresh workspaces.

    Raises:
        UsageError: There is no backend of that name, or a backend is named without a package.
    """
    run_id = run_id or new_run_id()
    if workspace is None:
        latest = True
        results = package.default_results_dir() if package is not None else default_results_dir(source)
        workspace = default_workspace(results / below, run_id)
    if isinstance(backend, Backend):
        yield RunContext(backend, Path(workspace), latest, run_id)
    elif package is None:
        raise UsageError(
            "A plan does not say where its images are built, so no backend can be opened for it by name.",
            code="backend_not_open",
            hint="Name the package instead of the plan, or open the backend with open_backend.",
        )
    else:
        async with open_backend(backend, package) as (opened, _):
            yield RunContext(opened, Path(workspace), latest, run_id)
