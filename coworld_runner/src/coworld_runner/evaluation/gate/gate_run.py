"""Plays gates, and enters what they decide into the history."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Unpack

import anyio.to_thread

from coworld_core.evaluation.gate_decision import GateDecision, gate_notes, judge_gate, passes_accepted
from coworld_core.evaluation.gate_history import GateHistory, GateMeasurement, GateRecord, gate_measurement
from coworld_core.evaluation.scrimmage import PLAYER

from ...episode.run_options import BatchArguments
from ...package.resolver import Package, resolve_package
from ..comparison import compare
from ..entrants import Entrants
from ..evaluation_rules import EvaluationRules
from ..found_workers import check_cells, keep_workers, open_cell
from ..measurements import scrimmage
from .gate_entry import Gate, GateOpponent, begin_gate
from .gate_folder import GateFolder

__all__ = ["GateOutcome", "gate_player", "play_gate"]

_FIRST_EPISODES = 10
"""Episodes that a first version plays with itself."""
_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class GateOutcome:
    """What became of a gate."""

    folder: GateFolder
    record: GateRecord
    """Its line of the history."""
    notes: tuple[str, ...] = ()
    """What a reader must know before trusting it."""
    unchanged: bool = False
    """Whether the version is the accepted one; nothing was played then."""
    repeated: bool = False
    """Whether the same gate had ended before, with the same result."""

    @property
    def accepted(self) -> bool:
        """Whether the version is the accepted one now."""
        return self.unchanged or self.record.status == "accepted"


async def gate_player(
    game: Package | str | os.PathLike[str],
    bot: str | os.PathLike[str],
    *,
    opponents: Sequence[str] | None = None,
    rules: EvaluationRules | None = None,
    margin: float | None = None,
    seed: int | None = None,
    **run: Unpack[BatchArguments],
) -> GateOutcome:
    """Measure a version of a bot against its last accepted version and its opponents, and accept or reject it.

    ::

        outcome = await gate_player("examples/nim", "bots/bot.py")
        print(outcome.record.message)

    It is accepted if `compare` finds it better than the accepted version, or, with a margin, as good as that, and if no
    comparison finds that it does worse than that one against an opponent. The three versions accepted last before that
    one are opponents, too, so that versions do not go in a circle: there it must also lose to be rejected. The first
    version is accepted if it plays some episodes with itself without failing. A call for the same files goes on where
    an earlier one has ended.

    Args:
        game: The Coworld: a package, or anything that `resolve_package` accepts.
        bot: The bot's file or directory. The folder that it is in keeps the history, in `.history`.
        opponents: The opponents; None: the other bots of the folder.
        rules: What to play and what counts; its seed is not used.
        margin: The largest difference of mean scores that is negligible.
        seed: The base seed; None: a fresh one.
        run: Where and how to play; a workspace has no meaning.

    Raises:
        UsageError: There is no such player, or the folder has bots of another game.
        WorkspaceError: The folder cannot be written to, or another process gates the same version.
        EnvironmentFault: The machine or the engine failed; the same call goes on.
    """
    package = await resolve_package(game)
    begin = partial(begin_gate, package, bot, opponents=opponents, rules=rules, margin=margin, seed=seed)
    return await play_gate(await anyio.to_thread.run_sync(begin), **run)


async def play_gate(gate: Gate, **run: Unpack[BatchArguments]) -> GateOutcome:
    """Play a gate that has begun, and enter its end into the history.

    Args:
        gate: The gate.
        run: As for `gate_player`.

    Raises:
        UsageError: As for `gate_player`.
        WorkspaceError: As for `gate_player`.
        EnvironmentFault: As for `gate_player`.
    """
    folder = gate.folder
    if gate.unchanged:
        last = folder.history().accepted_of(gate.record.bot.name)
        return GateOutcome(folder=folder, record=last or gate.record, unchanged=True)
    players = gate.players()
    entrants = Entrants(gate.package, dict(zip(players, players, strict=True)), gate.rules, any_seats=True)
    check_cells(map(entrants.seat, players), run)
    async with keep_workers():
        measurements = await _Measuring(gate, run).all()
    decision = judge_gate(measurements)
    return await anyio.to_thread.run_sync(_entered, gate, tuple(measurements), decision)


def _entered(gate: Gate, measurements: tuple[GateMeasurement, ...], decision: GateDecision) -> GateOutcome:
    """Enter the end of a gate into the history, unless it is there already."""
    record, notes, repeated = gate.record, list(gate.left_out), False

    def end(history: GateHistory) -> GateRecord | None:
        nonlocal record, repeated
        last, found = history.accepted_of(gate.record.bot.name), decision
        now = last.bot if last is not None else None
        if now not in (gate.record.accepted, gate.record.bot):
            message = f"Meanwhile another version was accepted, {now}: it must be measured against that one."
            found = GateDecision(status="rejected", reason="overtaken", message=message)
        ended = gate.record.model_copy(
            update={
                "time": dt.datetime.now(dt.UTC),
                "status": found.status,
                "reason": found.reason,
                "message": found.message,
                "measurements": measurements,
            }
        )
        notes.extend(gate_notes(history, ended))
        repeated = ended.model_copy(update={"time": gate.record.time}) == gate.record
        record = gate.record if repeated else ended
        return None if repeated else ended

    gate.folder.enter(end)
    return GateOutcome(folder=gate.folder, record=record, notes=tuple(notes), repeated=repeated)


class _Measuring:
    """The measurements of a gate, one after the other."""

    def __init__(self, gate: Gate, run: BatchArguments) -> None:
        self._gate = gate
        self._run: BatchArguments = {**run, "overwrite": False, "latest": False, "run_id": None}

    async def all(self) -> list[GateMeasurement]:
        """Measure: against the accepted version, and only if that lets it go on, against the opponents."""
        gate = self._gate
        found = [await (self._first() if gate.accepted is None else self._against_accepted(str(gate.accepted)))]
        if passes_accepted(found[0]):
            for number, opponent in enumerate(gate.opponents, 1):
                found.append(await self._against(opponent, number))
        return found

    def _at(self, directory: str) -> AbstractAsyncContextManager[BatchArguments]:
        gate = self._gate
        return open_cell({**self._run, "workspace": gate.directory / directory}, f"{gate.record.gate}-{directory}")

    async def _first(self) -> GateMeasurement:
        gate, bot = self._gate, str(self._gate.bot)
        async with self._at("first") as at:
            report = await scrimmage(gate.package, bot, episodes=_FIRST_EPISODES, rules=gate.rules, **at)
        return gate_measurement(report, gate.record.bot, role="first", directory="first", measured=(PLAYER,))

    async def _against_accepted(self, accepted: str) -> GateMeasurement:
        gate, bot = self._gate, str(self._gate.bot)
        async with self._at("accepted") as at:
            report = await compare(gate.package, bot, accepted, rules=gate.rules, margin=gate.margin, **at)
        assert gate.record.accepted is not None
        return gate_measurement(report, gate.record.accepted, role="accepted", directory="accepted")

    async def _against(self, opponent: GateOpponent, number: int) -> GateMeasurement:
        """Measure how the version and the accepted one do against an opponent; without one, the version alone."""
        gate, bot, directory = self._gate, str(self._gate.bot), f"opponent-{number}"
        async with self._at(directory) as at:
            if gate.accepted is None:
                report = await compare(gate.package, bot, opponent.word, rules=gate.rules, **at)
            else:
                # All opponents together may be wrong as often as one comparison
                alpha = _ALPHA / len(gate.opponents)
                report = await compare(
                    gate.package,
                    bot,
                    str(gate.accepted),
                    opponent=opponent.word,
                    rules=gate.rules,
                    alpha=alpha,
                    **at,
                )
        return gate_measurement(report, opponent.player, role=opponent.role, directory=directory)
