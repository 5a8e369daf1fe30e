"""The sequence of one episode from its first phase to its last, the same on every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.seat_behaviour import read_inaction
from coworld_core.errors import CoworldError, ImageError, NotReadyError, StartError
from coworld_core.hints import Hint

from ..backend import Component, HttpProbe, ImageInfo, Unit, UnitSpec
from ..backends.base import LISTENS_ELSEWHERE
from ..errors import OWN_DOING, unwrapped
from ..package.plan import Seat
from ..runs.scratch import open_scratch
from . import contract_probes
from .artifact_collector import ArtifactCollector
from .episode_inputs import Setup
from .episode_ledger import Ledger
from .episode_options import ContractProbe, OnReady
from .episode_recorder import Recorder
from .https_access import open_proxy
from .model_place import open_models
from .play_links import play_links
from .player_images import prepare_player_image
from .run_start import started
from .unit_specs import game_spec, player_spec

if TYPE_CHECKING:
    from coworld_core.episode.record import EpisodeRecord

    from .episode_watch import Watch
    from .starvation import StarvationMeter

__all__ = ["Flow"]


class Flow:
    """Plays one episode.

    Args:
        setup: The episode's surroundings.
        on_ready: Called once the game can be reached.
        probe: Further checks to make while the game runs.
    """

    def __init__(self, setup: Setup, on_ready: OnReady | None, probe: ContractProbe | None) -> None:
        self._setup = setup
        self._options = setup.options
        self._backend = setup.backend
        self._ledger = Ledger(setup)
        self._phases = self._ledger.phases
        self._collector = ArtifactCollector(setup, self._ledger)
        self._deadline = anyio.current_time() + setup.options.timeout_seconds
        self._on_ready = on_ready
        self._probe = probe
        self._watch: Watch | None = None
        """There is one once the game has been started."""
        self._missed = ""
        """Where the game listens, if it was not ready at the deadline because of that."""
        self._specs: dict[str, UnitSpec] = {}
        """By name, because an error names the unit that it concerns."""

    # --- the episode

    async def play(self) -> EpisodeRecord:
        """Play the episode, and write its record on every path, before the units' files are removed."""
        async with AsyncExitStack() as later:
            episode_record, trouble = await self._recorded(later)
        from .episode_record import close_record

        episode_record = close_record(self._setup, episode_record)
        if trouble is not None:
            raise trouble
        return episode_record

    async def _recorded(self, later: AsyncExitStack) -> tuple[EpisodeRecord, BaseException | None]:
        ledger, workspace = self._ledger, self._setup.layout.workspace
        self._setup.run.publish_start(started("episode", self._setup.plan), self._backend.name)
        status: EpisodeStatus = "failed"
        trouble: BaseException | None = None
        try:
            with anyio.CancelScope(deadline=self._deadline) as scope:
                with unwrapped():
                    await self._all_phases(later)
            if scope.cancelled_caught:
                await self._at_the_deadline()
            await self._collector.judge_results()
            if ledger.results is not None:
                status = "completed"
                if not self._setup.layout.replay.exists() and not ledger.failed:
                    ledger.warn("The game wrote no replay.")
                await self._note_inaction()
        except CoworldError as error:
            trouble = error
            error.context.setdefault("workspace", str(workspace))
            await ledger.see("failed", *self._author(error), error=error)
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt) as error:
            trouble = error
            with anyio.CancelScope(shield=True):
                status = await self._at_an_interruption()
        except BaseException as error:  # noqa: BLE001 - raised again below, once the record is written
            trouble = error
            await ledger.see("crashed", details=f"{type(error).__name__}: {error}")
        from .episode_record import write_record

        return await write_record(self._setup, ledger, status), trouble

    def _author(self, error: CoworldError) -> tuple[Component | None, int | None]:
        """Whose unit an error concerns, or whose image: the game's, or of the first player that has it."""
        spec = self._specs.get(str(error.context.get("unit")))
        if spec is not None:
            return spec.component, spec.slot
        image = error.context.get("image")
        if image == self._ledger.game.image.image:
            return "game", None
        for slot, seat in enumerate(self._setup.plan.seats):
            if seat.has_unit and seat.image == image:
                return "player", slot
        return None, None

    async def _all_phases(self, later: AsyncExitStack) -> None:
        with self._phases.during("prepare"):
            await self._ensure_images()
        scratch = await later.enter_async_context(
            open_scratch(self._setup.run.bus.run_id, on_leak=self._note_scratch_leak)
        )
        try:
            self._phases.begin("start_game")
            recorder = Recorder(self._setup, self._ledger, scratch)
            # A recorder stands between them, and starts after the game
            together = self._backend.starts_together and self._options.record != "frames"
            async with (
                open_proxy(self._setup, self._ledger, scratch) as proxy,
                open_models(self._setup, self._ledger, scratch) as models,
                self._units(
                    [game_spec(self._setup, scratch, secret_env=recorder.variables, models=models)], start=not together
                ) as (game,),
            ):
                self._ledger.game.unit = game
                if not together:
                    self._phases.end()
                try:
                    async with recorder.between(game) as door:
                        player_at = partial(player_spec, self._setup, scratch=scratch, proxy=proxy, models=models)
                        await self._with_game(game, door, recorder, player_at)
                finally:
                    await self._collector.game(game)
        except StartError as error:
            self._phases.end()
            if error.code not in OWN_DOING:
                raise
            # Players are handled where they are started; this one could not even be created
            component, slot = self._author(error)
            await self._ledger.see("not_started", component or "game", slot, error=error)

    async def _with_game(self, game: Unit, door: Unit, recorder: Recorder, player_at: Callable[..., UnitSpec]) -> None:
        specs = [player_at(slot, address=door.endpoint().there, door=door.name) for slot in self._ledger.seats]
        # Created while the game boots, started when it is ready
        async with self._units(specs, start=False) as players:
            for player in players:
                self._ledger.seat(player).unit = player
            if self._backend.starts_together:
                await game.start()
                self._phases.end()
            from .episode_watch import Watch
            from .starvation import StarvationMeter, tick_seconds

            plan = self._setup.plan
            tick = tick_seconds(plan.game_config, plan.manifest.game.config_schema)
            meter = StarvationMeter(game, players, tick=tick, door=door)
            watch = self._watch = Watch(self._setup, self._ledger, game, players, meter.missing)
            try:
                if await self._wait_ready(game, door):
                    await recorder.begin(game)
                    await self._play(game, players, watch, meter)
                    await self._finish(game, players, watch)
            finally:
                # Ask now: nothing can be learned about units that are gone
                ledger = self._ledger
                ledger.trouble = self._backend.trouble()
                for state in (ledger.game, *ledger.seats.values()):
                    state.cut_off = state.end is None
                if ledger.game.cut_off and ledger.stopped_at is None:
                    ledger.stopped_at = ledger.seconds()
                await self._collector.players(game, players)

    def _units(self, specs: list[UnitSpec], *, start: bool) -> AbstractAsyncContextManager[tuple[Unit, ...]]:
        self._specs |= {spec.name: spec for spec in specs}
        return self._backend.units(
            specs, publish=self._ledger.publish, start=start, grace=self._options.stop_grace_seconds
        )

    def _note_scratch_leak(self, path: Path, reason: str) -> None:
        self._ledger.leak(f"directory {path}", reason)

    async def _note_inaction(self) -> None:
        """Say who never acted, if the game tells: it has played, and nobody else would notice."""
        path, seats = self._setup.layout.game_events, len(self._setup.plan.seats)
        for slot, seen in (await anyio.to_thread.run_sync(read_inaction, path, seats)).items():
            self._ledger.warn(f"{self._ledger.who('player', slot)} {seen.inaction}.")

    # --- phases

    async def _ensure_images(self) -> None:
        plan, platform, publish = self._setup.plan, self._options.platform, self._ledger.publish
        found: dict[str, ImageInfo] = {}
        # Keyed by file and content: a player in several seats is prepared once
        seats = [seat for seat in plan.seats if seat.has_unit]
        own = {seat.image: seat for seat in seats if seat.own is not None}

        async def ensure(image: str) -> None:
            there = image in plan.unpinned and await self._backend.has_image(image)
            try:
                found[image] = await self._backend.ensure_image(image, platform=platform, publish=publish)
            except ImageError as error:
                from ..package.player_registry.registered_player import near_registered

                if error.code == "image_wrong_platform" and image != self._ledger.game.image.image:
                    error.code = "player_other_platform"
                # A mistyped name of a registry looks like an image
                elif image != self._ledger.game.image.image and (meant := near_registered(image)) is not None:
                    error.hint = f"Did you mean {meant!r} of your registry?"
                raise
            if there:
                self._ledger.warn(
                    f"{plan.manifest.game.name} {plan.manifest.game.version} comes from elsewhere and names its image "
                    f"{image} without a digest, so it is played from what {self._backend.name} has under that name, "
                    f"{found[image].digest[:19] or 'an image without a digest'}, which may be another version's."
                )

        async def house(image: str, seat: Seat) -> None:
            found[image] = await prepare_player_image(seat, self._backend, platform=platform, publish=publish)

        async with anyio.create_task_group() as group:
            for image in dict.fromkeys([self._ledger.game.image.image, *(seat.image for seat in seats)]):
                if image in own:
                    group.start_soon(house, image, own[image])
                elif image:
                    group.start_soon(ensure, image)
        for state in (self._ledger.game, *self._ledger.seats.values()):
            state.image = found[state.image.image]
        for info in found.values():
            if info.emulated:
                self._ledger.warn(
                    f"{info.image} is for {info.platform} and runs emulated on this machine: expect it to be slow."
                )

    async def _wait_ready(self, game: Unit, door: Unit) -> bool:
        with self._phases.during("ready"):
            try:
                with unwrapped():
                    async with anyio.create_task_group() as group:
                        # Import what is needed from now on while the game boots
                        group.start_soon(anyio.to_thread.run_sync, _load_the_rest)
                        await game.wait_ready(HttpProbe(timeout=self._options.ready_timeout_seconds))
            except NotReadyError as error:
                await self._ledger.see("not_ready", "game", error=error)
                return False
            except anyio.get_cancelled_exc_class():
                self._missed = game.missed(HttpProbe().port)
                raise
        if self._on_ready is not None:
            plan, tokens = self._setup.plan, self._setup.tokens
            dialect, _ = await contract_probes.detect_dialect(game.endpoint().here, "global")
            self._on_ready(
                play_links(game, dialect, tokens, admin=self._options.admin, extra=plan.extra_ports, door=door)
            )
        return True

    async def _play(self, game: Unit, players: Sequence[Unit], watch: Watch, meter: StarvationMeter) -> None:
        """Start the players, check the contract at the same time, and wait until the game's part is over."""
        from .departures import watch_leaving
        from .missing_players import watch_connections

        # Players that the game runs itself do not connect to /player
        address, tokens = game.endpoint().here, () if self._setup.plan.game_hosts else self._setup.tokens
        if self._probe is not None:
            with self._phases.during("probe"):
                await self._probe.before_players(address, tokens)
        self._phases.begin("start_players")
        all_started = anyio.Event()
        waiting = {player.name for player in players}

        async def run_player(player: Unit) -> None:
            runs = True
            try:
                await player.start()
                meter.meet(player)
            except StartError as error:
                if error.code not in OWN_DOING:
                    raise
                runs = False
                await self._ledger.see("not_started", "player", player.spec.slot, error=error)
                await watch.end_after_failure()
            waiting.discard(player.name)
            if not waiting:
                all_started.set()
            if runs:
                await watch.player(player)

        async with anyio.create_task_group() as group:
            # Start the players first: the episode waits for them, and the checks can run later
            for player in players:
                group.start_soon(run_player, player)
            group.start_soon(meter.run)
            group.start_soon(watch.game)
            group.start_soon(watch.results)
            group.start_soon(watch.contract, all_started)
            group.start_soon(watch_connections, self._setup, self._ledger, watch, all_started, meter.missing)
            group.start_soon(watch_leaving, self._setup, self._ledger, watch, players)
            if not players:
                all_started.set()
            if self._options.watch:
                group.start_soon(watch.progress)
            await all_started.wait()
            self._phases.begin("play")
            if self._probe is not None:
                group.start_soon(self._probe.during_play, address, tokens, players)
            try:
                await watch.over.wait()
            finally:
                self._ledger.starvation = meter.read()
                for player, connected in meter.connected():
                    self._ledger.seat(player).connected = connected
            self._ledger.over_at = self._ledger.over_at or self._ledger.seconds()
            group.cancel_scope.cancel()
        self._phases.end()

    async def _finish(self, game: Unit, players: Sequence[Unit], watch: Watch) -> None:
        """Give the players a bounded time to end; none after a failure."""
        ledger = self._ledger
        with self._phases.during("finish"):
            if game.exit is not None or ledger.results_complete:
                # Read the results before waiting for the players or judging them, and before the game is stopped
                await self._collector.results(game)
            await watch.judge_absent()
            # Once the game has done its part, one player's failure does not take the others' time from them
            stopping = self._options.on_player_failure == "stop" and not ledger.played
            if ledger.faults and (stopping or ledger.failed):
                await watch.judge_players()
                return
            async with anyio.create_task_group() as group:
                if game.exit is None:
                    ledger.stopped_at = ledger.seconds()
                group.start_soon(game.stop, self._options.stop_grace_seconds)
                with anyio.move_on_after(self._options.player_exit_timeout_seconds):
                    async with anyio.create_task_group() as waiting:
                        for player in players:
                            # Nothing is to come from one that was never there
                            if player.spec.slot not in ledger.known().blamed:
                                waiting.start_soon(player.wait)
            await watch.judge_players()
            await self._blame_who_still_runs(
                f"{self._options.player_exit_timeout_seconds:g} s after the game was over."
            )

    # --- when it is cut short

    @property
    def _is_over(self) -> bool:
        """Whether the game's part is over."""
        ledger, stage = self._ledger, self._phases.stage
        if stage == "finish" or (stage == "play" and ledger.game.own_end is not None):
            return True
        # A game may update its results from the first move on: while players stay, it may not be over
        playing = any(seat.plays for seat in ledger.seats.values())
        return ledger.results_complete and not ledger.rewritten and not playing

    async def _at_an_interruption(self) -> EpisodeStatus:
        """Judge what there is, and return how the episode has ended: valid results of a game that was over count."""
        ledger = self._ledger
        if self._watch is not None and self._is_over:
            ledger.over_at = ledger.over_at or ledger.seconds()
            await self._collector.judge_results()
            if ledger.results is not None:
                await self._watch.judge_absent()
                await self._watch.judge_players()
                ledger.warn("The episode was interrupted when the game was over: its results count.")
                return "completed"
        ledger.over_at = None
        await ledger.see("interrupted")
        return "interrupted"

    async def _blame_who_still_runs(self, when: str, *, stopped: bool = False, hint: str | None = None) -> None:
        """Blame the players that have not ended, or (if `stopped`) that had to be stopped."""
        for slot, seat in self._ledger.seats.items():
            if (seat.own_end if stopped else seat.end) is None:
                said = f"{self._ledger.who('player', slot)} was still running {when}"
                await self._ledger.see("still_running", "player", slot, details=said, hint=hint)

    async def _at_the_deadline(self) -> None:
        ledger, limit = self._ledger, f"the deadline of {self._options.timeout_seconds:g} s"
        hint = Hint(
            "allow_longer",
            "Read the logs for what it waited for, or allow more: EpisodeOptions(timeout_seconds=...).",
        )
        ledger.trouble = ledger.trouble or self._backend.trouble()
        if not ledger.trouble and self._is_over:
            await self._blame_who_still_runs(f"at {limit}, after the game was over.", stopped=True, hint=hint)
        elif not ledger.trouble and ledger.all_left:
            from .departures import blame_for_leaving

            await blame_for_leaving(ledger, f"at {limit}")
        else:
            words = f"{limit}: {self._missed}" if self._missed else limit
            await ledger.see("deadline", "game", details=words, hint=LISTENS_ELSEWHERE if self._missed else hint)


def _load_the_rest() -> None:
    """Import what an episode needs once its game has started; nothing before that waits for it."""
    from . import blame, departures, episode_record, missing_players, starvation

    _ = blame, departures, missing_players, episode_record, starvation
    contract_probes.load_libraries()
