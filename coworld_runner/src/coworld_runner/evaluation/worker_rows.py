"""Rows and evidence of episodes that were played in worker processes: the same as those of a backend leave."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import Exit, Fault, decisive
from coworld_core.episode.record import EpisodeRow, PhaseTiming, PlayerFault, SlotRow
from coworld_core.errors import ManifestError
from coworld_core.evaluation.evaluation_files import PLAYERS_NAME
from coworld_core.manifest.game_results import read_results
from coworld_core.secret_seeds import fresh_seed

from ..backend import ImageInfo
from ..episode.blame import Circumstances, Observation, rule
from ..episode.episode_ledger import UnitState
from ..episode.episode_record import make_record, versions
from ..episode.venue import Wanted
from ..kit.rollout.match_worker import Outcome
from ..kit.rollout.piped_game import SeatFailure
from ..package.plan import EpisodePlan
from ..runs.workspace import artifact_records, atomic_write

__all__ = ["WORKERS", "Ended", "ended_row", "game_seed", "in_bounds", "note_players", "planned_slots", "write_evidence"]

WORKERS = "in-process"
"""What rows, records and events call worker processes, where they name a backend."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """An episode that has ended.

    Attributes:
        episode: The episode.
        outcome: How it has ended.
        seconds: How long it took.
    """

    episode: Wanted
    outcome: Outcome
    seconds: float


def planned_slots(plan: EpisodePlan) -> tuple[SlotRow, ...]:
    """Who sits where, by slot. It reads all files of players for their digests: once for each line-up is enough."""
    return tuple(
        SlotRow(
            name=seat.name,
            player_id=seat.player_id,
            image=seat.image,
            digest=seat.own.digest if seat.own is not None else "",
            player_version=seat.player_version,
        )
        for seat in plan.seats
    )


def game_seed(plan: EpisodePlan) -> int:
    """The seed to deal from: a game that takes none in its config draws its own."""
    if plan.branch is not None:
        return plan.branch.seed
    return plan.seed if plan.seed is not None else fresh_seed()


def ended_row(
    ended: Ended, slots: tuple[SlotRow, ...], run_id: str, *, check: bool, whole: bool, kept: bool
) -> EpisodeRow:
    """Return the row of an episode, as of one of which nothing else is kept.

    Args:
        ended: The episode.
        slots: Its players.
        run_id: The label of the run.
        check: Whether its results are still to be checked against the game's schema.
        whole: Whether it has the results even if these are only scores and ticks.
        kept: Whether there will be evidence of it.
    """
    outcome, plan = ended.outcome, ended.episode.plan
    results = outcome.results
    common: dict[str, Any] = {
        "index": ended.episode.index,
        "key": ended.episode.key,
        "run_id": run_id,
        "workspace": "",
        "variant": plan.variant,
        "config_changes": dict(plan.config_changes),
        "seed": plan.seed,
        "episode_tags": dict(plan.episode_tags),
        "slots": slots,
        "seconds": ended.seconds,
        "conduct": outcome.behaviour,
        "results": results if results is not None and (whole or len(results) > 2) else None,
    }
    if results is not None and not outcome.failures and not check:
        scores = tuple(results["scores"])
        return _completed().model_copy(update={"scores": scores, **common})
    faults = _faults(ended, kept=kept)
    fault = decisive(faults)
    completed = results is not None and not any(one.error_type == "results_malformed" for one in faults)
    away = {failure.slot for failure in outcome.failures if not failure.connected}
    players: dict[int, PlayerFault] = {}
    for one in faults:
        if one.slot is not None:
            players.setdefault(one.slot, PlayerFault.of(one, slot=one.slot, connected=one.slot not in away))
    return EpisodeRow.model_construct(
        status="completed" if completed else "failed",
        ok=completed and fault is None,
        scores=tuple(results["scores"]) if completed and results is not None else (),
        error_type=fault.error_type if fault is not None else None,
        party=fault.party if fault is not None else None,
        fault_slot=fault.slot if fault is not None else None,
        message=fault.message if fault is not None else None,
        player_faults=tuple(players.values()),
        **common,
    )


@cache
def _completed() -> EpisodeRow:
    """A row to copy: finding the default of each field takes longer than all else of a row."""
    return EpisodeRow.model_construct(status="completed", ok=True)


def _faults(ended: Ended, *, kept: bool) -> tuple[Fault, ...]:
    outcome, plan = ended.outcome, ended.episode.plan
    found = [_fault_of(ended, failure, kept=kept) for failure in outcome.failures]
    if outcome.problem:
        words = f": {outcome.problem} in episode {ended.episode.key}" if outcome.status != 1 else ""
        seen = Observation(what="ended", component="game", exit=_exit_of(outcome.status), details=words)
        found.append(_ruled(ended, seen, tail=outcome.problem, kept=kept))
    elif outcome.results is not None:
        try:
            read_results(json.dumps(outcome.results).encode(), plan.manifest.game.results_schema, len(plan.seats))
        except ManifestError as error:
            found.append(
                _ruled(ended, Observation(what="results_malformed", details=error.message, error=error), kept=kept)
            )
    return tuple(found)


def _fault_of(ended: Ended, failure: SeatFailure, *, kept: bool) -> Fault:
    status, slot = failure.status, failure.slot
    who = _who(ended, slot)
    if status is None:
        seen = Observation(
            what="still_running",
            component="player",
            slot=slot,
            details=f"{who} was still running after the game's end.",
        )
    elif failure.error_type == "player_left_early":
        did = "with status 0, and the game was not over" if failure.connected else "with status 0 before it played"
        what = "abandoned" if failure.connected else "never_connected"
        seen = Observation(
            what=what, component="player", slot=slot, exit=_exit_of(status), details=f"{who} ended {did}."
        )
    else:
        seen = Observation(what="ended", component="player", slot=slot, exit=_exit_of(status))
    return _ruled(ended, seen, tail=ended.outcome.printed.get(slot, ""), kept=kept)


def _who(ended: Ended, slot: int | None) -> str:
    return "The game" if slot is None else f"Player {slot} ({ended.episode.plan.seats[slot].name})"


def _ruled(ended: Ended, seen: Observation, *, kept: bool, tail: str = "") -> Fault:
    layout = EpisodeLayout(Path())
    log = layout.relative(layout.game_stderr if seen.slot is None else layout.player_log(seen.slot))
    ruling = rule(seen, Circumstances(within_reach=True), who=_who(ended, seen.slot), log=log)
    row = ruling.row
    assert row.party is not None
    assert row.error_type is not None
    return Fault(
        party=row.party,
        slot=seen.slot if row.party == "player" else None,
        error_type=row.error_type,
        message=ruling.message,
        hint=ruling.hint,
        phase="play",
        time=dt.datetime.now(dt.UTC),
        exit=seen.exit,
        log=log if kept else None,
        log_tail=tail,
    )


def write_evidence(directory: Path, ended: Ended, row: EpisodeRow) -> EpisodeRow:
    """Write what a backend leaves of an episode: its config, results, replay, logs and record.

    Returns:
        The row of an episode with evidence in this directory.

    Raises:
        EnvironmentFault: The disk is full.
        WorkspaceError: The directory is not writable.
    """
    layout, plan, outcome = EpisodeLayout(directory), ended.episode.plan, ended.outcome
    layout.logs.mkdir(parents=True, exist_ok=True)
    atomic_write(layout.config, _as_file(dict(plan.game_config)))
    if row.status == "completed":
        atomic_write(layout.results, _as_file(outcome.results))
    if outcome.replay is not None:
        atomic_write(layout.replay, outcome.replay)
    for slot in range(len(plan.seats)):
        atomic_write(layout.player_log(slot), outcome.printed.get(slot, "").encode("utf-8", "replace"))
    atomic_write(layout.game_stderr, outcome.problem.encode("utf-8", "replace"))
    atomic_write(layout.events, b"")
    now = dt.datetime.now(dt.UTC)
    record = make_record(
        plan,
        layout,
        run_id=row.run_id,
        backend=WORKERS,
        versions=versions(),
        started_at=now - dt.timedelta(seconds=ended.seconds),
        ended_at=now,
        seconds=ended.seconds,
        status=row.status,
        scores=row.scores,
        results=dict(outcome.results) if row.status == "completed" and outcome.results is not None else None,
        faults=_faults(ended, kept=True),
        game=_rules_state(ended, layout),
        seats={slot: _player_state(ended, layout, slot) for slot in range(len(plan.seats))},
        phases=(PhaseTiming(phase="play", seconds=ended.seconds),),
        artifacts=artifact_records(layout),
    )
    atomic_write(layout.record, record.to_document())
    replays = [file.sha256 for file in record.artifacts if file.path == layout.replay_name]
    kept = {"workspace": directory.name, "replay_sha256": replays[0] if replays else "", "results": None}
    return row.model_copy(update=kept)


def _rules_state(ended: Ended, layout: EpisodeLayout) -> UnitState:
    runnable = ended.episode.plan.manifest.game.runnable
    return UnitState(
        ImageInfo(image=runnable.image),
        tuple(runnable.run),
        (layout.game_stderr,),
        started=0.0,
        ended=ended.seconds,
        exit=_exit_of(ended.outcome.status) if ended.outcome.problem else Exit(reason="unknown"),
    )


def _player_state(ended: Ended, layout: EpisodeLayout, slot: int) -> UnitState:
    seat = ended.episode.plan.seats[slot]
    failure = next((one for one in ended.outcome.failures if one.slot == slot), None)
    return UnitState(
        ImageInfo(image=seat.image, digest=seat.own.digest if seat.own is not None else ""),
        tuple(seat.runnable.run) if seat.runnable is not None else (),
        (layout.player_log(slot),),
        started=0.0,
        ended=ended.seconds,
        exit=Exit(reason="unknown") if failure is None else _exit_of(failure.status),
        connected=failure is None or failure.connected,
    )


def _exit_of(status: int | None) -> Exit:
    """How a process has ended: with a status, by a signal, if negative, or because its time was up, if None."""
    if status is None:
        return Exit(reason="timeout")
    return Exit(reason="exited", code=status) if status >= 0 else Exit(reason="signal", signal=-status)


def note_players(workspace: Path, source: str, plans: Iterable[EpisodePlan]) -> None:
    """Write where the game and the files of players are, so that episodes can be played again."""
    found: dict[str, str] = {}
    with suppress(OSError, ValueError, AttributeError):
        found = json.loads((workspace / PLAYERS_NAME).read_bytes())["players"]
    known = dict(found)
    for plan in plans:
        for seat in plan.seats:
            if seat.own is not None:
                found[seat.image] = seat.own.source or seat.own.kind
    if found != known or not (workspace / PLAYERS_NAME).exists():
        document = {"manifest": source, "players": found}
        atomic_write(workspace / PLAYERS_NAME, (json.dumps(document, indent=2) + "\n").encode())


def in_bounds(scores: Sequence[float], lowest: float | None, highest: float | None) -> bool:
    """Whether all scores are between two bounds, as far as these are known."""
    low, high = -math.inf if lowest is None else lowest, math.inf if highest is None else highest
    return all(low <= score <= high for score in scores)


def _as_file(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
