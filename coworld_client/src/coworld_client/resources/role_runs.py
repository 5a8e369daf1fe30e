"""Graders, reporters and diagnosers that the platform runs on episodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from coworld_core.api import HostedRole, RoleRun, RoleRunBody, check_id

from ..pages import AsyncPager
from ..transport._connection import path
from ..watch import until_ended, wait_at_most
from ._base import Resource
from ._episode_places import Episode, id_of

if TYPE_CHECKING:
    from ..transfers.files import Downloaded, OnProgress

__all__ = ["RoleRuns"]


class RoleRuns(Resource):
    """Graders, reporters and diagnosers that the platform runs on episodes, on servers that do so."""

    def list(self, episode: Episode, *, limit: int | None = None, timeout: float | None = None) -> AsyncPager[RoleRun]:
        """The runs on an episode that you may see, oldest first."""
        return self._list(RoleRun, _runs_of(episode), limit=limit, whole=True, timeout=timeout)

    async def create(
        self,
        episode: Episode,
        role: HostedRole,
        *,
        runnable_id: str | None = None,
        position: int | None = None,
        private: bool = False,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> RoleRun:
        """Have a role of the Coworld run on an episode that is over and that you take part in.

        What was done before is not done again: then this returns the run that there is. One that failed begins again.

        Args:
            episode: The episode.
            role: `grader`, `reporter` or `diagnoser`.
            runnable_id: The program's id in the Coworld's manifest; None: the only one of this role.
            position: For a diagnoser, the slot of one of your own players.
            private: Whether a reporter is given the logs and artifacts of your own players, too. Nobody else sees what
                it says then.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to repeat it.

        Raises:
            Unprocessable: The Coworld declares no such program, or several, or the slot does not fit the role.
            Forbidden: You do not take part in the episode, or the player is not yours.
            Conflict: The episode is not over, or was cancelled.
            Gone: What the episode left is not kept any longer.
            TooManyRequests: A quota is exhausted.
        """
        body = RoleRunBody.of(role=role, runnable_id=runnable_id, position=position, private=private)
        return await self._post(RoleRun, _runs_of(episode), body, timeout=timeout, idempotency_key=idempotency_key)

    async def get(self, run_id: str, *, timeout: float | None = None) -> RoleRun:
        """One run, with what it says if it is over.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        return await self._get(RoleRun, _place(run_id), timeout=timeout)

    async def wait(
        self,
        run_id: str,
        *,
        timeout: float | None = None,
        on_change: Callable[[RoleRun], object] | None = None,
    ) -> RoleRun:
        """Wait until a run has ended. Outages of the server of up to five minutes are survived.

        ::

            run = await api.role_runs.create(episode, "grader")
            print((await api.role_runs.wait(run.id)).answer["score"])

        Args:
            run_id: `role_…`.
            timeout: Seconds to wait in total; None: no limit.
            on_change: Called with the run at first, and after every change.

        Returns:
            The run, whether it has completed or failed.

        Raises:
            NotFound: If it does not exist, or you may not see it.
            ApiTimeoutError: The run has not ended in that time. It continues, and waiting again is safe.
        """
        _place(run_id)
        return await wait_at_most(
            timeout,
            lambda: until_ended(
                lambda: self.get(run_id), ended=lambda run: run.status.is_terminal, on_change=on_change
            ),
            id=run_id,
        )

    async def download_output(
        self,
        run: str | RoleRun,
        target: Path,
        *,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download what the program of a run wrote: JSON of a grader, a zip of a reporter or a diagnoser.

        Args:
            run: The run, or its id.
            target: The file.
            limit: Largest file in bytes.
            timeout: Seconds without data after which the connection counts as lost.
            on_progress: Called with the progress.

        Raises:
            NotFound: There is no such run, you may not see it, or it has failed.
            Conflict: It is not over.
            Gone: What it wrote is not kept any longer.
            TransferRefused: If the transfer is incomplete or exceeds the limit.
        """
        from ..transfers.files import download

        return await download(
            self._connection,
            f"{_place(run if isinstance(run, str) else run.id)}/output",
            target,
            size=None if isinstance(run, str) else run.output_size,
            what="output",
            limit=limit,
            timeout=timeout,
            on_progress=on_progress,
        )


def _runs_of(episode: Episode) -> str:
    return path("/v2/episode-requests/{}/role-runs", id_of(episode))


def _place(run_id: str) -> str:
    return path("/v2/role-runs/{}", check_id(run_id, "role run"))
