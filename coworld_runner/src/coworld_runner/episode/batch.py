"""Plays many episodes of one plan, or of several variants in turn, each in its own directory.

A failed episode does not affect the others.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from coworld_core.episode.events import RunFinished
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import SUMMARY_NAME, BatchSummary, EpisodeRow, PlayerSummary, last_attempts, read_rows
from coworld_core.errors import CapabilityError, ImageError, UsageError

from ..package.plan import EpisodePlan, Seat
from ..package.player_names import SeatPlayer
from ..package.resolver import Package
from .many import open_keyed_run
from .run_context import find_plans
from .run_options import BatchArguments, RunOptions
from .run_start import started

__all__ = ["run_batch"]


async def run_batch(
    what: EpisodePlan | Sequence[EpisodePlan] | Package | str | os.PathLike[str],
    *,
    episodes: int,
    variant: str | None = None,
    players: Sequence[SeatPlayer] = (),
    seed: int | None = None,
    config: Mapping[str, Any] | None = None,
    resume: bool = False,
    retry: Mapping[str, int] | None = None,
    **run: Unpack[BatchArguments],
) -> BatchSummary:
    """Play several episodes, up to `parallel` at a time.

    Each episode has its own directory, `episode-0001`, `episode-0002`, …, in the workspace, and a seed that grows
    with its index. A failed episode is a row of the summary; only a failure that every episode would share (an
    unavailable image, a full disk) ends the batch. `summary.json` is written however the batch ends and covers the
    episodes that have ended; each row is in `episodes.jsonl` as soon as its episode has ended.

    Args:
        what: What to play, as for `run_episode`: a package, its location, or a plan; or the plans of several variants
            (`plan_variants`), which are played in turn.
        episodes: Number of episodes of each variant, at least 1.
        variant: Id of a variant of the package, or a pattern for several with the same number of seats.
        players: The players, one for all seats or one per seat.
        seed: The seed of the first episode of each variant.
        config: Changes to the game config, as for `plan_episode`.
        resume: Whether to resume the batch in the workspace: only the missing episodes are played, and those that the
            platform or the operator lost.
        retry: How often to play an episode again that failed through the platform's or the operator's fault:
            `{"platform": 2}`. Each attempt has a row and a directory of its own, and the last one counts.
        run: Where and how to play. The key of an episode is the name of its directory.

    Returns:
        The summary.

    Raises:
        UsageError: A count below 1, or as `run_episode`.
        ManifestError: The manifest has errors, or the config does not satisfy the game's schema.
        WorkspaceError: The workspace is not fresh or not writable, or another run is writing to it.
        EnvironmentFault: The machine or the engine failed; the summary covers the episodes that had ended.
    """
    if episodes < 1:
        raise UsageError("The number of episodes must be at least 1.", code="bad_count")
    options = RunOptions.of(BatchArguments, run, resume=resume, retry=retry)
    if resume and options.workspace is None:
        raise UsageError(
            "To resume a batch, its directory must be named.",
            code="nothing_to_resume",
            hint="Give the workspace in which it was started.",
        )
    plans, origin = await find_plans(what, variant=variant, players=players, seed=seed, config=config)
    total = episodes * len(plans)
    keys = {f"episode-{index + 1:04d}": index for index in range(total)}
    # What all of them share
    plan = dataclasses.replace(plans[0], variant=", ".join(one.variant for one in plans))
    async with open_keyed_run(options, origin, started("batch", plan)) as keyed:
        try:
            await keyed.play(
                ((key, plans[index % len(plans)].for_episode(index // len(plans))) for key, index in keys.items()),
                # These would fail every episode
                fatal=(CapabilityError, ImageError, UsageError),
                total=total,
            )
        finally:
            workspace = keyed.run.layout.workspace
            rows = last_attempts(row for row in read_rows(workspace) if row.key in keys)
            status: EpisodeStatus = keyed.counts.status
            if status == "completed" and any(row.status != "completed" for row in rows):
                status = "failed"  # Because of an episode that already had its row
            summary = _summary(plan, keyed.venue.name, status, total, rows, keyed.run.seconds())
            keyed.finish(RunFinished(status=status, ok=summary.ok, scores=summary.mean_scores, seconds=summary.seconds))
            keyed.run.reserve.write(workspace / SUMMARY_NAME, summary.to_document())
    return summary


def _summary(
    plan: EpisodePlan, venue: str, status: EpisodeStatus, planned: int, rows: list[EpisodeRow], seconds: float
) -> BatchSummary:
    scored = [row.scores for row in rows if row.status == "completed" and row.scores]
    means = tuple(round(sum(column) / len(scored), 6) for column in zip(*scored, strict=True)) if scored else ()
    return BatchSummary(
        coworld=plan.manifest.game.name,
        version=plan.manifest.game.version,
        backend=venue,
        variant=plan.variant,
        config_changes=dict(plan.config_changes),
        status=status,
        planned=planned,
        completed=sum(row.status == "completed" for row in rows),
        faulted=sum(not row.ok for row in rows),
        seconds=seconds,
        mean_scores=means,
        # Hooks may have seated the players of each episode anew
        players=_seated_players(rows) if any(row.hooks for row in rows) else _players(plan, scored),
        episodes=tuple(rows),
    )


def _players(plan: EpisodePlan, scored: list[tuple[float, ...]]) -> tuple[PlayerSummary, ...]:
    """Return each player with all its seats; players are the same if program and own name are the same."""
    groups: list[tuple[Seat, list[int]]] = []
    for slot, seat in enumerate(plan.seats):
        seats = next((slots for first, slots in groups if _same_player(first, seat)), None)
        if seats is None:
            groups.append((seat, [slot]))
        else:
            seats.append(slot)
    players: list[PlayerSummary] = []
    for seat, slots in groups:
        scores = [row[slot] for row in scored for slot in slots]
        players.append(
            PlayerSummary(
                name=seat.player_name or seat.name,
                player_id=seat.player_id,
                image=seat.follows or seat.image,
                slots=tuple(slots),
                episodes=len(scored),
                mean_score=round(sum(scores) / len(scores), 6) if scores else None,
            )
        )
    return tuple(players)


def _seated_players(rows: Sequence[EpisodeRow]) -> tuple[PlayerSummary, ...]:
    """Return each player with its seats in any of the episodes; `X (2)` is `X` in a further seat."""
    scores: dict[tuple[str, str | None, str], list[tuple[int, int, float | None]]] = {}
    for row in rows:
        for slot, seat in enumerate(row.slots):
            who = (re.sub(r" \(\d+\)$", "", seat.name), seat.player_id, seat.image)
            counts = row.status == "completed" and slot < len(row.scores)
            scores.setdefault(who, []).append((row.index, slot, row.scores[slot] if counts else None))
    players: list[PlayerSummary] = []
    for (name, player_id, image), seats in scores.items():
        counted = [(index, score) for index, _, score in seats if score is not None]
        players.append(
            PlayerSummary(
                name=name,
                player_id=player_id,
                image=image,
                slots=tuple(sorted({slot for _, slot, _ in seats})),
                episodes=len({index for index, _ in counted}),
                mean_score=round(sum(score for _, score in counted) / len(counted), 6) if counted else None,
            )
        )
    return tuple(players)


def _same_player(one: Seat, other: Seat) -> bool:
    return (
        one.runnable is not None
        and one.runnable == other.runnable
        and one.image == other.image
        and one.player_id == other.player_id
        and (one.player_name or one.name) == (other.player_name or other.name)
    )
