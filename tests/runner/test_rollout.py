"""Rules played in the process: the same game as at a websocket, whatever plays it and in however many processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.games import Gather, dies, fails, last_or_stay
from support.served_game import Sticks

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.rules import ActionRefused, Play, Rules, RulesError, play_again, read_replay
from coworld_runner.kit.rollout import PolicyError, Rollout, rollout, rollouts
from coworld_runner.package.random_player import choose, sample


def last(observation: Any, legal: Any, rng: random.Random) -> Any:
    return legal[-1]


def test_an_episode_of_functions_files_and_chance(tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text("def act(observation, legal, rng):\n    return {'take': min(3, observation['left'])}\n")

    async def waits(observation: Any, legal: Any, rng: random.Random) -> Any:
        return legal[-1]

    for policies in (last, bot, str(bot), waits, [last, bot]):
        done = rollout(Sticks, cast("Any", policies))
        assert (done.scores, done.ticks, done.refused, done.replay) == ((0.0, 1.0), 2, (0, 0), None)
    games = {rollout(Sticks, ["random", last], seed=seed).ticks for seed in range(20)}
    assert len(games) > 1
    one, other = (rollout(Sticks, config=config) for config in ({"sticks": 3}, Sticks.Config(sticks=3)))
    assert one.seed != other.seed
    assert rollout(Sticks, config={"sticks": 3}, seed=other.seed) == other


def test_a_game_is_the_same_for_the_same_seed_and_its_replay_plays_again() -> None:
    one, two = (rollout(Gather, "random", seats=3, seed=5, record=True) for _ in range(2))
    assert one == two
    assert one != rollout(Gather, "random", seats=3, seed=6, record=True)
    assert one.replay is not None
    replay = read_replay(one.replay)
    assert (replay.header.seats, replay.reason, replay.results) == (3, "over", one.results)
    assert play_again(Gather, replay).results() == one.results


def test_policies_receive_their_own_copies() -> None:
    def vandal(observation: Any, legal: Any, rng: random.Random) -> Any:
        observation["left"] = 0
        legal[0]["take"] = 99
        return legal[0]

    assert rollout(Sticks, vandal).refused == (3, 3), "an action that was changed is another one"


SCALARS = st.none() | st.booleans() | st.integers(0, 4) | st.floats() | st.sampled_from(["left", "stay", "1"])
ACTIONS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2)) | st.dictionaries(
    st.sampled_from(["take", "also"]), SCALARS, max_size=2
)


@given(action=ACTIONS, changes=st.booleans())
@example(action=True, changes=True)
def test_a_rollout_refuses_what_a_served_game_refuses(action: Any, changes: bool) -> None:
    def once(observation: Any, legal: Any, rng: random.Random) -> Any:
        told.append(action)
        if len(told) > 1:
            return None
        if changes and legal:
            told[0] = legal[0]
            told[0]["take"] = action
        return told[0]

    for rules in (Sticks, Gather):
        told: list[Any] = []
        done = rollout(rules, [once, lambda *_: None])
        try:
            refused = Play(rules).read(0, told[0]) is None
        except ActionRefused:
            refused = True
        assert done.refused == (told[0] is not None and refused, 0)


def test_a_refused_action_misses_its_time() -> None:
    done = rollout(Gather, [lambda *_: "up", lambda *_: None])
    assert done.refused == (8, 0)
    # A set has no JSON form, and NumPy's numbers have one
    assert rollout(Sticks, [lambda *_: {"take": {1}}, lambda *_: {"take": np.int64(1)}]).refused == (3, 0)
    held: list[str] = []

    class Seen(Gather):
        def step(self, actions: Any) -> None:
            held.append(actions[0])
            super().step(actions)

    rollout(Seen, [lambda o, legal, rng: None if held else "left", lambda *_: "stay"])
    assert held == ["left"] * 8, "as at a websocket, it goes on with its last action"


@pytest.mark.parametrize("policies", [["random"] * 3, [], ["random"] * 5])
def test_as_many_policies_as_seats(policies: list[Any]) -> None:
    with pytest.raises(UsageError, match=rf"Sticks has 2 seats; got {len(policies)} policies"):
        rollout(Sticks, policies)
    with pytest.raises(UsageError, match="config cannot be played: sticks"):
        rollout(Sticks, config={"sticks": "many"})


def test_a_policy_that_raises_is_named_with_its_lines() -> None:
    def clumsy(observation: Any, legal: Any, rng: random.Random) -> Any:
        return {}["nothing"] if observation["left"] < 6 else legal[0]

    with pytest.raises(PolicyError, match="policy of seat 1 failed in tick 1: KeyError: 'nothing'") as failed:
        rollout(Sticks, clumsy, record=True)
    assert (failed.value.seat, failed.value.tick, len(failed.value.lines)) == (1, 1, 1)
    assert 'return {}["nothing"]' in failed.value.lines[0]
    assert len(read_replay(failed.value.replay or b"").ticks) == 2


def test_rules_that_raise_leave_their_replay() -> None:
    def step(self: Any, actions: Any) -> None:
        if self.left < 3:
            raise ZeroDivisionError("boom")
        Sticks.step(self, actions)

    broken = cast("type[Rules]", type("BrokenLater", (Sticks,), {"step": step}))
    with pytest.raises(RulesError, match="step, tick 4: ZeroDivisionError: boom") as failed:
        rollout(broken, lambda o, legal, rng: legal[0], record=True)
    replay = read_replay(failed.value.replay or b"")
    assert (len(replay.ticks), replay.reason, replay.results) == (5, "failed", None)


def test_many_episodes_do_not_depend_on_who_plays_them() -> None:
    alone = list(rollouts(Gather, ["random", last_or_stay], episodes=9, seed=3, record=True))
    assert [done.seed for done in alone] == list(range(3, 12))
    assert alone == [rollout(Gather, ["random", last_or_stay], seed=3 + n, record=True) for n in range(9)]
    for processes in (2, 3):
        assert list(
            rollouts(Gather, ["random", last_or_stay], episodes=9, processes=processes, seed=3, record=True)
        ) == (alone)


def test_files_play_with_their_own_helpers_in_every_process(tmp_path: Path) -> None:
    from coworld_core.rules import load_player, load_rules

    game = """
from support.served_game import Sticks
import helper
class Game(Sticks):
    def results(self):
        return {"helper": helper.NAME}
"""
    bot = """
import argparse, helper
argparse.ArgumentParser().parse_args()
COUNT = 0
def act(observation, legal, rng):
    global COUNT
    import late
    assert late.NAME == helper.NAME
    COUNT += 1
    return legal[helper.NUMBER % len(legal)]
"""
    for number, name in enumerate(("game", "one", "two")):
        made = tmp_path / name
        made.mkdir()
        (made / "helper.py").write_text(f"NAME = {name!r}\nNUMBER = {number}\n")
        (made / "late.py").write_text(f"NAME = {name!r}\n")
        (made / f"{name}.py").write_text(game if name == "game" else bot)
    rules = load_rules(f"{tmp_path}/game/game.py:Game")
    path, modules = list(sys.path), set(sys.modules)
    loaded = load_player(f"{tmp_path}/two/two.py")
    for second in (loaded, tmp_path / "two" / "two.py"):
        policies: list[Any] = [tmp_path / "one" / "one.py", second]
        alone = list(rollouts(rules, policies, episodes=4, seed=1))
        assert alone == list(rollouts(rules, policies, episodes=4, seed=1, processes=2))
        assert alone[0].results["helper"] == "game"
    assert sys.path == path
    left = {name.rpartition("/")[2] for name in set(sys.modules) - modules if str(tmp_path) in name}
    assert {name.partition(".")[2] for name in left} == {"", "two", "helper", "late"}, "only what was loaded here"


def test_seats_with_the_same_file_share_nothing(tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text(
        "SEEN = set()\ndef act(observation, legal, rng):\n    SEEN.add(observation['left'])\n"
        "    assert len({left % 2 for left in SEEN}) == 1, SEEN\n    return {'take': 1}\n"
    )
    for policies in (bot, [str(bot)] * 2):
        assert rollout(Sticks, cast("Any", policies), config={"sticks": 6}).ticks == 6


def test_a_script_finds_its_own_command_line_in_every_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import argparse, sys\nsys.path[:0] = [{str(Path(__file__).parents[1])!r}]\n"
        "from support.served_game import Sticks\nfrom coworld_runner.kit.rollout import rollouts\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--take', type=int)\ntake = parser.parse_args().take\n"
        "def act(observation, legal, rng):\n    return legal[min(take, len(legal)) - 1]\n"
        "if __name__ == '__main__':\n"
        "    print([done.ticks for done in rollouts(Sticks, act, episodes=2, processes=2, config={'sticks': 6})])\n"
    )
    command = [sys.executable, str(script), "--take", "2"]
    assert subprocess.check_output(command, text=True) == "[3, 3]\n"


def test_a_file_finds_only_itself_in_sys_argv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = "    argparse.ArgumentParser().parse_args()\n"
    bots = {
        "function": f"import argparse\ndef act(o, legal, rng):\n{parse}    return legal[0]\n",
        "later": f"import argparse\nasync def act(o, legal, rng):\n{parse}    return legal[0]\n",
        "made": f"import argparse\nclass Player:\n  def __init__(self):\n{parse}  def start(self, hello):\n{parse}"
        f"  def over(self, over):\n{parse}  def act(self, o, legal, rng):\n{parse}    return legal[0]\n",
    }
    argv = ["launcher", "--kernel", "7"]
    monkeypatch.setattr(sys, "argv", argv)
    for name, text in bots.items():
        (tmp_path / f"{name}.py").write_text(text)
        assert rollout(Sticks, str(tmp_path / f"{name}.py")).ticks == 6
        assert sys.argv is argv


def test_failure_in_a_worker_process_is_reported() -> None:
    with pytest.raises(EnvironmentFault, match="ended with status 7, at the episode with seed"):
        list(rollouts(Sticks, dies, episodes=4, processes=2))
    played: list[Rollout] = []
    with pytest.raises(PolicyError, match="seat 0 failed in tick 0: IndexError") as failed:
        played.extend(rollouts(Sticks, fails, episodes=4, processes=2))
    assert failed.value.lines


def test_unpicklable_policy_needs_a_single_process() -> None:
    with pytest.raises(UsageError, match="cannot be sent to another process") as refused:
        list(rollouts(Sticks, lambda o, legal, rng: legal[0], episodes=2, processes=2))
    assert refused.value.code == "not_portable"
    for wrong in ({"episodes": -1}, {"episodes": 1, "processes": 0}):
        with pytest.raises(UsageError, match="must not be below"):
            rollouts(Sticks, **cast("Any", wrong))


def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys\nsys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(tmp_path)!r}]\n"
        "from support.served_game import Sticks\nfrom coworld_runner.kit.rollout import rollouts\n"
        "def act(observation, legal, rng):\n    return legal[0]\n"
        "if __name__ == '__main__':\n"
        "    for done in rollouts(Sticks, act, episodes=10**9, processes=2):\n"
        "        print(done.ticks, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert int(running.stdout.readline()) > 0
        workers = psutil.Process(running.pid).children(recursive=True)
        assert len([one for one in workers if one.cmdline()[1:2] == ["-m"]]) == 2
        os.killpg(running.pid, signal.SIGINT)
        running.stdout.close()
        said = running.stderr.read()
        running.wait(30)
    assert said.count("KeyboardInterrupt") == 1, said
    gone, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
    assert len(gone) == len(workers)


# --- what random does where a game lists nothing --------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 1, "maximum": 3},
        {"type": "integer", "exclusiveMinimum": 1, "multipleOf": 5, "maximum": 20},
        {"type": "number", "maximum": -3},
        {"enum": ["a", 2]},
        {"const": None},
        {"type": ["string", "null"], "minLength": 2, "maxLength": 3},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        {"anyOf": [{"$ref": "#/$defs/Deep"}, {"type": "null"}], "$defs": {"Deep": {"type": "boolean"}}},
        {
            "$ref": "#/$defs/Tree",
            "$defs": {
                "Tree": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                    },
                }
            },
        },
    ],
    ids=json.dumps,
)
def test_a_sample_is_what_the_schema_allows(schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator as Validator

    rng = random.Random(1)
    for _ in range(50):
        Validator(schema).validate(sample(schema, rng))
    assert choose([4], schema, rng) == 4


def test_random_plays_where_a_game_lists_nothing() -> None:
    done = rollout(Gather, "random", config={"rounds": 30})
    assert done.refused == (0, 0)
    assert sum(done.scores) > 0


def test_player_class_is_instantiated_per_seat_and_episode() -> None:
    made: list[list[Any]] = []

    class Recalls:
        def __init__(self) -> None:
            self.heard: list[Any] = []
            made.append(self.heard)

        def start(self, hello: Any) -> None:
            self.heard.append(hello["seat"])

        async def act(self, observation: Any, legal: Any, rng: Any) -> str:
            self.heard.append("act")
            return "stay"

        def over(self, over: Any) -> None:
            self.heard.append(over["scores"])

    for _ in range(2):
        done = rollout(Gather, Recalls, config={"rounds": 1}, seed=0)
    scores = list(done.scores)
    assert made == [[0, "act", scores], [1, "act", scores]] * 2

    async def play(seat: Any) -> None: ...

    with pytest.raises(UsageError, match="plays at a socket"):
        rollout(Gather, play)
