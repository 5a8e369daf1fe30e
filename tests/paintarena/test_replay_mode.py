"""The server as a viewer: one replay by environment, or replays by request."""

import gzip
import json
import signal
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from paintarena.rules import Board
from paintarena.testing import Server, running


def replay() -> dict[str, Any]:
    """A short replay as the published game writes it: tokens and all."""
    board = Board(4, 4, slots=2)
    board.hold(0, "right")
    frames: list[dict[str, Any]] = []
    for _ in range(3):
        board.step()
        extra = {"type": "state", "player_names": ["Ada", "Bob"], "max_ticks": 3, "started": True}
        frames.append({**board.state(), **extra, "paused": False, "tick_rate": 5.0, "done": False})
    config = {"width": 4, "height": 4, "tokens": ["secret-a", "secret-b"]}
    results = {"scores": [3.0, 1.0], "painted_tiles": [3, 1], "ticks": 3}
    return {"config": config, "player_names": ["Ada", "Bob"], "frames": frames, "results": results}


EXPECTED = {**replay(), "type": "replay", "config": {"width": 4, "height": 4}}
PACKED = {
    "replay": json.dumps(replay()).encode(),
    "replay.z": zlib.compress(json.dumps(replay()).encode()),
    "replay.gz": gzip.compress(json.dumps(replay()).encode()),
    "replay without suffix": zlib.compress(json.dumps(replay()).encode()),
    "raw in spite of.z": json.dumps(replay()).encode(),
}


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def hear(client: ClientConnection) -> Any:
    with anyio.fail_after(20):
        return json.loads(await client.recv())


@pytest.fixture
def stored(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    name = getattr(request, "param", "replay")
    path = tmp_path / name
    path.write_bytes(PACKED[name])
    return path


@pytest.fixture
def viewer(tmp_path: Path, stored: Path) -> Any:
    with running(tmp_path, env={"COGAME_LOAD_REPLAY_URI": stored.as_uri()}) as server:
        yield server


@pytest.mark.parametrize("stored", PACKED, indirect=True)
async def test_a_replay_is_shown_however_it_is_packed(viewer: Server) -> None:
    async with connect(viewer.ws("/replay")) as client:
        assert await hear(client) == EXPECTED


async def test_controls_are_echoed(viewer: Server) -> None:
    async with connect(viewer.ws("/replay")) as client:
        await hear(client)
        commands: list[Any] = [{"type": "play"}, 3, "pause", None, []]
        for command in commands:
            await client.send(json.dumps(command))
            assert await hear(client) == {"type": "control", "command": command}
        await client.send("not json")
        assert (await hear(client))["type"] == "error"
        with anyio.fail_after(10):
            await (await client.ping())


@pytest.mark.parametrize("path", ["/replay", "/replay/some/suffix", "/replay?whatever=1"])
async def test_a_suffix_and_a_query_do_not_matter(viewer: Server, path: str) -> None:
    for prefix in ("/client", "/clients"):
        status, html = get(viewer.http(prefix + path))
        assert status == 200
        assert "Replay" in html
    async with connect(viewer.ws(path)) as client:
        assert (await hear(client))["type"] == "replay"


def test_a_viewer_is_healthy_and_its_root_leads_to_the_page(viewer: Server) -> None:
    assert get(viewer.http("/healthz")) == (200, '{"ok":true}')
    assert "Replay" in get(viewer.http("/"))[1]


@pytest.mark.parametrize("path", ["/player?slot=0&token=", "/player?slot=0&token=secret-a", "/global", "/admin"])
async def test_viewer_serves_no_game_routes(viewer: Server, path: str) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(viewer.ws(path)):
            pass
    assert caught.value.response.status_code == 404


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stopping_a_viewer_exits_with_0(viewer: Server, number: signal.Signals) -> None:
    async with connect(viewer.ws("/replay")) as client:
        await hear(client)
        viewer.process.send_signal(number)
        assert await anyio.to_thread.run_sync(viewer.wait) == 0
    said = viewer.printed()
    assert "Traceback" not in said
    assert "secret" not in said


@pytest.mark.parametrize("content", [b"{}", b"not json", zlib.compress(b"{}" * 100)[:-4]])
def test_malformed_replay_is_refused_before_listening(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "replay").write_bytes(content)
    with (
        pytest.raises(RuntimeError, match=r"ended with 1: paintarena: .*replay"),
        running(tmp_path, env={"COGAME_LOAD_REPLAY_URI": str(tmp_path / "replay")}),
    ):
        pass


# The older dialect


@pytest.fixture
def service(tmp_path: Path) -> Any:
    with running(tmp_path, env={"COGAME_REPLAY_SERVER": "1"}) as server:
        yield server


@pytest.mark.parametrize("stored", PACKED, indirect=True)
async def test_each_request_names_its_replay(service: Server, stored: Path) -> None:
    uri = quote(stored.as_uri(), safe="")
    for prefix in ("/client", "/clients"):
        assert get(service.http(f"{prefix}/replay?uri={uri}"))[0] == 200
    async with connect(service.ws(f"/replay?uri={uri}")) as client:
        assert await hear(client) == EXPECTED


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("?uri=", 400),
        ("?uri=file:///nowhere/replay", 404),
        ("?uri=/etc/hostname", 404),
        ("?uri=s3://b/k", 404),
    ],
)
async def test_a_bad_uri_is_refused(service: Server, query: str, status: int) -> None:
    assert get(service.http(f"/clients/replay{query}"))[0] == status
    with pytest.raises(InvalidStatus) as caught:
        async with connect(service.ws(f"/replay{query}")):
            pass
    assert caught.value.response.status_code == status
    assert get(service.http("/healthz"))[0] == 200
