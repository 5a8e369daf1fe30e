"""Watches an episode while it is played: the ends of units, the results, the contract.

Each watcher waits until the meaning of an event is clear, tells the ledger, and reports when the game's part is over.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.episode.events import GameProgressed, Notice, ProbeFinished
from coworld_core.errors import ManifestError, TransferError
from coworld_core.manifest.game_results import MAX_RESULTS_BYTES
from coworld_core.retries import Backoff, Tries

from ..backend import HttpProbe, Unit
from ..package.own_players.unrun_player import unrun_player
from ..package.plan import CONNECT_TIMEOUT
from . import contract_probes
from .episode_inputs import Setup
from .episode_ledger import Ledger, UnitState
from .unit_specs import REPLAY, RESULTS

__all__ = ["SILENT", "Watch", "is_number"]

SILENT = ": it never began the handshake of a websocket."
"""What a player has not done that has not connected: opening a TCP connection alone does not count."""
_BLAME_WINDOW = 0.25
"""Seconds in which the game's own end may show that a failed check was not a violation."""
_SILENCE = 2.0
"""Seconds without an answer after which a game may be exiting."""
_DYING = 10.0
"""Seconds that a silent game has to end, or to answer again, before it is judged by what was seen meanwhile."""
_ASK_AGAIN = 0.5
_CHECK_AGAIN = Backoff(base=0.5, cap=8.0)
_REMOTE_CHECKS = 7
"""How often the contract is checked where the connection to the game leads through an API server and breaks."""
_LEFT_NOTICE = 4.0
"""Seconds after which a player's clean exit is worth a notice, once the game has outlived it."""
_LEFT_EARLY = 1.0
"""A player's clean exit more than this many seconds before the end of the game is early."""
_NEARLY = 0.95
"""The share of the time to connect that a game which begins without a player has waited for it, at least."""
_NAME_AGAIN = 4.0
"""Minimum seconds between two notices that the game waits for the same player."""
_SEEN_LATE = 4.0
"""How many seconds apart simultaneous ends may be reported by a backend that is polled over a network."""


class Watch:
    """Watches one game and its players.

    Args:
        setup: The episode's surroundings.
        ledger: Receives what is seen.
        game: The game, which has been started.
        players: Its players; they may start later.
        missing: Returns the players not connected, as far as that can be seen.
    """

    def __init__(
        self,
        setup: Setup,
        ledger: Ledger,
        game: Unit,
        players: Sequence[Unit],
        missing: Callable[[], Sequence[Unit]],
    ) -> None:
        self.over = anyio.Event()
        """Set when the game's part is over, however it ended."""
        self._setup = setup
        self._options = setup.options
        self._ledger = ledger
        self._game = game
        self._players = players
        self._missing = missing
        self._could_stay: set[int | None] = set()
        """The slots of players that have left, and that the game would have let back in."""
        self._shuts_out = False
        self._unanswered = ""
        """What happened to a client that `/player` did not answer when the players were started; empty if it did."""
        self._name_again: dict[int, float] = {}
        """When each slot that the game waits for may be named next, in seconds into the episode."""

    # --- ends

    async def game(self) -> None:
        """Watch for the game's end."""
        ended = await self._game.wait()
        after = " after its results were complete" if self._ledger.results_complete and not ended.ok else ""
        await self._ledger.see("ended", "game", details=after)
        self.over.set()

    async def player(self, player: Unit) -> None:
        """Watch for a player's end, and report whose fault it was."""
        ended = await player.wait()
        if ended.reason == "stopped" or self.over.is_set():
            return
        # If the game ends together with the player, the verdict has to wait for the game's outcome.
        if not await self._goes_on(grace=self._options.failure_grace_seconds):
            return
        if ended.ok:
            if player not in self._missing():
                await self._notice_early_leave(player)
                return
            if await self.is_done():
                return  # It may have played in less time than can be seen
        if not await self.admits(player) or self.over.is_set():
            return
        if ended.ok:
            await self._see_absent(player.spec.slot)
        else:
            await self._ledger.see("ended", "player", player.spec.slot)
        if self._options.on_player_failure == "stop":
            self.over.set()

    async def admits(self, player: Unit) -> bool:
        """Whether the game admits a client with the token of this player, which has ended; blames the game if not.

        A player that is shut out can only fail or give up.
        """
        slot = player.spec.slot
        assert slot is not None
        if self._options.on_player_failure == "continue":
            return True  # The game decides about missing players, so the seat must not be taken even for a moment
        if self.over.is_set() or await self.is_done():
            return True
        if self._ledger.disturbed_at is None:
            self._ledger.disturbed_at = self._ledger.seconds()
        seen = await contract_probes.probe_seat(self._game.endpoint().here, slot, self._setup.tokens[slot])
        detail = seen.detail if seen.reached and not seen.ok else await self._throws_out(seen)
        if not detail:
            return True
        # A game that is over, or exiting, need not admit anyone
        if self.over.is_set() or not await self._goes_on():
            return True
        if not self._shuts_out:
            self._shuts_out = True
            self._ledger.publish(ProbeFinished(probe=seen.probe, ok=False, detail=detail))
            await self._ledger.see("violation", "game", details=detail)
            self.over.set()
        return False

    async def _throws_out(self, seen: contract_probes.ProbeResult) -> str:
        """How the game keeps all players from playing, though it lets them in now or did before; empty if it does not.

        A game may be done with a single player that has failed, so only one that has lost all of them within a moment
        is to blame.
        """
        lost = seen.thrown_out or (not seen.reached and not self._setup.backend.capabilities.remote)
        if not lost and not self._unanswered:
            return ""
        with anyio.move_on_after(self._options.failure_grace_seconds):
            for player in self._players:
                await player.wait()
        if not self._ledger.all_ended:
            return ""
        if lost:
            return seen.detail
        # Some games always refuse in this way
        again = await contract_probes.probe_refusal(self._game.endpoint().here, 0, "bad", why="a_wrong_token")
        return f"/player did not answer when the players came: {self._unanswered}" if again.reached else ""

    async def _see_absent(self, slot: int | None) -> None:
        """Report a player that never connected."""
        assert slot is not None
        state, seat = self._ledger.seats[slot], self._setup.plan.seats[slot]
        did = f"{state.end} after {state.span}, and" if state.end is not None else "was still running, and"
        words = f"{self._ledger.who('player', slot)} {did} had never connected{SILENT}"
        hint = unrun_player(seat.own, state.run, state.image.context)
        await self._ledger.see("never_connected", "player", slot, details=words, hint=hint)

    async def judge_absent(self) -> None:
        """Judge the players that never connected, now that the game is over; of the others, that is not known."""
        over = self._ledger.over_at or self._ledger.seconds()
        for slot, seat in self._ledger.seats.items():
            # Those that ended in any other way are blamed for that
            if seat.connected is not False or not (seat.end is None or seat.end.ok):
                continue
            if self._stayed_away(seat, over):
                await self._see_absent(slot)
            else:
                seat.connected = None

    async def judge_players(self) -> None:
        """Judge the players that have ended, now that the game's outcome is known."""
        over = self._ledger.over_at or self._ledger.seconds()
        for slot, seat in self._ledger.seats.items():
            if seat.exit is None or seat.ended is None:
                continue
            await self._ledger.see("ended", "player", slot)
            left = over - seat.ended - (_SEEN_LATE if self._setup.backend.capabilities.remote else 0.0)
            long_before = left > _LEFT_EARLY and left > (seat.ended - (seat.started or 0.0)) / 2
            if seat.exit.ok and long_before:
                what = "abandoned" if slot in self._could_stay else "left_early"
                words = f"{self._ledger.who('player', slot)} ended with status 0, and the game was not over."
                await self._ledger.see(what, "player", slot, details=words)

    def _stayed_away(self, seat: UnitState, over: float) -> bool:
        """Whether a player that was not seen to connect cannot have connected for a time too short to be seen."""
        # The kernel tells of closed connections, and takes a moment for it
        if seat.ended is not None and seat.ended < over:
            return over - seat.ended > _BLAME_WINDOW
        # A game that has waited for it as long as it may has begun without it
        begun = max((other.started or 0.0 for other in self._ledger.seats.values()), default=0.0)
        allowed = self._setup.plan.game_config.get(CONNECT_TIMEOUT)
        return over - begun >= _NEARLY * (allowed if is_number(allowed) else self._options.connect_timeout_seconds)

    async def end_after_failure(self) -> None:
        """After a player could not be started, give the game a moment to end by itself; then its part is over."""
        if self._options.on_player_failure == "continue":
            return
        with anyio.move_on_after(self._options.failure_grace_seconds):
            await self._game.wait()
        self.over.set()

    async def _goes_on(self, *, grace: float = 0.0) -> bool:
        """Whether the game outlives the failure just seen by at least `grace` seconds.

        A game that dies takes its players and its viewers with it, and on a busy machine its own end may be reported
        much later than theirs. So the game is probed: one that no longer answers is exiting, and gets time for that. If
        the connection to the game is broken, this waits until it works again.
        """
        with anyio.move_on_after(max(_BLAME_WINDOW, grace)):
            await self._game.wait()
            return False
        silent_until = anyio.current_time() + _DYING
        while anyio.current_time() < silent_until:
            try:
                await contract_probes.get_status(self._game.endpoint().here, HttpProbe().path, timeout=_SILENCE)
            except (OSError, TimeoutError):
                asked = anyio.current_time()
                await self._game.reach()
                # Time in which its end could not have been seen does not count against the game
                silent_until += anyio.current_time() - asked
            else:
                return True
            with anyio.move_on_after(_ASK_AGAIN):
                await self._game.wait()
                return False
        return True

    async def _notice_early_leave(self, player: Unit) -> None:
        """Publish a notice if a player exits cleanly while the game goes on and would let it back in."""
        slot = player.spec.slot
        assert slot is not None
        # Where the game decides about missing players, their seats must not be taken even for a moment
        if self._options.on_player_failure == "continue" or await self.is_done():
            return
        seen = await contract_probes.probe_seat(self._game.endpoint().here, slot, self._setup.tokens[slot])
        if not seen.ok or seen.thrown_out:
            return
        self._could_stay.add(slot)
        with anyio.move_on_after(_LEFT_NOTICE):
            await self._game.wait()
            return
        if not await self.is_done():
            who, span = self._ledger.who("player", slot), self._ledger.seat(player).span
            self._ledger.warn(f"{who} ended with status 0 after {span}, and the game goes on.")

    # --- results

    async def results(self) -> None:
        """Wait for complete results and a closed replay, then let the game linger briefly.

        Each rewrite of either file restarts the wait: a game may update its results while it plays, and write its
        replay in pieces.
        """
        ledger, options, game = self._ledger, self._options, self._game
        valid = closed = False
        written = anyio.Event()

        async def follow(group: TaskGroup) -> None:
            nonlocal valid, closed, written
            async with game.written() as names:
                async for name in names:
                    if name == REPLAY:
                        closed = True
                    elif name == RESULTS:
                        valid = await self._peek_results()
                    else:
                        continue
                    written.set()
                    written = anyio.Event()
            group.cancel_scope.cancel()  # The game has ended: `game` handles the rest

        async with anyio.create_task_group() as group:
            group.start_soon(follow, group)
            while True:
                # Taken before looking, because looking takes time and events reported meanwhile count
                news = written
                if not valid:
                    ledger.results_complete, ledger.over_at = False, None
                    await news.wait()
                    continue
                if not closed:
                    size = await game.size(REPLAY)
                    with anyio.move_on_after(options.replay_timeout_seconds):
                        await news.wait()
                        continue
                    if await game.size(REPLAY) != size:
                        continue  # It is long, and still being written
                ledger.results_complete, ledger.replay_closed, ledger.over_at = True, closed, ledger.seconds()
                with anyio.move_on_after(options.linger_seconds):
                    await news.wait()
                    ledger.rewritten = True
                    continue
                break
            ledger.publish(
                Notice(
                    message=f"The game went on for {options.linger_seconds:g} s after its results; it is stopped now."
                )
            )
            self.over.set()

    async def is_done(self) -> bool:
        """Whether the results are there. Asks again, because the write may not have been reported yet."""
        return self._ledger.results_complete or await self._peek_results()

    async def _peek_results(self) -> bool:
        """Whether the results written so far are complete and valid."""
        peek = self._setup.layout.workspace / f".{RESULTS}.{secrets.token_hex(4)}.peek"
        try:
            await self._game.fetch(RESULTS, peek, limit=MAX_RESULTS_BYTES)
            # A hostile file may take a while to check
            await anyio.to_thread.run_sync(self._setup.plan.read_results, peek)
        except (ManifestError, TransferError, FileNotFoundError):
            return False
        finally:
            peek.unlink(missing_ok=True)
        return True

    # --- the contract

    async def contract(self, all_started: anyio.Event) -> None:
        """Make the runtime contract's checks while the players start; a violation ends the episode."""
        remote = self._setup.backend.capabilities.remote
        tries = Tries(_CHECK_AGAIN, most=_REMOTE_CHECKS if remote else 2)
        while True:
            results = await self._contract_checks(all_started)
            broken = [result for result in results if not result.ok]
            # A failed check of a game that has ended, or whose player just failed, does not show a violation
            ended = self._game.exit is not None or self.over.is_set() or bool(self._ledger.faults)
            excused = bool(broken) and (ended or not await self._goes_on())
            # The connection to the game may have failed instead. One over a network may also break silently; and what
            # forwards it may be away for as long as an API server takes to start again
            lost = not all(result.reached for result in broken) or (remote and not tries.failures)
            pause = tries.again() if broken and lost and not excused else None
            if pause is None:
                break
            await anyio.sleep(pause)
        self._unanswered = next((result.detail for result in results if result.ok and not result.reached), "")
        for result in results:
            counts = result.ok or not excused
            self._ledger.publish(ProbeFinished(probe=result.probe, ok=result.ok, detail=result.detail, counts=counts))
        if broken and not excused:
            await self._ledger.see("violation", "game", details="; ".join(result.detail for result in broken))
            self.over.set()

    async def _contract_checks(self, all_started: anyio.Event) -> list[contract_probes.ProbeResult]:
        address = self._game.endpoint().here
        results: list[contract_probes.ProbeResult] = []

        async def pages() -> None:
            tokens = () if self._setup.plan.game_hosts else self._setup.tokens
            results.extend(await contract_probes.probe_contract(address, tokens))

        async def viewer() -> None:
            await all_started.wait()
            results.append(
                await contract_probes.first_message(address, "/global", timeout=self._options.viewer_timeout_seconds)
            )

        async with anyio.create_task_group() as group:
            group.start_soon(pages)
            group.start_soon(viewer)
        return results

    # --- the game's public stream

    async def progress(self) -> None:
        """Publish the game's progress, if its public stream has the usual fields."""
        await contract_probes.watch_global(self._game.endpoint().here, self._note_progress, self._note_excess)

    def _note_excess(self, what: str) -> None:
        self._ledger.warn(f"The game's progress is not shown: /global sends {what}.")

    def _note_progress(self, state: dict[str, Any]) -> None:
        scores = state.get("scores")
        listed = cast("list[object]", scores) if isinstance(scores, list) else []
        seats = len(self._setup.plan.seats)
        numbers = tuple(float(score) for score in listed if is_number(score)) if len(listed) == seats else ()
        if len(numbers) != seats:
            numbers = ()
        starts_in = state.get("starts_in")
        event = GameProgressed(
            tick=_count(state.get("tick")),
            max_ticks=_count(state.get("max_ticks")),
            scores=numbers,
            starts_in=float(starts_in) if is_number(starts_in) and starts_in > 0 else None,
        )
        if event.tick is not None or event.scores:
            self._ledger.publish(event)
        self._name_the_slow(state)

    def _name_the_slow(self, state: dict[str, Any]) -> None:
        """Name the players whose moves the game says it is waiting for, each of them once in a while."""
        slots, waited = state.get("waiting_for"), state.get("waited")
        if not isinstance(slots, list) or not is_number(waited):
            return
        now = self._ledger.seconds()
        # A list of what it waits for is no longer than the list of seats, whatever else the game has put into it.
        for slot in cast("list[object]", slots)[: len(self._setup.plan.seats)]:
            if isinstance(slot, int) and not isinstance(slot, bool) and slot in self._ledger.seats:
                # What has become of a player that has ended is said elsewhere
                if self._ledger.seats[slot].end is not None:
                    continue
                if now < self._name_again.get(slot, 0.0):
                    continue
                self._name_again[slot] = now + _NAME_AGAIN
                who = self._ledger.who("player", slot).removeprefix("Player")
                self._ledger.publish(Notice(message=f"Waiting for player{who}: nothing sent for {waited:.0f} s."))


_MOST = 1 << 53
"""Largest integer that every reader of an event can represent."""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether an untrusted value is a number that every reader can represent."""
    # An integer may be more than a float can hold
    return not isinstance(value, bool) and (
        (isinstance(value, int) and abs(value) <= _MOST) or (isinstance(value, float) and math.isfinite(value))
    )
