"""Has the episodes of a run played by a platform, each as a request of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import anyio

from coworld_core.controller import EpisodeController, EpisodeInfo, EpisodeSpec, HostedGame
from coworld_core.documents.canonical_json import json_digest
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import EpisodeRow
from coworld_core.errors import CapabilityError, CoworldError, RemoteError
from coworld_core.evaluation.metrics import measured

from ..package.plan import EpisodePlan
from .episode_options import EpisodeOptions
from .episode_rows import row_of_error, slot_rows
from .venue import Take, Venue, VenueRun, Wanted, play_attempts

__all__ = ["HostedVenue"]

_AT_A_TIME = 4
"""Episodes that are requested at a time, unless it is said."""


class HostedVenue(Venue):
    """Has a platform play episodes.

    The key of each request follows from what is requested and from the episode's key, so that the same evaluation of
    the same versions with the same seed, asked for again from anywhere, plays nothing twice.

    Args:
        controller: What starts episodes on the platform, and follows them: the client's `HostedController`.
        game: The Coworld, and the policies that play.
    """

    name = "platform"

    def __init__(self, controller: EpisodeController, game: HostedGame) -> None:
        self._controller = controller
        self._game = game

    def check(self, run: VenueRun) -> None:
        """Refuse what only programs on this machine have.

        Raises:
            CapabilityError: There are hooks, or options of how to run an episode.
        """
        if run.hooks:
            raise CapabilityError("Episodes of a platform are played without hooks.", hint="Leave the hooks out.")
        if run.options is not None and run.options != EpisodeOptions(watch=run.options.watch):
            raise CapabilityError(
                "A platform decides itself how it runs an episode: its limits, times and network.",
                hint="Leave the options of the episode out.",
            )

    async def play(
        self, run: VenueRun, wanted: Iterator[Wanted], take: Take, *, fatal: tuple[type[CoworldError], ...] = ()
    ) -> None:
        """Request episodes, four at a time unless it is said; see `Venue.play`.

        What was requested goes on if the run is interrupted, and a resumed run finds it.

        Raises:
            CapabilityError: A seat is not a policy's, or its player has secrets or a command of its own.
            RemoteError: The platform cannot be reached, or refuses.
        """
        del fatal

        async def take_turns() -> None:
            for episode in wanted:
                await play_attempts(run, episode, take, partial(self._played, run))

        async with anyio.create_task_group() as tasks:
            for _ in range(run.parallel if isinstance(run.parallel, int) else _AT_A_TIME):
                tasks.start_soon(take_turns)

    async def _played(self, run: VenueRun, episode: Wanted) -> EpisodeRow:
        plan = episode.plan
        spec = EpisodeSpec(
            coworld=self._game.id,
            variant=plan.variant,
            players=tuple(_policies(plan)),
            seed=plan.seed,
            config=dict(plan.config_changes),
            labels=dict(plan.episode_tags),
        )
        key = json_digest([spec.model_dump(mode="json"), episode.key, episode.earlier])
        try:
            handle = await self._controller.start(spec, idempotency_key=key)
        except RemoteError as error:
            if error.code != "no_episode":
                raise
            return row_of_error(episode, None, plan, error, run_id=str(error.context.get("request", "")), seconds=0.0)
        info = await handle.result()
        results = await handle.results() if info.state == "completed" else None
        scores = measured(results or {}, "/scores", len(plan.seats))
        status, ended = _ended(info, has_scores=scores is not None)
        took = (info.ended_at - info.started_at).total_seconds() if info.ended_at and info.started_at else 0.0
        return EpisodeRow(
            index=episode.index,
            key=episode.key,
            earlier=episode.earlier,
            run_id=info.id,
            workspace="",
            variant=plan.variant,
            config_changes=dict(plan.config_changes),
            seed=plan.seed,
            episode_tags=info.labels,
            status=status,
            ok=ended.party is None and not ended.player_faults,
            slots=slot_rows(plan),
            scores=scores or (),
            seconds=max(0.0, took),
            error_type=ended.error_type,
            party=ended.party,
            fault_slot=ended.fault_slot,
            message=ended.error,
            player_faults=ended.player_faults,
            results=results if run.keeps_results else None,
        )


def _policies(plan: EpisodePlan) -> Iterator[str]:
    for slot, seat in enumerate(plan.seats):
        if seat.policy is None or seat.secret_env:
            raise CapabilityError(
                f"Seat {slot} is {'handed secrets' if seat.policy is not None else 'not a policy of the platform'}: "
                "a platform plays policies alone, as they were uploaded.",
                hint="Name policies of yours, without secrets or a command.",
            )
        yield seat.policy.id


def _ended(info: EpisodeInfo, *, has_scores: bool) -> tuple[EpisodeStatus, EpisodeInfo]:
    """How an episode ended; one without a score for each seat has no valid results."""
    if info.state == "completed" and not has_scores:
        fault = {
            "party": "game",
            "error_type": "results_malformed",
            "error": "The results have no list of one score for each seat.",
            "fault_slot": None,
        }
        return "failed", info.model_copy(update=fault)
    if info.state in ("completed", "interrupted"):
        return info.state, info
    return "failed", info
