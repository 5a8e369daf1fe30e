"""Plays the blocks of a tournament's rounds, through the same mechanism as any evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from coworld_core.errors import CapabilityError, UsageError
from coworld_core.hints import Hint
from coworld_core.tournament.commissions import Commission
from coworld_core.tournament.pairings import Commissioned
from coworld_core.tournament.standings import TournamentReport

from ...episode.run_options import BatchArguments, RunOptions
from ...package.resolver import Package
from ...runs.run_labels import change_labels
from ..commissioner.commissioner_host import CommissionerOptions
from ..commissioner.commissioner_lookup import find_commissioner
from ..evaluation_run import open_evaluation_run, play_blocks
from .commissioned_rounds import CommissionedTournament
from .tournament_entry import game_of, rules_of
from .tournament_folder import TournamentFolder
from .tournament_settings import read_settings

__all__ = ["play_tournament"]


async def play_tournament(
    directory: str | os.PathLike[str],
    *,
    package: Package | None = None,
    commissioner_options: CommissionerOptions | None = None,
    command: tuple[str, ...] = (),
    secret_env: Mapping[str, str] | None = None,
    **run: Unpack[BatchArguments],
) -> TournamentReport:
    """Play a tournament until it is over, from its current state.

    The current `tournament.toml` applies from now on. However the call ends, the next one resumes: an episode counts
    once it is in the log. `report.json` and `report.md` are derived from the log alone.

    Args:
        directory: The tournament's directory.
        package: The game, if already resolved.
        commissioner_options: How to run the commissioner, if the tournament has one.
        command: Command for players given as images.
        secret_env: Secrets for every player.
        run: How to play; without `workspace`, `overwrite` and `latest`, since the directory has its own workspace.

    Raises:
        UsageError: Fewer than two entrants, a player or an image that has changed, or a log that was changed.
        WorkspaceError: Another process is writing to the directory.
        CommissionerError: The commissioner failed. The open round is dropped; the next call starts another.
        EnvironmentFault: The machine or the engine failed.
    """
    options = RunOptions.of(BatchArguments, run, resume=True, without=("workspace", "overwrite", "latest"))
    place = Path(directory)
    settings = read_settings(place)
    found = package or await game_of(settings, place)
    rules = replace(rules_of(settings, place), command=command, secret_env=secret_env or {})
    with TournamentFolder(place) as folder:
        entrants = folder.entrants(settings, found, rules)
        folder.refuse(settings, entrants)
        tournament = folder.update(settings, entrants)
        if len(tournament.active) < 2:
            raise UsageError(
                f"{place} has fewer than 2 players.",
                code="bad_count",
                hint=Hint("add_entrants", "Add them with add_entrant."),
            )
        folder.rows.begin()
        if options.labels:
            change_labels(place, options.labels)
        options = replace(options, workspace=folder.evidence(), labels={})
        async with (
            open_evaluation_run(
                tournament,
                entrants,
                options,
                rows=folder.rows,
                directory=place,
                programs=isinstance(tournament.pairing, Commissioned),
            ) as keyed,
            AsyncExitStack() as stack,
        ):
            commissioner = None
            if isinstance(tournament.pairing, Commissioned):
                if keyed.venue.backend is None:
                    raise CapabilityError("A commissioner is a program: name a backend for it.")
                commissioner = CommissionedTournament(
                    folder,
                    Commission(tournament, dict(entrants.base.game_config)),
                    find_commissioner(found, settings.pairing.commissioner),
                    backend=keyed.venue.backend,
                    publish=keyed.run.bus.publish,
                    options=commissioner_options,
                    hooks=settings.pairing.hooks,
                )
                stack.push_async_callback(commissioner.aclose)

            async def between() -> None:
                if commissioner is not None:
                    await commissioner.go_on()
                else:
                    folder.happen(*tournament.next_events())

            await play_blocks(
                keyed,
                tournament,
                entrants,
                between=between,
                held=lambda: commissioner is not None and commissioner.deserted,
            )
        return folder.report()
