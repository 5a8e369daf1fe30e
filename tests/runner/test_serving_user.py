"""A game that was started as root goes on as somebody else only where its files allow that."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

BECOMES = """
import os, sys
from coworld_runner.kit.server.unprivileged_user import leave_root

for directory in sys.argv[1:]:
    environment = {
        "COWORLD_GAME_USER": "65534",
        "COGAME_CONFIG_URI": f"file://{directory}/config.json",
        "COGAME_RESULTS_URI": f"file://{directory}/results.json",
        "COGAME_SAVE_REPLAY_URI": "https://storage.example/replay",
    }
    if os.fork() == 0:
        left = leave_root(environment)
        print(left, *os.getresuid(), *os.getresgid(), flush=True)
        os._exit(0)
    os.wait()
print(leave_root({}), os.getuid())
"""


@pytest.fixture
def directories() -> Generator[list[Path]]:
    """Open to everybody; with a config that is its owner's alone; and one in which only its owner may write."""
    # Not below the directory of the tests, which others may not enter
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        whole = Path(made)
        whole.chmod(0o755)
        cases = {"open": (0o777, 0o644), "config": (0o777, 0o600), "closed": (0o755, 0o644)}
        for name, (mode, config_mode) in cases.items():
            (whole / name).mkdir()
            (whole / name).chmod(mode)
            (whole / name / "config.json").write_text("{}")
            (whole / name / "config.json").chmod(config_mode)
        yield [whole / name for name in cases]


def test_root_is_left_where_the_files_allow_it(directories: list[Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BECOMES, *map(str, directories)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    stays = "False 0 0 0 0 0 0"
    assert done.stdout.splitlines() == ["True " + " ".join(["65534"] * 6), stays, stays, "False 0"]
