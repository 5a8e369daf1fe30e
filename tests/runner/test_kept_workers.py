"""Worker processes that stay between measurements: the same results, of few processes that are current."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from support.waiting import until

from coworld_core.episode.record import read_rows
from coworld_runner.evaluation import EvaluationRules, compare, keep_workers, scrimmage
from coworld_runner.package.resolver import Package, resolve_package
from coworld_runner.runs.scratch import find_scratch

NIM = Path(__file__).parents[2] / "examples" / "nim"
RULES = EvaluationRules(seed=7, max_blocks=20)


@pytest.fixture
async def nim(tmp_path: Path) -> Package:
    shutil.copytree(NIM, tmp_path / "nim", ignore=shutil.ignore_patterns("__pycache__", "results"))
    return await resolve_package(tmp_path / "nim")


def _processes(program: str) -> set[int]:
    """The processes below this one that run a program of the kit."""
    found: set[int] = set()
    for process in psutil.Process().children(recursive=True):
        try:
            if f"coworld_runner.kit.rollout.{program}" in process.cmdline():
                found.add(process.pid)
        except psutil.Error:
            continue
    return found


def _workers() -> set[int]:
    return {pid for pid in _processes("match_program") if psutil.Process(pid).cmdline()[1] == "-m"}


def _runs(pid: int) -> bool:
    """Whether a process has not yet ended; it has no command line a moment before."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_the_next_measurement_has_the_same_processes_and_results(nim: Package, tmp_path: Path) -> None:
    before = len(find_scratch())
    async with keep_workers():
        await compare(nim, "counter", "random-taker", rules=RULES, workspace=tmp_path / "first", parallel=1)
        workers = _workers()
        assert len(workers) == 1
        async with keep_workers():
            await compare(nim, "counter", "random-taker", rules=RULES, workspace=tmp_path / "second", parallel=1)
        assert _workers() == workers
        # One that has died is replaced
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not any(_runs(pid) for pid in workers), what="its end")
        await compare(nim, "counter", "random-taker", rules=RULES, workspace=tmp_path / "third", parallel=1)
        assert len(_workers()) == 1
    assert not _processes("match_program")
    assert not _processes("bot_process")
    assert len(find_scratch()) == before
    alone = tmp_path / "alone"
    await compare(nim, "counter", "random-taker", rules=RULES, workspace=alone, parallel=1)
    for name in ("first", "second", "third"):
        assert (tmp_path / name / "report.json").read_bytes() == (alone / "report.json").read_bytes()
        assert [(row.key, row.scores, row.workspace, row.replay_sha256) for row in read_rows(tmp_path / name)] == [
            (row.key, row.scores, row.workspace, row.replay_sha256) for row in read_rows(alone)
        ]


async def test_what_has_changed_is_loaded_anew(nim: Package, tmp_path: Path) -> None:
    rules, bot = tmp_path / "nim" / "nim.py", tmp_path / "bot.py"
    bot.write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    async with keep_workers():
        for out in ("first", "second"):
            await scrimmage(nim, bot, episodes=2, rules=RULES, workspace=tmp_path / out, parallel=1)
            bot.write_text("def act(observation, legal, rng):\n    raise SystemExit(3)\n")
        assert all(row.ok for row in read_rows(tmp_path / "first"))
        assert not any(row.ok for row in read_rows(tmp_path / "second"))
        workers = _workers()
        rules.write_text(f"{rules.read_text()}\n# changed\n")
        await scrimmage(nim, "counter", episodes=2, rules=RULES, workspace=tmp_path / "third", parallel=1)
        changed = _workers() - workers
        assert len(changed) == 1
        # Of those that are for nothing any more, one stays at most
        for number in range(2):
            rules.write_text(f"{rules.read_text()}\n# changed {number}\n")
            await scrimmage(nim, "counter", episodes=2, rules=RULES, workspace=tmp_path / f"more{number}", parallel=1)
        assert len(_workers()) == 2


async def test_processes_of_players_do_not_become_more_and_more(nim: Package, tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    counts: list[int] = []
    async with keep_workers():
        for number in range(8):
            bot.write_text(f"def act(observation, legal, rng):\n    return legal[0]  # {number}\n")
            await scrimmage(nim, bot, episodes=2, rules=RULES, workspace=tmp_path / str(number), parallel=1)
            counts.append(len(_processes("bot_process")))
    assert len(set(counts[-3:])) == 1, counts
    assert counts[-1] <= 6, counts
