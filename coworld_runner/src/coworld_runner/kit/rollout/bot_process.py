"""`python -m coworld_runner.kit.rollout.bot_process FD NAME`: plays a player's seat in many episodes, by messages.

What is asked is in `bot_messages`. The first message that it sends says how the player was loaded. A `plain` player's
file runs again for each episode in this process. Any other gets a process of its own for each episode: this process
forks one for each file descriptor that it receives.
"""

from __future__ import annotations

import builtins
import gc
import inspect
import io
import json
import marshal
import os
import random
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from coworld_core.player_seeds import PLAYER_SEED_ENV
from coworld_core.rules import ActionRefused, load_player
from coworld_core.rules.plain_values import action_text, is_same_json
from coworld_core.rules.player_loader import is_session, player_in, seated
from coworld_core.rules.seat_talk import SeatTalk, takes_talk
from coworld_core.rules.seat_wire import MAX_REFUSED

from ...backends.process._shim import descendants, keep_together, kill_descendants, kill_group
from .bot_messages import ACT, ACTION, AGAIN, CHOICE, DONE, END, FAILED, NEW, PASSED, Frames, framed
from .plain_players import is_plain

__all__ = ["main"]

FLUSH: Final = 5_000_000
"""Nanoseconds after which finished answers are sent while others are still pending."""

CHEAP: Final = 0.002
"""Seconds of processor time that the file of a plain player may take to run: beyond that, a fork is quicker."""

MAX_PRINTED: Final = 4096
"""Maximum number of characters of what a player prints in an episode that are kept."""

_UNCHANGED: Final = frozenset({str, int, float, bool})


class _Printed(io.TextIOBase):
    """What the player of the present episode prints."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def write(self, text: str, /) -> int:
        self.pieces.append(text[-MAX_PRINTED:])
        if len(self.pieces) > 100:
            self.pieces[:] = ["".join(self.pieces)[-MAX_PRINTED:]]
        return len(text)

    def take(self) -> str:
        text = "".join(self.pieces)[-MAX_PRINTED:]
        self.pieces.clear()
        return text


PRINTED: Final = _Printed()

SPOKEN: Final[list[tuple[str, str | int]]] = []
"""What the player of the present episode says to other seats."""


class _Ended(Exception):
    """The player's program has ended."""

    def __init__(self, status: int, problem: str = "") -> None:
        self.status = status
        self.problem = problem


def _ended_by(error: BaseException) -> _Ended:
    """What became of the program that raised an exception; its traceback is printed."""
    if isinstance(error, SystemExit):
        code = error.code
        if code is not None and not isinstance(code, int):
            PRINTED.write(f"{code}\n")
        return _Ended(0 if code is None else code & 0xFF if isinstance(code, int) else 1)
    if isinstance(error, KeyboardInterrupt):
        return _Ended(130)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") == __name__:
        trace = trace.tb_next
    PRINTED.write("".join(traceback.format_exception(type(error), error, trace)))
    return _Ended(1, f"{type(error).__name__}: {error}")


class _Loop:
    """The event loop of asynchronous players, opened when it is first needed."""

    _loop: Any = None

    def finish(self, answer: Any) -> Any:
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(answer)


_LOOP: Final = _Loop()


def _called(function: Any, *arguments: Any) -> Any:
    """Call a function of the player.

    Raises:
        _Ended: It has raised an exception.
    """
    try:
        answer = function(*arguments)
        return _LOOP.finish(answer) if inspect.isawaitable(answer) else answer
    except BaseException as error:  # noqa: BLE001 - whatever a player raises ends its program
        raise _ended_by(error) from None


class _Seat:
    """A player in one episode."""

    __slots__ = ("act", "left", "over", "player", "refused", "rng", "seen", "talk")

    def __init__(self, form: Any, seed: int, hello: str | None) -> None:
        player = _called(seated, form)
        self.act: Any = getattr(player, "act", player)
        self.over: Any = getattr(player, "over", None)
        self.rng = random.Random(seed)
        self.refused = 0
        self.seen: Any = None
        self.talk = SeatTalk() if takes_talk(self.act) else None
        start = getattr(player, "start", None)
        if start is not None and hello is not None:
            _called(start, json.loads(hello))

    def refuse(self, reason: str) -> None:
        PRINTED.write(f"refused: {reason}\n")
        self.refused += 1
        if self.refused > MAX_REFUSED:
            PRINTED.write(f"{self.refused} actions were refused, the last one: {reason}.\n")
            raise _Ended(1)

    def speak(self, talk: SeatTalk) -> None:
        """Take in what it says to other seats."""
        words, talk.words = talk.words, []
        # A player may have put anything there, which must not spoil the answers of other episodes
        SPOKEN.extend(one for one in words if _is_plain_pair(one))

    def choose(self, given: bytes | None) -> tuple[int, Any]:
        """The kind of the answer, and the index of a legal action or an action as JSON text."""
        act, rng = self.act, self.rng
        while True:
            legal: list[Any] | None = None if given is None else marshal.loads(given)  # noqa: S302 - it is the rules'
            try:
                answer = act(self.seen, legal, rng) if self.talk is None else act(self.seen, legal, rng, self.talk)
                # A test that is quicker than that of `inspect`
                if hasattr(answer, "__await__"):
                    answer = _LOOP.finish(answer)
            except BaseException as error:  # noqa: BLE001 - whatever a player raises ends its program
                raise _ended_by(error) from None
            if self.talk is not None and self.talk.words:
                self.speak(self.talk)
            if answer is None and (legal is None or None not in legal):
                return PASSED, None
            if legal is not None and (index := _index(answer, legal, given)) is not None:
                return CHOICE, index
            try:
                return ACTION, action_text(answer)
            except ActionRefused as refused:
                self.refuse(refused.message)


def _is_plain_pair(value: Any) -> bool:
    match value:
        case (str(), str() | int()):
            return True
        case _:
            return False


def _index(answer: Any, legal: list[Any], given: bytes | None) -> int | None:
    """The index of an action among the legal ones; None if it is not certainly one of them."""
    kind: Any = type(answer)  # pyright: ignore[reportUnknownVariableType]
    for index, one in enumerate(legal):
        if one is answer:
            if kind in _UNCHANGED:
                return index
            # The player may have changed it
            return index if is_same_json(answer, marshal.loads(given or b"")[index]) else None  # noqa: S302
    if kind is dict:
        for index, one in enumerate(legal):
            if type(one) is dict and one.keys() == answer.keys() and is_same_json(answer, one):
                return index
    return None


def _seeds(source: bytes) -> bool:
    return b"seed" in source or b"setstate" in source


class _Player:
    """The player of this process.

    Args:
        name: Its file, or the file and what is in it, or a module.
        mode: `plain`: a plain player plays in this process; `apart`: each episode gets a process of its own, `each`:
            which also loads the player.
    """

    def __init__(self, name: str, mode: str) -> None:
        self._name = name
        place, _, _ = name.partition(":")
        source = Path(place).read_bytes() if place.endswith(".py") else b""
        near = {path.stem: path for path in Path(place).parent.glob("*.py")} if source else {}
        alone = bool(source) and mode == "plain" and is_plain(source, beside=near)
        self.plain = alone
        self._code: CodeType | None = None
        self._form: Any = None
        self._module = ""
        # Libraries may keep the state that a seed has set
        seeds = mode == "each" or not source or any(_seeds(path.read_bytes()) for path in near.values())
        if seeds and not alone:
            return
        self._form = load_player(name, alone=True)
        if not alone:
            return
        self._module = getattr(self._form, "__module__", "") or Path(place).stem
        self._code = compile(source, place, "exec", dont_inherit=True)
        began = time.process_time()
        self.form()
        self.plain = time.process_time() - began < CHEAP

    @property
    def description(self) -> dict[str, Any]:
        """What the rules need to know about it."""
        form = self.form()
        return {
            "plain": self.plain,
            "session": is_session(form),
            "starts": hasattr(form, "start"),
            "ends": hasattr(form, "over"),
        }

    @property
    def loaded(self) -> bool:
        """Whether the player is in this process; otherwise each episode's process loads it."""
        return self._form is not None

    def form(self) -> Any:
        """The player as a process that has just started has it."""
        if self._code is None:
            self._form = self._form or load_player(self._name, alone=True)
            return self._form
        module = ModuleType(self._module)
        known = sys.modules[self._module]
        vars(module).update(__file__=known.__file__, __spec__=known.__spec__, __builtins__=vars(builtins))
        sys.modules[self._module] = module
        exec(self._code, vars(module))  # noqa: S102 - it is the player
        return player_in(module, self._name)


def _serve(player: _Player, own: socket.socket) -> None:
    """Answer until the rules close the connection."""
    seats: dict[int, _Seat] = {}
    frames = Frames()
    waits = _Waits()
    while piece := own.recv(1 << 18):
        for content in frames.feed(piece):
            answers: list[tuple[Any, ...]] = []
            sent = began = time.perf_counter_ns()
            waits.look()
            for request in marshal.loads(content):  # noqa: S302 - it is the rules'
                number = request[1]
                try:
                    kind, value = _answer(player, seats, request)
                except _Ended as ended:
                    seats.pop(number, None)
                    kind, value = FAILED, (ended.status, ended.problem)
                now = time.perf_counter_ns()
                used = now - began
                if used > 1_000_000:
                    used = max(used - waits.look(), 0)
                answer = (number, kind, value, used)
                if SPOKEN:
                    answers.append((*answer, PRINTED.take(), SPOKEN.copy()))
                    SPOKEN.clear()
                else:
                    answers.append((*answer, PRINTED.take()) if PRINTED.pieces else answer)
                if now - sent > FLUSH:
                    own.sendall(framed(json.dumps(answers).encode()))
                    answers = []
                    now = sent = time.perf_counter_ns()
                began = now
            if answers:
                own.sendall(framed(json.dumps(answers).encode()))


def _answer(player: _Player, seats: dict[int, _Seat], request: tuple[Any, ...]) -> tuple[int, Any]:
    kind, number, *more = request
    if kind in (ACT, AGAIN):
        seat = seats.get(number)
        if seat is None:
            # It has failed at the beginning, as the rules will soon know
            return DONE, None
        if kind == ACT:
            seat.seen = more[0]
            if seat.talk is not None:
                seat.talk.heard = more[2] if len(more) > 2 else []
        else:
            seat.refuse(more[0])
        return seat.choose(more[1])
    if kind == NEW:
        os.environ[PLAYER_SEED_ENV] = str(more[0])
        seats[number] = _Seat(_called(player.form), *more)
    elif kind == END:
        seat = seats.pop(number, None)
        if seat is not None and seat.over is not None and more[0] is not None:
            _called(seat.over, more[0])
    return DONE, None


class _Waits:
    """How long this process has waited for a processor, where the kernel says that."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1
        self._last = 0

    def look(self) -> int:
        """Nanoseconds since the last look."""
        if self._file < 0:
            return 0
        now = int(os.pread(self._file, 100, 0).split()[1])
        waited, self._last = now - self._last, now
        return waited


class _Episodes:
    """The processes of episodes, and how those have ended that failed."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._ended: dict[int, int] = {}

    def add(self, process: int) -> None:
        self._known.add(process)

    def bury(self) -> None:
        """Take in which processes have ended, and kill what they have left."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._bury(*found)

    def status(self, process: int) -> int:
        """How a process has ended, or ends."""
        if process in self._known:
            with suppress(ChildProcessError):
                self._bury(*os.waitpid(process, 0))
        return os.waitstatus_to_exitcode(self._ended.pop(process, 0))

    def _bury(self, process: int, status: int) -> None:
        if process not in self._known:
            return
        self._known.discard(process)
        if status:
            self._ended[process] = status
        # Each has a group of its own; what has left it is now below this process
        kill_group(process)
        kill_descendants(os.getpid(), self._known)


def _fork_for_each(player: _Player, control: socket.socket) -> None:
    """Fork a process for each connection that arrives, and say how those end that are asked for."""
    episodes = _Episodes()
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        ready, _, _ = select.select([control, wake], [], [])
        if wake in ready:
            with suppress(BlockingIOError):
                os.read(wake, 1 << 12)
            episodes.bury()
        if control not in ready:
            continue
        message, files, _, _ = socket.recv_fds(control, 64, 1)
        if not message:
            return
        if files:
            process = os.fork()
            if not process:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                os.close(wake)
                os.close(woken)
                _apart(player, files[0])
            episodes.add(process)
            os.close(files[0])
            control.sendall(framed(b"%d" % process))
        else:
            control.sendall(framed(b"%d" % episodes.status(int(message))))


def _apart(player: _Player, file: int) -> None:
    """Play one episode in a process of its own, with a session and thus a group of its own."""
    os.setsid()
    keep_together()
    numbers = sys.modules.get("numpy")
    if numbers is not None and player.loaded:
        # Python does so for its own random numbers
        numbers.random.seed()
    try:
        with socket.socket(fileno=file) as own:
            _serve(player, own)
    except BaseException:  # noqa: BLE001 - the rules have gone, or what the player did to this process
        os._exit(1)
    os._exit(0)


def _tried(player: _Player) -> dict[str, Any]:
    """What is told about a player, by a process that loads it: nothing of it stays in this one."""
    read, write = os.pipe()
    process = os.fork()
    if not process:
        told: dict[str, Any]
        try:
            told = player.description
        except BaseException as error:  # noqa: BLE001 - whatever it raises ends its program
            told = {"status": _ended_by(error).status}
        with os.fdopen(write, "w") as out:
            out.write(json.dumps({**told, "said": PRINTED.take()}) + "\n")
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        # Not to the end of the pipe: what the player has started may hold it open
        text = answer.readline()
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    kill_descendants(os.getpid())
    told = json.loads(text) if text else {"status": status}
    PRINTED.write(told.pop("said", ""))
    return told


def main() -> None:
    """Load the player, say how that went, and play until the rules close the connection."""
    file, mode, name = sys.argv[1:]
    keep_together()
    sys.stdout = sys.stderr = PRINTED
    with socket.socket(fileno=int(file)) as own:
        told: dict[str, Any]
        player: _Player | None = None
        try:
            player = _Player(name, mode)
            if player.loaded and descendants(os.getpid()):
                # What the file has started is for one episode, and not to be shared
                kill_descendants(os.getpid())
                os.execv(sys.executable, [*sys.orig_argv[:-3], file, "each", name])  # noqa: S606
            told = player.description if player.loaded else _tried(player)
        except BaseException as error:  # noqa: BLE001 - whatever it raises ends its program
            told = {"status": _ended_by(error).status}
        gc.collect()
        gc.freeze()
        own.sendall(framed(json.dumps({**told, "said": PRINTED.take()}).encode()))
        if player is None:
            kill_descendants(os.getpid())
            return
        if player.plain:
            _serve(player, own)
        else:
            _fork_for_each(player, own)


if __name__ == "__main__":
    main()
