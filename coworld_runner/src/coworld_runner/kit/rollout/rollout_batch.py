"""Plays many episodes of rules, in this process or in several."""

from __future__ import annotations

import pickle
import sys
import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from subprocess import PIPE, Popen
from typing import Any, BinaryIO, Final, cast

from coworld_core.errors import CoworldError, EnvironmentFault, UsageError
from coworld_core.rules import Rules, RulesConfig

from ...package.random_player import RANDOM
from .episode_rollout import PolicyTable, Rollout, SeatPolicies, several

__all__ = ["rollouts", "work"]

SECONDS: Final = 0.05
"""Seconds that a process plays before it hands over its finished episodes."""


def rollouts(
    rules: type[Rules],
    policies: SeatPolicies = RANDOM,
    *,
    episodes: int,
    processes: int = 1,
    config: RulesConfig | Mapping[str, Any] | None = None,
    seats: int | None = None,
    seed: int = 0,
    record: bool = False,
) -> Generator[Rollout]:
    """Play many episodes and yield them in order.

    Episode n, counted from 0, has the seed `seed` + n, so the results do not depend on `processes`, provided that
    policies keep no state between episodes. Closing the generator, for example by leaving the loop, ends the processes,
    as does Ctrl-C.

    Args:
        rules: The game. With several processes, the rules and the policies must be defined in files, because each
            process imports them by name.
        policies: As for `rollout`.
        episodes: Number of episodes.
        processes: Number of processes; 1: only this one. A script that defines the rules or a policy must have
            `if __name__ == "__main__":` around its main code.
        config: As for `rollout`.
        seats: As for `rollout`.
        seed: The seed of the first episode.
        record: Whether to keep replays.

    Raises:
        UsageError: As for `rollout`; or the rules or a policy cannot be sent to another process.
        RulesError: As for `rollout`.
        PolicyError: As for `rollout`.
        EnvironmentFault: A process died.
    """
    if episodes < 0 or processes < 1:
        raise UsageError(
            f"episodes must not be below 0 and processes not below 1, got {episodes} and {processes}.", code="bad_count"
        )
    job = _Job(rules=rules, policies=policies, config=config, seats=seats, seed=seed, record=record, episodes=episodes)
    count = min(processes, episodes)
    return _alone(job) if count <= 1 else _together(job, count)


@dataclass(frozen=True, kw_only=True)
class _Job:
    rules: type[Rules]
    policies: SeatPolicies
    config: RulesConfig | Mapping[str, Any] | None
    seats: int | None
    seed: int
    record: bool
    episodes: int

    def table(self) -> PolicyTable:
        return PolicyTable(self.rules, self.policies, config=self.config, seats=self.seats)


def _alone(job: _Job) -> Generator[Rollout]:
    with job.table() as table:
        for index in range(job.episodes):
            yield table.play(job.seed + index, record=job.record)


def _together(job: _Job, count: int) -> Generator[Rollout]:
    letter = _letter(job)
    # Report invalid arguments here rather than from each process.
    with job.table():
        pass
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(letter, number, count)) for number in range(count)]
        waiting: list[deque[Rollout]] = [deque() for _ in workers]
        for index in range(job.episodes):
            played = waiting[index % count]
            if not played:
                played.extend(_received(workers[index % count], job.seed + index))
            yield played.popleft()


@contextmanager
def _worker(letter: bytes, number: int, count: int) -> Generator[Popen[bytes]]:
    """A process that plays every count-th episode; it is killed at the end of the block.

    `multiprocessing` is not used, because its processes always import this program's `__main__` and leave a helper
    process running. The process has a group of its own, so that Ctrl-C in a terminal reaches only this process.
    """
    command = [sys.executable, "-m", f"{__package__}.rollout_worker", str(number), str(count)]
    with Popen(command, stdin=PIPE, stdout=PIPE, process_group=0) as worker:
        try:
            assert worker.stdin is not None
            # A worker that has already exited is reported when its results are read.
            with suppress(BrokenPipeError):
                worker.stdin.write(letter)
                worker.stdin.flush()
            yield worker
        finally:
            worker.kill()


def _received(worker: Popen[bytes], seed: int) -> list[Rollout]:
    assert worker.stdout is not None
    try:
        said: list[Rollout] | CoworldError = pickle.load(worker.stdout)  # noqa: S301 - it is our own process
    except (EOFError, pickle.UnpicklingError):
        status = worker.wait()
        raise EnvironmentFault(
            f"A worker process has ended with status {status}, at the episode with seed {seed} or later.",
            code="process_died",
            hint="Play with processes=1 to see what happens there.",
        ) from None
    if isinstance(said, CoworldError):
        raise said
    return said


def _letter(job: _Job) -> bytes:
    """Return the message to a worker: its module path, its command line, this program's file if needed, and the job."""
    named: list[Any] = [job.rules, *(cast("list[Any]", job.policies) if several(job.policies) else [job.policies])]
    main: str | None = None
    for one in named:
        problem = None
        if getattr(one, "__module__", None) == "__main__":
            main = getattr(sys.modules["__main__"], "__file__", None)
            problem = None if main else "it is not defined in a file"
        try:
            pickle.dumps(one)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            problem = str(error)
        if problem is not None:
            raise UsageError(
                f"{getattr(one, '__qualname__', None) or repr(one)} cannot be sent to another process: {problem}.",
                code="not_portable",
                hint="Put it into a module of its own, or play with processes=1.",
            )
    # The job is a second pickle: its modules can only be found after the worker has set its path.
    return pickle.dumps((sys.path, sys.argv, main)) + pickle.dumps(job)


def work(job: _Job, number: int, count: int, out: BinaryIO) -> None:
    """Play every count-th episode of a job, and write the results."""
    played: list[Rollout] = []
    last: CoworldError | None = None

    def hand_over(what: object) -> None:
        pickle.dump(what, out)
        out.flush()

    try:
        with job.table() as table:
            since = time.monotonic()
            for index in range(number, job.episodes, count):
                played.append(table.play(job.seed + index, record=job.record))
                if time.monotonic() - since > SECONDS:
                    hand_over(played)
                    played, since = [], time.monotonic()
    except CoworldError as error:
        last = error
    for what in (played, last):
        if what:
            hand_over(what)
