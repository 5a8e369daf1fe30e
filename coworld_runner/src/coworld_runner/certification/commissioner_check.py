"""Has the commissioners that a Coworld declares decide one small round each, without playing anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio

from coworld_core.episode.events import BaseEvent, Notice
from coworld_core.episode.record import EpisodeRow, SlotRow
from coworld_core.errors import CommissionerError, EnvironmentFault, ImageError
from coworld_core.evaluation.designs import episode_key
from coworld_core.manifest.models import Manifest
from coworld_core.tournament import LogEvent, Tournament
from coworld_core.tournament.commissions import EPISODES_A_ROUND, Commission
from coworld_core.tournament.pairings import commissioner as by_commissioner
from coworld_core.tournament.tournament_log import EntrantAdded, EpisodeEnded, TournamentRules

from ..backend import Backend, Publish
from ..errors import unwrapped
from ..evaluation.commissioner.commissioner_host import CommissionerOptions
from ..evaluation.commissioner.commissioner_lookup import declared_commissioner
from ..evaluation.tournament.commissioned_rounds import CommissionedTournament
from .certification_record import Evidence
from .step_answers import advice, note, required

__all__ = ["check_commissioners"]

_FEWEST: Final = 2
"""Players in the round, if the game has fewer seats."""


class _Round:
    """A tournament of one round in memory, whose episodes all end as the smoke episode did."""

    def __init__(self, manifest: Manifest, scores: Sequence[float]) -> None:
        count = len(manifest.certification.players)
        self._scores = tuple(scores) if len(scores) == count else (0.0,) * count
        rules = TournamentRules(
            coworld=manifest.game.name,
            version=manifest.game.version,
            variant="certification",
            slot_count=count,
            seed=0,
            seeded=False,
            max_blocks=EPISODES_A_ROUND,
            pairing="commissioner",
            rounds=1,
            rating="mean",
        )
        self.tournament = Tournament(rules, by_commissioner)
        for number in range(max(count, _FEWEST)):
            name = f"player-{number}"
            self.happen(EntrantAdded(name=name, player=SlotRow(name=name)))

    def happen(self, *events: LogEvent) -> None:
        for event in events:
            self.tournament.apply(event)

    def end_episodes(self) -> int:
        """End every episode that was scheduled; returns how many."""
        tournament, ended = self.tournament, 0
        for block in range(tournament.history.over + 1, tournament.last_block + 1):
            for number, _ in enumerate(tournament.lineups(block), 1):
                key = episode_key(block, 1, number)
                row = EpisodeRow(
                    index=number,
                    key=key,
                    run_id="certification",
                    workspace=key,
                    status="completed",
                    ok=True,
                    scores=self._scores,
                    seconds=0.0,
                )
                self.happen(EpisodeEnded(row=row))
                ended += 1
        return ended


async def check_commissioners(
    manifest: Manifest,
    scores: Sequence[float],
    *,
    backend: Backend,
    publish: Publish,
    options: CommissionerOptions,
    timeout: float,
) -> list[Evidence]:
    """Start every commissioner of a manifest, and have it decide one round.

    It is asked for divisions, for their members, and for the rounds that are due. A round is started, the episodes that
    it schedules are said to have ended like the smoke episode, and its decision is checked.

    Args:
        manifest: The Coworld.
        scores: The smoke episode's, by slot.
        backend: An entered backend.
        publish: Receives events.
        options: How a commissioner is run.
        timeout: Seconds for all that one commissioner does.

    Returns:
        What became of each, in the order of the manifest.
    """
    found: dict[str, list[Evidence]] = {}

    async def check(id: str) -> None:
        found[id] = await _check(manifest, id, scores, backend, publish, options, timeout)

    with unwrapped():
        async with anyio.create_task_group() as group:
            for entry in manifest.commissioner:
                group.start_soon(check, entry.id)
    return [item for entry in manifest.commissioner for item in found[entry.id]]


async def _check(
    manifest: Manifest,
    id: str,
    scores: Sequence[float],
    backend: Backend,
    publish: Publish,
    options: CommissionerOptions,
    timeout: float,
) -> list[Evidence]:
    who, warnings, episodes = f"commissioner {id!r}", list[Evidence](), 0
    store = _Round(manifest, scores)

    def tell(event: BaseEvent) -> None:
        if not isinstance(event, Notice):
            publish(event)
        elif event.level == "warning":
            warnings.append(advice("commissioner_warning", f"{who}: {event.message}"))

    rounds = CommissionedTournament(
        store,
        Commission(store.tournament, dict(manifest.certification.game_config)),
        declared_commissioner(manifest, id),
        backend=backend,
        publish=tell,
        options=options,
    )
    begun = anyio.current_time()
    try:
        with anyio.fail_after(timeout):
            try:
                await rounds.go_on()
                while ended := store.end_episodes():
                    episodes += ended
                    await rounds.go_on()
            finally:
                await rounds.aclose()
    except TimeoutError:
        message = f"{who} did not come to the end of one small round within {timeout:g} s."
        return [required("commissioner_silent", ok=False, message=message)]
    except (CommissionerError, EnvironmentFault) as error:
        if isinstance(error, EnvironmentFault) and not isinstance(error, ImageError):
            raise
        row = required(error.code, ok=False, message=f"{who}: {error.message}", hint=error.hint)
        return [row.model_copy(update={"log_tail": str(error.context.get("log_tail", ""))})]
    if not store.tournament.league.decided:
        message = f"{who} answers, and wants no round of {len(store.tournament.active)} players."
        return [*warnings, note("commissioner_idle", message)]
    seconds = anyio.current_time() - begun
    message = f"{who} decided a round of {episodes} episodes, in {seconds:.1f} s."
    return [*warnings, required("commissioner_decides", ok=True, message=message)]
