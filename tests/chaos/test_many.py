"""A run of many episodes killed with SIGKILL again and again: in the end every key has its row, once.

The moments are random, so the seed is printed; `COWORLD_CHAOS_SEED` repeats a run as far as the machine does.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from support.cli_kit import start_script
from support.full import FULL
from support.killing import kill_amid
from support.launcher import Command

from coworld_core.episode.record import read_rows

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("COWORLD_CHAOS_SEED", str(time.time_ns() % 1_000_000)))
KILLS = 100 if FULL else 4
REST = 0.3
"""Seconds that a run is let live at most, once it has come as far as it was to."""


def start(workspace: Path, count: int) -> Command:
    orders = json.dumps({"workspace": str(workspace), "count": count})
    return start_script(Path(__file__).with_name("_many.py"), orders, log=workspace.with_suffix(".log"))


def read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


@pytest.mark.timeout(900)
def test_every_key_has_its_row_once(tmp_path: Path) -> None:
    print(f"COWORLD_CHAOS_SEED={SEED}")
    chance = random.Random(SEED)
    workspace, count = tmp_path / "many", 12 * KILLS
    file, kept = workspace / "episodes.jsonl", b""
    for number in range(KILLS):
        begun = len(read(workspace / "events.ndjson"))
        # Before its first row, after it, or after a few
        rows = kept.count(b"\n") + number % 3
        kill_amid(
            start(workspace, count),
            lambda: len(read(workspace / "events.ndjson")) > begun and read(file).count(b"\n") >= rows,  # noqa: B023
            rest=REST * chance.random(),
            log=workspace.with_suffix(".log"),
        )
        # Nothing that was written is ever written again
        now = file.read_bytes()
        assert now.startswith(kept)
        kept = now[: now.rfind(b"\n") + 1]
    assert kept
    print(f"{kept.count(bytes([10]))} of {count} rows after {KILLS} kills")
    last = start(workspace, count)
    assert last.wait(600) == 0, workspace.with_suffix(".log").read_text()
    assert file.read_bytes().startswith(kept)
    keys = Counter(row.key for row in read_rows(workspace))
    assert keys == Counter({f"episode {index}": 1 for index in range(count)})
    directories = {row.workspace for row in read_rows(workspace)}
    assert {path.name for path in workspace.iterdir() if path.is_dir()} == directories
