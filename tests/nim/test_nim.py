"""The example game of the kit: its rules under any actions, its manifest, and a certification with nothing added."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli_kit import coworld

from coworld_client.seat import load_player
from coworld_core.rules import ActionRefused, Play, ReplayHeader, ReplayWriter, play_again, read_replay

EXAMPLE = Path(__file__).parents[2] / "examples" / "nim"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("nim", EXAMPLE / "nim.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["nim"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Nim


Nim = load()

ACTIONS = st.one_of(
    st.builds(lambda take: {"take": take}, st.integers(-1, 5)),
    st.none(),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
)


@settings(deadline=None)
@given(sticks=st.integers(1, 40), actions=st.lists(ACTIONS, max_size=80))
def test_any_actions_lead_to_an_end_that_plays_again(sticks: int, actions: list[Any]) -> None:
    config = Nim.Config(sticks=sticks)
    play = Play(Nim, config=config)
    writer = ReplayWriter(
        ReplayHeader(rules="Nim", version=Nim.version, config={"sticks": sticks}, seed=0, seats=2, names=["A", "B"])
    )
    writer.add(play.frame())
    while not play.over:
        seat = play.to_act[0]
        try:
            action = play.read(seat, actions.pop() if actions else None)
        except ActionRefused:
            action = None
        left = json.loads(play.observe(seat))["left"]
        done = play.step({seat: action})
        assert json.loads(play.observe(seat))["left"] == left - (action.take if action else 1)
        writer.add(play.frame(), done)
    results = play.results()
    assert sorted(results["scores"]) == [0.0, 1.0]
    replay = read_replay(writer.finish(reason="over", results=results))
    assert play_again(Nim, replay).results() == results


def test_the_counter_loses_no_game_that_it_can_win() -> None:
    import random

    counter, taker = (load_player(str(EXAMPLE / "players" / f"{name}.py")) for name in ("counter", "random_taker"))
    rng = random.Random(1)
    for _ in range(200):
        play = Play(Nim)
        while not play.over:
            seat = play.to_act[0]
            act = (counter, taker)[seat]
            legal = [json.loads(text) for text in play.legal(seat) or []]
            play.step({seat: play.read(seat, act(json.loads(play.observe(seat)), legal, rng))})
        assert play.results()["scores"] == [1.0, 0.0]


@pytest.mark.slow
def test_nim_is_certified(tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = coworld("certify", str(EXAMPLE), "--backend", "process", "-o", str(report))
    assert done.status == 0, done.stdout + done.stderr
