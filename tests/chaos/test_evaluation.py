"""Evaluations killed with SIGKILL again and again: their reports are those of ones that were left alone."""

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

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("COWORLD_CHAOS_SEED", str(time.time_ns() % 1_000_000)))
KILLS = int(os.environ.get("COWORLD_CHAOS_KILLS", "100" if FULL else "2"))
LONGEST = 0.6
"""Seconds that a run is let live at most, once it plays."""


EVENTS = {"_compare.py": "events.ndjson", "_tournament.py": "episodes/events.ndjson"}
"""What shows that a run plays, by script."""


def start(script: str, workspace: Path) -> Command:
    return start_script(Path(__file__).with_name(script), str(workspace), log=workspace.with_suffix(".log"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("script", EVENTS)
def test_the_report_is_the_same(tmp_path: Path, script: str) -> None:
    print(f"COWORLD_CHAOS_SEED={SEED}")
    chance = random.Random(SEED)
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    undisturbed = start(script, alone)
    for _ in range(KILLS):
        events = killed / EVENTS[script]
        before = events.stat().st_size if events.exists() else 0
        kill_amid(
            start(script, killed),
            lambda: events.exists() and events.stat().st_size > before,  # noqa: B023
            rest=LONGEST * chance.random(),
            log=killed.with_suffix(".log"),
        )
    assert start(script, killed).wait(300) == 0, killed.with_suffix(".log").read_text()
    assert undisturbed.wait(300) == 0, alone.with_suffix(".log").read_text()
    assert (killed / "report.json").read_bytes() == (alone / "report.json").read_bytes()
    assert (killed / "report.md").read_bytes() == (alone / "report.md").read_bytes()
