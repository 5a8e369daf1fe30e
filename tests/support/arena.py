"""An arena for misbehaving programs: plays a plan, reads the evidence, and looks for leftovers afterwards."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coworld_core.ids import new_run_id
from coworld_runner.backend import Backend
from coworld_runner.episode.options import OnReady
from coworld_runner.episode.running import EpisodeOptions, run_episode
from coworld_runner.plan import EpisodePlan
from coworld_runner.runs.events import Listener

from .misfit_kit import PACKAGE, PLACEHOLDER, Evidence, ensure_image, evidence, leftovers, misfit_plan, new_mark

__all__ = ["Arena", "make_backend", "open_arena"]


@dataclass
class Arena:
    """A backend with the misfits package, and the ids of all its runs."""

    backend: Backend
    image: str
    directory: Path
    mark: str = field(default_factory=new_mark)
    run_ids: list[str] = field(default_factory=list[str])

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    def plan(self, game: str = "well", *players: Any, **more: Any) -> EpisodePlan:
        """A plan whose processes carry a mark, so that leftovers can be found."""
        return misfit_plan(game, *players, image=self.image, mark=self.mark, **more)

    def workspace(self) -> Path:
        """The path of a new directory for evidence, which does not exist yet."""
        return self.directory / f"run-{len(self.run_ids)}"

    def new_run(self) -> str:
        """A new run id, included in the search for leftovers."""
        self.run_ids.append(new_run_id())
        return self.run_ids[-1]

    async def play(
        self,
        plan: EpisodePlan,
        options: EpisodeOptions | None = None,
        *,
        listeners: tuple[Listener, ...] = (),
        workspace: Path | None = None,
        on_ready: OnReady | None = None,
    ) -> Evidence:
        """Run an episode and read its evidence."""
        workspace = workspace or self.workspace()
        record = await run_episode(
            plan,
            backend=self.backend,
            workspace=workspace,
            options=options or EpisodeOptions(timeout_seconds=90),
            listeners=listeners,
            on_ready=on_ready,
            run_id=self.new_run(),
        )
        found = evidence(workspace)
        assert found.record == record
        return found

    def leftovers(self) -> list[str]:
        """What is left of all runs."""
        left = leftovers(mark=self.mark, run_ids=self.run_ids, docker=self.name == "docker")
        if self.name == "kubernetes":
            from .kube import labelled

            left += [thing for run_id in self.run_ids for thing in labelled(os.environ["COWORLD_NAMESPACE"], run_id)]
        return left


def make_backend(name: str) -> Backend:
    """A backend that can run the misfits package; for a cluster, in the namespace of ``namespace_for_tests``."""
    if name == "kubernetes":
        from .kube import backend_for

        return backend_for(os.environ["COWORLD_NAMESPACE"])
    if name == "docker":
        from coworld_runner.backends.docker.backend import DockerBackend

        return DockerBackend()
    from coworld_runner.backends.process.backend import ProcessBackend

    return ProcessBackend(contexts={PLACEHOLDER: PACKAGE})


async def open_arena(name: str, directory: Path) -> AsyncGenerator[Arena]:
    """Open an arena on a backend; fails at the end if a run left anything behind. For use in fixtures."""
    async with make_backend(name) as backend:
        arena = Arena(backend, PLACEHOLDER if name == "process" else ensure_image(), directory)
        yield arena
        assert arena.leftovers() == []
        # The items that `coworld clean` would list.
        assert [item for run_id in arena.run_ids for item in await backend.find(run_id)] == []
