"""What is known of an episode while it runs: its units, how far it is, its results, and what went wrong.

Whoever sees something tells the ledger, and the ledger tells the listeners; none of them is needed for it. Nothing is
started here and nothing is stopped, and who is to blame is said by ``blame``.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from coworld_core.episode.events import BaseEvent, FaultSeen, LeakFound, Notice, UnitExited, UnitStarted
from coworld_core.episode.outcome import Exit, Fault
from coworld_core.episode.record import StarvationRecord
from coworld_core.errors import CoworldError

from ..backend import Component, ImageInfo, Unit
from .blame import Known, Seen, What, rule
from .phases import Phases
from .setup import Setup

__all__ = ["Ledger", "UnitState"]


@dataclass
class UnitState:
    """What is known of a unit."""

    image: ImageInfo
    run: tuple[str, ...]
    logs: tuple[Path, ...]
    unit: Unit | None = None
    started: float | None = None
    """Seconds into the episode."""
    ended: float | None = None
    """Seconds into the episode."""
    exit: Exit | None = None

    @property
    def span(self) -> str:
        """How long it ran, once it has ended."""
        return f"{(self.ended or 0.0) - (self.started or 0.0):.1f} s"


class Ledger:
    """What is known of one episode.

    Args:
        setup: Its surroundings.
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
        """The players, by slot; people are not among them, nor those that the game runs itself."""
        self.phases = Phases(self.publish)
        self.faults: list[Fault] = []
        self.results: dict[str, Any] | None = None
        self.scores: tuple[float, ...] = ()
        self.results_complete = False
        """Set when valid results and a closed replay were seen while the game still ran."""
        self.rewritten = False
        """Set when results or replay were written again after that."""
        self.disturbed_at: float | None = None
        """Seconds into the episode when the seat of a player that had failed was first taken to see whether it can be:
        what the game makes of that is no result, and what players make of the game then is not their doing."""
        self.over_at: float | None = None
        """Seconds into the episode when the game's part was over."""
        self.stopped_at: float | None = None
        """Seconds into the episode when we began to stop a game whose part was over."""
        self.trouble = ""
        """What kept the platform from answering when play ended, in words."""
        self.starvation: StarvationRecord | None = None
        self._setup = setup

    def seconds(self) -> float:
        """Seconds since the episode began."""
        return self._setup.run.seconds()

    # --- units

    def state(self, component: str, slot: int | None = None) -> UnitState | None:
        """What is known of a unit; None of one that is neither the game nor a player."""
        if component == "player":
            return None if slot is None else self.seats.get(slot)
        return self.game if component == "game" else None

    def seat(self, player: Unit) -> UnitState:
        """What is known of a player."""
        assert player.spec.slot is not None
        return self.seats[player.spec.slot]

    def who(self, component: str | None, slot: int | None) -> str:
        """A unit for people."""
        if component == "player" and slot is not None:
            return f"Player {slot} ({self._setup.plan.seats[slot].name})"
        return "The game"

    # --- what happens

    def publish(self, event: BaseEvent) -> None:
        """Take in what happens to units, and tell the listeners of everything."""
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
        """Say what a reader should know that is no fault."""
        self.publish(Notice(level="warning", message=message))

    def leak(self, what: str, reason: str) -> None:
        """Say what could not be removed."""
        self.publish(LeakFound(what=what, reason=reason))

    # --- what goes wrong

    @property
    def failed(self) -> bool:
        """Whether something went wrong that is no player's fault."""
        return any(fault.fault != "player" for fault in self.faults)

    @property
    def played(self) -> bool:
        """Whether the game has done its part, as far as is known."""
        return self.results_complete or self.results is not None

    def known(self) -> Known:
        """What it takes to say who is to blame."""
        return Known(
            stage=self.phases.stage,
            trouble=self.trouble,
            game_exit=self.game.exit,
            # what fetching images and starting it took is not the game's
            game_age=self.seconds() - self.game.started if self.game.started is not None else None,
            stopped_at=self.stopped_at,
            disturbed_at=self.disturbed_at,
            blamed=frozenset(fault.slot for fault in self.faults if fault.slot is not None),
            game_failed=self.failed,
        )

    async def see(
        self,
        what: What,
        component: Component | None = None,
        slot: int | None = None,
        *,
        words: str = "",
        hint: str | None = None,
        error: CoworldError | None = None,
    ) -> Fault | None:
        """Take in something that was seen, and say whose fault it is.

        Args:
            what: What was seen.
            component: Of which unit, if of one.
            slot: That unit's slot, if it is a player.
            words: What is to be said of it; by default what the error says.
            hint: What to do about it, if that is known better than the table knows it.
            error: The error in which it was seen.

        Returns:
            The fault; None when nobody is to blame.
        """
        state = self.state(component, slot) if component is not None else None
        unit = state.unit if state is not None else None
        seen = Seen(
            what=what,
            component=component,
            slot=slot,
            exit=unit.exit if unit is not None else None,
            ended=state.ended if state is not None else None,
            words=words or (error.message if error is not None else ""),
            hint=hint or (error.hint if error is not None else None),
            error=error,
        )
        log = self._log_of(state)
        tail = ""
        if unit is not None and rule(seen, self.known()).row.party is not None:
            with anyio.CancelScope(shield=True):
                tail = await unit.log_tail()
        # now, for the log may have taken its time
        who, layout = self.who(component, slot), self._setup.layout
        ruling = rule(seen, self.known(), who=who, log=layout.relative(log) if log is not None else "its log")
        row = ruling.row
        if row.party is None or row.error_type is None:
            if ruling.message:
                self.warn(ruling.message)
            return None
        with_log = row.with_log and log is not None
        fault = Fault(
            fault=row.party,
            slot=slot if row.party == "player" else None,
            error_type=row.error_type,
            message=ruling.message,
            hint=ruling.hint,
            phase=self.phases.now,
            time=dt.datetime.now(dt.UTC),
            seconds=self.seconds(),
            exit=seen.exit if row.with_log else None,
            # what never ran may have no log
            log=layout.relative(log) if with_log and log is not None and log.exists() else None,
            log_tail=tail if with_log else "",
        )
        self.faults.append(fault)
        self.publish(FaultSeen(fault=fault))
        return fault

    def _log_of(self, state: UnitState | None) -> Path | None:
        """The log in which a unit most likely says why it failed."""
        if state is None:
            return None
        return state.logs[-1] if self._setup.backend.capabilities.separate_streams else state.logs[0]
