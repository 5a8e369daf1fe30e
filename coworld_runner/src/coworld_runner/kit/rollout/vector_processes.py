"""Games of a vector environment in this process, or in several that share the memory of the rows."""

from __future__ import annotations

import gc
import mmap
import pickle
import traceback
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol, cast

from coworld_core.errors import CoworldError, EnvironmentFault, UsageError

from ...backends.process.child_process import ChildProcess
from .episode_rollout import SeatPolicies, several
from .job_process import died, job_letter, job_process, portable
from .process_pipes import memory_file
from .vector_games import GameRows, VectorGames, VectorSpec

__all__ = ["PlayedGames", "played_games"]

_DONE: Final = b"."
"""What a process says if there is nothing to say."""
_MORE: Final = b"!"
"""What it says before a pickle of what there is."""
_STEP: Final = b"s"
_RESET: Final = b"r"
_DRAW: Final = b"d"


class PlayedGames(Protocol):
    """Games, wherever they are played.

    Attributes:
        rows: The rows of all games.
        closed: Whether they are over for good.
    """

    rows: GameRows
    closed: bool

    def reset(self, seeds: Sequence[int | None], chosen: Sequence[bool] | None, opponents: SeatPolicies | None) -> None:
        """Begin games, as `VectorGames.reset`."""
        ...

    def step(self) -> dict[int, str]:
        """Play on, as `VectorGames.step`."""
        ...

    def draw(self) -> list[str]:
        """The boards, as `VectorGames.draw`."""
        ...

    def close(self) -> None:
        """Stop everything."""
        ...


def played_games(spec: VectorSpec, games: int, *, processes: int) -> PlayedGames:
    """Get games ready.

    Args:
        spec: What is played.
        games: Number of games.
        processes: Number of processes; 1: this one.

    Raises:
        UsageError: There is no such opponent, or something cannot be sent to other processes.
        EnvironmentFault: A process died.
    """
    if processes < 1:
        raise UsageError(f"processes must not be below 1, got {processes}.", code="bad_count")
    count = min(processes, games)
    return _Here(spec, games) if count == 1 else _Elsewhere(spec, games, count)


class _Here:
    """Games in this process."""

    def __init__(self, spec: VectorSpec, games: int) -> None:
        self.closed = False
        self.rows = GameRows(spec, games, bytearray(GameRows(spec, games).size))
        self._games = VectorGames(spec, self.rows, games)
        self._end = weakref.finalize(self, self._games.close)

    def reset(self, seeds: Sequence[int | None], chosen: Sequence[bool] | None, opponents: SeatPolicies | None) -> None:
        self._games.reset(seeds, chosen, opponents)

    def step(self) -> dict[int, str]:
        return self._games.step()

    def draw(self) -> list[str]:
        return self._games.draw()

    def close(self) -> None:
        self.closed = True
        self._end()


@dataclass(frozen=True, kw_only=True)
class _VectorJob:
    """The share of one process; `memory` is a file that it is given."""

    spec: VectorSpec
    games: int
    memory: int

    def share(self, number: int, count: int) -> tuple[int, int]:
        """The first game of a process, and the one after its last."""
        return number * self.games // count, (number + 1) * self.games // count

    def work(self, number: int, count: int, *, commands: BinaryIO, out: BinaryIO) -> None:
        """Play when told, until there is nothing more to be told."""
        first, last = self.share(number, count)

        def say(what: object = None) -> None:
            out.write(_MORE + pickle.dumps(what) if what else _DONE)
            out.flush()

        try:
            size = GameRows(self.spec, self.games).size
            rows = GameRows(self.spec, self.games, mmap.mmap(self.memory, size)).part(first, last)
            with closing(VectorGames(self.spec, rows, last - first)) as games:
                # Games make many short-lived values, and the rest stays as it is.
                gc.freeze()
                gc.set_threshold(50_000)
                say()
                while word := commands.read(1):
                    match word:
                        case b"s":
                            say({first * self.spec.rows + row: why for row, why in games.step().items()})
                        case b"r":
                            games.reset(*pickle.load(commands))  # noqa: S301 - it is our own process
                            say()
                        case _:
                            say(games.draw())
        except CoworldError as error:
            say(error)
        except Exception as error:  # noqa: BLE001
            # A user's own function, to encode observations say, may raise anything.
            problem = "".join(traceback.format_exception_only(error)).strip()
            fault = EnvironmentFault(f"A worker process has failed: {problem}.", code="process_died")
            fault.add_note("".join(traceback.format_tb(error.__traceback__)))
            say(fault)


class _Elsewhere:
    """Games in processes of their own."""

    def __init__(self, spec: VectorSpec, games: int, count: int) -> None:
        self.closed = False
        size = GameRows(spec, games).size
        with ExitStack() as stack:
            file = stack.enter_context(memory_file(size))
            # Without a close of its own: it lasts as long as arrays look into it.
            self.rows = GameRows(spec, games, mmap.mmap(file.fileno(), size))
            self._job = _VectorJob(spec=spec, games=games, memory=file.fileno())
            letter = job_letter(self._job, [spec.rules, *_each(spec.opponents), spec.encoding])
            self._workers = [
                stack.enter_context(job_process(letter, number, count, files=[file.fileno()]))
                for number in range(count)
            ]
            for worker in self._workers:
                _answer(worker)
            self._end = weakref.finalize(self, stack.pop_all().close)

    def reset(self, seeds: Sequence[int | None], chosen: Sequence[bool] | None, opponents: SeatPolicies | None) -> None:
        if opponents is not None:
            portable(_each(opponents))
        letters: list[bytes] = []
        for first, last in self._shares():
            share = (seeds[first:last], None if chosen is None else chosen[first:last], opponents)
            letters.append(_RESET + pickle.dumps(share))
        self._asked(letters)

    def step(self) -> dict[int, str]:
        refused: dict[int, str] = {}
        for one in self._asked([_STEP] * len(self._workers)):
            refused |= one or {}
        return refused

    def draw(self) -> list[str]:
        return [board for boards in self._asked([_DRAW] * len(self._workers)) for board in boards]

    def close(self) -> None:
        self.closed = True
        self._end()

    def _shares(self) -> Iterator[tuple[int, int]]:
        count = len(self._workers)
        return iter([self._job.share(number, count) for number in range(count)])

    def _asked(self, letters: Sequence[bytes]) -> list[Any]:
        """Tell all processes something, and wait for their answers; after any failure they are ended."""
        try:
            for worker, letter in zip(self._workers, letters, strict=True):
                # A process that has already ended is reported when its answer is read.
                with suppress(BrokenPipeError):
                    worker.stdin.write(letter)
                    worker.stdin.flush()
            return [_answer(worker) for worker in self._workers]
        except BaseException:
            self.close()
            raise


def _answer(worker: ChildProcess) -> Any:
    said = worker.stdout.read(1)
    if said == _DONE:
        return None
    try:
        more = pickle.load(worker.stdout) if said else None  # noqa: S301 - it is our own process
    except (EOFError, pickle.UnpicklingError):
        said = b""
        more = None
    if not said:
        raise died(worker, "") from None
    if isinstance(more, CoworldError):
        raise more
    return more


def _each(policies: SeatPolicies) -> list[Any]:
    return list(cast("Any", policies)) if several(policies) else [policies]
