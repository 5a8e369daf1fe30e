"""Plays many episodes of rules, in this process or in several."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

from coworld_core.errors import CoworldError, UsageError
from coworld_core.rules import Rules, RulesConfig

from ...backends.process.child_process import ChildProcess
from ...package.random_player import RANDOM
from .episode_rollout import PolicyTable, Rollout, SeatPolicies, new_seed, several
from .job_process import died, job_letter, job_process

__all__ = ["rollouts"]

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
    seed: int | None = None,
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
        seed: The seed of the first episode; None: a random one.
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
    job = _Job(
        rules=rules,
        policies=policies,
        config=config,
        seats=seats,
        seed=new_seed() if seed is None else seed,
        record=record,
        episodes=episodes,
    )
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

    def work(self, number: int, count: int, *, commands: BinaryIO, out: BinaryIO) -> None:
        """Play every count-th episode, and write the results."""
        played: list[Rollout] = []
        last: CoworldError | None = None

        def hand_over(what: object) -> None:
            pickle.dump(what, out)
            out.flush()

        try:
            with self.table() as table:
                since = time.monotonic()
                for index in range(number, self.episodes, count):
                    played.append(table.play(self.seed + index, record=self.record))
                    if time.monotonic() - since > SECONDS:
                        hand_over(played)
                        played, since = [], time.monotonic()
        except CoworldError as error:
            last = error
        for what in (played, last):
            if what:
                hand_over(what)


def _alone(job: _Job) -> Generator[Rollout]:
    with job.table() as table:
        for index in range(job.episodes):
            yield table.play(job.seed + index, record=job.record)


def _together(job: _Job, count: int) -> Generator[Rollout]:
    policies = cast("list[Any]", job.policies) if several(job.policies) else [job.policies]
    letter = job_letter(job, [job.rules, *policies])
    # Report invalid arguments here rather than from each process.
    with job.table():
        pass
    with ExitStack() as stack:
        workers = [stack.enter_context(job_process(letter, number, count)) for number in range(count)]
        waiting: list[deque[Rollout]] = [deque() for _ in workers]
        for index in range(job.episodes):
            played = waiting[index % count]
            if not played:
                played.extend(_received(workers[index % count], job.seed + index))
            yield played.popleft()


def _received(worker: ChildProcess, seed: int) -> list[Rollout]:
    try:
        said: list[Rollout] | CoworldError = pickle.load(worker.stdout)  # noqa: S301 - it is our own process
    except (EOFError, pickle.UnpicklingError):
        raise died(worker, f", at the episode with seed {seed} or later") from None
    if isinstance(said, CoworldError):
        raise said
    return said
