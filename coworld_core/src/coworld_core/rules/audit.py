"""Checks that rules are reproducible: the same seed and actions give the same game, and nothing outside is read."""

from __future__ import annotations

import datetime
import gc
import io
import json
import os
import random
import sys
import sysconfig
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from ..issues import Issue, Report
from .game import Rules, RulesConfig
from .plain_values import to_json
from .play import Play
from .rules_errors import ActionRefused, RulesError

__all__ = ["AUDIT_CODES", "audit_rules"]

AUDIT_CODES: Final = {
    "rules_failed": "the rules raise an exception or return something invalid",
    "rules_not_deterministic": "the same seed and actions gave a different game",
    "rules_change_when_asked": "looking at the game changed it",
    "rules_ignore_seed": "the game uses randomness, but another seed changed nothing",
    "rules_read_clock": "a clock is read",
    "rules_use_files": "a file is opened",
    "rules_use_sockets": "a socket is opened",
    "rules_use_global_random": "random numbers other than those of `rng` are used",
}
"""Codes of an audit's findings, with their meanings."""

_STDLIB: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_SITES: Final = ("site-packages", "dist-packages")


def audit_rules(
    rules: type[Rules],
    *,
    config: RulesConfig | None = None,
    seats: int | None = None,
    seed: int = 1,
    ticks: int = 1000,
    sample: Callable[[random.Random], Any] | None = None,
) -> Report:
    """Play games of random legal actions several times and compare them.

    Whole games, or their first `ticks` ticks, are compared: twice with the same seed, once more observing only the
    end, and with other seeds if `rng` was used. During play, every use of a clock, a file, a socket or random numbers
    other than `rng` is an error, reported with its line. A library may open its own files and seed itself from the
    system, as long as the games are the same. The audit cannot see what C extensions do internally, nor an order that
    depends on string hashes, which differ only between processes. The order in which actions arrive needs
    no check, because `Play` passes them on in the order of seats.

    Args:
        rules: The game.
        config: Its config; by default one with default values only.
        seats: Number of seats; by default the minimum.
        seed: The seed of the compared game and of the actions.
        ticks: Maximum number of ticks to play.
        sample: Returns a random action as JSON, for games whose `legal` returns None; without it, their seats
            miss their turns.

    Returns:
        The findings, with codes from `AUDIT_CODES`; `line` is the line in the file named in the message.
    """

    def run(game_seed: int, script: _Script | None = None, *, looking: bool = True) -> _Script:
        play = Play(rules, config=config, seats=seats, seed=game_seed)
        return _run(play, ticks, script=script, choose=random.Random(seed), sample=sample, looking=looking)

    found: list[Issue] = []
    with _watched(found):
        try:
            first = run(seed)
            if difference := first.difference(run(seed, first)):
                found.append(_issue("rules_not_deterministic", f"The same seed and actions: {difference}"))
            elif difference := first.last().difference(run(seed, first, looking=False)):
                found.append(_issue("rules_change_when_asked", f"Looking only at the end: {difference}"))
            elif first.chance and not any(first.difference(run(seed + n)) for n in range(1, 6)):
                found.append(
                    _issue("rules_ignore_seed", "The game uses randomness, but five other seeds gave the same game.")
                )
        except RulesError as error:
            lines = "".join(f"\n{line}" for line in error.lines)
            found.append(_issue("rules_failed", f"{error.message}{lines}"))
    return Report(source=rules.__name__, issues=tuple(found))


@dataclass
class _Script:
    """The actions of a game and everything seen in it."""

    actions: list[dict[int, Any]] = field(default_factory=list[dict[int, Any]])
    seen: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    chance: bool = False
    begin: int = 0
    """The tick of the first view."""

    def last(self) -> _Script:
        """A script with only the last view."""
        return _Script(seen=self.seen[-1:], begin=self.begin + len(self.seen) - 1)

    def difference(self, other: _Script) -> str | None:
        """Describe the first difference; None if there is none."""
        for tick, (ours, theirs) in enumerate(zip(self.seen, other.seen, strict=False), self.begin):
            for what, value in ours.items():
                if value != theirs.get(what):
                    return f"at tick {tick}, {what} was {value!r} and then {theirs.get(what)!r}."
        return None


def _run(
    play: Play,
    ticks: int,
    *,
    script: _Script | None,
    choose: random.Random,
    sample: Callable[[random.Random], Any] | None,
    looking: bool,
) -> _Script:
    done = _Script()
    while True:
        end = play.over or play.tick >= ticks
        if looking or end:
            done.seen.append(_view(play))
        if end:
            break
        actions = _actions(play, choose, sample) if script is None else script.actions[play.tick]
        done.actions.append(actions)
        try:
            play.step({seat: play.read(seat, action) for seat, action in actions.items()})
        except ActionRefused:
            # The legal actions show that this is a different game.
            break
    done.chance = play.chance_used
    return done


def _actions(play: Play, choose: random.Random, sample: Callable[[random.Random], Any] | None) -> dict[int, Any]:
    actions: dict[int, Any] = {}
    for seat in play.to_act:
        legal = play.legal(seat)
        if legal is not None:
            actions[seat] = json.loads(choose.choice(legal))
        elif sample is not None:
            actions[seat] = sample(choose)
    return actions


def _view(play: Play) -> dict[str, object]:
    frame = play.frame()
    view: dict[str, object] = {"who is to act": frame.to_act, "the drawing": frame.drawing}
    for seat in range(play.seats):
        view[f"the observation of seat {seat}"] = play.observe(seat)
        view[f"what is legal for seat {seat}"] = play.legal(seat)
        view[f"the drawing for seat {seat}"] = play.drawing(seat)
    if play.over:
        view["the results"] = to_json(play.results())
    return view


def _issue(code: str, message: str, line: int | None = None) -> Issue:
    return Issue(code=code, message=message, line=line)


@contextmanager
def _watched(found: list[Issue]) -> Generator[None]:
    """Record every call that rules must not make, once per line."""
    known: set[tuple[str, str, int]] = set()

    def note(code: str, called: str, frame: FrameType | None) -> None:
        place = _place(frame)
        if place is not None and (code, *place) not in known:
            known.add((code, *place))
            path, line = place
            found.append(_issue(code, f"{path}:{line} calls {called}: {AUDIT_CODES[code]}.", line))

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            if (argument is os.urandom or argument in _FILES) and _by_library(frame):
                # Libraries open their own files, and seed themselves from the system until they are given a seed. One
                # that is never given a seed is found by its effect: a different game each time.
                return
            if code := _of_builtin(argument):
                note(code, getattr(argument, "__qualname__", str(argument)), frame)
        elif event == "call" and (code := _of_function(frame)):
            note(code, frame.f_code.co_qualname, frame.f_back)

    before, collecting = sys.getprofile(), gc.isenabled()
    # Garbage collection may happen anywhere, and it runs callbacks of other code.
    gc.disable()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


_CLOCKS: Final = frozenset(
    getattr(time, name)
    for name in (
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "sleep"),
        *("localtime", "gmtime", "thread_time"),
    )
)
_FILES: Final = frozenset({io.open, io.open_code, os.open, os.listdir, os.scandir, os.stat, os.remove, os.mkdir})
_GLOBAL: Final[object] = getattr(random.random, "__self__", None)
_SEED: Final = random.Random.seed.__code__
# By name, because this package must not import sockets.
_SOCKET: Final = ("socket.__init__", f"{sysconfig.get_path('stdlib')}/socket.py")


def _of_builtin(function: Any) -> str | None:
    owner = getattr(function, "__self__", None)
    if function in _CLOCKS:
        return "rules_read_clock"
    # By identity: the operands may be anything, and arrays compare item by item.
    if (owner is datetime.datetime or owner is datetime.date) and function.__name__ in ("now", "today", "utcnow"):
        return "rules_read_clock"
    if function in _FILES:
        return "rules_use_files"
    if owner is _GLOBAL or function is os.urandom:
        return "rules_use_global_random"
    if getattr(function, "__module__", None) == "_socket":
        return "rules_use_sockets"
    return None


def _of_function(frame: FrameType) -> str | None:
    code = frame.f_code
    if (code.co_qualname, code.co_filename) == _SOCKET:
        return "rules_use_sockets"
    if code.co_filename == random.__file__:
        inside = frame.f_locals
        # Without a seed of its own, a generator takes one from the system.
        if inside.get("self") is _GLOBAL or (code is _SEED and inside.get("a") is None):
            return "rules_use_global_random"
    return None


def _by_library(frame: FrameType | None) -> bool:
    """Whether the call comes from a library rather than from the rules; the standard library counts as neither."""
    while frame is not None and frame.f_code.co_filename.startswith(_STDLIB) and not _of_site(frame):
        frame = frame.f_back
    return frame is not None and _of_site(frame)


def _of_site(frame: FrameType) -> bool:
    return any(site in frame.f_code.co_filename for site in _SITES)


def _place(frame: FrameType | None) -> tuple[str, int] | None:
    """The line of the rules that a call comes from, if any: the nearest one outside libraries."""
    library: tuple[str, int] | None = None
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith("<frozen importlib"):
            # An import reads files, and a module may be imported when it is first needed.
            return None
        # By module: the file names of compiled modules are those of the machine that compiled them.
        if f"{frame.f_globals.get('__name__')}.".startswith(f"{__package__}."):
            return library
        if _of_site(frame):
            # A library, or rules installed as one.
            library = (path, frame.f_lineno)
        elif not path.startswith(_STDLIB):
            return (path, frame.f_lineno)
        frame = frame.f_back
    return None
