"""One episode, the same over every backend.

prepare → start game → ready → (check the contract while the players start) → play → game over → bounded grace for the
players → collect → validate → record.

One deadline covers the whole. Everything is event-driven: an exit is seen when it happens, and a fault is recorded
when and where it is seen. ``episode.json`` is written on every path, failure and interruption included.

Who is to blame, in the order it is decided:

==========================================================  ==========================  ==========
What is seen                                                error_type                  fault
==========================================================  ==========================  ==========
game cannot be started, ends or stays silent before ready   game_unhealthy              game
a page is missing, a wrong token is let in, no viewer       game_contract_violation     game
player cannot be started                                    player_never_started        player
player ends other than with 0 while the game goes on        player_error                player
every player has ended with 0, and the game goes on         player_left_early           each player
player still runs too long after the game is over           player_timeout              player
player ends other than with 0 after a game that went well   player_error                player
game ends other than with 0                                 game_unhealthy              game
game ends without results / with results that are wrong     results_missing/_malformed  game
nothing is over at the deadline                             episode_timeout             game
images or starting took all the time there was              episode_timeout             platform
the host removed or lost a unit                             platform_error              platform
the engine fails                                            platform_error              platform
the config or the images do not fit                         config_error, image_…       operator
==========================================================  ==========================  ==========

A player that ends badly when the game does, when the game has no valid results to show, or when we stop the game, is
not blamed: whose doing its end was cannot be told, so it is a warning. Neither is a game that lingers for its viewers,
nor a player that leaves in good order (a warning, when it was long before the end).
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio

from coworld_core.episode import (
    EpisodeRecord,
)
from coworld_core.errors import (
    CapabilityError,
    CoworldError,
    ImageError,
    ManifestError,
    NotReadyError,
    StartError,
    TransferError,
)
from coworld_core.events import (
    ArtifactCollected,
)
from coworld_core.outcome import EpisodeStatus, FaultParty

from . import probes
from ._hints import listed
from ._ledger import PLATFORM_ENDS, versions
from ._runs import open_run, started
from ._specs import REPLAY, RESULTS, game_spec, player_spec
from ._watching import RESULTS_LIMIT, Watcher
from .backend import (
    Backend,
    HttpProbe,
    ImageInfo,
    Unit,
    UnitSpec,
)
from .errors import unwrapped
from .events import Listener
from .links import play_links
from .options import ContractProbe, EpisodeOptions, OnReady
from .plan import EpisodePlan
from .scratch import Scratch, open_scratch
from .starvation import StarvationMeter

__all__ = ["ContractProbe", "EpisodeOptions", "require_images", "run_episode", "versions"]

_LEFT_EARLY = 1.0
"""Seconds before the end of the game from which on a player's orderly end is worth a word."""
_SEEN_LATE = 4.0
"""How many seconds apart ends of the same moment may show on a backend that is asked over a network."""

MEBIBYTE = 1024 * 1024
REPLAY_LIMIT = 4 * 1024 * MEBIBYTE
ARTIFACT_LIMIT = 200 * MEBIBYTE
"""What the contract allows a player's zip."""


async def run_episode(
    plan: EpisodePlan,
    *,
    backend: Backend,
    workspace: Path,
    options: EpisodeOptions | None = None,
    overwrite: bool = False,
    listeners: tuple[Listener, ...] = (),
    on_ready: OnReady | None = None,
    probe: ContractProbe | None = None,
    latest: bool = False,
    run_id: str | None = None,
) -> EpisodeRecord:
    """Play one episode and leave its evidence in a workspace.

    Args:
        plan: What to play.
        backend: An entered backend.
        workspace: The directory for the evidence; it must be new or empty.
        options: How to run it.
        overwrite: Whether a workspace of an earlier run may be emptied first.
        listeners: Readers of the run's events.
        on_ready: Called once the game can be reached, with the links for browsers.
        probe: Further checks to make while it runs.
        latest: Whether ``latest`` beside the workspace should point at it.
        run_id: The run's label; a new one by default.

    Returns:
        The record, also written as ``episode.json``. What a game or a player did wrong is in its ``faults``.

    Raises:
        WorkspaceError: The workspace is not fresh or not writable; nothing was started.
        CapabilityError: Something asked for cannot be enforced by this backend; nothing was started.
        ImageError: An image is not to be had; nothing was started.
        EnvironmentFault: The machine or the engine failed; the record says how far it got.
    """
    options = options or EpisodeOptions()
    require_images(plan, backend)
    _require(backend, options)
    with open_run(workspace, run_id=run_id, listeners=listeners, overwrite=overwrite, latest=latest) as run:
        return await _Run(plan, backend, run, options, on_ready, probe).play()


def require_images(plan: EpisodePlan, backend: Backend) -> None:
    """Refuse placeholders on a backend that runs images, where they stand for something that is to run.

    Raises:
        ImageError: An image of the game or of a player is not built yet.
    """
    unbuilt = [image for image in plan.images if "{{" in image]
    if backend.capabilities.images and unbuilt:
        raise ImageError(
            f"{plan.manifest.game.name} is a template: {listed(unbuilt)} {'is' if len(unbuilt) == 1 else 'are'} not "
            f"built yet, and the {backend.name} backend runs images.",
            code="images_not_built",
            hint="Build them with `coworld build DIRECTORY`, or run local processes with --backend process.",
        )


def _require(backend: Backend, options: EpisodeOptions) -> None:
    for name in options.required_capabilities:
        if not getattr(backend.capabilities, name):
            raise CapabilityError(
                f"The {backend.name} backend has no {name.replace('_', ' ')}, which this episode requires.",
                hint="Use a backend that has (--backend docker), or do not ask for it.",
                context={"backend": backend.name, "capability": name},
            )


class _Run(Watcher):
    """The flow of one episode."""

    # ------------------------------------------------------------------ the whole

    async def play(self) -> EpisodeRecord:
        self.bus.publish(started("episode", self.plan, self.backend, self.layout.workspace))
        status: EpisodeStatus = "failed"
        trouble: BaseException | None = None
        try:
            with anyio.CancelScope(deadline=self.deadline) as scope:
                with unwrapped():
                    await self._all_phases()
            if scope.cancelled_caught:
                await self._blame_deadline()
            await self._judge_results()
            if self.results is not None and not self.layout.replay.exists() and not self._game_failed():
                self._warn("The game wrote no replay.")
            status = "completed" if self.results is not None else "failed"
        except CoworldError as error:
            trouble = error
            error.context.setdefault("workspace", str(self.layout.workspace))
            await self._blame_trouble(error)
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt) as error:
            trouble, status = error, "interrupted"
            await self._fault("operator", "interrupted", "The episode was interrupted before it was over.")
        except BaseException as error:  # noqa: BLE001 - raised again below, once the record is written
            trouble = error
            await self._fault("platform", "crash", f"The runner failed: {type(error).__name__}: {error}")
        record = await self._record(status)
        if trouble is not None:
            raise trouble
        return record

    async def _all_phases(self) -> None:
        with self._phase("prepare"):
            await self._ensure_images()
        with open_scratch(self.bus.run_id, on_leak=self._note_scratch_leak) as scratch:
            try:
                self._begin("start_game")
                async with self._units([game_spec(self, scratch)], start=True) as (game,):
                    self.game.unit = game
                    self._end()
                    try:
                        await self._with_game(game, scratch)
                    finally:
                        await self._collect_game(game)
            except StartError as error:
                self._end()
                if not self._is_own_doing(error):
                    raise
                await self._blame_start(error)

    async def _with_game(self, game: Unit, scratch: Scratch) -> None:
        specs = [player_spec(self, slot, scratch) for slot in self.seats]
        # made while the game boots, started when it is ready
        async with self._units(specs, start=False) as players:
            for player in players:
                self._seat(player).unit = player
            try:
                if await self._wait_ready(game):
                    await self._play(game, players)
                    await self._finish(game, players)
            finally:
                # of what is gone nothing can be told any more
                self.trouble = self.backend.trouble()
                await self._collect_players(game, players)

    def _units(self, specs: list[UnitSpec], *, start: bool) -> AbstractAsyncContextManager[tuple[Unit, ...]]:
        return self.backend.units(specs, publish=self.bus.publish, start=start, grace=self.options.stop_grace)

    # ------------------------------------------------------------------ phases

    async def _ensure_images(self) -> None:
        states = [self.game, *self.seats.values()]
        found: dict[str, ImageInfo] = {}

        async def ensure(image: str) -> None:
            found[image] = await self.backend.ensure_image(
                image, platform=self.options.platform, publish=self.bus.publish
            )

        async with anyio.create_task_group() as group:
            for image in dict.fromkeys(state.image.image for state in states):
                group.start_soon(ensure, image)
        for state in states:
            state.image = found[state.image.image]
        for info in found.values():
            if info.emulated:
                self._warn(
                    f"{info.image} is for {info.platform} and runs emulated on this machine: expect it to be slow."
                )

    async def _wait_ready(self, game: Unit) -> bool:
        with self._phase("ready"):
            try:
                with unwrapped():
                    async with anyio.create_task_group() as group:
                        # what the contract's checks need is read from disk while the game boots
                        group.start_soon(anyio.to_thread.run_sync, probes.load_libraries)
                        await game.wait_ready(HttpProbe(timeout=self.options.ready_timeout))
            except NotReadyError as error:
                lost = game.exit is not None and game.exit.reason in PLATFORM_ENDS
                await self._fault(
                    "platform" if lost else "game",
                    "platform_error" if lost else "game_unhealthy",
                    error.message,
                    unit=game,
                    hint=error.hint or "Read the game's log. It must answer GET /healthz with 200 on COGAME_PORT.",
                )
                return False
        if self.on_ready is not None:
            dialect, _ = await probes.detect_dialect(game.endpoint().here, "global")
            self.on_ready(play_links(game, dialect, self.tokens, admin=self.options.admin, extra=self.plan.extra_ports))
        return True

    async def _play(self, game: Unit, players: tuple[Unit, ...]) -> None:
        """Start the players, check the contract meanwhile, and go on until the game's part is over."""
        address = game.endpoint().here
        if self.probe is not None:
            with self._phase("probe"):
                await self.probe.before_players(address, self.tokens)
        self._begin("start_players")
        all_started = anyio.Event()
        waiting = {player.name for player in players}

        async def run_player(player: Unit) -> None:
            try:
                await player.start()
            except StartError as error:
                if not self._is_own_doing(error):
                    raise
                await self._blame_start(error, player)
                await self._end_after_failure(game)
            waiting.discard(player.name)
            if not waiting:
                all_started.set()
            if self._seat(player).started is not None:
                await self._watch_player(player, game)

        async with anyio.create_task_group() as group:
            # first of all what the episode waits for; the checks can do with what time is left
            for player in players:
                group.start_soon(run_player, player)
            group.start_soon(self._watch_game, game)
            group.start_soon(self._watch_results, game)
            group.start_soon(self._check_contract, game, address, all_started)
            if not players:
                all_started.set()
            if self.options.watch:
                group.start_soon(probes.watch_global, address, self._note_state)
            await all_started.wait()
            self._end()
            self._begin("play")
            if self.probe is not None:
                group.start_soon(self.probe.during_play, address, self.tokens)
            meter = StarvationMeter()
            await self.game_over.wait()
            self.starvation = meter.read()
            self.over_at = self.over_at or self._seconds()
            group.cancel_scope.cancel()
        self._end()

    async def _finish(self, game: Unit, players: tuple[Unit, ...]) -> None:
        """Give the players their bounded time to end; on a failure give nobody any."""
        with self._phase("finish"):
            if game.exit is not None:
                # what the game has done is known before its players are waited for, or judged
                await self._fetch(game, RESULTS, self.layout.results, RESULTS_LIMIT)
                await self._judge_results()
            # a player that failed takes nothing from the others when the game has done its part all the same
            played = self.results_complete or self.results is not None
            stopping = self.options.on_player_failure == "stop" and not played
            if self.faults and (stopping or self._game_failed()):
                await self._judge_players(players)
                return
            async with anyio.create_task_group() as group:
                if game.exit is None:
                    self.stopped_at = self._seconds()
                group.start_soon(game.stop, self.options.stop_grace)
                with anyio.move_on_after(self.options.player_exit_timeout):
                    async with anyio.create_task_group() as waiting:
                        for player in players:
                            waiting.start_soon(player.wait)
            await self._judge_players(players)
            if self._game_failed():
                return
            blamed = {fault.slot for fault in self.faults}
            for player in players:
                if player.exit is None and player.spec.slot not in blamed:
                    await self._fault(
                        "player",
                        "player_timeout",
                        f"{self._who(player)} was still running {self.options.player_exit_timeout:g} s "
                        "after the game was over.",
                        unit=player,
                        hint="A player must end, with status 0, when its connection is closed or the game is over.",
                    )

    async def _judge_players(self, players: tuple[Unit, ...]) -> None:
        """Blame the players that have ended badly, unless the game or we have taken it away from under them."""
        blamed = {fault.slot for fault in self.faults if fault.slot is not None}
        over = self.over_at or self._seconds()
        for player in players:
            seat, ended = self._seat(player), player.exit
            if ended is None or ended.reason == "stopped" or player.spec.slot in blamed or seat.ended is None:
                continue
            if ended.ok:
                self._note_early_leave(player, over)
            elif self._game_failed():
                self._warn(f"{self._who(player)} {ended} as the game failed; it is not blamed for that.")
            elif self.stopped_at is not None and seat.ended >= self.stopped_at:
                self._warn(f"{self._who(player)} {ended} when the game was stopped; it is not blamed for that.")
            else:
                await self._blame_exit(player, ended)

    def _note_early_leave(self, player: Unit, over: float) -> None:
        """Say when a player ended in good order long before the game was over: no fault, but seldom meant."""
        seat = self._seat(player)
        assert seat.ended is not None
        left = over - seat.ended - (_SEEN_LATE if self.backend.capabilities.remote else 0.0)
        if player.spec.slot in self.told_early:
            return
        if left > _LEFT_EARLY and left > (seat.ended - (seat.started or 0.0)) / 2:
            self._warn(
                f"{self._who(player)} ended with status 0 after {self._span(seat)}, "
                f"{over - seat.ended:.1f} s before the game was over."
            )

    async def _collect_players(self, game: Unit, players: tuple[Unit, ...]) -> None:
        with anyio.CancelScope(shield=True), self._phase("collect"):
            async with anyio.create_task_group() as group:
                for unit in (game, *players):
                    group.start_soon(unit.stop, self.options.stop_grace)
            for player in players:
                slot = player.spec.slot or 0
                name = f"policy_artifact_{slot}.zip"
                await self._fetch(player, name, self.layout.player_artifact(slot), ARTIFACT_LIMIT)

    async def _collect_game(self, game: Unit) -> None:
        with anyio.CancelScope(shield=True), self._phase("collect"):
            await game.stop(self.options.stop_grace)
            if not self.judged:
                await self._fetch(game, RESULTS, self.layout.results, RESULTS_LIMIT)
            await self._fetch(game, REPLAY, self.layout.replay, REPLAY_LIMIT)

    async def _fetch(self, unit: Unit, name: str, target: Path, limit: int) -> None:
        try:
            size = await unit.fetch(name, target, limit=limit)
        except FileNotFoundError:
            return
        except TransferError as error:
            party: FaultParty = "platform" if error.party == "platform" else _party(unit)
            if party == "player":
                # what a player wants to keep is its own affair: the episode is none the worse for it
                self._warn(f"{self._who(unit)} left no artifact that can be kept: {error.message}")
                return
            await self._fault(party, "artifact_transport_error", error.message, unit=unit, hint=error.hint)
            return
        self.bus.publish(ArtifactCollected(name=self.layout.relative(target), size=size))

    async def _judge_results(self) -> None:
        """Read what was collected; blame the game for missing or wrong results unless something else explains them."""
        if self.judged:
            return
        self.judged = True
        if self.layout.results.exists():
            try:
                results = await anyio.to_thread.run_sync(self.plan.read_results, self.layout.results)
            except ManifestError as error:
                await self._fault(
                    "game",
                    "results_malformed",
                    f"The game's results are not valid: {error.message}",
                    hint="The results must be a JSON object that satisfies game.results_schema, with one score a slot.",
                )
            else:
                self.results = dict(results.raw)
                self.scores = tuple(results.scores)
        elif self.game.exit is not None and not self._game_failed() and (self.game.exit.ok or not self.faults):
            await self._fault(
                "game",
                "results_missing",
                f"The game {self.game.exit} without writing results.",
                unit=self.game.unit,
                hint="Write the results to COGAME_RESULTS_URI before ending.",
            )


def _party(unit: Unit) -> FaultParty:
    return "player" if unit.spec.component == "player" else "game"
