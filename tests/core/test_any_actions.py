"""Whatever is sent to a game of the kit, legal or not: it goes on, it ends, and it is the same game again."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.full import FULL
from support.games import Gather, kit_examples
from support.served_game import Sticks

from coworld_core.rules import (
    ActionRefused,
    Play,
    ReplayHeader,
    ReplayWriter,
    Rules,
    action_schema,
    play_again,
    read_replay,
    trajectory,
)
from coworld_core.rules.plain_values import to_json
from coworld_runner.package.random_player import choose

pytestmark = pytest.mark.slow

TICKS = 10_000 if FULL else 300
"""Ticks of each game, in all."""
CASES = 10

JUNK = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rules", [Sticks, Gather, *kit_examples()], ids=lambda rules: rules.__name__)
def test_any_actions(rules: type[Rules]) -> None:
    schema = action_schema(rules)

    @settings(max_examples=CASES, database=None, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 2**32), junk=st.lists(JUNK, min_size=1, max_size=20), share=st.floats(0, 1))
    def games(seed: int, junk: list[Any], share: float) -> None:
        rng, left = random.Random(seed), TICKS // CASES

        def action(play: Play, seat: int) -> Any:
            legal = play.legal(seat)
            known = None if legal is None else [json.loads(text) for text in legal]
            if rng.random() > share:
                return play.read(seat, choose(known, schema, rng))
            value = rng.choice([*junk, choose(None, schema, rng)])
            try:
                read = play.read(seat, value)
            except ActionRefused:
                return None
            assert known is None or json.loads(to_json(read)) in known, "what is not legal was let through"
            return read

        while left > 0:
            play = Play(rules, seed=seed)
            seed += 1
            writer = ReplayWriter(
                ReplayHeader(
                    rules=rules.__name__,
                    version=rules.version,
                    config=rules.Config().model_dump(mode="json"),
                    seed=seed - 1,
                    seats=play.seats,
                    names=[str(seat) for seat in range(play.seats)],
                )
            )
            writer.add(play.frame())
            while not play.over and left > 0:
                left -= 1
                done = play.step({seat: action(play, seat) for seat in play.to_act})
                assert [json.loads(play.observe(seat)) for seat in range(play.seats)] == (
                    [play.observation(seat) for seat in range(play.seats)]
                )
                writer.add(play.frame(), done)
            results = play.results() if play.over else None
            replay = read_replay(writer.finish(reason="over", results=results))
            again = play_again(rules, replay)
            assert (again.results() if again.over else None) == results
            assert len(trajectory(rules, replay).steps) == play.tick * play.seats

    games()
