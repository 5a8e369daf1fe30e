"""The state of a running episode: its units, its phase, its results and its faults.

Observers report to the ledger, and the ledger informs the listeners, if there are any. The ledger starts and stops
nothing; `blame` assigns the faults.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from coworld_core.episode.events import BaseEvent, FaultSeen, LeakFound, Notice, UnitExited, UnitStarted
from coworld_core.episode.outcome import Exit, Fault
from coworld_core.errors import CoworldError
from coworld_core.hints import Hint

from ..backend import Component, ImageInfo, Unit
from .episode_inputs import Setup
from .phase_times import Phases

if TYPE_CHECKING:
    from coworld_core.episode.model_use import ModelUse
    from coworld_core.episode.record import RecordingRecord, StarvationRecord

    from .blame import Circumstances, ObservationKind

__all__ = ["Ledger", "UnitState"]

_NAME_COMMAND = Hint("name_command", "Pass the image's command as run, or put the program into the image.")


@dataclass
class UnitState:
    """The state of a unit."""

    image: ImageInfo
    run: tuple[str, ...]
    logs: tuple[Path, ...]
    unit: Unit | None = None
    started: float | None = None
    """Seconds into the episode."""
    ended: float | None = None
    """Seconds into the episode."""
    exit: Exit | None = None
    connected: bool | None = None
    """Whether it was seen to connect to the game; None: that could not be seen."""
    model_use: ModelUse | None = None
    """What it asked language models through the episode's own way to them; None: nothing."""
    cut_off: bool = False
    """Whether it still ran when everything was stopped. It may then end by itself, because the game has gone."""

    @property
    def span(self) -> str:
        """How long the unit ran, for a unit that has ended."""
        return f"{(self.ended or 0.0) - (self.started or 0.0):.1f} s"

    @property
    def end(self) -> Exit | None:
        """The unit's exit once it has ended, which may be a moment before that is published."""
        return self.unit.exit if self.unit is not None else None

    @property
    def own_end(self) -> Exit | None:
        """The unit's exit if it ended by itself; None while it runs, or if it had to be stopped."""
        stopped = self.cut_off or (self.end is not None and self.end.reason in ("stopped", "timeout"))
        return None if stopped else self.end

    @property
    def plays(self) -> bool:
        """Whether it was there to the last: it has not ended by itself, nor been stopped while others played."""
        return self.cut_off or self.end is None or self.end.reason == "timeout"


class Ledger:
    """The state of one episode.

    Args:
        setup: The episode's surroundings.
    """

    def __init__(self, setup: Setup) -> None:
        plan, layout = setup.plan, setup.layout
        game = plan.manifest.game.runnable
        self.game = UnitState(ImageInfo(image=game.image), game.run, (layout.game_stdout, layout.game_stderr))
        self.seats = {
            slot: UnitState(ImageInfo(image=seat.image), seat.runnable.run, (layout.player_log(slot),))
            for slot, seat in enumerate(plan.seats)
            if seat.runnable is not None and seat.has_unit
        }
        """The players with a unit, by slot; excludes people, and players that the game runs itself."""
        self.phases = Phases(self.publish)
        self.faults: list[Fault] = []
        self.results: dict[str, Any] | None = None
        self.scores: tuple[float, ...] = ()
        self.results_complete = False
        """Set when valid results and a closed replay were seen while the game still ran."""
        self.replay_closed = False
        """Set when the game was seen to have closed its replay by then."""
        self.rewritten = False
        """Set when results or replay were written again after that."""
        self.disturbed_at: float | None = None
        """Seconds into the episode when we first took a failed player's seat, to check that the game admits it. After
        that the results do not count, and players that fail are not blamed."""
        self.over_at: float | None = None
        """Seconds into the episode when the game's part was over."""
        self.stopped_at: float | None = None
        """Seconds into the episode when we began to stop the game, because its part was over."""
        self.trouble = ""
        """Why the platform did not answer when play ended, in words; empty if it did."""
        self.starvation: StarvationRecord | None = None
        self.recording: RecordingRecord | None = None
        """What was recorded; None if nothing is to be."""
        self._setup = setup

    def seconds(self) -> float:
        """Seconds since the episode began."""
        return self._setup.run.seconds()

    # --- units

    def state(self, component: str, slot: int | None = None) -> UnitState | None:
        """Return the state of a unit; None unless it is the game or a player."""
        if component == "player":
            return None if slot is None else self.seats.get(slot)
        return self.game if component == "game" else None

    def seat(self, player: Unit) -> UnitState:
        """Return the state of a player."""
        assert player.spec.slot is not None
        return self.seats[player.spec.slot]

    def who(self, component: str | None, slot: int | None) -> str:
        """Return a unit's name, for people."""
        if component == "player" and slot is not None:
            return f"Player {slot} ({self._setup.plan.seats[slot].name})"
        return "The game"

    # --- what happens

    def publish(self, event: BaseEvent) -> None:
        """Note starts and exits of units, and pass every event to the listeners."""
        match event:
            case UnitStarted(component=component, slot=slot):
                if state := self.state(component, slot):
                    state.started = self.seconds()
            case UnitExited(component=component, slot=slot, exit=ended):
                if state := self.state(component, slot):
                    state.exit, state.ended = ended, self.seconds()
            case _:
                pass
        self._setup.run.bus.publish(event)

    def warn(self, message: str) -> None:
        """Publish a warning, which is not a fault."""
        self.publish(Notice(level="warning", message=message))

    def leak(self, what: str, reason: str) -> None:
        """Report something that could not be removed."""
        self.publish(LeakFound(what=what, reason=reason))

    # --- what goes wrong

    @property
    def failed(self) -> bool:
        """Whether something went wrong that is no player's fault."""
        return any(fault.party != "player" for fault in self.faults)

    @property
    def played(self) -> bool:
        """Whether the game is known to have done its part."""
        return self.results_complete or self.results is not None

    @property
    def all_ended(self) -> bool:
        """Whether all players have ended by themselves, in any way, and no people play."""
        return len(self.seats) == len(self._setup.plan.seats) and None not in self._own_ends()

    @property
    def all_left(self) -> bool:
        """Whether all players have ended by themselves with status 0, and no people play."""
        return self.all_ended and all(end is not None and end.ok for end in self._own_ends())

    def _own_ends(self) -> list[Exit | None]:
        return [seat.own_end for seat in self.seats.values()]

    def known(self) -> Circumstances:
        """Return the facts needed to assign blame."""
        from .blame import Circumstances

        return Circumstances(
            stage=self.phases.stage,
            trouble=self.trouble,
            game_exit=self.game.exit,
            # Excludes the time to fetch images and to start the game
            game_age=self.seconds() - self.game.started if self.game.started is not None else None,
            stopped_at=self.stopped_at,
            disturbed_at=self.disturbed_at,
            blamed=frozenset(fault.slot for fault in self.faults if fault.slot is not None),
            game_failed=self.failed,
            within_reach=not self._setup.backend.capabilities.images,
        )

    async def see(
        self,
        what: ObservationKind,
        component: Component | None = None,
        slot: int | None = None,
        *,
        details: str = "",
        hint: str | None = None,
        error: CoworldError | None = None,
    ) -> Fault | None:
        """Judge an observation, and record the fault or publish the warning.

        Args:
            what: The kind of observation.
            component: The unit observed, if any.
            slot: That unit's slot, if it is a player.
            details: Details for the message; defaults to the error's message.
            hint: Hint that replaces the table's, if there is a better one.
            error: The error that led to the observation.

        Returns:
            The fault; None if no party is to blame.
        """
        from .blame import Observation, rule

        state = self.state(component, slot) if component is not None else None
        unit = state.unit if state is not None else None
        if what == "not_started" and slot is not None and error is not None:
            origin = self._setup.plan.command_origin(slot)
            details = f"{error.message} {origin}".rstrip()
            if origin and self._setup.backend.capabilities.images:
                hint = _NAME_COMMAND
        seen = Observation(
            what=what,
            component=component,
            slot=slot,
            exit=unit.exit if unit is not None else None,
            ended=state.ended if state is not None else None,
            details=details or (error.message if error is not None else ""),
            hint=hint or (error.hint if error is not None else None),
            error=error,
        )
        log = self._log_of(state)
        tail = ""
        if unit is not None and rule(seen, self.known()).row.party is not None:
            with anyio.CancelScope(shield=True):
                tail = await unit.log_tail()
            if seen.hint is None and what in ("ended", "never_connected"):
                seen = dataclasses.replace(seen, hint=unit.missing_hint(tail) or None)
            # A player that has played is not excused by what its log says
            played = state is not None and state.connected
            if what in ("ended", "not_ready") and seen.exit is not None and not played:
                # An interruption at this moment would cost a game that is over its result
                with anyio.CancelScope(shield=True):
                    seen = dataclasses.replace(seen, unlike=await unit.unlike_image(tail))
        # Judge again: more may be known after reading the log
        who, layout = self.who(component, slot), self._setup.layout
        ruling = rule(seen, self.known(), who=who, log=layout.relative(log) if log is not None else "its log")
        row = ruling.row
        if row.party is None or row.error_type is None:
            if ruling.message:
                self.warn(ruling.message)
            return None
        with_log = row.with_log and log is not None
        fault = Fault(
            party=row.party,
            slot=slot if row.party == "player" else None,
            error_type=row.error_type,
            message=ruling.message,
            hint=ruling.hint,
            phase=self.phases.now,
            time=dt.datetime.now(dt.UTC),
            seconds=self.seconds(),
            exit=seen.exit if row.with_log else None,
            # A unit that never ran may have no log
            log=layout.relative(log) if with_log and log is not None and log.exists() else None,
            log_tail=tail if with_log else "",
        )
        self.faults.append(fault)
        self.publish(FaultSeen(fault=fault))
        return fault

    def _log_of(self, state: UnitState | None) -> Path | None:
        """Return the log most likely to say why a unit failed."""
        if state is None:
            return None
        return state.logs[-1] if self._setup.backend.capabilities.separate_streams else state.logs[0]
