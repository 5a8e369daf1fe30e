"""Improvements killed with SIGKILL at any moment: no step twice, nothing from the beginning, and a better player."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from support.cli_kit import start_script
from support.full import FULL
from support.killing import kill_amid
from support.launcher import Command

from coworld_core.episode.record import read_rows
from coworld_core.roles.improvement import read_improvement_steps
from coworld_core.roles.improvement_report import read_improvement_report
from coworld_runner.runs.scratch import find_scratch, reap_scratch

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("COWORLD_CHAOS_SEED", str(time.time_ns() % 1_000_000)))
EXAMPLES = Path(__file__).parents[2] / "examples"
KILLS = 3
OPTIMIZER = EXAMPLES / "paintarena" / "src" / "paintarena" / "roles" / "optimizer.py"
STANDS = "from paintarena.players.client import main\n\nmain(lambda seen: 'stay', name='stands')\n"
TRIES = """
def optimize(task, player):
    with open({tally!r}, "a") as tally:
        print(task.step, file=tally)
    assert task.episodes and all(each.outcome != "failed" for each in task.episodes)
    if task.step == 1:
        player.write_text("def act(:")
        return "A try."
    assert [step.reason for step in task.history] == ["player_syntax"]
    player.write_text({better!r})
    return "Counts the sticks."
"""


def start(words: tuple[str, ...], log: Path) -> Command:
    return start_script(Path(__file__).with_name("_improve.py"), *words, log=log)


def improved(game: Path, player: Path, optimizer: Path, variant: str, *, longest: float) -> Path:
    """Improve a player through three kills; returns the workspace."""
    print(f"COWORLD_CHAOS_SEED={SEED}")
    chance = random.Random(SEED)
    before, workspace = player.read_bytes(), player.parent / "ws"
    words = (str(game), str(player), str(optimizer), str(workspace), variant)
    log, events = player.with_suffix(".log"), workspace / "events.ndjson"
    for _ in range(KILLS):
        size = events.stat().st_size if events.exists() else 0
        kill_amid(
            start(words, log),
            lambda: events.exists() and events.stat().st_size > size,  # noqa: B023
            rest=longest * chance.random(),
            log=log,
        )
    assert start(words, log).wait(600) == 0, log.read_text()
    report = read_improvement_report(workspace)
    assert (report.ended, report.improved) == ("steps", True), report.headline
    assert [step.step for step in read_improvement_steps(workspace)] == [1, 2]
    for rows in workspace.rglob("episodes.jsonl"):
        keys = [row.key for row in read_rows(rows)]
        assert len(keys) == len(set(keys)), rows
    assert player.read_bytes() == before
    assert not [path for path in workspace.rglob(".*") if path.is_dir()]
    # The files of players that a killed process measured are what clean finds
    assert all(item.removed for item in reap_scratch(find_scratch()))
    return workspace


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("game", ["nim", *(["paintarena"] if FULL else [])])
def test_weak_bot_becomes_better_through_kills(game: str, tmp_path: Path) -> None:
    bot, optimizer, tally = tmp_path / "bot.py", tmp_path / "optimizer.py", tmp_path / "tally"
    if game == "paintarena":
        bot.write_text(STANDS)
        workspace = improved(EXAMPLES / game, bot, OPTIMIZER, "quick", longest=20.0)
        assert "def choose" in (workspace / "best" / "bot.py").read_text()
        return
    bot.write_text((EXAMPLES / "nim" / "players" / "random_taker.py").read_text())
    better = (EXAMPLES / "nim" / "players" / "counter.py").read_text()
    optimizer.write_text(TRIES.format(tally=str(tally), better=better))
    workspace = improved(EXAMPLES / game, bot, optimizer, "default", longest=4.0)
    assert (workspace / "best" / "bot.py").read_text() == better
    asked = tally.read_text().split()
    assert asked == sorted(asked)
    assert len(asked) <= 2 + KILLS
