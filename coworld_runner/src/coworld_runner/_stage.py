"""Where something runs for a caller that only says what: a package is found, a backend opened, a directory named."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.ids import new_run_id

from .backend import Backend
from .package.resolving import Package, default_results_dir, resolve_package
from .plan import EpisodePlan, plan_episode
from .runs.workspace import default_workspace
from .selection import open_backend

__all__ = ["Stage", "find_package", "find_plan", "open_stage"]


@dataclass(frozen=True)
class Stage:
    """Where a run happens, and what is left of it."""

    backend: Backend
    """Entered."""
    workspace: Path
    latest: bool
    """Whether ``latest`` beside the workspace is to point at it."""
    run_id: str


async def find_package(what: Package | str | os.PathLike[str]) -> Package:
    """A package, found unless it is one already."""
    return what if isinstance(what, Package) else await resolve_package(what)


async def find_plan(
    what: EpisodePlan | Package | str | os.PathLike[str],
    *,
    variant: str | None,
    players: Sequence[str],
    seed: int | None,
) -> tuple[EpisodePlan, Package | None]:
    """What is to be played, and of which package, unless it was planned already.

    Raises:
        UsageError: A plan says itself what was given beside it.
    """
    if not isinstance(what, EpisodePlan):
        package = await find_package(what)
        return plan_episode(package, variant=variant, players=players, seed=seed), package
    if variant is not None or players or seed is not None:
        raise UsageError(
            "A plan says variant, players and seed itself.",
            code="plan_excludes_options",
            hint="Give them to plan_episode, or name the package instead of the plan.",
        )
    return what, None


@asynccontextmanager
async def open_stage(
    package: Package | None,
    *,
    source: str,
    backend: Backend | str,
    workspace: str | os.PathLike[str] | None,
    latest: bool,
    run_id: str | None,
    below: str = "",
) -> AsyncGenerator[Stage]:
    """An entered backend and a workspace, those that were given or fresh ones.

    Args:
        package: What is to run, where that is known.
        source: Where its manifest was read from.
        backend: An entered backend, or the name of one that is opened for this run.
        workspace: The directory for the evidence; None: a fresh one, and ``latest`` beside it points at it.
        latest: Whether it does that, too, where the directory was named.
        run_id: The run's label; None: a new one.
        below: Where fresh directories are below that of the package's results.

    Raises:
        UsageError: There is no backend of that name, or none can be opened without knowing the package.
    """
    run_id = run_id or new_run_id()
    if workspace is None:
        latest = True
        results = package.default_results_dir() if package is not None else default_results_dir(source)
        workspace = default_workspace(results / below, run_id)
    if isinstance(backend, Backend):
        yield Stage(backend, Path(workspace), latest, run_id)
    elif package is None:
        raise UsageError(
            "A plan does not say where its images are built, so no backend can be opened for it by name.",
            code="backend_not_open",
            hint="Name the package instead of the plan, or open the backend with open_backend.",
        )
    else:
        async with open_backend(backend, package) as (opened, _):
            yield Stage(opened, Path(workspace), latest, run_id)
