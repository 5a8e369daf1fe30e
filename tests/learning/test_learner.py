"""The example that learns, and a player begun from it, whose checkpoints play without PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.rules import load_rules
from coworld_core.rules.player_directories import checkpoint_of
from coworld_runner import rollouts
from coworld_runner.kit.server.scaffolds import new_game, new_trainee
from coworld_runner.package.resolver import Package

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.timeout(300)


def train(program: Path, run: Path, *options: str) -> str:
    command = [sys.executable, program, "--run", run, "--rows", "32", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_what_has_learnt_beats_what_it_was_and_needs_no_library(tmp_path: Path) -> None:
    told = train(
        EXAMPLES / "learner/train.py", tmp_path / "run", "--steps", "16000", "--every", "8000", "--rate", "5e-3"
    )
    assert [line.split()[0] for line in told.splitlines()] == [
        str(tmp_path / "run" / f"step-{step}") for step in (0, 8192, 16384)
    ]
    code = "import sys; from coworld_core.rules import load_player; load_player(sys.argv[1])\n"
    code += "assert not {'torch', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code, tmp_path / "run"], check=True)
    rules: Any = load_rules(str(EXAMPLES / "nim/nim.py"))
    for order in (1, -1):
        players = [f"{tmp_path}/run", f"{tmp_path}/run@step-0"][::order]
        won = [done.scores[::order][0] for done in rollouts(rules, players, episodes=100, seed=5)]
        assert sum(won) > 75


def test_trainable_player_learns_its_own_game_against_itself(tmp_path: Path) -> None:
    game = new_game("small-game", directory=tmp_path / "game").directory
    loaded = load_manifest(game / "coworld_manifest_template.json", template=True)
    package = Package(
        manifest=loaded.manifest, report=loaded.report, contexts={loaded.manifest.game.runnable.image: game}
    )
    new_trainee(tmp_path / "mine", package=package)
    train(tmp_path / "mine/train.py", tmp_path / "run", "--steps", "3000", "--every", "1000", "--opponent", "self")
    found = checkpoint_of(f"{tmp_path}/run")
    assert found is not None
    assert found.name == "run@step-3072"
    assert json.loads((found.path / "weights.json").read_text())["inputs"]
    rules: Any = load_rules(str(game / "small_game.py"))
    (done,) = rollouts(rules, str(found.path), episodes=1)
    assert done.refused == (0, 0)
