"""Measures whether the units of an episode got the processor time they needed, in time for their game.

Games tick. On an overloaded machine, a player that needs part of a tick to answer may answer after the tick, and a
deterministic game then ends with other scores. The load of the machine alone says little about that: a fair scheduler
favours threads that need little, so nothing is lost as long as the units have run, waited, and still rested within
every tick. So the measure is how long the units themselves waited (from the kernel's scheduler statistics of their
threads). A player and the game must both have run before an answer counts. Their waiting is divided by the spare time
of a tick: the tick less the time in which one of them ran. Time in which both wait counts once. A share of 1 means that
they were busy or waiting all through a tick, and would not have been without the waiting.

Only play counts: from when all players are seen to be connected to the last write of the results. Waiting while
programs start or end changes nothing.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import anyio
import anyio.to_thread

from coworld_core.episode.record import StarvationRecord

from ..backend import Unit
from ..backends._kernel_connections import Connections

__all__ = [
    "STARVED_SHARE",
    "RunInterval",
    "StarvationMeter",
    "TickWindow",
    "spare_share",
    "tick_seconds",
    "together",
]

STARVED_SHARE = 0.9
"""A player that waited for at least this share of a tick's spare time counts as starved: an answer may have been late.
`docs/backends.md` says how well this tells changed results from unchanged ones."""

_LOOK_SECONDS = 0.01
"""Seconds between two looks when a look is cheap."""
_LONGEST_PAUSE = 0.1
_UNTIL_PLAY_SECONDS = 0.05
"""Seconds between two looks at threads until all players have connected; they are much more expensive then."""
_LIST_SECONDS = 0.1
"""Seconds between two listings of processes and threads."""
_MOST_OPEN = 4
"""Threads per unit whose statistics files are kept open; looking at further threads costs more."""
_LOOK_SHARE = 20
"""All looks together may take at most one part in this many of a processor's time."""
_MORE_THAN_ONE = 1.25
"""A player that ran, or was ready to run, on more processors than this in a tick took them from the others, however
many the machine could give it. A single thread wants one at most, and the looks at it overlap a little."""
_A_GOOD_PART = 0.3
"""A player that ran on less of a processor than this took nothing; its threads only waited, as everybody's."""
_MOST_RUNNING = 0.9
"""A unit that runs for more than this share of a tick is too slow for the game on any machine."""

_PER_SECOND = ("ticks_per_second", "tick_rate", "tick_hz", "hz", "fps")
_SECONDS = ("seconds_per_move", "seconds_per_turn", "tick_seconds", "seconds_per_tick")


def tick_seconds(config: Mapping[str, Any], schema: Mapping[str, Any]) -> float | None:
    """Return the time in which a game expects its answers, read from the usual fields of its config.

    Args:
        config: The game's config.
        schema: Its schema, for defaults.

    Returns:
        The seconds of one tick, or of one move; None if the config does not say.
    """
    rules = _object(schema.get("properties"))
    for names, inverse in ((_PER_SECOND, True), (_SECONDS, False)):
        for name in names:
            value = config.get(name, _object(rules.get(name)).get("default"))
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return 1 / value if inverse else float(value)
    return None


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


class TickWindow:
    """How long a unit has run and waited in the last tick.

    Args:
        tick: Length of a tick in seconds.
    """

    def __init__(self, tick: float) -> None:
        self._tick = tick
        self._stretches = deque[tuple[float, float, int, int]]()
        """Start, end, and nanoseconds run and waited, of each stretch."""

    def take(self, since: float, now: float, *, ran: int, waited: int, longest: int | None = None) -> None:
        """Add what has happened since the last look.

        Args:
            since: Time of the last look, in seconds.
            now: Time of this look; later than `since`.
            ran: Nanoseconds run.
            waited: Nanoseconds waited. A wait is reported when it ends, so it may have begun before the last look.
            longest: Nanoseconds that the thread which did most of both ran and waited; None: there is only one.
        """
        longest = ran + waited if longest is None else longest
        self._stretches.append((min(since, now - longest / 1e9), now, ran, waited))
        while self._stretches[0][1] <= now - self._tick:
            self._stretches.popleft()

    def last(self, now: float) -> list[RunInterval]:
        """Return the stretches within the tick that ends now."""
        begin = now - self._tick
        return [
            RunInterval(max(start, begin), end, run / 1e9 / (end - start), wait / 1e9 / (end - start))
            for start, end, run, wait in self._stretches
            if end > begin
        ]


class RunInterval(NamedTuple):
    """A span of time, with the shares of it in which a unit ran and waited; above 1 for several threads."""

    begin: float
    end: float
    ran: float
    waited: float


def together(stretches: Sequence[RunInterval]) -> tuple[float, float]:
    """Return the seconds in which any unit ran, and those in which none ran and at least one waited.

    Args:
        stretches: Of one or more units; they may overlap.

    Returns:
        Both numbers; simultaneous time counts once.
    """
    changes = [(at.begin, at.ran, at.waited) for at in stretches] + [(at.end, -at.ran, -at.waited) for at in stretches]
    changes.sort()
    ran = waited = running = waiting = before = 0.0
    for when, run, wait in changes:
        busy = min(1.0, running)
        ran += busy * (when - before)
        waited += min(1.0 - busy, waiting) * (when - before)
        before, running, waiting = when, running + run, waiting + wait
    return ran, waited


class _Thread:
    """The scheduler's statistics of one thread, since the last look.

    Args:
        pid: The process id.
        thread: The thread id.
        keep: Whether to keep the file open, which makes a look ten times cheaper.
    """

    def __init__(self, pid: int, thread: str, *, keep: bool) -> None:
        self._path = f"/proc/{pid}/task/{thread}/schedstat"
        self._file = self._open() if keep else None
        self._last: tuple[int, int] | None = None
        self.look()

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None

    def look(self) -> tuple[int, int]:
        """Return the nanoseconds that it ran, and that it was ready but waited, since the last look."""
        file = self._open() if self._file is None else self._file
        if file is None:
            return 0, 0
        try:
            ran, waited, _ = map(int, os.pread(file, 80, 0).split())
        except (OSError, ValueError):
            return 0, 0  # It has ended
        finally:
            if self._file is None:
                os.close(file)
        before = self._last or (ran, waited)
        self._last = ran, waited
        return ran - before[0], waited - before[1]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _Track:
    """The measurements of one unit."""

    def __init__(self, unit: Unit, tick: float) -> None:
        self.unit = unit
        self.network = ""
        """The network of its processes; empty if none was seen."""
        self.window = TickWindow(tick)
        self.connected = False
        self.peaks: list[tuple[float, float, tuple[int, ...]]] = []
        """The time and share of each new maximum, and the slots of the players that took the processors: in that tick,
        or if it is starved, in any starved one so far, as new processes are not seen at once."""
        self.pids: tuple[int, ...] = ()
        self.seen = False
        """Whether any process of the unit has ever been visible."""
        self._threads: dict[tuple[int, str], _Thread] = {}
        self._listed = -math.inf
        self._looked = -math.inf

    def look(self, now: float, *, starting: bool) -> None:
        """Add the time that its threads ran and waited since the last look.

        Args:
            now: The time, in seconds.
            starting: Whether it is just starting, so that new threads and processes are listed at every look.
        """
        if starting or now - self._listed >= _LIST_SECONDS:
            self._listed = now
            self._list()
        ran = waited = longest = 0
        for thread in self._threads.values():
            more, longer = thread.look()
            ran += more
            waited += longer
            longest = max(longest, more + longer)
        if now > self._looked > -math.inf:
            self.window.take(self._looked, now, ran=ran, waited=waited, longest=longest)
        self._looked = now

    def _list(self) -> None:
        """List its current threads."""
        self.pids = tuple(self.unit.processes())
        self.seen = self.seen or bool(self.pids)
        there = [(pid, thread) for pid in self.pids for thread in _threads(pid)]
        for gone in self._threads.keys() - there:
            self._threads.pop(gone).close()
        for key in there:
            if key not in self._threads:
                self._threads[key] = _Thread(*key, keep=len(self._threads) < _MOST_OPEN)

    def close(self) -> None:
        """Close all files."""
        for thread in self._threads.values():
            thread.close()
        self._threads.clear()

    def took(self, now: float, tick: float) -> bool:
        """Whether its threads wanted more than one processor in the tick ending now, and had a good part of one."""
        ran, wanted = self._wanted(now)
        return wanted > _MORE_THAN_ONE * tick and ran > _A_GOOD_PART * tick

    def _wanted(self, now: float) -> tuple[float, float]:
        """Seconds that its threads ran in the tick ending now, and seconds that they ran or were ready to run."""
        stretches = self.window.last(now)
        ran = sum((at.end - at.begin) * at.ran for at in stretches)
        return ran, ran + sum((at.end - at.begin) * at.waited for at in stretches)

    def _in_its_own_way(self, now: float, tick: float) -> bool:
        """Whether its own threads wait for each other in the tick ending now, or it has some that were not known."""
        if self._wanted(now)[1] > _MORE_THAN_ONE * tick:
            return True
        known = len(self._threads)
        self._list()
        return len(self._threads) > known

    def note(self, now: float, stretches: Sequence[RunInterval], tick: float, players: Sequence[_Track]) -> None:
        """Record the share of the tick ending now that was spent waiting, if it is a new maximum.

        Args:
            now: The time, in seconds.
            stretches: Stretches of the unit and the game in the tick.
            tick: Its length in seconds.
            players: All players.
        """
        most = self.peaks[-1][1] if self.peaks else 0.0
        ran = sum((at.end - at.begin) * at.ran for at in stretches)
        waited = sum((at.end - at.begin) * at.waited for at in stretches)
        if waited <= min(most, STARVED_SHARE) * (tick - ran):
            return  # Counting overlaps once, which is more expensive, could only lower the share
        share = spare_share(tick, *together(stretches))
        if (share <= most and share < STARVED_SHARE) or self._in_its_own_way(now, tick):
            return
        known = self.peaks[-1][2] if most >= STARVED_SHARE else ()
        slots = {*known, *(player.unit.spec.slot for player in players if player.took(now, tick))}
        took = tuple(sorted(slot for slot in slots if slot is not None))
        if share > most or took != known:
            self.peaks.append((now, max(share, most), took))

    def worst(self, until: float) -> tuple[float, tuple[int, ...]]:
        """Return the largest share in any tick up to that time, and who took the processors in it."""
        # The peaks increase
        return next(((share, slots) for when, share, slots in reversed(self.peaks) if when <= until), (0.0, ()))


def spare_share(tick: float, ran: float, waited: float) -> float:
    """Return the share of a tick's spare time spent waiting; 0 for units that run through nearly the whole tick."""
    return waited / (tick - ran) if ran < _MOST_RUNNING * tick else 0.0


class StarvationMeter:
    """Watches a game and its players while they play.

    Args:
        game: The game, which has been started.
        players: Its players; they may start later.
        tick: Seconds in which the game expects its answers; None: unknown. Without it nothing can be judged as late, so
            only connections are watched.
        door: The unit that players connect to; None: the game.
    """

    _watching: ClassVar[set[int]] = set()
    """All running meters; they share the allowed cost of looking."""

    def __init__(self, game: Unit, players: Sequence[Unit], *, tick: float | None, door: Unit | None = None) -> None:
        self._door = door or game
        self._paced = tick is not None
        self._tick = tick or _UNTIL_PLAY_SECONDS
        self._game = _Track(game, self._tick)
        self._players = [_Track(player, self._tick) for player in players]
        self._connections: Connections | None = None
        self._lock = threading.Lock()
        """Held while a network is added: the event loop does that, too."""
        self._due = -math.inf
        """When to look at the threads again, until all players have connected."""
        self._began: float | None = None
        """When all players were first seen to be connected; their waiting counts from then on."""
        self._first = math.inf
        """When a whole tick of play was first observed."""

    async def run(self) -> None:
        """Keep looking until cancelled.

        This runs in a thread, because on a busy machine the event loop runs too rarely to see every tick.
        """
        over = threading.Event()
        self._watching.add(id(self))
        try:
            await anyio.to_thread.run_sync(self._watch, over, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        finally:
            over.set()
            self._watching.discard(id(self))

    def _watch(self, over: threading.Event) -> None:
        usual = min(_LONGEST_PAUSE, max(_LOOK_SECONDS, self._tick / 10))
        pause = 0.0
        try:
            while not over.wait(pause):
                cost = time.thread_time()
                plays = self._began is not None
                if plays and not self._paced:
                    return
                self.look()
                cost = time.thread_time() - cost
                pause = max(usual if plays else _LOOK_SECONDS, _LOOK_SHARE * len(self._watching) * cost)
                pause = pause if plays else min(pause, _UNTIL_PLAY_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Look no more."""
        for track in (self._game, *self._players):
            track.close()
        if self._connections is not None:
            self._connections.close()

    def meet(self, unit: Unit) -> None:
        """Look at the network of a player that has just started, which may be gone before the next look at everyone."""
        track = next(player for player in self._players if player.unit is unit)
        pids = tuple(unit.processes())
        with self._lock:
            if pids and not track.network and self._connections is not None:
                track.seen, track.network = True, self._connections.network_of(pids[0])

    def look(self) -> None:
        """Look once."""
        now = time.monotonic()
        if self._connections is None:
            self._connections = Connections(int(self._door.endpoint().there.rpartition(":")[2]))
        if self._began is not None or now >= self._due:
            self._due = now + _UNTIL_PLAY_SECONDS
            for track in (self._game, *self._players):
                track.look(now, starting=self._began is None)
                with self._lock:
                    if track.pids and not track.network:
                        track.network = self._connections.network_of(track.pids[0])
        if self._began is None:
            alone = [player for player in self._players if not player.connected]
            there = self._connections.of(pid for player in alone for pid in player.pids)
            for player in alone:
                player.connected = not there.isdisjoint(player.pids)
            if self._players and all(player.connected for player in self._players):
                # Do not count from the previous look: before it connects, a program is often busy for longer than a
                # tick, which cannot be distinguished from play within the same look.
                self._began = now
        elif now - self._tick >= self._began:
            self._first = min(self._first, now)
            stretches = self._game.window.last(now)
            for player in self._players:
                player.note(now, [*stretches, *player.window.last(now)], self._tick, self._players)

    def missing(self) -> tuple[Unit, ...]:
        """Return the players that have not connected, though their processes are, were, or would have been visible.

        A player that has ended may also have connected for a time too short to be seen. It is only returned if the
        kernel says that it cannot have.
        """
        return tuple(track.unit for track in self._players if not track.connected and self._is_missing(track))

    def _is_missing(self, track: _Track) -> bool:
        if track.unit.exit is None:
            return track.seen
        # If the game's processes are visible, a player that never was had ended before the first look
        return self._connections is not None and not self._connections.may_have_been_one(
            track.network or self._game.network
        )

    def connected(self) -> Iterator[tuple[Unit, bool | None]]:
        """Yield each player with whether it has connected; None where that cannot be seen."""
        missing = self.missing()
        for track in self._players:
            yield track.unit, True if track.connected else False if track.unit in missing else None

    def read(self) -> StarvationRecord | None:
        """Return the measurements of play; None if there was no play, or it could not be observed or judged."""
        if self._began is None or not self._paced:
            return None
        until = _written(self._game.unit)
        if until - self._began > 2 * self._tick and not self._first < until:
            return None  # No tick of it was observed: this process may itself have been starved
        worst = max(self._players, key=lambda player: player.worst(until)[0])
        share, _ = worst.worst(until)
        found = [player.worst(until) for player in self._players]
        slots = {slot for most, slots in found if most >= STARVED_SHARE for slot in slots}
        return StarvationRecord(
            starved=share >= STARVED_SHARE,
            waited_share=round(share, 4),
            threshold=STARVED_SHARE,
            starved_by=tuple(sorted(slots)),
            source="scheduler statistics of the units' threads (/proc/<pid>/task/<tid>/schedstat)",
            unit=worst.unit.name if share else None,
            tick_seconds=round(self._tick, 4),
        )


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - no path objects in a hot place
    except OSError:
        return []


def _written(game: Unit) -> float:
    """Return when the results were last written, on the monotonic clock; the current time if that is unknown."""
    now = time.monotonic()
    if game.spec.directory is None:
        return now
    try:
        written = (game.spec.directory / "results.json").lstat().st_mtime
    except OSError:
        return now
    return min(now, now - (time.time() - written))
