"""Rules served as a game: through real sockets, what players and spectators are told, and who pays for what."""

from __future__ import annotations

import json
import socket
import sys
import tracemalloc
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import httpx2
import pytest
from pydantic import BaseModel, field_validator
from support.game_process import program
from support.games import Gather
from support.served_game import TOKENS, Cards, LateCards, SealedCards, Sticks, Table, hear, serving, sit, tell
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.http11 import Request, Response

from coworld_core.episode.seat_behaviour import read_behaviour
from coworld_core.rules import (
    Delayed,
    Frame,
    Hidden,
    Open,
    Rules,
    RulesError,
    Ticks,
    Turns,
    play_again,
    read_config,
    read_replay,
    seat_wire,
    trajectory,
)
from coworld_core.rules.seat_wire import PICTURE
from coworld_runner.kit.server.match import Match
from coworld_runner.kit.server.outbox import MAX_NOTICES, Outbox
from coworld_runner.kit.server.spectators import Spectators
from coworld_runner.package import random_player
from coworld_runner.web.http_server import open_server


async def turn(seat: ClientConnection) -> dict[str, Any]:
    """The next observation that asks for an action."""
    while not (message := await hear(seat)).get("your_turn"):
        assert message["type"] == "observe", message
    return message


async def until_over(seat: ClientConnection) -> dict[str, Any]:
    """Take one stick whenever asked, to the end."""
    while (message := await hear(seat))["type"] != "over":
        if message.get("your_turn"):
            await tell(seat, message["tick"], {"take": 1})
    return message


async def test_a_game_from_hello_to_over() -> None:
    async with serving(sticks=4, players=[{"name": "Ada"}, {"name": "Bob"}]) as table:
        async with connect(table.url(0), proxy=None) as first, sit(table, 1) as second:
            hello = await hear(first)
            assert hello == {
                "type": "hello",
                "protocol": "coworld.seat/1",
                "game": "Sticks",
                "version": "0",
                "about": "Players take one to three sticks in turn; whoever takes the last one wins.",
                "seat": 0,
                "seats": 2,
                "names": ["Ada", "Bob"],
                "config": {"sticks": 4},
                "pace": {"kind": "turns", "per_move": 30.0, "bank": 0.0},
                "action_schema": hello["action_schema"],
            }
            asked = await turn(first)
            assert (asked["tick"], asked["observation"], asked["text"]) == (0, {"left": 4}, "||||")
            assert asked["legal"] == [{"take": 1}, {"take": 2}, {"take": 3}]
            assert 0 < asked["time_left"] <= 30
            await tell(first, 0, {"take": 3})
            assert (await turn(second))["legal"] == [{"take": 1}]
            await tell(second, 1, {"take": 1})
            over = await until_over(first)
            assert over["results"] == {"scores": [0.0, 1.0], "ticks": 2}
            assert over == await until_over(second)
            with pytest.raises(ConnectionClosedOK, match="the game is over"):
                await first.recv()
        await table.over.wait()
    replay = read_replay(table.match.replay(reason="over", results=over["results"]))
    assert [tick.drawing for tick in replay.ticks] == ["||||", "|", ""]
    assert not any(token in line for token in TOKENS for line in table.printed)


async def test_the_replay_names_who_decided_in_a_seat_that_a_person_takes_over_and_hands_back() -> None:
    async with serving(sticks=6) as table, sit(table, 1) as other:

        async def take_one(seat: ClientConnection, tick: int, **more: Any) -> None:
            """Act in seat 0, and have the other seat answer."""
            while (await turn(seat))["tick"] != tick:
                pass
            await seat.send(json.dumps({"type": "act", "tick": tick, "action": {"take": 1}, **more}))
            while (await turn(other))["tick"] != tick + 1:
                pass
            await tell(other, tick + 1, {"take": 1})

        async with sit(table, 0) as bot:
            await take_one(bot, 0)
            async with sit(table, 0) as person:
                await take_one(person, 2, by="human")
        async with sit(table, 0) as back:
            await take_one(back, 4, by="llm")
            over = await until_over(back)
        await table.over.wait()
    replay = read_replay(table.match.replay(reason="over", results=over["results"]))
    assert [tick.by for tick in replay.ticks] == [{}, {}, {}, {0: "human"}, {}, {0: "llm"}, {}]
    rows = [row for row in trajectory(Sticks, replay).to_records() if row["seat"] == 0 and row["acts"]]
    assert [(row["tick"], row["by"]) for row in rows] == [(0, None), (2, "human"), (4, "llm")]


def act(tick: Any, action: Any) -> str:
    return json.dumps({"type": "act", "tick": tick, "action": action})


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("", "not JSON"),
        ("take 1", "not JSON"),
        ("[" * 20_000, "not JSON"),
        ("9" * 10_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[]", 'send {"type": "act"'),
        ("null", 'send {"type": "act"'),
        ("{}", 'send {"type": "act"'),
        ('{"type": "move", "take": 1}', 'send {"type": "act"'),
        ('{"type": ["act"]}', 'send {"type": "act"'),
        ('{"type": "act", "action": {"take": 1}}', "has a tick"),
        ('{"type": "act", "tick": 0}', "and an action"),
        (act("0", {"take": 1}), "whole number"),
        (act(0.0, {"take": 1}), "whole number"),
        (act(False, {"take": 1}), "whole number"),
        (act(-1, {"take": 1}), "tick -1 is over"),
        (act(1, {"take": 1}), "tick 1 has not come yet"),
        (act(10**30, {"take": 1}), "has not come yet"),
        (act(0, None), "no action"),
        (act(0, 1), "no action"),
        (act(0, [{"take": 1}]), "no action"),
        (act(0, {}), "take: Field required"),
        (act(0, {"take": "1"}), "take: Input should be a valid integer"),
        (act(0, {"take": 1.0}), "take"),
        (act(0, {"take": True}), "take"),
        (act(0, {"take": 0}), "greater than or equal to 1"),
        (act(0, {"take": 4}), "less than or equal to 3"),
        ('{"type": "act", "tick": 0, "action": {"take": NaN}}', "not a JSON value"),
    ],
)
async def test_illegal_act_is_refused_and_changes_nothing(message: str | bytes, says: str) -> None:
    async with serving() as table, sit(table, 0) as seat, sit(table, 1):
        await turn(seat)
        await seat.send(message)
        refused = await hear(seat)
        assert (refused["type"], refused["tick"], len(refused["legal"])) == ("refused", 0, 3)
        assert says in refused["reason"]
        await tell(seat, 0, {"take": 1})
        assert (await hear(seat))["observation"] == {"left": 5}


async def test_an_act_counts_once_for_its_seat_and_its_tick() -> None:
    async with serving() as table, sit(table, 0) as first:
        await tell(first, 0, {"take": 1})
        assert (await hear(first))["your_turn"] is False
        assert "not begun" in (await hear(first))["reason"]
        async with sit(table, 1) as second:
            await turn(first)
            await tell(second, 0, {"take": 1})
            while (refused := await hear(second))["type"] != "refused":
                pass
            assert (refused["reason"], "legal" in refused) == ("it is not your turn", False)
            await tell(first, 0, {"take": 2})
            await tell(first, 0, {"take": 3})
            await turn(second)
            assert (await hear(first))["type"] in ("refused", "observe")
            assert table.match.tick == 1, "the second act of a tick was heard"


@pytest.mark.parametrize(
    "query",
    ["", "slot=0", f"token={TOKENS[0]}", f"slot=1&token={TOKENS[0]}", "slot=0&token=", f"slot=2&token={TOKENS[0]}"]
    + [f"slot={slot}&token={TOKENS[0]}" for slot in ("-1", "00000", "0x0", "٠", "%00", "")],
)
async def test_seat_requires_its_token(query: str) -> None:
    async with serving() as table:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{table.port}/player?{query}", proxy=None)
        assert refused.value.response.status_code == 403


async def test_routes_of_both_dialects() -> None:
    async with serving() as table, httpx2.AsyncClient(base_url=f"http://127.0.0.1:{table.port}") as http:
        seen = {
            path: (await http.get(path)).status_code
            for prefix in ("client", "clients")
            for path in (f"/{prefix}/player?slot=0&token=x", f"/{prefix}/global", f"/{prefix}/replay", f"/{prefix}/")
        }
        assert list(seen.values()) == [200, 200, 404, 404] * 2
        assert (await http.get("/healthz")).json() == {"ok": True}
        page = await http.get("/client/player")
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (await http.get("/")).headers["location"] == "client/global"


async def watched(table: Table) -> list[dict[str, Any]]:
    async with connect(f"ws://127.0.0.1:{table.port}/global", proxy=None) as viewer:
        return [json.loads(message) async for message in viewer]


async def test_spectators_see_the_state_at_once_and_the_end_however_late() -> None:
    async with serving(sticks=2) as table:
        async with connect(f"ws://127.0.0.1:{table.port}/global", proxy=None) as viewer:
            assert (await hear(viewer))["names"] == ["Seat 0", "Seat 1"]
            assert await hear(viewer) == {"type": "state", "tick": 0, "to_act": [0], "drawing": "||"}
            await viewer.send("what is not read does no harm")
            await (await viewer.ping())
            async with sit(table, 0) as first, sit(table, 1) as second:
                await turn(first)
                await tell(first, 0, {"take": 2})
                over = await until_over(second)
            last = [json.loads(message) async for message in viewer]
        assert last[-1] == over
        late = await watched(table)
        assert [message["type"] for message in late] == ["hello", "state", "over"]
        assert late[1]["tick"] == 1
        async with sit(table, 0) as after:
            assert await hear(after) == over


async def test_a_seat_may_be_taken_again_and_the_older_connection_is_closed() -> None:
    async with serving() as table, sit(table, 1) as other, sit(table, 0) as old:
        await turn(old)
        async with sit(table, 0) as new:
            with pytest.raises(ConnectionClosedOK, match="replaced by a newer connection"):
                await old.recv()
            assert (await hear(new))["legal"]
            await tell(new, 0, {"take": 3})
            assert (await turn(other))["tick"] == 1
        async with sit(table, 0) as again:
            seen = await hear(again)
            assert (seen["tick"], seen["your_turn"]) == (1, False)


# --- clocks ---------------------------------------------------------------------------------------------------------


class Hasty(Sticks):
    pace = Turns(per_move=0.02, bank=0.02)


async def test_what_each_seat_did_is_among_the_events(tmp_path: Path) -> None:
    async with serving(sticks=3, seconds_per_move=0.5) as table, sit(table, 0) as first, sit(table, 1) as second:
        await tell(first, (await turn(first))["tick"], {"take": 9})
        assert (await hear(first))["type"] == "refused"
        await tell(first, 0, {"take": 2})
        # The second lets its only turn pass, but for something else
        assert (await turn(second))["tick"] == 1
        await second.send("nonsense")
        with anyio.fail_after(30):
            await table.over.wait()
    path = tmp_path / "events.json"
    path.write_bytes(bytes(table.match.events))
    acted, idle = read_behaviour(path, 2)
    assert (acted.acted, acted.idle, acted.refused) == (1, 0, 1)
    assert (idle.acted, idle.idle, idle.refused) == (0, 1, 1)
    assert sum(count for _, count in acted.seconds) == 1


async def test_idle_player_gets_the_default_action() -> None:
    async with serving(Hasty) as table, sit(table, 0) as silent, sit(table, 1):
        while (message := await hear(silent))["type"] != "over":
            pass
        assert message["results"]["ticks"] == 6
        assert "seat 0 has missed its time in tick 0" in table.printed


async def test_an_act_that_comes_after_its_tick_is_refused() -> None:
    async with serving(Hasty, sticks=1000) as table, sit(table, 0) as late, sit(table, 1):
        asked = await turn(late)
        while (await hear(late))["tick"] == asked["tick"]:
            pass
        await tell(late, asked["tick"], {"take": 1})
        while (message := await hear(late))["type"] != "refused":
            pass
        assert message["reason"] == "too late: tick 0 is over"


async def test_absent_player_is_not_awaited() -> None:
    async with serving(player_connect_timeout_seconds=0.05) as table, sit(table, 1) as alone:
        assert (await until_over(alone))["results"]["ticks"] == 6
        assert any("starting without seat 0" in line for line in table.printed)


class Walk(Sticks):
    """Both walk at once, by the clock of the game."""

    pace = Ticks(hz=200)

    def to_act(self) -> list[int]:
        return [0, 1] if self.left > 0 else []

    def legal(self, seat: int) -> None:
        return None

    def step(self, actions: Mapping[int, Any]) -> None:
        self.done = [action and action.take for action in actions.values()]
        self.left -= 1

    def observe(self, seat: int) -> Any:
        return {"done": getattr(self, "done", None)}

    def draw(self) -> str:
        return "x" * 100_000


async def test_ticks_go_on_by_themselves_with_the_last_action() -> None:
    async with serving(Walk, sticks=10_000) as table, sit(table, 0) as walker, sit(table, 1):
        asked = await turn(walker)
        assert ("legal" in asked, "time_left" in asked) == (False, False)
        while (await hear(walker)).get("observation") != {"done": [2, None]}:
            await tell(walker, table.match.tick, {"take": 2})
        at = table.match.tick
        while (seen := await hear(walker)).get("tick", 0) < at + 3 or seen["type"] != "observe":
            pass
        assert seen["observation"] == {"done": [2, None]}


# --- people ---------------------------------------------------------------------------------------------------------


async def test_countdown_is_sent_to_everyone() -> None:
    async with serving(countdown=0.3) as table, sit(table, 0) as early:
        assert "starts_in" not in await hear(early)
        async with connect(f"ws://127.0.0.1:{table.port}/global", proxy=None) as viewer, sit(table, 1):
            asked = await hear(early)
            assert (asked["your_turn"], 0 < asked["starts_in"] <= 0.3) == (False, True)
            while "starts_in" not in (seen := await hear(viewer)):
                pass
            assert (seen["tick"], 0 < seen["starts_in"] <= 0.3) == (0, True)
            await tell(early, 0, {"take": 1})
            assert "has not begun" in (await hear(early))["reason"]
            assert "starts_in" not in await turn(early)


async def test_spectators_learn_whose_move_the_game_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coworld_runner.kit.server.match.SLOW", 0.2)
    async with serving() as table, sit(table, 0), sit(table, 1):
        watching = connect(f"ws://127.0.0.1:{table.port}/global", proxy=None)
        async with watching as viewer:
            while "waiting_for" not in (seen := await hear(viewer)):
                pass
            assert (seen["waiting_for"], seen["waited"] >= 0.2) == ([0], True)


@pytest.mark.parametrize("text", ["soon", "-1", "61", "nan"])
def test_invalid_countdown_is_refused(text: str, tmp_path: Path) -> None:
    with program(tmp_path, COWORLD_COUNTDOWN_SECONDS=text) as game:
        assert game.process.wait(30) != 0
        assert f"COWORLD_COUNTDOWN_SECONDS is '{text}'" in game.printed()


# --- what is hidden ---------------------------------------------------------------------------------------------------


class Listener:
    """Every frame that a connection gets, to search it for secrets."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.frames: list[str] = []

    async def next(self, **fields: Any) -> dict[str, Any]:
        """The next message with these fields."""
        while True:
            frame = str(await self._connection.recv())
            self.frames.append(frame)
            message = json.loads(frame)
            if fields.items() <= message.items():
                return message


def rules_of(table: Table) -> Any:
    return table.match._table.play._rules  # pyright: ignore[reportPrivateUsage]


async def spectate(table: Table) -> ClientConnection:
    return await connect(f"ws://127.0.0.1:{table.port}/global", proxy=None)


@pytest.mark.parametrize("rules", [Cards, LateCards, SealedCards])
async def test_a_secret_reaches_only_its_seat(rules: type[Cards]) -> None:
    """Two pages and a spectator; at the end of a game of two ticks, a spectator who sees late may see all."""
    async with serving(rules, sticks=2) as table, sit(table, 0) as page, await spectate(table) as watching:
        first, viewer = Listener(page), Listener(watching)
        await page.send(PICTURE)
        assert "<svg" in (await first.next(type="picture"))["picture"]
        assert (await viewer.next(type="hello"))["spectators"] == rules.spectators.describe()
        await viewer.next(type="state")
        async with sit(table, 1) as other:
            second = Listener(other)
            await other.send(PICTURE)
            await second.next(type="picture")
            assert "<svg" in (await first.next(your_turn=True))["picture"]
            await tell(page, 0, {"take": 1})
            assert "<svg" in (await second.next(your_turn=True))["picture"]
            await tell(other, 1, {"take": 1})
            over = await first.next(type="over")
            await second.next(type="over")
        await viewer.next(type="over")
    cards = rules_of(table).cards
    for own, seat in zip(cards, (first, second), strict=True):
        assert [card for card in cards if any(card in frame for frame in seat.frames)] == [own]
    *during, end, _ = viewer.frames
    assert not any(card in frame for card in cards for frame in during)
    assert [card in end for card in cards] == [rules is not Cards] * 2
    replay = read_replay(table.match.replay(reason="over", results=over["results"]))
    assert [set(tick.drawings) for tick in replay.ticks] == [{0, 1}] * 3
    play_again(rules, replay)


def test_spectators_of_a_delayed_game_see_it_as_it_was() -> None:
    def seen(outbox: Outbox) -> list[tuple[Any, ...]]:
        states = [json.loads(message) for message in outbox.pending()]
        return [tuple(state.values())[1:] for state in states if state["type"] == "state"]

    def frame(tick: int) -> Frame:
        return Frame(tick=tick, to_act=(tick,), drawing=str(tick))

    spectators = Spectators({}, may_see=Delayed(ticks=2), close_reason="over")
    early = spectators.join(frame(0), starts_in=3.0)
    assert seen(early) == [(0, [], "", 3.0)]
    shown: list[tuple[Any, ...]] = []
    for tick in range(5):
        for _ in range(2):
            spectators.show(frame(tick), waiting_for=[tick], waited=9.0)
        shown += seen(early)
    assert shown == [(0, [], ""), (0, [], ""), (0, [0], "0"), (1, [1], "1"), (2, [2], "2")]
    assert seen(spectators.join(frame(4))) == [(2, [2], "2")]
    spectators.finish(frame(4), '{"type": "over"}')
    assert seen(early) == seen(spectators.join(frame(4))) == [(4, [4], "4")]


def test_spectators_of_a_hidden_game_see_only_how_far_it_is() -> None:
    spectators = Spectators({"game": "Cards"}, may_see=Hidden(), close_reason="over")
    moment = Frame(tick=7, to_act=(1,), drawing="secret")
    outbox = spectators.join(moment)
    spectators.show(moment, waiting_for=[1], waited=9.0)
    assert [json.loads(message) for message in outbox.pending()] == [
        {"type": "hello", "game": "Cards", "spectators": {"kind": "hidden"}},
        {"type": "state", "tick": 7, "to_act": [], "drawing": ""},
    ]
    spectators.finish(moment, '{"type": "over"}')
    assert '"secret"' in outbox.pending()[0]


@pytest.mark.parametrize("may_see", [Hidden(), Delayed(ticks=2)])
def test_what_is_public_is_told_at_once(may_see: Hidden | Delayed) -> None:
    spectators = Spectators({}, may_see=may_see, close_reason="over")
    moment = Frame(tick=7, to_act=(1,), drawing="secret", scores=(1.0, 2.0), public={"eliminated": [0], "pot": 3})
    outbox = spectators.join(moment)
    spectators.show(moment)
    state = json.loads(outbox.pending()[-1])
    assert (state["eliminated"], state["known"], state["to_act"], state["drawing"]) == ([0], {"pot": 3}, [], "")
    assert "scores" not in state


class Ranked(Sticks):
    """The game with scores from the start, in which seat 1 counts as out."""

    live_scores = True

    def eliminated(self) -> list[int]:
        return [1]


@pytest.mark.parametrize(
    ("may_see", "told"),
    [
        (Open(), [{"scores": [0, 1], "to_act": [0], "eliminated": [1]}] * 2),
        (Hidden(), [{"scores": [0, None]}, {"scores": [None, 1], "eliminated": [1]}]),
        (Delayed(ticks=1), [{"scores": [0, None]}, {"scores": [None, 1], "eliminated": [1]}]),
    ],
)
async def test_a_seat_is_told_the_standing_of_others_only_if_spectators_are(
    may_see: Open | Hidden | Delayed, told: list[dict[str, Any]]
) -> None:
    async with serving(cast("type[Rules]", type("Ranked", (Ranked,), {"spectators": may_see}))) as table:
        for slot in range(2):
            async with sit(table, slot) as seat:
                await hear(seat)
                await seat.send(PICTURE)
                said = await hear(seat)
                assert {name: said[name] for name in ("scores", "to_act", "eliminated") if name in said} == told[slot]
        async with connect(f"ws://127.0.0.1:{table.port}/global", proxy=None) as viewer:
            await hear(viewer)
            assert ("scores" in await hear(viewer)) == isinstance(may_see, Open)


async def test_keys_without_an_action_are_an_error_of_the_rules() -> None:
    with pytest.raises(RulesError, match="keys, tick 0: ValueError: the key 'x' has no action: take"):
        Match(
            cast("type[Rules]", type("Keyed", (Sticks,), {"keys": {"x": {"take": 4}}})),
            read_config(Sticks, {"tokens": list(TOKENS)}),
            seed=1,
            log=print,
        )


async def test_seats_are_drawn_only_for_pages() -> None:
    async with serving(Cards, sticks=3) as table, sit(table, 0) as first, sit(table, 1) as second:
        seats = (first, second)
        for tick in range(2):
            assert "picture" not in await turn(seats[tick])
            if tick == 1:
                assert set(Cards.drawn) == {None}, "nobody looks yet"
                await second.send(PICTURE)
                picture = Cards.draw(rules_of(table), 1)
                assert await hear(second) == {"type": "picture", "tick": 1, "picture": picture, "to_act": [1]}
            await tell(seats[tick], tick, {"take": 1})
        assert "picture" not in await turn(first)
        async with sit(table, 1) as program:
            assert "picture" not in await hear(program), "the page is gone"
            await tell(first, 2, {"take": 1})
            over = await until_over(program)
    replay = read_replay(table.match.replay(reason="over", results=over["results"]))
    assert (replay.header.draws_seats, [set(tick.drawings) for tick in replay.ticks]) == (
        True,
        [set(), {1}, {1}, set()],
    )


async def test_a_page_of_a_game_that_does_not_draw_seats_gets_what_spectators_see() -> None:
    async with serving(sticks=2) as table, sit(table, 0) as page:
        await hear(page)
        for _ in range(2):
            await page.send(PICTURE)
            assert await hear(page) == {"type": "picture", "tick": 0, "picture": "||", "to_act": [0]}
        async with sit(table, 1):
            assert (await turn(page))["picture"] == "||"
    assert read_replay(table.match.replay(reason="stopped")).header.draws_seats is False


class Smudged(Cards):
    def draw(self, seat: int | None = None) -> str:
        return "" if seat is None else str(1 // seat)


async def test_a_drawing_of_a_seat_that_fails_fails_the_game() -> None:
    async with serving(Smudged) as table, sit(table, 0) as page, sit(table, 1):
        await page.send(PICTURE)
        await table.over.wait()
    assert str(table.failure).startswith("draw, tick 0, seat 0: ZeroDivisionError")
    assert read_replay(table.match.replay(reason="failed")).ticks[0].drawings == {}


# --- who pays -------------------------------------------------------------------------------------------------------


async def test_player_that_reads_nothing_does_not_block_the_game() -> None:
    """A tick has 100 kB; what is not read takes no room and no time of others."""
    async with serving(Walk, sticks=100) as table, sit(table, 0) as reader, sit(table, 1) as deaf:
        deaf.transport.pause_reading()  # type: ignore[attr-defined]
        assert (await until_over(reader))["results"]["ticks"] == 100
        deaf.transport.resume_reading()  # type: ignore[attr-defined]
        ticks = [message["tick"] async for message in _observed(deaf)]
        assert ticks == sorted(set(ticks))


async def _observed(seat: ClientConnection) -> Any:
    async for text in seat:
        if (message := json.loads(text))["type"] == "observe":
            yield message


@pytest.mark.slow
async def test_flooding_player_affects_only_itself() -> None:
    async with serving(sticks=3) as table, sit(table, 0) as good, sit(table, 1) as flood:
        async with anyio.create_task_group() as tasks:

            async def pour() -> None:
                while True:
                    await flood.send("nonsense")
                    heard.append(None)

            heard: list[None] = []
            tasks.start_soon(pour)
            await turn(good)
            while len(heard) < 1000:
                # The flood's own task needs its turns to fill every buffer on the way
                await anyio.lowlevel.checkpoint()
            await tell(good, 0, {"take": 3})
            assert (await until_over(good))["scores"] == [1.0, 0.0]
            tasks.cancel_scope.cancel()
        flood.transport.abort()
        await table.over.wait()


async def test_a_frame_that_is_too_long_costs_its_sender_the_connection() -> None:
    async with serving(sticks=2) as table, sit(table, 1) as good:
        async with sit(table, 0) as giant:
            await turn(giant)
            # A frame that says it has 100 MB is not waited for.
            giant.transport.write(b"\x81\xff" + (100_000_000).to_bytes(8, "big") + b"mask" + b"x" * 1000)
            with pytest.raises(ConnectionClosedError) as closed:
                await giant.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        async with sit(table, 0) as again:
            assert (await hear(again))["your_turn"]
            await tell(again, 0, {"take": 2})
            assert (await until_over(good))["scores"] == [1.0, 0.0]


async def test_messages_that_wait_are_few() -> None:
    outbox = Outbox()
    outbox.put("old")
    outbox.put("new")
    for number in range(MAX_NOTICES + 5):
        outbox.notify(str(number))
    assert await outbox.take() == [*map(str, range(MAX_NOTICES)), "new"]
    outbox.put("state")
    outbox.finish("end", reason="over")
    outbox.put("later")
    outbox.notify("later")
    assert (await outbox.take(), await outbox.take(), outbox.close_reason) == (["end"], [], "over")


async def test_messages_are_sent_at_once_or_wait_until_they_are_taken() -> None:
    outbox, sent, behind = Outbox(), list[str](), False

    def at_once() -> bool:
        if not behind:
            sent.extend(outbox.pending())
        return not behind

    outbox.at_once = at_once
    outbox.notify("hello")
    outbox.put("first")
    assert sent == ["hello", "first"]
    behind = True
    for message in ("second", "third"):
        outbox.put(message)
    assert (sent[2:], await outbox.take()) == ([], ["third"])
    behind = False
    outbox.finish("end", reason="over")
    # Who takes it closes the connection
    assert (sent[2:], await outbox.take()) == ([], ["end"])


async def test_a_small_frame_does_not_wait_for_the_one_before() -> None:
    """Two in a row would otherwise take the 40 ms after which a system acknowledges what nothing answers."""
    found: list[int] = []

    async def connected(connection: ServerConnection) -> None:
        found.append(connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def route(connection: ServerConnection, request: Request) -> Response | None:
        return None

    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with (
            open_server(connected, route, listener),
            connect(f"ws://127.0.0.1:{listener.getsockname()[1]}", proxy=None) as client,
        ):
            await client.wait_closed()
    assert found == [1]


class Endless(Sticks):
    """As long as it is asked to be, and with little to see."""

    def legal(self, seat: int) -> list[Sticks.Action]:
        return [self.Action(take=1)]

    def draw(self) -> str:
        return f"{self.left:05}"


@pytest.mark.slow
async def test_memory_does_not_grow_with_the_length_of_a_game(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that read nothing are there as well; of what stays, events are limited and the replay is packed."""
    monkeypatch.setattr("coworld_runner.kit.table.seat_events.MAX_EVENTS", 200)
    config = read_config(Endless, {"tokens": list(TOKENS), "sticks": 2500})
    match = Match(Endless, config, seed=1, log=lambda line: None)
    for slot in range(2):
        match.join(slot)
    match.watch()
    held: list[int] = []

    async def act() -> None:
        for tick in range(2500):
            if tick in (500, 2499):
                held.append(tracemalloc.get_traced_memory()[0])
            message = json.dumps({"type": "act", "tick": tick, "action": {"take": 1}})
            while match.receive(tick % 2, message) is not None:
                await anyio.lowlevel.checkpoint()

    tracemalloc.start()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(act)
            await match.play()
    finally:
        tracemalloc.stop()
    assert held[1] - held[0] < 2000 * 20, "bytes for each tick: an hour of ten in a second would take megabytes"


# --- rules that fail ------------------------------------------------------------------------------------------------


class Fragile(Sticks):
    def step(self, actions: Mapping[int, Any]) -> None:
        super().step(actions)
        if self.left < 4:
            raise RuntimeError("three are too few")


async def test_rules_that_raise_end_the_game_with_the_replay_up_to_there() -> None:
    async with serving(Fragile) as table, sit(table, 0) as first, sit(table, 1) as second:
        await turn(first)
        await tell(first, 0, {"take": 1})
        await turn(second)
        await tell(second, 1, {"take": 2})
        over = await until_over(first)
        assert (over["reason"], over["scores"]) == ("failed", None)
        await table.over.wait()
        assert str(table.failure) == "step, tick 1: RuntimeError: three are too few"
    replay = read_replay(table.match.replay(reason="failed"))
    assert (replay.reason, [tick.drawing for tick in replay.ticks]) == ("failed", ["||||||", "|||||"])


class Secretive(Sticks):
    looks = 0

    def observe(self, seat: int) -> Any:
        type(self).looks += 1
        if type(self).looks > 4:
            raise RuntimeError("seen too often")
        return None


async def test_rules_that_fail_while_a_newcomer_is_greeted_fail_the_game() -> None:
    Secretive.looks = 0
    async with serving(Secretive) as table, sit(table, 0) as first, sit(table, 1):
        await turn(first)
        async with connect(table.url(0), proxy=None):
            await table.over.wait()
        assert "observe, tick 0, seat 0: RuntimeError: seen too often" in str(table.failure)


class Picky(Sticks):
    class Action(BaseModel):
        take: int

        @field_validator("take")
        @classmethod
        def check(cls, take: int) -> int:
            return 1 // (take - 9) or take

    def legal(self, seat: int) -> None:
        return None


async def test_a_type_of_actions_that_fails_fails_the_game() -> None:
    async with serving(Picky) as table, sit(table, 0) as first, sit(table, 1):
        await turn(first)
        await tell(first, 0, {"take": 9})
        assert (await until_over(first))["reason"] == "failed"
        await table.over.wait()
        assert str(table.failure).startswith("Action, tick 0, seat 0: ZeroDivisionError")


class Unreadable(Sticks):
    Action = iter


async def test_invalid_action_type_is_refused_at_start() -> None:
    with pytest.raises(RulesError, match="Action, tick 0: Pydantic"):
        async with serving(Unreadable):
            pass


async def test_random_says_that_a_message_is_too_long() -> None:
    async def endless(connection: ServerConnection) -> None:
        await connection.send(" " * (random_player.MAX_MESSAGE + 1))
        await connection.wait_closed()

    async with serve(endless, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/player"
        command = [sys.executable, "-I", random_player.__file__]
        done = await anyio.run_process(command, env={"COWORLD_PLAYER_WS_URL": url}, check=False)
    assert done.returncode == 1
    assert done.stderr == b"The game has sent a message of more than 16777216 bytes.\n"
    assert (random_player.MAX_MESSAGE, random_player.PROTOCOL) == (seat_wire.MAX_MESSAGE, seat_wire.PROTOCOL)


@pytest.mark.timeout(30)
async def test_random_plays_any_game_with_nothing_of_ours() -> None:
    for rules in (Sticks, Gather):
        async with serving(rules) as table, anyio.create_task_group() as players:
            for slot in range(2):
                command = [sys.executable, "-I", random_player.__file__]
                players.start_soon(partial(anyio.run_process, command, env={"COWORLD_PLAYER_WS_URL": table.url(slot)}))
            await table.over.wait()
            assert table.match.results()["ticks"] >= 2
