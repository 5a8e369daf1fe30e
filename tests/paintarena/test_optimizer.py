"""The optimizer: one idea after the other, and the diagnoser's advice where there is no player to change."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from coworld_core.roles.improvement import ImprovementStep
from coworld_runner.kit.roles import OptimizerTask
from paintarena.roles.optimizer import IDEAS, optimize


def task(*notes: str, findings: tuple[dict[str, Any], ...] = ()) -> OptimizerTask:
    steps = tuple(
        ImprovementStep(
            step=number, status="dropped", reason="worse", message="", note=note, began_at=dt.datetime.now(dt.UTC)
        )
        for number, note in enumerate(notes, 1)
    )
    return OptimizerTask(
        goal="", game="paintarena", step=1, episodes=(), grades=(), docs={}, history=steps, findings=findings
    )


def moves(source: str, seen: dict[str, Any]) -> str:
    """What the player of a file does."""
    scope: dict[str, Any] = {}
    exec(source.replace("from paintarena.players.client import main", "main = lambda *given, **named: None"), scope)
    return str(scope["choose"](seen))


def test_ideas_are_tried_in_turn_and_play(tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    seen = SimpleNamespace(slot=0, width=3, height=2, positions=[[1, 0], [2, 1]], tile_owners=[0, 0, -1, 1, 1, 1])
    tried: list[str] = []
    for idea in IDEAS:
        assert optimize(task(*tried), bot) == [idea]
        assert moves(bot.read_text(), vars(seen)) == "right"
        tried.append(idea)
    before = bot.read_text()
    assert optimize(task(*tried), bot)
    assert bot.read_text() == before


def test_without_a_player_the_diagnosers_advice_is_passed_on_once() -> None:
    found = {"recommendations": ["Move."]}
    assert optimize(task(findings=(found, found)), None) == ["Move."]
    assert optimize(task(), None) != []
