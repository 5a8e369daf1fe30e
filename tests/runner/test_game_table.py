"""The game table: one conversation through all that feeds it, and the time of players that answer over pipes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.bidding import BOT, LAST, Bidding
from support.served_game import serving
from support.talking import Village

from coworld_client.seat import play_seat
from coworld_core.rules import RulesError, Ticks, Turns, play_again, read_config, read_replay
from coworld_core.rules.player_loader import open_player
from coworld_core.rules.seat_talk import SeatTalk
from coworld_core.time_limits import ABANDONED
from coworld_runner.kit.rollout import rollout
from coworld_runner.kit.rollout.bot_links import BotProgram
from coworld_runner.kit.rollout.match_worker import Chunk, MatchWorker, SeatedGame
from coworld_runner.kit.rollout.piped_game import PipedGame, SeatFailure
from coworld_runner.kit.rollout.process_pipes import WorkerProgress
from coworld_runner.kit.server.sample_stream import SampleStream
from coworld_runner.kit.table.game_table import GameTable
from coworld_runner.kit.table.sample_lines import SampleLines
from coworld_runner.kit.table.seat_counts import SeatCounts

CONFIG = {"tokens": ["a", "b"]}


def acts(bot: Path) -> list[list[Any]]:
    """What each seat was asked, and what it answered."""
    return [json.loads(line) for line in sorted(bot.with_suffix(".log").read_text().splitlines())]


def without_time(lines: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [json.loads(line) for text in lines for line in text.splitlines()]
    return [{name: value for name, value in one.items() if name != "time"} for one in found]


def converse(table: GameTable, bot: Path) -> None:
    """Feed a table by hand, at times of our own."""
    now = 100.0
    with open_player(str(bot)) as act:
        table.begin(now)
        while turn := table.ask(now):
            for slot in turn:
                seen = json.loads(table.observe(slot, now))
                table.delivered(slot, now)
                news = table.news(slot)
                assert news is not None
                news.sent()
                talk = SeatTalk(seen.get("heard", []))
                answer = act(seen["observation"], seen["legal"], None, talk)
                for text, to in talk.words:
                    table.receive(slot, json.dumps({"type": "say", "text": text, "to": to}), now)
                if answer is None:
                    continue
                message = {"type": "act", "tick": seen["tick"], "action": answer}
                reply = table.receive(slot, json.dumps(message), now + 0.01)
                if reply is not None:
                    assert json.loads(reply)["type"] == "refused"
                    assert act(seen["observation"], seen["legal"], None, talk) is None
            now += 0.02 if not table.missing() else 0.25
            table.step()


async def test_one_conversation_is_the_same_game_wherever_it_is_held(tmp_path: Path) -> None:
    bots = {road: tmp_path / road / "bot.py" for road in ("table", "served", "worker", "rollout")}
    for bot in bots.values():
        bot.parent.mkdir()
        bot.write_text(BOT)
    replays: dict[str, bytes | None] = {}
    # By hand
    lines, counts = SampleLines(), SeatCounts(2)
    table = GameTable(Bidding, read_config(Bidding, CONFIG), seed=1, log=counts, samples=lines)
    converse(table, bots["table"])
    results = table.results()
    replays["table"] = table.replay(reason="over", results=results)
    table.finish(reason="over", results=results)
    # At sockets
    samples = SampleStream("token")
    with open_player(str(bots["served"])) as act:
        async with serving(Bidding, samples=samples) as served, anyio.create_task_group() as tasks:
            for slot in range(2):
                tasks.start_soon(partial(play_seat, act, served.url(slot), seed=slot))
            await served.over.wait()
    replays["served"] = served.match.replay(reason="over", results=served.match.results())
    # Over pipes
    parent, other = os.pipe()
    worker = MatchWorker(Bidding, parent, progress=WorkerProgress(bytearray(WorkerProgress.SIZE)))
    try:
        program = BotProgram(name=str(bots["worker"]), directory=tmp_path / "worker")
        game = SeatedGame(number=1, config=0, seed=1, players=(0, 0), keep=True)
        (outcome,) = await anyio.to_thread.run_sync(
            worker.play, Chunk(games=[game], configs={0: CONFIG}, players={0: program})
        )
    finally:
        worker.close()
        os.close(parent)
        os.close(other)
    replays["worker"] = outcome.replay
    # By calls
    replays["rollout"] = rollout(Bidding, str(bots["rollout"]), seed=1, record=True).replay

    assert len(acts(bots["table"])) == 2 * LAST
    for road in bots:
        assert acts(bots[road]) == acts(bots["table"]), road
        assert replays[road] == replays["table"], road
    assert [(seat.acted, seat.idle, seat.refused) for seat in counts.behaviour] == [
        (seat.acted, seat.idle, seat.refused) for seat in outcome.behaviour
    ]
    assert without_time(samples.take()) == without_time(lines.take())
    assert replays["table"] is not None
    assert [len(tick.said) for tick in read_replay(replays["table"]).ticks] == [0, 1, 1, 0, 1, 0, 0]


# --- the time of players that answer over pipes -----------------------------------------------------------------------


def piped(grace: float = 1.0, **config: Any) -> PipedGame:
    return PipedGame(Bidding, read_config(Bidding, {**CONFIG, **config}), seed=1, grace=grace)


def play_tick(game: PipedGame, used: Mapping[int, float | None]) -> list[int]:
    """Play a tick in which seats use some time, or are still thinking when it ends; returns the seats asked."""
    asked: list[int] = []
    waiting = list(game.next_turn())
    while waiting:
        slot = waiting.pop(0)
        if game.may_ask(slot):
            asked.append(slot)
        seconds = used.get(slot)
        if slot in game.awaited and seconds is not None:
            at = game.answered(slot, seconds)
            if at is not None:
                assert not game.table.act(slot, {"bid": 1}, at)
            elif slot in game.awaited:
                waiting.append(slot)
        game.awaited.discard(slot)
    game.end_turn()
    return asked


def did(game: PipedGame, slot: int) -> tuple[int, int, int]:
    seat = game.counts.behaviour[slot]
    return seat.acted, seat.idle, seat.refused


def test_an_answer_that_comes_too_late_is_refused_in_the_tick_into_which_it_falls() -> None:
    game = piped(seconds_per_move=1.0)
    assert play_tick(game, {0: 2.5, 1: 0.1}) == [0, 1]
    assert play_tick(game, {1: 0.1}) == [1], "its answer arrives half a second after this tick has ended"
    assert play_tick(game, {0: 0.4, 1: 0.1}) == [0, 1], "half a second was left for it here"
    assert did(game, 0) == (1, 2, 1)
    assert play_tick(game, {0: 0.9, 1: 0.1}) == [0, 1], "and the next tick is all its own"
    assert did(game, 0) == (2, 2, 1)
    assert did(game, 1) == (4, 0, 0)


def test_a_player_that_still_thinks_is_asked_again_when_it_has_answered() -> None:
    game = piped(seconds_per_move=1.0)
    assert play_tick(game, {1: 0.1}) == [0, 1]
    # All that it is asked in this tick is what it answers after 1.4 seconds, and 0.6 are left
    turn = game.next_turn()
    assert [game.may_ask(slot) for slot in turn] == [False, True]
    assert game.seconds_left(0) == pytest.approx(2.0)
    assert game.answered(0, 1.4) is None
    assert game.awaited == {0, 1}
    assert game.may_ask(0)
    assert game.seconds_left(0) == pytest.approx(0.6)
    assert did(game, 0) == (0, 1, 1)


def test_time_beyond_that_of_a_move_comes_from_the_bank() -> None:
    class Banked(Bidding):
        pace = Turns(per_move=1.0, bank=0.5)

    game = PipedGame(Banked, read_config(Banked, CONFIG), seed=1, grace=1.0)
    play_tick(game, {0: 1.4, 1: 0.1})
    play_tick(game, {0: 1.2, 1: 0.1})
    assert (did(game, 0), did(game, 1)) == ((1, 1, 0), (2, 0, 0)), "0.1 s were left in the bank"


def test_phases_have_clocks_of_their_own_and_one_bank() -> None:
    game = PipedGame(Village, read_config(Village, CONFIG), seed=1, grace=1.0)
    clocks: list[float] = []
    kinds: list[bool] = []
    while turn := game.next_turn():
        clocks.append(game.table.sure)
        kinds.append(game.table.ticks)
        for slot in turn:
            assert game.may_ask(slot)
            # Seat 0 takes all that it has of the bank in the first vote
            used = 20.9 if slot == 0 and not game.table.ticks else 0.5
            if (at := game.answered(slot, used)) is not None:
                assert not game.table.act(slot, "yes", at)
        game.awaited.clear()
        game.end_turn()
    assert (clocks, kinds) == ([60.0, 20.0, 60.0, 20.0], [True, False, True, False])
    assert (did(game, 0), did(game, 1)) == ((3, 1, 0), (4, 0, 0)), "the bank is for the whole episode"
    replay = read_replay(game.replay())
    assert replay.results == {"scores": [1.0, 2.0], "ticks": 4}
    assert play_again(Village, replay, exactly=True).results() == replay.results
    told = [tick.pace for tick in replay.ticks]
    assert replay.header.pace == told[0] == {"kind": "ticks", "hz": 1 / 60, "hold": True}
    assert told[1] == {"kind": "turns", "per_move": 20.0, "bank": 1}
    assert replay.ticks[-1].pace == told[1], "nothing comes after the end"
    # A replay that says otherwise is not this game
    other = replay.ticks[1].model_copy(update={"pace": told[0]})
    with pytest.raises(RulesError, match="pace was"):
        play_again(Village, replay.model_copy(update={"ticks": [replay.ticks[0], other, *replay.ticks[2:]]}))


def test_ticks_take_their_time_whenever_seats_act() -> None:
    class Ticking(Bidding):
        pace = Ticks(hz=10, hold=False)

    game = PipedGame(Ticking, read_config(Ticking, CONFIG), seed=1, grace=0.25)
    assert play_tick(game, {0: 0.25, 1: 0.01}) == [0, 1]
    assert play_tick(game, {1: 0.01}) == [1]
    assert play_tick(game, {0: 0.04, 1: 0.01}) == [0, 1]
    assert did(game, 0) == (1, 2, 1)
    # What is left of the game after a failure is a time, too
    game.lose(SeatFailure(slot=0, error_type="player_error", status=1))
    for _ in range(2):
        assert play_tick(game, {1: 0.01}) == [1]
        assert not game.stopped
    play_tick(game, {1: 0.01})
    assert game.stopped


def test_a_game_that_everyone_has_left_is_given_up() -> None:
    game = piped(seconds_per_move=ABANDONED * 0.6)
    play_tick(game, {0: 0.1, 1: 0.1})
    for slot in range(2):
        game.lose(SeatFailure(slot=slot, error_type="player_left_early", status=0))
    assert play_tick(game, {}) == []
    assert not game.stopped
    play_tick(game, {})
    assert game.stopped
    assert [failure.slot for failure in game.failures] == [0, 1]
    assert read_replay(game.replay()).reason == "stopped"


def test_a_game_does_not_begin_without_a_player() -> None:
    game = piped()
    game.lose(SeatFailure(slot=1, error_type="player_error", status=1, connected=False))
    assert game.stopped
    assert not game.next_turn()
