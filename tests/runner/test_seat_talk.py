"""Seats that talk where that happens: served games, rollouts, worker processes, players of files, and environments."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.served_game import Sticks, hear, serving, sit, tell
from support.talking import Parley, TalkingSticks, Village, bargains, hears_nothing
from websockets.asyncio.client import ClientConnection, connect

from coworld_client.seat import play_seat
from coworld_core.episode.record import read_rows
from coworld_core.errors import UsageError
from coworld_core.rules import (
    Delayed,
    Frame,
    Hidden,
    Open,
    Play,
    TalkLimits,
    play_again,
    read_config,
    read_replay,
)
from coworld_core.rules.seat_talk import SeatMessage
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.kit.rollout import SeatEnv, as_gym_env, rollout, rollouts
from coworld_runner.kit.server.spectators import MAX_MESSAGES, Spectators
from coworld_runner.kit.table.game_table import GameTable
from coworld_runner.kit.table.seat_news import MAX_TALKED, MAX_TALKED_LETTERS, MAX_UNHEARD, SeatNews

NIM = Path(__file__).parents[2] / "examples" / "nim"


async def say(seat: ClientConnection, text: Any, **more: Any) -> None:
    await seat.send(json.dumps({"type": "say", "text": text, **more}))


def words_of(replay: bytes | None) -> list[list[tuple[int, str, str | int]]]:
    assert replay is not None
    return [[(one.seat, one.text, one.to) for one in tick.said] for tick in read_replay(replay).ticks]


# --- served games -----------------------------------------------------------------------------------------------------


async def look(seat: ClientConnection) -> dict[str, Any]:
    """The next message that does not only say what was said."""
    while (seen := await hear(seat))["type"] == "heard":
        pass
    return seen


async def my_turn(seat: ClientConnection) -> dict[str, Any]:
    while not (seen := await look(seat)).get("your_turn"):
        assert seen["type"] == "observe", seen
    return seen


async def test_words_reach_those_who_are_addressed_with_their_next_observation() -> None:
    async with serving(TalkingSticks, sticks=3) as table:
        async with sit(table, 0) as first, connect(table.url(1), proxy=None) as second:
            assert (await hear(second))["talk"] == {"length": 40, "per_tick": 1, "to": ["all", "seat"]}
            assert "heard" not in await my_turn(first)
            # A seat may speak when it is not its turn
            await say(second, "good luck")
            await (await second.ping())
            await say(first, '{"take": 3}', to=1)
            await tell(first, 0, {"take": 1})
            seen = await my_turn(second)
            assert (seen["observation"], seen["heard"]) == (
                {"left": 2},
                [{"tick": 0, "seat": 0, "text": '{"take": 3}', "to": 1}],
            )
            assert (await look(first))["heard"] == [{"tick": 0, "seat": 1, "text": "good luck", "to": "all"}]
            # Who comes back in the same tick hears it again
            async with sit(table, 1) as again:
                assert (await hear(again))["heard"] == seen["heard"]
                await say(again, "I win")
                await tell(again, 1, {"take": 2})
                assert (await look(first))["heard"][0]["text"] == "I win"
        await table.over.wait()
    assert words_of(table.match.replay(reason="over")) == [
        [],
        [(0, '{"take": 3}', 1), (1, "good luck", "all")],
        [(1, "I win", "all")],
    ]
    events = [json.loads(line) for line in bytes(table.match.events).splitlines()]
    assert [event for event in events if event["kind"] == "said"] == [
        {"tick": 0, "kind": "said", "agent": 1, "text": "good luck", "to": "all"},
        {"tick": 0, "kind": "said", "agent": 0, "text": '{"take": 3}', "to": 1},
        {"tick": 1, "kind": "said", "agent": 1, "text": "I win", "to": "all"},
    ]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({}, "a message has a text"),
        ({"text": ["hello"]}, "a message has a text"),
        ({"text": "x" * 41}, "a message has at most 40 characters, not 41"),
        ({"text": "x" * ((1 << 20) - 100)}, "a message has at most 40 characters, not 1048476"),
        ({"text": "hello", "to": 0}, "there is no other seat 0"),
        ({"text": "hello", "to": "team"}, "the `to` of a message is"),
        ({"text": "hello", "to": None}, "the `to` of a message is"),
    ],
)
async def test_a_refusal_is_no_refused_action(message: dict[str, Any], says: str) -> None:
    async with serving(TalkingSticks) as table, sit(table, 0) as first, sit(table, 1):
        await my_turn(first)
        await first.send(json.dumps({"type": "say", **message}))
        refused = await hear(first)
        assert (refused["type"], refused["tick"]) == ("say_refused", 0)
        assert refused["reason"].startswith(says)
        assert b"refused" not in bytes(table.match.events)


async def test_a_game_without_talk_refuses_it() -> None:
    async with serving(Sticks) as table, sit(table, 0) as first, sit(table, 1):
        await my_turn(first)
        await say(first, "hello")
        assert await hear(first) == {"type": "say_refused", "tick": 0, "reason": "in this game seats do not talk"}


async def test_words_arrive_when_they_are_said_and_survive_a_reload() -> None:
    hello = {"tick": 0, "seat": 1, "text": "hello", "to": "all"}
    both = [hello, {**hello, "text": "again"}]
    async with serving(Village, talk_seconds=600, days=1) as table, sit(table, 1) as second:
        async with connect(f"ws://127.0.0.1:{table.port}/global", proxy=None) as viewer, sit(table, 0) as first:
            assert (await my_turn(first))["pace"] == {"kind": "ticks", "hz": 1 / 600, "hold": True}
            for text in ("hello", "again"):
                await say(second, text)
            assert [await hear(first), await hear(first)] == [{"type": "heard", "heard": [one]} for one in both]
            while len((state := await hear(viewer)).get("said", ())) < 2:
                pass
            assert (state["tick"], state["said"]) == (0, both)
            await say(first, "mine", to=1)
            await (await first.ping())
        async with connect(table.url(0), proxy=None) as reloaded:
            greeted, seen = await hear(reloaded), await hear(reloaded)
            assert [one["text"] for one in greeted["talked"]] == ["mine"]
            assert (seen["type"], "heard" in seen, seen["time_left"] > 500) == ("observe", False, True)
            # A page asks for its picture, and gets all that was said up to now
            await reloaded.send(json.dumps({"type": "picture"}))
            assert [one["text"] for one in (await hear(reloaded))["talked"]] == ["hello", "again", "mine"]


async def test_talk_passes_by_itself_and_the_vote_waits() -> None:
    async with serving(Village, talk_seconds=0.01, vote_seconds=60) as table:
        async with sit(table, 0) as first, sit(table, 1) as second:
            kinds: list[str] = []
            while (seen := await look(first))["type"] == "observe":
                kinds.append(seen["pace"]["kind"])
                if seen["observation"]["phase"] % 2 and seen["your_turn"]:
                    for seat, vote in ((first, "yes"), (second, "no")):
                        await tell(seat, seen["tick"], vote)
            assert list(dict.fromkeys(kinds)) == ["ticks", "turns"]
            assert seen["results"] == {"scores": [2.0, 0.0], "ticks": 4}
        await table.over.wait()
    served = read_replay(table.match.replay(reason="over", results=seen["results"]))
    assert play_again(Village, served, exactly=True).results() == served.results
    # By calls, where no time passes
    played = rollout(Village, [lambda *_: "yes", lambda *_: "no"], seed=served.header.seed, record=True)
    assert played.replay is not None
    again = read_replay(played.replay)
    assert (again.results, again.ticks[1].pace) == (served.results, {"kind": "turns", "per_move": 20.0, "bank": 1})


async def test_a_megabyte_of_words_reaches_nobody() -> None:
    async with serving(Village, talk_seconds=600, days=1) as table, sit(table, 0) as first, sit(table, 1) as second:
        await my_turn(first)
        await my_turn(second)
        await say(second, "x" * 1_000_000)
        assert (await hear(second))["reason"] == "a message has at most 40 characters, not 1000000"
        for number in range(40):
            await say(second, str(number))
        refused = [await hear(second) for _ in range(37)]
        assert {one["reason"] for one in refused} == {"a seat may say 3 messages in a tick"}
        await say(second, "x" * 2_000_000)
        await second.wait_closed()
        assert [(await hear(first))["heard"][0]["text"] for _ in range(3)] == ["0", "1", "2"]


async def flood(seat: ClientConnection) -> None:
    for number in range(200):
        await say(seat, f"{number}")


async def test_a_flood_of_words_costs_its_own_seat_only() -> None:
    async with serving(TalkingSticks, sticks=2) as table:
        async with sit(table, 0) as first, sit(table, 1) as second, anyio.create_task_group() as tasks:
            tasks.start_soon(flood, second)
            await my_turn(first)
            await tell(first, 0, {"take": 2})
            while (message := await hear(first))["type"] != "over":
                pass
            assert message["scores"] == [1.0, 0.0]
            tasks.cancel_scope.cancel()
        await table.over.wait()
    assert all(len(said) <= 1 for said in words_of(table.match.replay(reason="over")))


def test_a_seat_that_reads_nothing_hears_the_newest_words() -> None:
    play = Play(TalkingSticks, config=TalkingSticks.Config(sticks=MAX_UNHEARD + 9))
    assert play.talk is not None
    news = SeatNews(1, rewards=False, talk=play.talk)
    assert news.fields() == {}
    for number in range(MAX_UNHEARD + 5):
        play.talk.say(0, str(number), tick=play.tick)
        play.step({})
    assert [one["text"] for one in news.fields()["heard"]] == [str(number) for number in range(5, MAX_UNHEARD + 5)]
    assert [one["text"] for one in news.talked(over=False)] == [str(number) for number in range(5)]
    news.sent()
    play.step({})
    assert news.fields() == {}


async def test_who_takes_a_seat_again_gets_what_it_has_heard_and_said() -> None:
    async with serving(TalkingSticks, sticks=8) as table:
        async with sit(table, 0) as first:
            async with sit(table, 1) as second:
                for tick in range(4):
                    mover = (first, second)[tick % 2]
                    await my_turn(mover)
                    await say(first, f"first in {tick}", to=1)
                    await say(second, f"second in {tick}")
                    for seat in (first, second):
                        await (await seat.ping())
                    await tell(mover, tick, {"take": 1})
                await my_turn(first)
                # Nobody has heard this yet
                await say(first, "first in 4")
                await (await first.ping())
            want = [f"{who} in {tick}" for tick in range(4) for who in ("first", "second")]
            async with connect(table.url(1), proxy=None) as again:
                hello, seen = await hear(again), await hear(again)
                assert [one["text"] for one in hello["talked"] + seen["heard"]] == [*want[:6], want[7], want[6]]
                assert hello["talked"][0] == {"tick": 0, "seat": 0, "text": "first in 0", "to": 1}
            async with connect(table.url(0), proxy=None) as again:
                hello, seen = await hear(again), await hear(again)
                assert [one["text"] for one in hello["talked"] + seen["heard"]] == [*want[:7], "first in 4", want[7]]
                await tell(again, 4, {"take": 3})
                assert "heard" not in await look(again)
            async with sit(table, 1) as last:
                await tell(last, 5, {"take": 1})
                await last.wait_closed()
        await table.over.wait()
        # A page that is loaded after the end
        for slot in range(2):
            async with connect(table.url(slot), proxy=None) as late:
                assert [one["text"] for one in (await hear(late))["talked"]] == [*want, "first in 4"]
                assert (await hear(late))["type"] == "over"


def test_what_a_new_connection_misses_comes_with_a_later_observation() -> None:
    table = GameTable(TalkingSticks, read_config(TalkingSticks, {"tokens": ["a", "b"]}), seed=1)
    table.begin(0.0)
    table.ask(0.0)
    for tick, text in enumerate(("one", "two")):
        table.receive(0, json.dumps({"type": "say", "text": text}), 0.0)
        table.step()
        table.ask(0.0)
        news = table.news(1)
        assert news is not None
        if not tick:
            # Its first observation is replaced before it is sent
            assert json.loads(table.observe(1, 0.0))["heard"][0]["text"] == "one"
            news.sent()
            assert table.join(1) == []
    assert [one["text"] for one in json.loads(table.observe(1, 0.0))["heard"]] == ["one", "two"]


def test_what_a_new_connection_is_told_is_bounded() -> None:
    class Chatter(TalkingSticks):
        talk = TalkLimits(length=10_000, per_tick=100)

    play = Play(Chatter)
    assert play.talk is not None
    news = SeatNews(0, rewards=False, talk=play.talk)
    for number in range(MAX_TALKED):
        play.talk.say(0, f"{number}", tick=0)
    play.step({})
    play.talk.say(0, "x" * 9_000, tick=1)
    told = news.talked(over=False)
    assert (len(told), told[0]["text"]) == (MAX_TALKED, "1")
    for _ in range(9):
        play.talk.say(0, "x" * 9_000, tick=1)
    assert [len(one["text"]) for one in news.talked(over=False)] == [9_000] * (MAX_TALKED_LETTERS // 9_000)


def frame(tick: int) -> Frame:
    """The moment in which a message to all is heard, and one to a seat."""
    both: tuple[str | int, ...] = ("all", 1) if tick else ()
    said = tuple(SeatMessage(tick=tick - 1, seat=0, text=f"{tick - 1} to {to}", to=to, hearers=(1,)) for to in both)
    return Frame(tick=tick, to_act=(), drawing="", messages=said)


@pytest.mark.parametrize(
    ("may_see", "during", "last"),
    [
        (Open(), ["", "0", "01", "012"], "0123"),
        (Delayed(ticks=2), ["", "", "", "0"], "0123"),
        (Hidden(), ["", "", "", ""], "3"),
    ],
)
def test_spectators_read_what_all_hear_as_late_as_they_see(may_see: Any, during: list[str], last: str) -> None:
    spectators = Spectators({}, may_see=may_see, close_reason="over")
    outbox = spectators.join(frame(0))

    def read() -> str:
        states = [json.loads(message) for message in outbox.pending()]
        return "".join(one["text"].removesuffix(" to all") for state in states for one in state.get("said", ()))

    read()
    seen: list[Any] = []
    for tick in range(4):
        for _ in range(2):
            spectators.show(frame(tick))
        seen.append(read())
    assert seen == during
    spectators.finish(frame(4), '{"type": "over"}')
    assert read() == last


def test_a_state_has_the_newest_words() -> None:
    spectators = Spectators({}, may_see=Open(), close_reason="over")
    outbox = spectators.join(frame(0))
    for tick in range(MAX_MESSAGES + 5):
        spectators.show(frame(tick))
    said = json.loads(outbox.pending()[-1])["said"]
    assert [one["tick"] for one in said] == list(range(3, MAX_MESSAGES + 4))[-MAX_MESSAGES:]


# --- players ----------------------------------------------------------------------------------------------------------


async def test_functions_talk_at_a_socket_as_in_a_rollout() -> None:
    async with serving(TalkingSticks, sticks=12) as table:
        async with anyio.create_task_group() as tasks:
            for slot in range(2):
                tasks.start_soon(partial(play_seat, bargains, table.url(slot), seed=slot))
        await table.over.wait()
    served = read_replay(table.match.replay(reason="over"))
    assert sum(len(tick.said) for tick in served.ticks) == len(served.ticks) - 1
    play_again(TalkingSticks, served)
    # They took what they were asked to
    for before, tick in zip(served.ticks[1:], served.ticks[2:], strict=False):
        (asked,) = before.said
        (action,) = tick.actions.values()
        assert action["take"] <= int(asked.text.split()[-1])


async def test_a_player_that_starts_again_hears_what_its_seat_has_heard() -> None:
    heard: list[list[str]] = []

    def listens(observation: Any, legal: Any, rng: Any, talk: Any) -> Any:
        heard.append([message["text"] for message in talk.heard])
        talk.say(f"answer {len(heard)}")
        return legal[0]

    async with serving(TalkingSticks, sticks=5) as table:
        async with sit(table, 0) as first:
            # Another program has this seat until then
            async with sit(table, 1) as second:
                await say(first, "one")
                await tell(first, 0, {"take": 1})
                await my_turn(second)
                await say(second, "mine")
                await tell(second, 1, {"take": 1})
                while (await my_turn(first))["tick"] != 2:
                    pass
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(play_seat, listens, table.url(1))
                await say(first, "two")
                await tell(first, 2, {"take": 1})
                while (await my_turn(first))["tick"] != 4:
                    pass
                await tell(first, 4, {"take": 1})
                await first.wait_closed()
        await table.over.wait()
    assert heard == [["one", "two"]]


def test_rollouts_repeat_words_and_play_again() -> None:
    one: dict[str, Any] = {"config": {"sticks": 12}, "seed": 4, "record": True}
    played = rollout(TalkingSticks, bargains, **one)
    assert played.replay == rollout(TalkingSticks, bargains, **one).replay
    assert sum(map(len, words_of(played.replay))) == played.ticks
    assert played.replay is not None
    assert play_again(TalkingSticks, read_replay(played.replay)).over
    deaf = rollout(TalkingSticks, [bargains, hears_nothing], **one)
    assert {speaker for said in words_of(deaf.replay) for speaker, _, _ in said} == {0}
    several = list(rollouts(TalkingSticks, bargains, episodes=3, processes=2, **one))
    assert several[0].replay == played.replay

    async def waits(observation: Any, legal: Any, rng: Any, talk: Any) -> Any:
        talk.say("nobody is there", 7)
        talk.say("I waited")
        return legal[0]

    assert any(words_of(rollout(TalkingSticks, waits, config={"sticks": 3}, record=True).replay))
    # Where there is no talk, nobody hears it
    assert rollout(Sticks, bargains, seed=4).ticks


def test_opponents_of_a_learner_talk_to_each_other() -> None:
    heard: list[Any] = []

    def talker(observation: Any, legal: Any, rng: Any, talk: Any) -> str:
        heard.extend(talk.heard)
        talk.say(f"berry {observation['last']}", "team")
        return "stay"

    env = as_gym_env(Parley, seat=0, opponents=talker, seats=4, config={"rounds": 3})
    env.reset(seed=1)
    for _ in range(3):
        env.step(0)
    assert {(one["seat"], one["to"]) for one in heard} == {(1, "team"), (3, "team")}


BOT = """
def act(observation, legal, rng, talk):
    asked = [int(message["text"].split()[-1]) for message in talk.heard]
    talk.say(f"please take {rng.randint(1, 3)}")
    talk.say("too much")
    print(len(talk.heard), "heard")
    return legal[min(asked[-1] if asked else 1, len(legal)) - 1]
"""


def talking_nim(directory: Path) -> Path:
    shutil.copytree(NIM, directory)
    rules = directory / "nim.py"
    text = rules.read_text()
    for old, new in (
        ("import Rules, RulesConfig\n", "import Rules, RulesConfig\nfrom coworld_core.rules import TalkLimits\n"),
        ("    score_range = (0, 1)\n", "    score_range = (0, 1)\n    talk = TalkLimits(length=30)\n"),
    ):
        assert old in text
        text = text.replace(old, new)
    rules.write_text(text)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("prelude", ["", "import os\n"], ids=["in one process", "in a process for each episode"])
async def test_measuring_in_the_process_says_and_hears_what_programs_do(tmp_path: Path, prelude: str) -> None:
    game, bot, other = talking_nim(tmp_path / "nim"), tmp_path / "bot.py", tmp_path / "other.py"
    bot.write_text(prelude + BOT)
    other.write_text(prelude + BOT.replace("1, 3", "1, 2"))
    replays: list[list[Any]] = []
    for backend in ("auto", "process"):
        workspace = tmp_path / backend
        rules = EvaluationRules(seed=0, max_blocks=1, count_starved=True)
        await compare(game, str(bot), str(other), rules=rules, workspace=workspace, backend=backend)
        rows = sorted(read_rows(workspace), key=lambda row: row.key)
        assert all(row.ok for row in rows)
        replays.append([words_of((workspace / row.workspace / "replay").read_bytes()) for row in rows])
    assert replays[0] == replays[1]
    assert sum(len(said) for episode in replays[0] for said in episode) > 8


@pytest.mark.slow
def test_a_seat_env_hears_and_speaks(tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text(BOT)
    with SeatEnv(talking_nim(tmp_path / "nim"), 0, [str(bot)], backend="process") as env:
        with pytest.raises(UsageError, match="reset first"):
            env.say("hello")
        _, info = env.reset(seed=1)
        assert "heard" not in info
        env.say("please take 1")
        env.say("please take 2")
        seen, _, _, _, info = env.step(2)
        assert (seen["observation"]["left"], info["say_refused"]) == (17, "a seat may say one message in a tick")
        (heard,) = info["heard"]
        assert (heard["seat"], heard["tick"], heard["to"]) == (1, 1, "all")
        _, _, _, _, info = env.step(0)
        assert "say_refused" not in info
    with SeatEnv(NIM, 0, ["counter"], backend="process") as silent:
        silent.reset(seed=1)
        with pytest.raises(UsageError, match="do not talk"):
            silent.say("hello")
