"""What players see of the environment of whoever has them play: the same few variables on every road."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from support.served_game import Sticks

from coworld_core.roles.improvement_budget import ImprovementBudget
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.evaluation.gate import gate_player
from coworld_runner.evaluation.player_check import check_player
from coworld_runner.improvement import ImprovementRules, improve_player
from coworld_runner.kit.rollout import as_vector_env, rollouts

NIM = Path(__file__).parents[2] / "examples" / "nim"
SECRET = "a secret of the caller's shell"
RULES = EvaluationRules(max_blocks=1, count_starved=True)
PLAYER = """
import json, os, pathlib
def act(observation, legal, rng):
    pathlib.Path({place!r}, str(os.getpid())).write_text(json.dumps(dict(os.environ)))
    return legal[0]
"""
EVERYWHERE = {"HOME", "LANG", "PATH", "TMPDIR"}
OFTEN = {"LC_CTYPE", "PYTHONPATH", "VIRTUAL_ENV"}
"""Where this Python needs them."""


async def _compare(bot: Path, directory: Path) -> None:
    await compare(NIM, bot, "counter", rules=RULES, workspace=directory / "run")


async def _check(bot: Path, directory: Path) -> None:
    assert (await check_player(NIM, str(bot), rules=RULES, workspace=directory / "run")).checks


async def _gate(bot: Path, directory: Path) -> None:
    (bot.parent / "rival.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    assert (await gate_player(NIM, bot, rules=RULES)).record.measurements


async def _improve(bot: Path, directory: Path) -> None:
    optimizer = directory / "optimizer.py"
    optimizer.write_text("def optimize(task, player):\n    player.write_text(player.read_text() + '# better\\n')\n")
    rules = ImprovementRules(episodes=1, evaluation=RULES)
    budget = ImprovementBudget(steps=1)
    await improve_player(NIM, bot, improver=str(optimizer), budget=budget, rules=rules, workspace=directory / "run")


async def _programs(bot: Path, directory: Path) -> None:
    await compare(NIM, bot, "counter", rules=RULES, workspace=directory / "run", backend="process", parallel=2)


async def _rollouts(bot: Path, directory: Path) -> None:
    assert len(list(rollouts(Sticks, str(bot), episodes=2, processes=2))) == 2


async def _vector(bot: Path, directory: Path) -> None:
    envs = as_vector_env(Sticks, 2, opponents=str(bot), processes=2)
    envs.reset(seed=1)
    envs.step(np.zeros(2, np.int64))
    envs.close()


@pytest.mark.parametrize(
    "road",
    [
        _compare,
        _rollouts,
        _vector,
        *(pytest.param(road, marks=pytest.mark.slow) for road in (_programs, _check, _gate, _improve)),
    ],
)
async def test_no_road_shows_players_the_callers_environment(
    road: Callable[[Path, Path], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "COWORLD_TOKEN", "MY_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "seen").mkdir()
    (tmp_path / "bots").mkdir()
    bot = tmp_path / "bots" / "bot.py"
    bot.write_text(PLAYER.format(place=str(tmp_path / "seen")))
    await road(bot, tmp_path)
    seen = list((tmp_path / "seen").iterdir())
    assert seen
    own = road in (_rollouts, _vector)
    for file in seen:
        environment = json.loads(file.read_text())
        assert SECRET not in environment.values()
        assert environment.keys() >= EVERYWHERE
        assert (environment.get("OMP_NUM_THREADS"), environment["HOME"] == str(tmp_path / "home")) == (
            ("3", True) if own else (None, False)
        )
        if not own:
            rest = environment.keys() - EVERYWHERE - OFTEN
            direct = {"NO_PROXY", "no_proxy"} if "COWORLD_PLAYER_WS_URL" in environment else set[str]()
            assert {name for name in rest if not name.startswith(("COWORLD_", "COGAME"))} == {
                "PYTHONUNBUFFERED"
            } | direct
