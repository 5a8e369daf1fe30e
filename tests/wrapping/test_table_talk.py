"""The example that is talked: who counts wins, and recorded answers of a model lead to the same end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.games import kit_examples

from coworld_core.rules import load_player, play_again, read_replay
from coworld_runner.kit.rollout import rollout

EXAMPLE = Path(__file__).parents[2] / "examples" / "table-talk"
TableTalk = next(rules for rules in kit_examples() if rules.__name__ == "TableTalk")
VARIANTS: dict[str, Any] = {
    variant["id"]: variant["game_config"]
    for variant in json.loads((EXAMPLE / "coworld_manifest_template.json").read_text(encoding="utf-8"))["variants"]
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_haggler_wins_of_those_who_believe_everything(variant: str) -> None:
    agreeable, haggler = (load_player(str(EXAMPLE / "players" / f"{name}.py")) for name in ("agreeable", "haggler"))
    config, seats = {"game": VARIANTS[variant]["game"]}, len(VARIANTS[variant]["players"])
    scores = [
        rollout(TableTalk, [*[agreeable] * (seats - 1), haggler], config=config, seats=seats, seed=seed).scores
        for seed in range(10)
    ]
    assert sum(one[-1] for one in scores) > 3


def test_recorded_answers_play_again() -> None:
    replay = read_replay((EXAMPLE / "recorded.jsonl").read_bytes())
    assert replay.header.names == ["stand-in", "Haggler"]
    assert play_again(TableTalk, replay).results() == replay.results
