"""The game server as a real process, over real sockets."""

import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from support.fake_server import Site, site_in_thread
from support.waiting import live_on
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from paintarena.config import RESULTS_SCHEMA
from paintarena.testing import Server, running, small_config

SNAPSHOT_KEYS = {
    *("type", "width", "height", "positions", "tile_owners", "scores", "player_names"),
    *("tick", "max_ticks", "started", "paused", "tick_rate", "done"),
}
# An unread message must not keep the client from seeing the close.
dial = partial(connect, max_queue=None)

SLOW = {"max_ticks": 10_000, "tick_rate": 10}
"""A game that is not over before the test has seen what it came for."""


def get(url: str) -> tuple[int, str, dict[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode(), lowered(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), lowered(error.headers)


def lowered(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


async def hear(client: ClientConnection) -> dict[str, Any]:
    with anyio.fail_after(20):
        return json.loads(await client.recv())


async def hear_type(client: ClientConnection, kind: str) -> dict[str, Any]:
    while (message := await hear(client))["type"] != kind:
        pass
    return message


async def say(client: ClientConnection, value: object) -> None:
    await client.send(value if isinstance(value, str | bytes) else json.dumps(value))


@asynccontextmanager
async def seated(server: Server) -> AsyncGenerator[tuple[ClientConnection, ClientConnection]]:
    async with dial(server.player_url(0)) as first, dial(server.player_url(1)) as second:
        yield first, second


async def listen(client: ClientConnection, heard: list[dict[str, Any]]) -> None:
    """Collect everything until the server closes."""
    try:
        while True:
            heard.append(await hear(client))
    except ConnectionClosed:
        pass


async def test_a_whole_game(tmp_path: Path) -> None:
    first_heard: list[dict[str, Any]] = []
    second_heard: list[dict[str, Any]] = []
    seen: list[dict[str, Any]] = []
    with running(tmp_path, config=small_config()) as server:
        async with dial(server.ws("/global")) as viewer:
            seen.append(await hear(viewer))
            assert seen[0]["started"] is False
            async with seated(server) as (first, second), anyio.create_task_group() as tasks:
                await say(first, {"move": "right"})
                tasks.start_soon(listen, first, first_heard)
                tasks.start_soon(listen, second, second_heard)
                tasks.start_soon(listen, viewer, seen)
            assert first.close_code == second.close_code == viewer.close_code == 1000
        assert server.wait() == 0
        results = json.loads(server.results.read_text())
        replay = json.loads(server.replay.read_text())

    jsonschema.validate(results, RESULTS_SCHEMA)
    assert results["ticks"] == 20
    assert results["painted_tiles"] == [7, 1], "the start tile is not painted, the other seven of the row are"
    assert results["scores"] == [7.0, 1.0]
    assert set(first_heard[0]) == SNAPSHOT_KEYS | {"slot"}
    for slot, heard in enumerate((first_heard, second_heard)):
        assert {message["slot"] for message in heard} == {slot}
        assert [message["type"] for message in heard] == ["observation"] * (len(heard) - 1) + ["final"]
        ticks = [message["tick"] for message in heard]
        assert ticks == sorted(ticks)
        assert heard[0]["tick"] == 0
        assert heard[0]["tile_owners"] == [-1] * 48
        assert heard[-1]["tick"] == 20
        assert heard[-1]["done"] is True
        assert heard[-1]["scores"] == results["painted_tiles"]
        assert all(message["done"] is False for message in heard[:-1])
    assert all(set(message) == SNAPSHOT_KEYS for message in seen)
    assert {message["type"] for message in seen} == {"state"}
    assert seen[-1]["done"] is True

    assert set(replay) == {"config", "player_names", "frames", "results"}
    assert replay["config"] == {key: value for key, value in small_config().items() if key != "tokens"}
    assert replay["player_names"] == ["Ada", "Bob"]
    assert replay["results"] == results
    assert [frame["tick"] for frame in replay["frames"]] == list(range(1, 21))
    assert all(set(frame) == SNAPSHOT_KEYS and frame["type"] == "state" for frame in replay["frames"])
    assert isinstance(replay["frames"][0]["tick_rate"], float)
    by_tick = {frame["tick"]: frame for frame in replay["frames"]}
    for message in first_heard[1:-1]:
        if message["tick"]:
            assert {**message, "type": "state"} == {**by_tick[message["tick"]], "slot": 0}


async def test_no_token_is_ever_told(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(max_ticks=2)) as server:
        for page in ("player", "global"):
            get(server.http(f"/client/{page}?{server.query(0)}"))
        get(server.http(f"/nowhere?{server.query(0)}"))
        with pytest.raises(InvalidStatus):
            async with dial(server.ws(f"/nowhere?{server.query(0)}")):
                pass
        with pytest.raises(InvalidStatus):
            async with dial(server.ws("/player?slot=0&token=secret-of-slot-1")):
                pass
        async with seated(server) as (first, second):
            await say(first, "not json")
            await hear_type(first, "final")
            await hear_type(second, "final")
        assert server.wait() == 0
        said = server.printed()
    assert "slot 0" in said
    for path in (server.results, server.replay, tmp_path / "stderr"):
        assert "secret" not in path.read_text(), path
    assert "secret" not in said


# Who may join


@pytest.mark.parametrize(
    "query",
    [
        *[
            "",
            "slot=0",
            "token=secret-of-slot-0",
            "slot=0&token=",
            "slot=0&token=wrong",
            "slot=1&token=secret-of-slot-0",
        ],
        *["slot=2&token=secret-of-slot-0", "slot=-1&token=secret-of-slot-1", "slot=x&token=secret-of-slot-0"],
        *["slot=&token=secret-of-slot-0", "slot=%D9%A0&token=secret-of-slot-0", "slot=0.0&token=secret-of-slot-0"],
        *["slot=99999999999999999999&token=x", "slot=0&token=%ED%A0%80", "slot=+0&token=secret-of-slot-0"],
    ],
)
async def test_wrong_seats_are_refused_with_403(shared: Server, query: str) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with dial(shared.ws(f"/player?{query}")):
            pass
    assert caught.value.response.status_code == 403


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One waiting game for tests that do not change it."""
    config = small_config(player_connect_timeout_seconds=3600)
    with running(tmp_path_factory.mktemp("shared"), config=config) as server:
        yield server
        assert server.process.poll() is None, "it was still waiting for its players"


# Pages and routes


@pytest.mark.parametrize("prefix", ["client", "clients"])
@pytest.mark.parametrize("page", ["player", "global"])
def test_pages_are_whole_and_locked_down(shared: Server, prefix: str, page: str) -> None:
    status, html, headers = get(shared.http(f"/{prefix}/{page}?slot=0&token=x"))
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert "src=" not in html.replace("<script>", ""), "nothing is fetched from anywhere"
    assert "/*style*/" not in html
    assert "/*script*/" not in html


def test_health(shared: Server) -> None:
    status, body, _ = get(shared.http("/healthz"))
    assert (status, json.loads(body)) == (200, {"ok": True})


def test_the_root_leads_to_the_board(shared: Server) -> None:
    status, html, _ = get(shared.http("/"))
    assert status == 200
    assert "Live" in html


@pytest.mark.parametrize("path", ["/client/replay", "/client/admin", "/clients/admin", "/nowhere", "/client/../config"])
def test_unknown_paths_are_404(shared: Server, path: str) -> None:
    assert get(shared.http(path))[0] == 404


@pytest.mark.parametrize("path", ["/admin", "/replay", "/nowhere"])
async def test_other_sockets_are_refused(shared: Server, path: str) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with dial(shared.ws(path)):
            pass
    assert caught.value.response.status_code == 404


async def test_pings_are_answered(shared: Server) -> None:
    async with dial(shared.ws("/global")) as viewer:
        with anyio.fail_after(10):
            await (await viewer.ping())


# What players say


BAD_MESSAGES: list[str | bytes] = [
    *[
        "not json",
        "",
        "[]",
        "null",
        '"up"',
        "{}",
        '{"mvoe": "up"}',
        '{"move": 3}',
        '{"move": null}',
        '{"move": ["up"]}',
    ],
    *["[" * 50_000, '{"move": NaN}', b"\xff\xfe", b"[1]"],
]


async def test_bad_messages_are_answered_and_not_fatal(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**SLOW)) as server:
        async with seated(server) as (first, second):
            await say(first, {"move": "right"})
            while (await hear(second))["positions"][0][0] == 0:
                pass
            for message in BAD_MESSAGES:
                await say(first, message)
                answer = await hear_type(first, "error")
                assert set(answer) == {"type", "message"}
                assert "understood" in answer["message"], message
            before = (await hear_type(first, "observation"))["tick"]
            assert (await hear_type(first, "observation"))["tick"] > before
            await say(first, {"move": "down"})
            while (await hear(second))["positions"][0][1] == 0:
                pass
        server.process.terminate()
        server.wait()
        assert "Traceback" not in server.printed()


async def test_an_unknown_move_means_stay(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**SLOW, width=40)) as server:
        async with seated(server) as (first, second):
            await say(first, {"move": "right"})
            while (await hear(second))["positions"][0][0] == 0:
                pass
            await say(first, {"move": "jump"})
            # One tick may have been under way; from the second on it stands.
            last = await hear_type(first, "observation")
            for _ in range(10):
                seen = await hear_type(first, "observation")
                if seen["positions"][0] == last["positions"][0]:
                    break
                last = seen
            else:
                pytest.fail("it kept moving")


async def test_an_oversized_message_costs_only_the_connection(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**SLOW)) as server:
        async with dial(server.player_url(1)) as second:
            async with dial(server.player_url(0)) as first:
                await say(first, "x" * 2_000_000)
                await listen(first, [])
                assert first.close_code == 1009
            async with dial(server.player_url(0)) as first:
                assert (await hear(first))["slot"] == 0
            assert (await hear(second))["slot"] == 1


# Coming, going, coming back


async def test_a_player_that_dropped_does_not_hold_up_the_start(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(player_connect_timeout_seconds=3600)) as server:
        async with dial(server.player_url(0)) as first:
            await hear(first)
        async with dial(server.player_url(1)) as second:
            assert (await hear_type(second, "final"))["tick"] == 20
        assert server.wait() == 0


async def test_the_game_starts_without_those_who_never_come(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(player_connect_timeout_seconds=0)) as server:
        assert server.wait() == 0
        assert json.loads(server.results.read_text())["painted_tiles"] == [1, 1]
        assert "starting without slot 0, 1: never connected" in server.printed()


async def test_held_action_and_seat_survive_a_reconnect(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**SLOW, width=40)) as server:
        async with dial(server.player_url(1)) as second:
            async with dial(server.player_url(0)) as first:
                await say(first, {"move": "right"})
                while (await hear(first))["positions"][0][0] == 0:
                    pass
            gone = await hear_type(second, "observation")
            while (seen := await hear_type(second, "observation"))["positions"][0][0] < gone["positions"][0][0] + 3:
                pass
            async with dial(server.player_url(0)) as first:
                back = await hear(first)
                assert back["slot"] == 0
                assert back["tick"] >= seen["tick"]
                assert back["positions"][0][0] >= seen["positions"][0][0]
                assert back["scores"][0] >= seen["scores"][0] >= 3
                await say(first, {"move": "down"})
                while (await hear(first))["positions"][0][1] == 0:
                    pass


async def test_the_newest_connection_owns_the_seat(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**SLOW)) as server:
        async with dial(server.player_url(1)), dial(server.player_url(0)) as old:
            await hear(old)
            async with dial(server.player_url(0)) as new:
                await listen(old, [])
                assert old.close_code == 1000
                assert old.close_reason == "replaced by a newer connection"
                ticks = [(await hear_type(new, "observation"))["tick"] for _ in range(3)]
                assert ticks == sorted(ticks)
                assert ticks[-1] > 0
                await say(new, {"move": "right"})
                while (await hear(new))["positions"][0][0] == 0:
                    pass


async def test_a_late_viewer_gets_the_whole_board_at_once(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**SLOW)) as server:
        async with seated(server) as (first, _):
            while (await hear(first))["tick"] < 3:
                pass
            async with dial(server.ws("/global")) as viewer:
                await say(viewer, "anything at all")
                seen = await hear(viewer)
                assert seen["tick"] >= 3
                assert len(seen["tile_owners"]) == 48


@pytest.mark.slow
async def test_client_that_never_reads_does_not_block_the_game(tmp_path: Path) -> None:
    """Its socket buffers fill long before the end; the ticks, the others and the exit do not wait for it."""
    names: list[Any] = [{"name": "A" * 60_000}, {"name": "Bob"}]
    config = small_config(players=names, max_ticks=150, tick_rate=60)
    with running(tmp_path, config=config) as server:
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect(("127.0.0.1", server.port))
            handshake = (
                f"GET /player?{server.query(0)} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
            )
            lazy.sendall(handshake.encode())
            async with dial(server.player_url(1), max_size=None) as second:
                final = await hear_type(second, "final")
            assert final["tick"] == 150
            assert await anyio.to_thread.run_sync(server.wait) == 0
            received = 0
            lazy.settimeout(10)
            try:
                while chunk := lazy.recv(1 << 20):
                    received += len(chunk)
            except ConnectionResetError:
                pass
        frames = json.loads(server.replay.read_text())["frames"]
    assert [frame["tick"] for frame in frames] == list(range(1, 151))
    assert received < 100 * 60_000, "it really was too slow to get every tick"


async def test_players_that_come_and_go_quickly_do_no_harm(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(max_ticks=60, tick_rate=60)) as server:
        over = anyio.Event()

        async def churn(slot: int) -> None:
            seated = False
            while not over.is_set():
                try:
                    async with dial(server.player_url(slot)) as client:
                        seated = True
                        client.transport.abort()
                except (OSError, InvalidHandshake, ConnectionClosed):
                    if seated:
                        return  # It ends; who has not been in yet tries again
                with anyio.move_on_after(0.01):  # Quickly, and still leaving the game a processor to play on
                    await over.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(churn, 0)
            tasks.start_soon(churn, 1)
            assert await anyio.to_thread.run_sync(server.wait) == 0
            over.set()
        assert "Traceback" not in server.printed()
        assert json.loads(server.results.read_text())["ticks"] == 60


# When things go wrong


@pytest.mark.parametrize("target", ["COGAME_RESULTS_URI", "COGAME_SAVE_REPLAY_URI"])
def test_a_game_that_cannot_write_fails_loudly(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").touch()
    config = small_config(player_connect_timeout_seconds=0, max_ticks=1)
    with running(tmp_path, config=config, env={target: (tmp_path / "file" / "x").as_uri()}) as server:
        assert server.wait() == 1
        said = server.printed()
    what = "results" if "RESULTS" in target else "replay"
    assert (
        said.rstrip().splitlines()[-1].startswith(f"paintarena: The {what} could not be written to {tmp_path}/file/x: ")
    )
    assert "Traceback" not in said
    assert not server.replay.exists(), "no replay is claimed after a failure"


async def test_clients_of_a_failing_game_are_let_go(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"COGAME_RESULTS_URI": (tmp_path / "file" / "x").as_uri()}
    with running(tmp_path, config=small_config(), env=env) as server:
        async with seated(server) as (first, second):
            for client in (first, second):
                heard: list[dict[str, Any]] = []
                await listen(client, heard)
                assert {message["type"] for message in heard} == {"observation"}
                assert client.close_code != 1000
        assert server.wait() == 1


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"COGAME_CONFIG_URI": ""}, "COGAME_CONFIG_URI is not set"),
        (
            {"COGAME_CONFIG_URI": "file:///nowhere/config.json"},
            "The game config cannot be read from /nowhere",
        ),
        ({"COGAME_RESULTS_URI": ""}, "COGAME_RESULTS_URI is not set"),
        ({"COGAME_SAVE_REPLAY_URI": "s3://bucket/replay"}, "COGAME_SAVE_REPLAY_URI names an s3:// address"),
        ({"COGAME_RESULTS_METHOD": "PATCH"}, "COGAME_RESULTS_METHOD must be PUT or POST"),
        ({"COGAME_PORT": "eighty"}, "COGAME_PORT must be the number of a port"),
        ({"COGAME_LOG_URI": "file:///log"}, "COGAME_LOG_URI must be"),
        ({"COGAME_LOAD_REPLAY_URI": "file:///nowhere/replay"}, "The replay cannot be read from /nowhere/replay"),
    ],
)
def test_a_senseless_environment_is_refused_before_listening(tmp_path: Path, env: dict[str, str], words: str) -> None:
    with (
        pytest.raises(RuntimeError) as caught,
        running(tmp_path, config=small_config(), env=env),
    ):
        pass
    assert "ended with 2: paintarena: " in str(caught.value)
    assert words in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_bad_config_is_refused_before_listening(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="tick_rate must be above 0") as caught,
        running(tmp_path, config=small_config(tick_rate=0)),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_busy_port_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        env = {"COGAME_PORT": str(other.getsockname()[1])}
        with (
            pytest.raises(RuntimeError, match=r"Cannot listen on 127\.0\.0\.1, port \d+: Address already in use"),
            running(tmp_path, config=small_config(), env=env),
        ):
            pass


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_ends_a_running_game(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with running(tmp_path, config=small_config(**SLOW)) as server:
        async with seated(server) as (first, _), dial(server.ws("/global")):
            while (await hear(first))["tick"] < 2:
                pass
            server.process.send_signal(number)
            assert await anyio.to_thread.run_sync(server.wait) == code
        said = server.printed()
    assert f"stopped by {number.name}" in said
    assert "Traceback" not in said
    assert not server.results.exists()
    assert not server.replay.exists()


@pytest.mark.slow
async def test_late_ticks_are_counted_and_told(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(max_ticks=120, tick_rate=20)) as server:
        async with seated(server) as (first, _):
            while (await hear(first))["tick"] < 5:
                pass
            server.process.send_signal(signal.SIGSTOP)
            # However long this takes, the process stood still for at least as long: six periods.
            await anyio.to_thread.run_sync(live_on, server.process, 0.3)
            server.process.send_signal(signal.SIGCONT)
            assert await anyio.to_thread.run_sync(server.wait) == 0
        said = server.printed()
        frames = json.loads(server.replay.read_text())["frames"]
    assert " of 120, worst " in said
    assert said.count("late ticks: ") == 1
    assert [frame["tick"] for frame in frames] == list(range(1, 121)), "no tick is lost or played twice"


# Admin


@pytest.mark.slow
async def test_admin_pauses_resumes_and_sets_the_pace(tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(max_ticks=200, tick_rate=1), env={"COWORLD_ADMIN": "1"}) as server:
        assert get(server.http("/client/admin"))[0] == 200
        assert get(server.http("/clients/admin"))[0] == 200
        async with seated(server) as (first, second), dial(server.ws("/admin")) as admin:
            assert (await hear(admin))["type"] == "state"
            await say(admin, {"command": "pause"})
            while not (await hear(admin))["paused"]:
                pass
            rates: list[Any] = [0, -1, 61, "5", None, True, [], float("nan"), float("inf")]
            for bad in rates:
                await say(admin, {"command": "tick_rate", "tick_rate": bad})
                assert "tick_rate must be" in (await hear_type(admin, "error"))["message"]
            commands: list[Any] = ["not json", {}, {"command": "explode"}, {"command": ["pause"]}, []]
            for bad in commands:
                await say(admin, bad)
                assert "command must be" in (await hear_type(admin, "error"))["message"]
            await say(admin, {"command": "tick_rate", "tick_rate": 60})
            while (seen := await hear(admin))["tick_rate"] != 60.0:
                pass
            assert seen["paused"]
            await say(admin, {"command": "resume"})
            final = await hear_type(first, "final")
            await hear_type(second, "final")
        assert final["tick"] == 200
        assert server.wait() == 0, "at the first rate this would have taken minutes"


@pytest.mark.parametrize("value", ["", "0", "true"])
async def test_admin_is_only_there_when_asked_for(tmp_path: Path, value: str) -> None:
    with running(tmp_path, config=small_config(), env={"COWORLD_ADMIN": value}) as server:
        assert get(server.http("/client/admin"))[0] == 404
        with pytest.raises(InvalidStatus):
            async with dial(server.ws("/admin")):
                pass


# Over HTTP


def test_config_results_replay_and_log_travel_over_http(tmp_path: Path) -> None:
    with site_in_thread(Site()) as store:
        store.on("GET", "/config", small_config(player_connect_timeout_seconds=0, max_ticks=3))
        for method, path in (("PUT", "/results?signature=hush"), ("POST", "/replay"), ("POST", "/log")):
            store.on(method, path, b"")
        env = {
            "COGAME_CONFIG_URI": f"{store.url}/config",
            "COGAME_RESULTS_URI": f"{store.url}/results?signature=hush",
            "COGAME_SAVE_REPLAY_URI": f"{store.url}/replay",
            "COGAME_SAVE_REPLAY_METHOD": "POST",
            "COGAME_LOG_URI": f"{store.url}/log",
        }
        with running(tmp_path, env=env) as server:
            assert server.wait() == 0
            said = server.printed()
    (results,) = store.calls("PUT", "/results")
    assert results.json["ticks"] == 3
    (replay,) = store.calls("POST", "/replay")
    assert len(replay.json["frames"]) == 3
    logs = store.calls("POST", "/log")
    posted = b"".join(ask.body for ask in logs).decode()
    assert len(store.asked) == 3 + len(logs)
    # A busy machine's complaint of late ticks goes to standard error, so where it stands among the others is open
    assert sorted(posted.splitlines()) == sorted(said.splitlines()), "every line, once"
    in_order = [[line for line in text.splitlines() if not line.startswith("late ticks")] for text in (posted, said)]
    assert in_order[0] == in_order[1], "in order"
    assert "game over" in posted
    assert "hush" not in said


def test_a_dead_log_receiver_does_not_matter(tmp_path: Path) -> None:
    config = small_config(player_connect_timeout_seconds=0, max_ticks=3)
    with running(tmp_path, config=config, env={"COGAME_LOG_URI": "http://127.0.0.1:1/"}) as server:
        assert server.wait() == 0
        assert "log lines could not be posted" in server.printed()
