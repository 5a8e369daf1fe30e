"""Checking a player: a broken one for every check, and one with which nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from coworld_core.errors import UsageError
from coworld_runner.evaluation import EvaluationRules
from coworld_runner.evaluation.player_check import check_files, check_player
from coworld_runner.package.own_players.named_player import read_own_player

NIM = Path(__file__).parents[2] / "examples" / "nim"

PLAYERS = {
    "good": "def act(observation, legal, rng):\n    return rng.choice(legal)\n",
    "syntax": "def act(observation legal):\n",
    "crash": "def act(observation, legal, rng):\n    raise ValueError('no idea')\n",
    "illegal": "asked = []\ndef act(observation, legal, rng):\n    asked.append(1)\n"
    "    return {'take': 7} if len(asked) % 2 else legal[0]\n",
    "stubborn": "def act(observation, legal, rng):\n    return {'take': 7}\n",
    "leaves": "import sys\nsys.exit(0)\n",
    "silent": "def act(observation, legal, rng):\n    return None\n",
    "chance": "import random\ndef act(observation, legal, rng):\n    return random.SystemRandom().choice(legal)\n",
}

SCRIPT = """import asyncio

from coworld_client.seat import play_seat, seat_url


def act(observation, legal, rng):
    return legal[0]


def main():
    asyncio.run(play_seat(act, seat_url()))


if __name__ == "__main__":
    main()
"""
PROJECT = '[project]\nname = "x"\n[project.scripts]\nplay = "bot:main"\n'
DOCKERFILE = 'FROM python\nCOPY . /app\nWORKDIR /app\nCMD ["python3", "bot.py"]\n'


@pytest.mark.parametrize(
    ("player", "statuses", "words"),
    [
        ("good", {"legal": "ok", "in-time": "ok", "same-seed": "ok"}, "the same seed gave the same game twice"),
        ("syntax", {"player": "fail"}, "invalid syntax"),
        ("illegal", {"legal": "fail"}, "refused as not legal"),
        pytest.param("crash", {"plays": "fail"}, "no idea", marks=pytest.mark.slow),
        pytest.param("leaves", {"connects": "fail"}, "it failed in 3 of 3 episodes", marks=pytest.mark.slow),
        pytest.param("stubborn", {"plays": "fail"}, "21 actions were refused", marks=pytest.mark.slow),
        pytest.param("silent", {"acts": "fail"}, "it never acted", marks=pytest.mark.slow),
        pytest.param("chance", {"legal": "ok", "same-seed": "warn"}, "the second time", marks=pytest.mark.slow),
    ],
)
async def test_behaviour_is_checked(tmp_path: Path, player: str, statuses: dict[str, str], words: str) -> None:
    file = tmp_path / f"{player}.py"
    file.write_text(PLAYERS[player])
    # A silent player lets all of its time pass
    rules = EvaluationRules(seed=0, config={"sticks": 40 if player == "chance" else 9, "seconds_per_move": 0.3})
    report = await check_player(NIM, str(file), rules=rules)
    found = {check.name: check for check in report.checks}
    assert {name: found[name].status for name in statuses} == statuses
    assert report.ok == ("fail" not in statuses.values())
    assert words in " ".join(check.message for check in report.checks)


@pytest.mark.parametrize(
    "made",
    [
        {"bot.py": PLAYERS["good"]},
        pytest.param({"bot.py": SCRIPT, "pyproject.toml": PROJECT}, marks=pytest.mark.slow),
        pytest.param({"bot.py": SCRIPT, "Dockerfile": DOCKERFILE}, marks=pytest.mark.slow),
    ],
    ids=["file", "project", "dockerfile"],
)
async def test_memory_of_a_directory_is_watched(tmp_path: Path, made: dict[str, str]) -> None:
    bot = tmp_path / "mine"
    bot.mkdir()
    for name, content in made.items():
        (bot / name).write_text(content)
    report = await check_player(NIM, str(bot), rules=EvaluationRules(seed=0, config={"sticks": 40}))
    assert report.ok, report.checks
    (memory,) = [check for check in report.checks if check.name == "memory"]
    assert memory.message.endswith("in each of its processes")


async def test_wrong_rules_are_not_the_players_fault() -> None:
    with pytest.raises(UsageError) as refused:
        await check_player(NIM, "counter", rules=EvaluationRules(config={"stick": 3}))
    assert refused.value.code == "config_key_unknown"


def test_files_are_checked_without_starting_anything(tmp_path: Path) -> None:
    bot = tmp_path / "bot"
    (bot / "parts").mkdir(parents=True)
    (bot / "bot.py").write_text(
        "import parts.mind\ntry:\n    import torch_of_nobody\nexcept ImportError:\n    pass\n" + PLAYERS["good"]
    )
    (bot / "parts" / "__init__.py").touch()
    (bot / "parts" / "mind.py").write_text("import numpy_of_nobody\n")
    (bot / "unused.py").write_text("import pandas_of_nobody\n")
    (bot / ".env").write_text("KEY=hunter2\n")
    found = {check.name: check for check in check_files(read_own_player(str(bot)))}
    assert (found["imports"].status, found["secrets"].status) == ("fail", "warn")
    assert found["imports"].message.startswith("numpy_of_nobody (parts/mind.py) cannot")
    (bot / "parts" / "mind.py").write_text("import json\n")
    (bot / ".env").unlink()
    assert {check.status for check in check_files(read_own_player(str(bot)))} == {"ok"}
    for number in range(1000):
        (bot / f"{number}.txt").touch()
    assert next(check for check in check_files(read_own_player(str(bot))) if check.name == "files").status == "fail"
