"""Whether the units of an episode got the processor time they asked for, in time for their game.

Games tick: on a machine with too much to do, a player that needs part of a tick to answer answers after it, and a
deterministic game ends with other scores. That the machine is busy says little about that. A fair scheduler lets those
pass who need little, so nobody loses anything as long as the units have run, waited, and still rested within every
tick. What is measured is therefore the waiting of the units themselves (the kernel's scheduler statistics of their
threads): that of a player and of the game, which must both have their turn before an answer counts, as a share of what
the two had to spare in one tick, the tick less the time in which one of them ran. Time in which both wait counts once.
At 1 they were busy or waiting all through a tick, and without the waiting they would not have been.

Only play counts: from when the last player has connected to the last write of the results. What programs wait for while
they are loaded, or end, changes nothing.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import anyio
import anyio.to_thread

from coworld_core.episode.record import StarvationRecord

from .._connections import Connections
from ..backend import Unit

__all__ = [
    "STARVED_SHARE",
    "UNKNOWN_TICK",
    "StarvationMeter",
    "Stretch",
    "TickWindow",
    "spare_share",
    "tick_seconds",
    "together",
]

STARVED_SHARE = 0.9
"""From this share of the spare time in a tick on, who waited counts as starved: an answer may have come too late.
``docs/backends.md`` says how well that tells changed results from unchanged ones."""

UNKNOWN_TICK = 0.2
"""Seconds that a game is taken to tick in whose config does not say."""

_LOOK_SECONDS = 0.01
"""Between two looks, where those cost little."""
_LONGEST_PAUSE = 0.1
_UNTIL_PLAY_SECONDS = 0.05
"""Between two looks at who has connected, which cost much more."""
_LIST_SECONDS = 0.1
"""Between two looks at which processes and threads there are."""
_MOST_OPEN = 4
"""Threads of a unit whose statistics are kept open; whoever has more is looked at at more cost."""
_LOOK_SHARE = 20
"""All looks together may take at most one part in so many of a processor's time."""
_MOST_RUNNING = 0.9
"""Who runs for so much of a tick is too slow for it on any machine."""

_PER_SECOND = ("ticks_per_second", "tick_rate", "tick_hz", "hz", "fps")
_SECONDS = ("seconds_per_move", "seconds_per_turn", "tick_seconds", "seconds_per_tick")


def tick_seconds(config: Mapping[str, Any], schema: Mapping[str, Any]) -> float:
    """Within how many seconds a game wants its answers, as its config says by one of the usual names.

    Args:
        config: The game's config.
        schema: Its schema, for defaults.

    Returns:
        The seconds of one tick, or of one move; ``UNKNOWN_TICK`` when it does not say.
    """
    rules = _object(schema.get("properties"))
    for names, inverse in ((_PER_SECOND, True), (_SECONDS, False)):
        for name in names:
            value = config.get(name, _object(rules.get(name)).get("default"))
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return 1 / value if inverse else float(value)
    return UNKNOWN_TICK


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


class TickWindow:
    """How long a unit has run and waited in the last tick.

    Args:
        tick: Seconds.
    """

    def __init__(self, tick: float) -> None:
        self._tick = tick
        self._stretches = deque[tuple[float, float, int, int]]()
        """When each began and ended, and the nanoseconds run and waited in it."""

    def take(self, since: float, now: float, *, ran: int, waited: int) -> None:
        """Take in what was added since the last look.

        Args:
            since: When that was, in seconds.
            now: When it is, later than that.
            ran: Nanoseconds run.
            waited: Nanoseconds waited. A wait is told when it is over, and may have begun before the last look.
        """
        self._stretches.append((min(since, now - (ran + waited) / 1e9), now, ran, waited))
        while self._stretches[0][1] <= now - self._tick:
            self._stretches.popleft()

    def last(self, now: float) -> list[Stretch]:
        """What there was of it in the tick that ends now."""
        begin = now - self._tick
        return [
            Stretch(max(start, begin), end, run / 1e9 / (end - start), wait / 1e9 / (end - start))
            for start, end, run, wait in self._stretches
            if end > begin
        ]


class Stretch(NamedTuple):
    """A time, and in how much of it a unit ran and waited, as shares; over 1 for several threads."""

    begin: float
    end: float
    ran: float
    waited: float


def together(stretches: Sequence[Stretch]) -> tuple[float, float]:
    """Seconds in which somebody ran, and in which nobody ran and somebody waited.

    Args:
        stretches: Of several units, or of one; they may overlap.

    Returns:
        Both; what happens at the same time counts once.
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
        pid: Its process.
        thread: Its number.
        keep: Have the file open all the time: a look then costs a tenth.
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
        """Nanoseconds that it has run, and has been ready to run and waited, since the last look."""
        file = self._open() if self._file is None else self._file
        if file is None:
            return 0, 0
        try:
            ran, waited, _ = map(int, os.pread(file, 80, 0).split())
        except (OSError, ValueError):
            return 0, 0  # it has ended
        finally:
            if self._file is None:
                os.close(file)
        before = self._last or (ran, waited)
        self._last = ran, waited
        return ran - before[0], waited - before[1]

    def close(self) -> None:
        """Give back what is open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _Track:
    """What is known of one unit."""

    def __init__(self, unit: Unit, tick: float) -> None:
        self.unit = unit
        self.window = TickWindow(tick)
        self.connected = False
        self.peaks: list[tuple[float, float]] = []
        """Each time the share was larger than ever before: when, and the share."""
        self.pids: tuple[int, ...] = ()
        self._threads: dict[tuple[int, str], _Thread] = {}
        self._listed = -math.inf
        self._looked = -math.inf

    def look(self, now: float, *, starting: bool) -> None:
        """Take in what its threads have run and waited since the last look.

        Args:
            now: The time, in seconds.
            starting: Whether it only starts, and new threads and processes matter at once.
        """
        if starting or now - self._listed >= _LIST_SECONDS:
            self._listed = now
            self._list()
        ran = waited = 0
        for thread in self._threads.values():
            more, longer = thread.look()
            ran += more
            waited += longer
        if now > self._looked > -math.inf:
            self.window.take(self._looked, now, ran=ran, waited=waited)
        self._looked = now

    def _list(self) -> None:
        """Find out which threads there are now."""
        self.pids = tuple(self.unit.processes())
        there = [(pid, thread) for pid in self.pids for thread in _threads(pid)]
        for gone in self._threads.keys() - there:
            self._threads.pop(gone).close()
        for key in there:
            if key not in self._threads:
                self._threads[key] = _Thread(*key, keep=len(self._threads) < _MOST_OPEN)

    def close(self) -> None:
        """Give back what is open."""
        for thread in self._threads.values():
            thread.close()
        self._threads.clear()

    def note(self, now: float, stretches: Sequence[Stretch], tick: float) -> None:
        """Note the share that was waited for of the tick that ends now, if it is the largest so far.

        Args:
            now: The time, in seconds.
            stretches: What it and the game did in the tick.
            tick: How long that is.
        """
        most = self.peaks[-1][1] if self.peaks else 0.0
        ran = sum((at.end - at.begin) * at.ran for at in stretches)
        waited = sum((at.end - at.begin) * at.waited for at in stretches)
        if waited <= most * (tick - ran):
            return  # nor would it be more if what overlaps counted once, which costs more to tell
        share = spare_share(tick, *together(stretches))
        if share > most:
            self.peaks.append((now, share))

    def worst(self, until: float) -> float:
        """The largest share in any tick up to then."""
        return max((share for when, share in self.peaks if when <= until), default=0.0)


def spare_share(tick: float, ran: float, waited: float) -> float:
    """The share of what there was to spare in a tick that was waited for; 0 for who runs through all of it anyway."""
    return waited / (tick - ran) if ran < _MOST_RUNNING * tick else 0.0


class StarvationMeter:
    """Watches a game and its players while they play.

    Args:
        game: The game, which has been started.
        players: Its players; they may start later.
        tick: Seconds within which the game wants its answers.
    """

    _watching: ClassVar[set[int]] = set()
    """All that look, who share what looking may cost."""

    def __init__(self, game: Unit, players: Sequence[Unit], *, tick: float) -> None:
        self._game = _Track(game, tick)
        self._players = [_Track(player, tick) for player in players]
        self._tick = tick
        self._looked = time.monotonic()
        self._connections: Connections | None = None
        self._began: float | None = None
        """When the last player was connected, which is when play may begin."""
        self._first = math.inf
        """When a whole tick of play was first looked at."""

    async def run(self) -> None:
        """Look again and again, until cancelled.

        In a thread, for on a busy machine the event loop comes too seldom to see what happens between.
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
                self.look()
                cost = time.thread_time() - cost
                pause = max(usual, _LOOK_SHARE * len(self._watching) * cost) if plays else _UNTIL_PLAY_SECONDS
        finally:
            for track in (self._game, *self._players):
                track.close()

    def look(self) -> None:
        """Look once."""
        now, last = time.monotonic(), self._looked
        self._looked = now
        if self._connections is None:
            self._connections = Connections(int(self._game.unit.endpoint().there.rpartition(":")[2]))
        tracks = [self._game, *self._players]
        for track in tracks:
            track.look(now, starting=self._began is None)
        if self._began is None:
            alone = [player for player in self._players if not player.connected]
            there = self._connections.of(pid for player in alone for pid in player.pids)
            for player in alone:
                player.connected = not there.isdisjoint(player.pids)
        if self._began is None and self._players and all(player.connected for player in self._players):
            # it may have been so ever since the last look
            self._began = last
        if self._began is not None and now - self._tick >= self._began:
            self._first = min(self._first, now)
            stretches = self._game.window.last(now)
            for player in self._players:
                player.note(now, [*stretches, *player.window.last(now)], self._tick)

    def missing(self) -> tuple[Unit, ...]:
        """Players whose processes can be seen, and that have not connected yet."""
        return tuple(track.unit for track in self._players if track.pids and not track.connected)

    def read(self) -> StarvationRecord | None:
        """What has been seen of the play; None where nothing could be seen of it, or nobody has played."""
        if self._began is None:
            return None
        until = _written(self._game.unit)
        if until - self._began > 2 * self._tick and not self._first < until:
            return None  # no tick of it was seen: whoever looks may be kept from the processor, too
        worst = max(self._players, key=lambda player: player.worst(until))
        share = worst.worst(until)
        return StarvationRecord(
            starved=share >= STARVED_SHARE,
            waited_share=round(share, 4),
            threshold=STARVED_SHARE,
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
    """When the results were last written, on the monotonic clock; now, when that cannot be seen."""
    now = time.monotonic()
    if game.spec.directory is None:
        return now
    try:
        written = (game.spec.directory / "results.json").lstat().st_mtime
    except OSError:
        return now
    return min(now, now - (time.time() - written))
