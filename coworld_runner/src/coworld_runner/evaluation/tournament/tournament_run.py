"""Plays the blocks of a tournament's rounds, through the same mechanism as any evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.tournament.commissions import Commission
from coworld_core.tournament.pairings import Commissioned
from coworld_core.tournament.standings import TournamentReport

from ...backend import Backend
from ...episode.many import EpisodeListeners, open_keyed_run
from ...episode.parallelism import Parallel, require_parallel
from ...episode.run_context import open_run_context
from ...episode.single import EpisodeOptions
from ...package.resolver import Package
from ...runs.event_bus import Listener
from ..commissioner.commissioner_host import CommissionerOptions
from ..commissioner.commissioner_lookup import find_commissioner
from ..evaluation_run import play_blocks, reported, tell_start
from .commissioned_rounds import CommissionedTournament
from .tournament_entry import game_of, rules_of
from .tournament_folder import TournamentFolder, entrants_of
from .tournament_settings import read_settings

__all__ = ["play_tournament"]


async def play_tournament(
    directory: str | os.PathLike[str],
    *,
    backend: Backend | str = "auto",
    package: Package | None = None,
    parallel: Parallel = 1,
    options: EpisodeOptions | None = None,
    commissioner_options: CommissionerOptions | None = None,
    command: tuple[str, ...] = (),
    secret_env: Mapping[str, str] | None = None,
    listeners: tuple[Listener, ...] = (),
    episode_listeners: EpisodeListeners | None = None,
    run_id: str | None = None,
) -> TournamentReport:
    """Play a tournament until it is over, from its current state.

    The current `tournament.toml` applies from now on. However the call ends, the next one resumes: an episode counts
    once it is in the log. `report.json` and `report.md` are derived from the log alone.

    Args:
        directory: The tournament's directory.
        backend: An entered backend, or the name of one.
        package: The game, if already resolved.
        parallel: Number of episodes to play at a time.
        options: How to run each episode.
        commissioner_options: How to run the commissioner, if the tournament has one.
        command: Command for players given as images.
        secret_env: Secrets for every player.
        listeners: Readers of the run's own events.
        episode_listeners: Readers of one episode's events.
        run_id: The run's label.

    Raises:
        UsageError: Fewer than two entrants, a player or an image that has changed, or a log that was changed.
        WorkspaceError: Another process is writing to the directory.
        CommissionerError: The commissioner failed. The open round is dropped; the next call starts another.
        EnvironmentFault: The machine or the engine failed.
    """
    require_parallel(parallel)
    place = Path(directory)
    settings = read_settings(place)
    found = package or await game_of(settings, place)
    rules = replace(rules_of(settings), command=command, secret_env=secret_env or {})
    with TournamentFolder(place) as folder:
        entrants = entrants_of(settings, place, found, rules)
        folder.refuse(settings, entrants)
        tournament = folder.update(settings, entrants)
        if len(tournament.active) < 2:
            raise UsageError(
                f"{place} has fewer than 2 players.",
                code="bad_count",
                hint=Hint("add_entrants", "Add them with add_entrant."),
            )
        folder.rows.begin()
        workspace = folder.evidence()
        async with open_run_context(
            found, source=found.report.source, backend=backend, workspace=workspace, latest=False, run_id=run_id
        ) as stage:
            with open_keyed_run(
                stage.workspace,
                run_id=stage.run_id,
                listeners=listeners,
                overwrite=False,
                resume=True,
                latest=False,
                rows=folder.rows,
            ) as many:
                tell_start(many, tournament.plan, entrants, stage.backend)
                many.run.bus.publish(tournament.progress())
                with reported(many, tournament, place) as tally:
                    async with AsyncExitStack() as stack:
                        chair = None
                        if isinstance(tournament.pairing, Commissioned):
                            chair = CommissionedTournament(
                                folder,
                                Commission(tournament, dict(entrants.base.game_config)),
                                find_commissioner(found, settings.pairing.commissioner),
                                backend=stage.backend,
                                publish=many.run.bus.publish,
                                options=commissioner_options,
                                hooks=settings.pairing.hooks,
                            )
                            stack.push_async_callback(chair.aclose)

                        async def between() -> None:
                            if chair is not None:
                                await chair.go_on()
                            else:
                                folder.happen(*tournament.next_events())

                        await play_blocks(
                            many,
                            tournament,
                            entrants,
                            tally,
                            backend=stage.backend,
                            parallel=parallel,
                            options=options,
                            episode_listeners=episode_listeners,
                            between=between,
                            held=lambda: chair is not None and chair.deserted,
                        )
        return folder.report()
