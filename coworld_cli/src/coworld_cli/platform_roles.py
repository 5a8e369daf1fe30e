"""Roles of a Coworld that its platform runs on an episode, for the commands that run them on this machine, too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from .event_loop import Running, opened_client
from .options.declarations import refuse_options
from .options.platform import Connection
from .render.text import clean
from .render.transfers import shown_progress

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_core.api import RoleRun
    from coworld_runner.roles import HostedArguments

__all__ = ["hosted_episodes", "opened_roles"]

_ONLY_HERE = (
    *("game", "run", "network", "secret_env", "again", "socket", "backend", "install", "platform"),
    *("context", "namespace", "kubeconfig", "collector_image", "pull_secrets", "network_policy"),
    *("pods", "allow_privileged"),
)
"""Parameters that say how a program runs on this machine, where a platform decides for itself."""


def hosted_episodes(runs: Sequence[str]) -> tuple[str, ...]:
    """The ids of the episodes that a command names.

    Raises:
        click.UsageError: One of them is not on a platform, or an option is about programs of this machine.
    """
    from .files import platform_episode

    refuse_options(_ONLY_HERE, "is about programs that run here: it does not go with --on-platform.")
    found: list[str] = []
    for run in dict.fromkeys(runs):
        if (episode := platform_episode(run)) is None:
            raise click.UsageError(
                f"{run!r} is not on a platform: --on-platform takes the ids of its episodes, ereq_…."
            )
        found.append(episode)
    return tuple(found)


@asynccontextmanager
async def opened_roles(
    server: str | None, running: Running, *, timeout: float | None
) -> AsyncGenerator[tuple[CoworldClient, HostedArguments]]:
    """Open a client for a platform that is to run roles; yields it, and how to wait for them and show that.

    Args:
        server: The platform.
        running: The command.
        timeout: Seconds to wait for each run; None: as long as it takes.
    """
    from coworld_runner.roles import HostedArguments

    out = running.out

    def name(run: RoleRun) -> str:
        return clean(f"{run.role} {run.runnable_id} on {run.episode_request_id}", one_line=True)

    def tell(run: RoleRun) -> None:
        if not run.status.is_terminal:
            out.note(f"{name(run)}: {clean(str(run.status), one_line=True)}")

    async with opened_client(Connection(server=server)) as api:
        running.so_far = "What the platform was asked for goes on there."
        running.to_go_on = "Run the same command again to see what it says."
        how = HostedArguments(timeout=timeout, on_change=tell, progress=lambda run: shown_progress(out, name(run)))
        yield api, how
