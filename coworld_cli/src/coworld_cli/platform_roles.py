"""Roles of a Coworld that its platform runs on an episode, for the commands that run them on this machine, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .event_loop import Running, opened_client
from .options.declarations import refuse_options
from .options.platform import Connection
from .render.text import clean
from .render.transfers import shown_progress

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_core.api import HostedRole, RoleRun
    from coworld_core.roles.role_record import DiagnosedPlayer
    from coworld_runner.roles.after_episode import RoleAnswer
    from coworld_runner.roles.grading import GradedEpisode

__all__ = ["HostedWork", "ask_platform", "grade_on_platform"]

_ONLY_HERE = (
    *("game", "run", "network", "secret_env", "again", "socket", "backend", "install", "platform"),
    *("context", "namespace", "kubeconfig", "collector_image", "pull_secrets", "network_policy"),
)
"""Parameters that say how a program runs on this machine, where a platform decides for itself."""


@dataclass(frozen=True, kw_only=True)
class HostedWork:
    """What a platform is asked for."""

    role: HostedRole
    named: str | None
    """The program's id in the Coworld's manifest; None: the only one of this role."""
    server: str | None
    player: str | None = None
    """The player to diagnose: its slot, or its name."""
    timeout: float | None = None
    """Seconds to wait for what it says; None: as long as it takes. It goes on anyway."""
    private: bool = False
    """Whether a reporter is given the files of one's own players, too."""

    def episodes(self, runs: Sequence[str]) -> tuple[str, ...]:
        """The ids of the episodes.

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


async def ask_platform(
    work: HostedWork, runs: Sequence[str], running: Running, *, directory: Path | None
) -> RoleAnswer:
    """Have the platform run a role on one episode, wait for it, and keep what it says.

    Args:
        work: What is asked for.
        runs: The episode.
        running: The command.
        directory: Where to keep it; None: in the current directory.
    """
    episodes = work.episodes(runs)
    if len(episodes) != 1:
        raise click.UsageError("A platform reports on one episode at a time: name one.")
    async with opened_client(Connection(server=work.server)) as api:
        return await _ask(api, work, episodes[0], running, directory=directory)


async def grade_on_platform(
    work: HostedWork, runs: Sequence[str], running: Running, *, parallel: int
) -> tuple[GradedEpisode, ...]:
    """Have the platform grade episodes, wait for it, and keep the grades.

    What it refuses for one of several episodes, it may do for the others.

    Args:
        work: What is asked for.
        runs: The episodes.
        running: The command.
        parallel: Number of episodes to wait for at a time.
    """
    import anyio

    from coworld_client.errors import ApiStatusError
    from coworld_runner.errors import unwrapped
    from coworld_runner.roles.grading import GradedEpisode

    episodes = work.episodes(runs)
    grades: dict[str, GradedEpisode] = {}
    slots = anyio.CapacityLimiter(parallel)

    async with opened_client(Connection(server=work.server)) as api:

        async def one(episode: str) -> None:
            async with slots:
                try:
                    answer = await _ask(api, work, episode, running, directory=None)
                    grades[episode] = GradedEpisode(run=episode, graded=answer)
                except ApiStatusError as error:
                    if len(episodes) == 1 or error.status == 401:
                        raise
                    grades[episode] = GradedEpisode(run=episode, error=error)

        with unwrapped():
            async with anyio.create_task_group() as tasks:
                for episode in episodes:
                    tasks.start_soon(one, episode)
    return tuple(grades[episode] for episode in episodes)


async def _ask(
    api: CoworldClient, work: HostedWork, episode: str, running: Running, *, directory: Path | None
) -> RoleAnswer:
    from coworld_runner.roles.hosted_answer import keep_hosted

    out = running.out
    player = None if work.player is None else await _player(api, episode, work.player)
    running.so_far = "What the platform was asked for goes on there."
    running.to_go_on = "Run the same command again to see what it says."
    made = await api.role_runs.create(
        episode,
        work.role,
        runnable_id=work.named,
        position=None if player is None else player.slot,
        private=work.private,
    )
    who = clean(f"{made.role} {made.runnable_id} on {episode}", one_line=True)

    def tell(run: RoleRun) -> None:
        if not run.status.is_terminal:
            out.note(f"{who}: {clean(str(run.status), one_line=True)}")

    run = await api.role_runs.wait(made.id, timeout=work.timeout, on_change=tell)
    with shown_progress(out, who) as progress:
        return await keep_hosted(
            run,
            lambda target: api.role_runs.download_output(run, target, on_progress=progress),
            directory=directory,
            player=player,
            kept=made.status.is_terminal,
        )


async def _player(api: CoworldClient, episode: str, named: str) -> DiagnosedPlayer:
    """The player with a slot or a name in an episode of a platform."""
    from coworld_core.roles.role_record import DiagnosedPlayer
    from coworld_runner.roles.after_episode import named_player

    row = await api.episodes.get(episode)
    seats = [
        DiagnosedPlayer(slot=seat.position, name=seat.label, source=seat.policy_version_id or "")
        for seat in row.participants
    ]
    return named_player(seats, named, of=episode)
