"""Finds the calls that rules must not make, while they are played: clocks, files, sockets, threads, other chance."""

from __future__ import annotations

import datetime
import gc
import io
import os
import random
import sys
import sysconfig
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

__all__ = ["FORBIDDEN", "watched"]

FORBIDDEN: Final = {
    "rules_read_clock": "a clock is read",
    "rules_use_files": "a file is opened",
    "rules_use_sockets": "a socket is opened",
    "rules_use_threads": "a thread or a process is started",
    "rules_use_global_random": "random numbers other than those of `rng` are used",
    "rules_read_environment": "an environment variable is read",
    "rules_look_at_callers": "the calls that lead to the rules are looked at",
}
"""Codes of the calls, with their meanings."""

Note = Callable[[str, str, str, int], object]
"""Receives the code, the function that is called, and the file and line that call it."""

_STDLIB: Final = ("<frozen ", *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_SITES: Final = ("site-packages", "dist-packages")


@contextmanager
def watched(tell: Note) -> Generator[None]:
    """Tell of every call that rules must not make, once per line."""
    known: set[tuple[str, str, int]] = set()

    def note(code: str, called: str, frame: FrameType | None) -> None:
        place = _place(frame)
        if place is not None and (code, *place) not in known:
            known.add((code, *place))
            tell(code, called, *place)

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            if (argument is os.urandom or argument in _FILES or _starts(argument)) and _by_library(frame):
                # Libraries open their own files, have threads of their own, and seed themselves from the system until
                # they are given a seed. One that is never given a seed is found by its effect: a different game.
                return
            if argument is _GET_FRAME and not frame.f_code.co_filename.endswith(_LOOKERS) and _in_library(frame):
                # Classes and log records name the module that they come from
                return
            if code := _of_builtin(argument):
                note(code, getattr(argument, "__qualname__", str(argument)), frame)
        elif event == "call" and (code := _of_function(frame)):
            if code == "rules_read_environment" and _by_library(frame.f_back):
                return
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
_STARTS: Final = frozenset(
    {
        *(("_thread", name) for name in ("start_new_thread", "start_joinable_thread")),
        *(("posix", name) for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system")),
        ("_posixsubprocess", "fork_exec"),
    }
)
"""Functions that start a thread or a process, by module and name: not every one is imported, or exists everywhere."""
_GLOBAL: Final[object] = getattr(random.random, "__self__", None)
_SEED: Final = random.Random.seed.__code__
_ENVIRONMENT: Final = type(os.environ).__getitem__.__code__
_GET_FRAME: Final[object] = vars(sys)["_getframe"]
_LOOKERS: Final = ("/inspect.py", "/traceback.py")
"""Files of the standard library whose callers look at the calls that lead to them."""
# By name, because this package must not import sockets.
_SOCKET: Final = ("socket.__init__", f"{sysconfig.get_path('stdlib')}/socket.py")


def _of_builtin(function: Any) -> str | None:
    owner = getattr(function, "__self__", None)
    if function in _CLOCKS:
        return "rules_read_clock"
    # By identity: the operands may be anything, and arrays compare item by item.
    if (owner is datetime.datetime or owner is datetime.date) and function.__name__ in ("now", "today", "utcnow"):
        return "rules_read_clock"
    if function is _GET_FRAME:
        return "rules_look_at_callers"
    if function in _FILES:
        return "rules_use_files"
    if _starts(function):
        return "rules_use_threads"
    if owner is _GLOBAL or function is os.urandom:
        return "rules_use_global_random"
    if getattr(function, "__module__", None) == "_socket":
        return "rules_use_sockets"
    return None


def _starts(function: Any) -> bool:
    return (getattr(function, "__module__", None), getattr(function, "__name__", None)) in _STARTS


def _of_function(frame: FrameType) -> str | None:
    code = frame.f_code
    if code is _ENVIRONMENT:
        return "rules_read_environment"
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


def _in_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_STDLIB) or _of_site(frame)


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
