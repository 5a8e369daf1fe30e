"""What is known of an episode while it runs, who is to blame, and the record that is made of it.

The flow is in ``episode``; here nothing is started and nothing is stopped.
"""

from __future__ import annotations

import datetime as dt
import math
import platform
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeGuard, cast

import anyio

from coworld_core.episode import (
    ArtifactRecord,
    EpisodeRecord,
    ImageRecord,
    LeakRecord,
    PhaseTiming,
    SlotRecord,
    StarvationRecord,
    UnitRecord,
)
from coworld_core.errors import (
    CapabilityError,
    CoworldError,
    ImageError,
    ManifestError,
    StartError,
    UsageError,
)
from coworld_core.events import (
    BaseEvent,
    FaultSeen,
    GameProgressed,
    LeakFound,
    Notice,
    PhaseFinished,
    PhaseStarted,
    RunFinished,
    UnitExited,
    UnitStarted,
)
from coworld_core.outcome import EpisodeStatus, ErrorType, Exit, Fault, FaultParty

from ._runs import OpenRun
from .backend import (
    Backend,
    ImageInfo,
    Unit,
)
from .options import ContractProbe, EpisodeOptions, OnReady
from .plan import EpisodePlan, Seat
from .workspace import artifact_records

__all__ = ["OWN_DOING", "PLATFORM_ENDS", "Ledger", "UnitState", "versions"]

OWN_DOING = ("program_missing", "no_command", "command_failed", "image_unusable", "port_taken")
"""Codes of a ``StartError`` that is due to what was to be started."""
PLATFORM_ENDS = ("evicted", "lost", "deadline")
"""Ends of a unit that are its host's doing."""


@dataclass
class UnitState:
    """What is known of a unit while the episode runs."""

    image: ImageInfo
    run: tuple[str, ...] = ()
    unit: Unit | None = None
    started: float | None = None
    ended: float | None = None
    exit: Exit | None = None


class Ledger:
    """What is known of an episode while it runs: units, phases, results, and what went wrong and whose fault it was."""

    def __init__(
        self,
        plan: EpisodePlan,
        backend: Backend,
        run: OpenRun,
        options: EpisodeOptions,
        on_ready: OnReady | None,
        probe: ContractProbe | None,
    ) -> None:
        self.plan = plan
        self.backend = backend
        self.layout = run.layout
        self.reserve = run.reserve
        self.options = options
        self.bus = run.bus
        self.on_ready = on_ready
        self.probe = probe
        self.begun = time.monotonic()
        self.begun_at = dt.datetime.now(dt.UTC)
        self.deadline = anyio.current_time() + options.timeout
        self.over_at: float | None = None
        self.phase = self.stage = "prepare"
        self._phase_begun: float | None = None
        self.phases: list[PhaseTiming] = []
        self.faults: list[Fault] = []
        self.warnings: list[str] = []
        self.leaks: list[LeakRecord] = []
        self.results: dict[str, Any] | None = None
        self.scores: tuple[float, ...] = ()
        self.starvation: StarvationRecord | None = None
        self.game = UnitState(ImageInfo(image=plan.manifest.game.runnable.image), plan.manifest.game.runnable.run)
        self.seats: dict[int, UnitState] = {
            slot: UnitState(ImageInfo(image=seat.runnable.image), seat.runnable.run)
            for slot, seat in enumerate(plan.seats)
            if seat.runnable is not None
        }
        self.tokens = plan.new_tokens()
        self.game_over = anyio.Event()
        """Set when the game's part is over, whatever way."""
        self.results_complete = False
        """Set when valid results and a closed replay were seen while the game still ran."""
        self.judged = False
        """Set when the results were read."""
        self.told_early: set[int | None] = set()
        """Slots whose early leave was told."""
        self.trouble = ""
        """What kept the platform from answering when play ended, in words."""
        self.abandoned = False
        """Set when every player has left."""
        self.stopped_at: float | None = None
        """When we began to stop a game whose part was over."""
        self.bus.listen(self._note_event)

    # ------------------------------------------------------------------ blame

    async def _fault(
        self,
        party: FaultParty,
        error_type: ErrorType,
        message: str,
        *,
        unit: Unit | None = None,
        slot: int | None = None,
        hint: str | None = None,
    ) -> None:
        tail, log = "", None
        if unit is not None:
            with anyio.CancelScope(shield=True):
                tail = await unit.log_tail()
            path = self._log_of(unit)
            # what never ran may have no log
            log = self.layout.relative(path) if path is not None and path.exists() else None
            slot = unit.spec.slot if slot is None and party == "player" else slot
        fault = Fault(
            fault=party,
            slot=slot,
            error_type=error_type,
            message=message,
            hint=hint,
            phase=self.phase,
            time=dt.datetime.now(dt.UTC),
            seconds=self._seconds(),
            exit=unit.exit if unit is not None else None,
            log=log,
            log_tail=tail,
        )
        self.faults.append(fault)
        self.bus.publish(FaultSeen(fault=fault))

    async def _blame_game_exit(self, game: Unit, ended: Exit) -> None:
        if ended.ok or ended.reason == "stopped":
            return
        if ended.reason in PLATFORM_ENDS:
            await self._fault("platform", "platform_error", f"The game {ended}.", unit=game)
            return
        after = " after its results were complete" if self.results_complete else ""
        await self._fault(
            "game",
            "game_unhealthy",
            f"The game {ended}{after}.",
            unit=game,
            hint=f"Read {self.layout.relative(self._log_of(game) or self.layout.game_stderr)}.",
        )

    async def _blame_exit(self, player: Unit, ended: Exit) -> None:
        if ended.reason in PLATFORM_ENDS:
            await self._fault("platform", "platform_error", f"{self._who(player)} {ended}.", unit=player)
            return
        await self._fault(
            "player",
            "player_error",
            f"{self._who(player)} {ended}.",
            unit=player,
            hint=f"Read {self.layout.relative(self.layout.player_log(player.spec.slot or 0))}.",
        )

    def _log_of(self, unit: Unit) -> Path | None:
        """The log in which a unit most likely says why it failed."""
        if self.backend.capabilities.separate_streams:
            return unit.spec.stderr or unit.spec.stdout
        return unit.spec.stdout or unit.spec.stderr

    def _game_failed(self) -> bool:
        """Whether something went wrong that is no player's fault."""
        return any(fault.fault != "player" for fault in self.faults)

    def _is_own_doing(self, error: StartError) -> bool:
        """Whether a start failed because of what was to be started, not because of what starts it."""
        return error.code in OWN_DOING

    async def _blame_start(self, error: StartError, unit: Unit | None = None) -> None:
        name = unit.name if unit is not None else str(error.context.get("unit", "game"))
        if name == "game":
            party: FaultParty = "operator" if error.code == "port_taken" else "game"
            await self._fault(party, "game_unhealthy", error.message, unit=self.game.unit, hint=error.hint)
            return
        slot = int(name.rpartition("-")[2])
        await self._fault("player", "player_never_started", error.message, unit=unit, slot=slot, hint=error.hint)

    async def _blame_deadline(self) -> None:
        limit = f"the deadline of {self.options.timeout:g} s"
        hint = "Read the logs for what it waited for, or allow more with --timeout-seconds."
        slow = {
            "prepare": "Images were still being fetched",
            "start_game": "The game was still being started",
            "start_players": "Players were still being started",
        }.get(self.stage)
        trouble = self.trouble or self.backend.trouble()
        if trouble:
            await self._fault("platform", "platform_error", f"Nothing could be seen at {limit}: {trouble}.", hint=hint)
        elif slow is not None:
            await self._fault("platform", "episode_timeout", f"{slow} at {limit}.", hint=hint)
        elif self.stage == "finish" or self.results_complete:
            for slot, state in self.seats.items():
                if state.exit is None or state.exit.reason in ("stopped", "deadline"):
                    await self._fault(
                        "player",
                        "player_timeout",
                        f"{self._name(slot)} was still running at {limit}, after the game was over.",
                        unit=state.unit,
                        slot=slot,
                        hint=hint,
                    )
        else:
            # what fetching images and starting it took is not the game's, and says how much it had itself
            had = "" if self.game.started is None else f", {self._seconds() - self.game.started:.1f} s after its start"
            what = "was not ready" if self.stage == "ready" else "was not over"
            await self._fault(
                "game", "episode_timeout", f"The game {what} at {limit}{had}.", unit=self.game.unit, hint=hint
            )

    async def _blame_trouble(self, error: CoworldError) -> None:
        if isinstance(error, ImageError) or error.code == "image_unreachable":
            await self._fault("operator", "image_unreachable", error.message, hint=error.hint)
        elif isinstance(error, ManifestError | UsageError | CapabilityError):
            await self._fault("operator", "config_error", error.message, hint=error.hint)
        else:
            await self._fault("platform", "platform_error", error.message, hint=error.hint)

    # ------------------------------------------------------------------ the record

    async def _record(self, status: EpisodeStatus) -> EpisodeRecord:
        """Build the record and write it, whatever else went wrong; done even when we are being cancelled."""
        self._end()
        ended_at = dt.datetime.now(dt.UTC)
        seconds = self._seconds()
        self.bus.publish(
            RunFinished(
                status=status,
                ok=status == "completed" and not self.faults,
                scores=self.scores,
                seconds=seconds,
            )
        )
        record = EpisodeRecord(
            run_id=self.bus.run_id,
            coworld=self.plan.manifest.game.name,
            version=self.plan.manifest.game.version,
            manifest=self.plan.source,
            manifest_sha256=self.plan.manifest_sha256,
            backend=self.backend.name,
            variant=self.plan.variant,
            seed=self.plan.seed,
            game_config=dict(self.plan.game_config),
            episode_tags=dict(self.plan.episode_tags),
            started_at=self.begun_at,
            ended_at=ended_at,
            seconds=seconds,
            status=status,
            scores=self.scores,
            results=self.results,
            faults=tuple(self.faults),
            warnings=tuple(self.warnings),
            game=self._unit_record(self.game, (self.layout.game_stdout, self.layout.game_stderr)),
            slots=tuple(self._slot_record(slot, seat) for slot, seat in enumerate(self.plan.seats)),
            phases=_summed(self.phases),
            artifacts=await self._artifacts(),
            starvation=self.starvation,
            over_seconds=self.over_at,
            leaks=tuple(self.leaks),
            versions=versions(self.backend),
        )
        self.reserve.write(self.layout.record, (record.model_dump_json(indent=2) + "\n").encode())
        return record

    async def _artifacts(self) -> tuple[ArtifactRecord, ...]:
        found: tuple[ArtifactRecord, ...] = ()
        with anyio.CancelScope(shield=True):
            found = await anyio.to_thread.run_sync(artifact_records, self.layout)
        return found  # noqa: RET504 - a scope may swallow what is raised inside it

    def _unit_fields(self, state: UnitState, logs: tuple[Path, ...]) -> dict[str, Any]:
        return {
            "image": ImageRecord(
                image=state.image.image,
                digest=state.image.digest,
                platform=state.image.platform,
                emulated=state.image.emulated,
            ),
            "run": tuple(state.run),
            "exit": state.exit,
            "started_seconds": state.started,
            "ended_seconds": state.ended,
            "logs": tuple(self.layout.relative(path) for path in logs if path.exists()),
            "log_truncated": state.unit.log_truncated if state.unit is not None else False,
        }

    def _unit_record(self, state: UnitState, logs: tuple[Path, ...]) -> UnitRecord:
        return UnitRecord(**self._unit_fields(state, logs))

    def _slot_record(self, slot: int, seat: Seat) -> SlotRecord:
        state = self.seats.get(slot) or UnitState(ImageInfo(image=""))
        artifact = self.layout.player_artifact(slot)
        return SlotRecord(
            **self._unit_fields(state, (self.layout.player_log(slot),)),
            slot=slot,
            name=seat.name,
            player_id=seat.player_id,
            human=seat.runnable is None,
            artifact=self.layout.relative(artifact) if artifact.exists() else None,
            secret_env=tuple(sorted(seat.secret_env)),
        )

    # ------------------------------------------------------------------ small things

    def _seat(self, unit: Unit) -> UnitState:
        assert unit.spec.slot is not None
        return self.seats[unit.spec.slot]

    def _name(self, slot: int) -> str:
        return f"Player {slot} ({self.plan.seats[slot].name})"

    def _who(self, player: Unit) -> str:
        return self._name(player.spec.slot or 0)

    def _span(self, seat: UnitState) -> str:
        """How long a unit that has ended ran."""
        return f"{(seat.ended or 0.0) - (seat.started or 0.0):.1f} s"

    def _seconds(self) -> float:
        return round(time.monotonic() - self.begun, 3)

    def _warn(self, message: str) -> None:
        self.bus.publish(Notice(level="warning", message=message))

    def _note_event(self, event: BaseEvent) -> None:
        """Keep what the record says of units' times and ends, of leaks and of warnings, from the events."""
        match event:
            case UnitStarted(unit=name):
                self._state(name).started = self._seconds()
            case UnitExited(unit=name, exit=ended):
                state = self._state(name)
                state.exit, state.ended = ended, self._seconds()
            case LeakFound(what=what, reason=reason):
                self.leaks.append(LeakRecord(what=what, reason=reason))
            case Notice(level="warning", message=message):
                self.warnings.append(message)
            case _:
                pass

    def _state(self, unit: str) -> UnitState:
        return self.game if unit == "game" else self.seats[int(unit.rpartition("-")[2])]

    def _note_state(self, state: dict[str, Any]) -> None:
        """Publish how far the game is, if its public stream says so in the usual words."""
        tick, ticks, scores = state.get("tick"), state.get("max_ticks"), state.get("scores")
        listed = cast("list[object]", scores) if isinstance(scores, list) else []
        numbers = tuple(float(score) for score in listed if _is_number(score))
        if len(numbers) != len(listed):
            numbers = ()
        event = GameProgressed(
            tick=tick if isinstance(tick, int) else None,
            max_ticks=ticks if isinstance(ticks, int) else None,
            scores=numbers,
        )
        if event.tick is not None or event.scores:
            self.bus.publish(event)

    def _note_scratch_leak(self, path: Path, reason: str) -> None:
        self.bus.publish(LeakFound(what=f"directory {path}", reason=reason))

    def _begin(self, phase: str) -> None:
        self.phase = phase
        if phase != "collect":
            self.stage = phase
        self._phase_begun = time.monotonic()
        self.bus.publish(PhaseStarted(phase=phase))

    def _end(self) -> None:
        """End the current phase; does nothing when it has ended already."""
        if self._phase_begun is None:
            return
        seconds = round(time.monotonic() - self._phase_begun, 4)
        self._phase_begun = None
        self.phases.append(PhaseTiming(phase=self.phase, seconds=seconds))
        self.bus.publish(PhaseFinished(phase=self.phase, seconds=seconds))

    @contextmanager
    def _phase(self, phase: str) -> Generator[None]:
        self._end()
        self._begin(phase)
        try:
            yield
        finally:
            self._end()


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _summed(phases: list[PhaseTiming]) -> tuple[PhaseTiming, ...]:
    """One row a phase, in order: what is collected in two goes is one phase."""
    seconds: dict[str, float] = {}
    for timing in phases:
        seconds[timing.phase] = seconds.get(timing.phase, 0.0) + timing.seconds
    return tuple(PhaseTiming(phase=phase, seconds=round(total, 4)) for phase, total in seconds.items())


def versions(backend: Backend) -> dict[str, str]:
    """What ran this: our packages, Python, the platform and the backend's engine."""
    found = {name: version(name) for name in ("coworld-core", "coworld-runner")}
    found["python"] = platform.python_version()
    found["platform"] = platform.platform()
    engine = backend.engine_version()
    if engine:
        found["engine"] = engine
    return found
