"""What is watched while an episode is played: ends, results, the contract; each tells what it means when it is seen."""

from __future__ import annotations

import secrets

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.errors import ManifestError, TransferError
from coworld_core.events import Notice, ProbeFinished

from . import probes
from ._ledger import Ledger
from ._specs import REPLAY, RESULTS
from .backend import HttpProbe, Unit

__all__ = ["RESULTS_LIMIT", "Watcher"]

RESULTS_LIMIT = 64 * 1024 * 1024
"""Bytes that a game's results may have."""

_BLAME_WINDOW = 0.25
"""Seconds in which the game's own end may show that it was not a violation which a check saw."""
_SILENCE = 2.0
"""Seconds without an answer after which a game may be on its way out."""
_DYING = 10.0
"""Seconds a silent game has to end, or to answer again, before it is judged what was seen meanwhile."""
_ASK_AGAIN = 0.5
_LEFT_NOTICE = 5.0
"""Seconds after which a player's orderly end in the middle of a game is worth a word."""


class Watcher(Ledger):
    """Watches a game and its players, and sets ``game_over`` when the game's part is over."""

    async def _watch_game(self, game: Unit) -> None:
        ended = await game.wait()
        await self._blame_game_exit(game, ended)
        self.game_over.set()

    async def _watch_player(self, player: Unit, game: Unit) -> None:
        """See a player's end at the moment it happens, and say whose fault it was."""
        ended = await player.wait()
        if ended.reason == "stopped" or self.game_over.is_set():
            return
        if ended.ok:
            async with anyio.create_task_group() as group:
                group.start_soon(self._notice_early_leave, player, game)
                await self._notice_abandoned(game)
            return
        # What a player's end means when the game ends with it is said when it is known how the game went.
        if not await self._goes_on(game, grace=self.options.failure_grace):
            return
        await self._blame_exit(player, ended)
        if self.options.on_player_failure == "stop":
            self.game_over.set()

    async def _goes_on(self, game: Unit, *, grace: float = 0.0) -> bool:
        """Whether the game outlives what has just been seen to fail, ``grace`` seconds at least.

        A game that dies takes its players and its viewers with it, and on a busy machine its own end may take far
        longer to show than theirs. So it is asked: one that does not answer any more is on its way out, and gets the
        time for that. If it is the way to the game that is broken, it is waited for until it answers again.
        """
        with anyio.move_on_after(max(_BLAME_WINDOW, grace)):
            await game.wait()
            return False
        silent_until = anyio.current_time() + _DYING
        while anyio.current_time() < silent_until:
            try:
                await probes.get_status(game.endpoint().here, HttpProbe().path, timeout=_SILENCE)
            except (OSError, TimeoutError):
                asked = anyio.current_time()
                await game.reach()
                # the time in which nobody could have seen its end is not the game's
                silent_until += anyio.current_time() - asked
            else:
                return True
            with anyio.move_on_after(_ASK_AGAIN):
                await game.wait()
                return False
        return True

    async def _notice_early_leave(self, player: Unit, game: Unit) -> None:
        """Say while it can still be seen that a player has ended in good order and the game goes on all the same."""
        with anyio.move_on_after(_LEFT_NOTICE):
            await game.wait()
            return
        if not await self._is_done(game):
            self._warn(
                f"{self._who(player)} ended with status 0 after {self._span(self._seat(player))}, and the game goes on."
            )
            self.told_early.add(player.spec.slot)

    async def _notice_abandoned(self, game: Unit) -> None:
        """When the last player has left, let the game end by itself for a while; then nothing is to be waited for."""
        if self.options.on_player_failure == "continue" or self.abandoned or len(self.seats) < len(self.plan.seats):
            return
        if any(seat.unit is not None and seat.unit.exit is None for seat in self.seats.values()):
            return
        self.abandoned = True
        with anyio.move_on_after(self.options.abandoned_timeout):
            await game.wait()
            return
        if await self._is_done(game):
            return
        for slot, seat in self.seats.items():
            if seat.exit is not None and seat.exit.ok:
                await self._fault(
                    "player",
                    "player_left_early",
                    f"{self._name(slot)} ended with status 0 after {self._span(seat)}, and the game was not over "
                    f"{self.options.abandoned_timeout:g} s after its last player had left.",
                    unit=seat.unit,
                    hint="A player stays until the game closes its connection or says that it is over. If the game "
                    "did, it is the game that hangs.",
                )
        self.game_over.set()

    async def _is_done(self, game: Unit) -> bool:
        """Whether the results are there; asked anew, for that they were written may not have been told yet."""
        return self.results_complete or await self._peek_results(game)

    async def _end_after_failure(self, game: Unit) -> None:
        """Let the game have a moment to end by itself; then its part is over."""
        if self.options.on_player_failure == "continue":
            return
        with anyio.move_on_after(self.options.failure_grace):
            await game.wait()
        self.game_over.set()

    async def _watch_results(self, game: Unit) -> None:
        """Notice complete results and a closed replay, then let the game linger a little.

        Each time one of them is written again the wait begins anew: a game may keep its results up to date while it
        plays, and write its replay piece by piece.
        """
        valid = closed = False
        written = anyio.Event()

        async def follow(group: TaskGroup) -> None:
            nonlocal valid, closed, written
            async with game.written() as names:
                async for name in names:
                    if name == REPLAY:
                        closed = True
                    elif name == RESULTS:
                        valid = await self._peek_results(game)
                    else:
                        continue
                    written.set()
                    written = anyio.Event()
            group.cancel_scope.cancel()  # the game has ended: _watch_game takes it from here

        async with anyio.create_task_group() as group:
            group.start_soon(follow, group)
            while True:
                # taken before anything is looked at: looking takes time, and what is told meanwhile counts
                news = written
                if not valid:
                    self.results_complete, self.over_at = False, None
                    await news.wait()
                    continue
                if not closed:
                    size = await game.size(REPLAY)
                    with anyio.move_on_after(self.options.replay_timeout):
                        await news.wait()
                        continue
                    if await game.size(REPLAY) != size:
                        continue  # it is a long one, and still being written
                self.results_complete, self.over_at = True, self._seconds()
                with anyio.move_on_after(self.options.linger):
                    await news.wait()
                    continue
                break
            self.bus.publish(
                Notice(message=f"The game went on for {self.options.linger:g} s after its results; it is stopped now.")
            )
            self.game_over.set()

    async def _peek_results(self, game: Unit) -> bool:
        """Whether the results written so far are complete and valid."""
        peek = self.layout.workspace / f".{RESULTS}.{secrets.token_hex(4)}.peek"
        try:
            await game.fetch(RESULTS, peek, limit=RESULTS_LIMIT)
            # a hostile file may take a while to check
            await anyio.to_thread.run_sync(self.plan.read_results, peek)
        except (ManifestError, TransferError, FileNotFoundError):
            return False
        finally:
            peek.unlink(missing_ok=True)
        return True

    async def _contract_checks(self, address: str, all_started: anyio.Event) -> list[probes.ProbeResult]:
        results: list[probes.ProbeResult] = []

        async def pages() -> None:
            results.extend(await probes.probe_contract(address, self.tokens))

        async def viewer() -> None:
            await all_started.wait()
            results.append(await probes.first_message(address, "/global", timeout=self.options.viewer_timeout))

        async with anyio.create_task_group() as group:
            group.start_soon(pages)
            group.start_soon(viewer)
        return results

    async def _check_contract(self, game: Unit, address: str, all_started: anyio.Event) -> None:
        """The runtime contract's checks, made while the players start; a violation ends the episode."""
        results, broken, excused = list[probes.ProbeResult](), list[probes.ProbeResult](), False
        # once more where it may have been the way to the game that failed
        for _ in range(2):
            results = await self._contract_checks(address, all_started)
            broken = [result for result in results if not result.ok]
            # what is asked of a game that has ended, or whose player has just failed, says nothing about the contract
            ended = game.exit is not None or self.game_over.is_set() or bool(self.faults)
            excused = bool(broken) and (ended or not await self._goes_on(game))
            if excused or all(result.reached for result in broken):
                break
        for result in results:
            counts = result.ok or not excused
            self.bus.publish(ProbeFinished(probe=result.probe, ok=result.ok, detail=result.detail, counts=counts))
        if excused or not broken:
            return
        await self._fault(
            "game",
            "game_contract_violation",
            "The game breaks the runtime contract: " + "; ".join(result.detail for result in broken) + ".",
            unit=game,
            hint="See the runtime contract's routes and token rules.",
        )
        self.game_over.set()
