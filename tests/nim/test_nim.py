"""The example game of the kit: its rules under any actions, and its players. Its page certifies it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coworld_client.seat import load_player
from coworld_core.rules import ActionRefused, Play, ReplayHeader, ReplayWriter, play_again, read_replay
from coworld_runner import run_episode
from coworld_runner.kit.rollout import rollout

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
async def test_a_seed_repeats_the_game_and_both_roads_play_the_same(tmp_path: Path) -> None:
    taker = str(EXAMPLE / "players" / "random_taker.py")
    runs = [
        await run_episode(EXAMPLE, players=[taker] * 2, seed=7, backend="process", workspace=tmp_path / str(run))
        for run in range(2)
    ]
    games = {(tmp_path / str(run) / "replay").read_bytes() for run in range(2)}
    assert len(games) == 1
    played = [tick.actions for tick in read_replay(games.pop()).ticks]
    alone = rollout(Nim, [taker] * 2, seed=7, record=True)
    assert [tick.actions for tick in read_replay(alone.replay or b"").ticks] == played
    assert {run.scores for run in runs} == {alone.scores}


@pytest.mark.slow
async def test_functions_and_classes_play_an_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bots_of_nim.py").write_text(
        "def one_or_two(observation, legal, rng):\n    return rng.choice(legal[:2])\n"
        "class Careful:\n    def act(self, observation, legal, rng):\n        return legal[0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    bots = importlib.import_module("bots_of_nim")
    players = [bots.one_or_two, bots.Careful]
    record = await run_episode(EXAMPLE, players=players, seed=7, backend="process", workspace=tmp_path / "out")
    assert (record.ok, record.scores) == (True, rollout(Nim, players, seed=7).scores), record.faults
    assert [slot.name for slot in record.slots] == ["one_or_two", "Careful"]


def folder(path: Path) -> Path:
    """A bot as contests have it: a file, a helper, and weights."""
    path.mkdir()
    (path / "main.py").write_text(
        "import json, pathlib\nfrom helper import pick\n"
        'FIRST = json.loads((pathlib.Path(__file__).parent / "weights.json").read_text())\n'
        "def act(observation, legal, rng):\n    return pick(legal, FIRST)\n"
    )
    (path / "helper.py").write_text("def pick(legal, at):\n    return legal[at]\n")
    (path / "weights.json").write_text("0")
    return path


@pytest.mark.slow
async def test_folder_plays_an_episode_and_a_rollout(tmp_path: Path) -> None:
    bot = str(folder(tmp_path / "mybot"))
    record = await run_episode(
        EXAMPLE, players=[bot, f"{bot}/main.py"], backend="process", workspace=tmp_path / "out", seed=1
    )
    assert not record.ok
    # The file alone has its helper, and not its weights
    assert record.fault is not None
    assert (record.fault.slot, "weights.json" in record.fault.log_tail) == (1, True)
    record = await run_episode(EXAMPLE, players=[bot], backend="process", workspace=tmp_path / "again", seed=1)
    assert record.ok
    assert record.slots[0].name == "mybot"
    assert record.scores == rollout(Nim, [bot, bot], seed=1).scores


@pytest.mark.slow
async def test_missing_module_of_a_player_is_named(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text("import nosuchlib\ndef act(observation, legal, rng):\n    return legal[0]\n")
    record = await run_episode(
        EXAMPLE, players=[str(tmp_path / "bot.py"), "counter"], backend="process", workspace=tmp_path / "out"
    )
    assert record.fault is not None
    assert (record.fault.slot, record.fault.error_type) == (0, "player_error")
    assert "which has no nosuchlib: install it there" in (record.fault.hint or "")
