"""The pages of Paint Arena in a real browser: a person plays by keyboard, watches, and turns a replay's pages."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from support.browser import DESKTOP, PHONE, Pages, counted_down, note_statuses, visit
from websockets.sync.client import connect

from paintarena.rules import Board
from paintarena.testing import Server, environment, running, small_config

pytestmark = pytest.mark.browser

UNENDING = {"max_ticks": 10_000, "tick_rate": 10, "player_connect_timeout_seconds": 0}


@contextmanager
def bot(server: Server, slot: int, name: str = "sweep") -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", f"paintarena.players.{name}"],
        env=environment(COWORLD_PLAYER_WS_URL=server.player_url(slot)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def hurry(server: Server) -> None:
    """Let the rest of the game pass quickly: the browser had all the time it needed, however busy the machine."""
    with connect(server.ws("/admin")) as admin:
        admin.send(json.dumps({"command": "tick_rate", "tick_rate": 60}))
        while json.loads(admin.recv(20))["tick_rate"] != 60:
            pass


def status(page: Page, value: str) -> None:
    expect(page.locator("#status")).to_have_attribute("data-status", value, timeout=20_000)


def score(page: Page, slot: int) -> int:
    return int(page.locator(f"#scores [data-slot='{slot}'] b").inner_text())


def until(page: Page, condition: str, argument: object = None) -> None:
    page.wait_for_function(f"(argument) => {condition}", arg=argument)


def score_reaches(page: Page, slot: int, least: int) -> None:
    until(page, "+document.querySelector(`[data-slot='${argument[0]}'] b`).textContent >= argument[1]", [slot, least])


def tile_turns_blue(page: Page, x: int, y: int) -> None:
    """Wait until a tile is drawn in the first seat's blue: near its corner, where no painter covers it.

    A page draws with the screen's next frame, so the board may be behind the scores beside it.
    """
    condition = """(([x, y]) => {
        const { canvas, state } = board;
        const [w, h] = [canvas.width / state.width, canvas.height / state.height];
        const [red, , blue] = canvas.getContext("2d").getImageData((x + 0.15) * w, (y + 0.15) * h, 1, 1).data;
        return blue > red;
    })(argument)"""
    until(page, condition, [x, y])


def test_a_person_plays_a_seat_by_keyboard(pages: Pages, tmp_path: Path) -> None:
    config = small_config(max_ticks=200, tick_rate=5, width=12, height=8)
    with running(tmp_path, config=config, env={"COWORLD_ADMIN": "1", "COWORLD_COUNTDOWN_SECONDS": "1.5"}) as server:
        page = pages(server.http(f"/client/player?{server.query(0)}"))
        status(page, "waiting")
        expect(page.locator("#notice")).to_contain_text("Waiting for the other players")
        note_statuses(page)
        expect(page.locator("#me")).to_contain_text("You are Ada, painting blue")
        with bot(server, 1) as other:
            status(page, "running")
            assert counted_down(page)
            page.keyboard.press("ArrowRight")
            expect(page.locator("[data-move=right]")).to_have_attribute("aria-pressed", "true")
            score_reaches(page, 0, 3)
            tile_turns_blue(page, 1, 0)
            page.keyboard.press("s")
            until(page, "board.state.positions[0][1] >= 2")
            page.keyboard.press("a")
            until(page, "board.state.positions[0][0] === 0")
            page.keyboard.press("Space")
            expect(page.locator("[data-move=stay]")).to_have_attribute("aria-pressed", "true")
            hurry(server)
            status(page, "done")
            assert server.wait() == 0
            assert other.wait(20) == 0
        results = json.loads(server.results.read_text())
        frames = json.loads(server.replay.read_text())["frames"]
        assert not [frame for frame in frames if "starts_in" in frame]
        assert [score(page, slot) for slot in (0, 1)] == results["painted_tiles"]
        mine, rest = results["painted_tiles"]
        verb = "win" if mine > rest else "lose" if mine < rest else "tie"
        expect(page.locator("#notice")).to_contain_text(verb)
        expect(page.locator("#seconds")).to_have_text("0.0 s left")
        expect(page.locator("[data-move=up]")).to_be_disabled()
    path = [tuple(frame["positions"][0]) for frame in frames]
    assert path[-1][0] == 0
    assert path[-1][1] >= 2
    assert path[-1] == path[-2], "space stopped it"


def test_buttons_steer_on_a_small_screen(pages: Pages, tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**UNENDING)) as server:
        page = pages(server.http(f"/clients/player?{server.query(1)}"), size=PHONE, dark=True)
        status(page, "running")
        for move, there in (("left", "board.state.positions[1][0] <= 5"), ("up", "board.state.positions[1][1] <= 3")):
            page.locator(f"[data-move={move}]").click()
            until(page, there)
        width = page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= PHONE["width"], "nothing sticks out"
        pad = page.locator("#pad").bounding_box()
        assert pad is not None
        assert pad["y"] + pad["height"] <= PHONE["height"], "the buttons are in reach without scrolling"


def test_a_reload_takes_the_seat_back_and_a_second_tab_takes_it_over(pages: Pages, tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**UNENDING)) as server:
        address = server.http(f"/client/player?{server.query(0)}")
        page = pages(address)
        status(page, "running")
        page.keyboard.press("ArrowRight")
        score_reaches(page, 0, 2)
        visit(page)
        status(page, "running")
        score_reaches(page, 0, 3)
        second = pages(address)
        status(second, "running")
        expect(page.locator("#status")).to_have_text("Seat taken")
        expect(page.locator("#notice")).to_contain_text("Somebody else has taken this seat")
        assert score(second, 0) >= 3


def test_wrong_link_is_explained(pages: Pages, tmp_path: Path) -> None:
    with running(tmp_path, config=small_config()) as server:
        page = pages(server.http("/client/player?slot=0&token=wrong"))
        status(page, "failed")
        expect(page.locator("#notice")).to_contain_text("Cannot connect.")


def test_the_live_page_shows_the_game_to_its_end(pages: Pages, tmp_path: Path) -> None:
    config = small_config(max_ticks=200, tick_rate=5)
    with running(tmp_path, config=config, env={"COWORLD_ADMIN": "1"}) as server:
        page = pages(server.http("/client/global"))
        status(page, "waiting")
        with bot(server, 0), bot(server, 1, "frontier"):
            status(page, "running")
            score_reaches(page, 0, 2)
            score_reaches(page, 1, 2)
            hurry(server)
            status(page, "done")
            assert server.wait() == 0
        results = json.loads(server.results.read_text())
        assert [score(page, slot) for slot in (0, 1)] == results["painted_tiles"]
        expect(page.locator("#scores")).to_contain_text("Ada")
        expect(page.locator("#tick")).to_have_text("Tick 200 of 200")
        best, least = max(results["painted_tiles"]), min(results["painted_tiles"])
        expect(page.locator("#notice")).to_contain_text(f"{best} to {least}")


def test_admin_controls_the_clock(pages: Pages, tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**UNENDING), env={"COWORLD_ADMIN": "1"}) as server:
        page = pages(server.http("/client/admin"))
        status(page, "running")
        page.locator("#pause").click()
        status(page, "paused")
        page.locator("#ticks").fill("30")
        page.locator("#rate button").click()
        until(page, "board.state.tick_rate === 30")
        tick = page.evaluate("() => board.state.tick")
        page.locator("#resume").click()
        status(page, "running")
        until(page, "board.state.tick > argument", tick)


# Addresses


SOCKETS = [
    ("player", "/client/player?slot=1&token=t%2B#x", "/player?slot=1&token=t%2B"),
    ("player", "/clients/player?slot=1", "/player?slot=1"),
    ("player", "/a/client/player/b/client/player?q=/client/player", "/a/player/b/client/player?q=/client/player"),
    ("global", "/proxy/7/client/global?x=1&x=2", "/proxy/7/global?x=1&x=2"),
    ("replay", "/p/client/replay/some/suffix?uri=a%20b", "/p/replay/some/suffix?uri=a%20b"),
    ("global", "/client/global?address=https%3A%2F%2Fhost%3A9%2Fg%3Fa%3D1&b=2", "wss://host:9/g?a=1"),
    ("global", "/client/global?address=ws%3A%2F%2Fhost%2Fg", "ws://host/g"),
]


def test_where_the_socket_is(pages: Pages, address_server: Server) -> None:
    opened = pages(address_server.http("/client/global"))
    where = "([page, path]) => { history.replaceState(null, '', path); return String(socketUrl(page)); }"
    found = [opened.evaluate(where, [page, path]) for page, path, _ in SOCKETS]
    here = address_server.ws("")
    assert found == [expected if expected.startswith("ws") else here + expected for _, _, expected in SOCKETS]


@pytest.fixture(scope="module")
def address_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with running(tmp_path_factory.mktemp("address"), config=small_config(**UNENDING)) as server:
        yield server


def test_an_address_leads_to_another_game(pages: Pages, address_server: Server, tmp_path: Path) -> None:
    with running(tmp_path, config=small_config(**UNENDING, width=17)) as other:
        page = pages(address_server.http(f"/client/global?address={quote(other.http('/global'), safe='')}"))
        status(page, "running")
        assert page.evaluate("() => board.state.width") == 17


# Replays


def replay(*, names: tuple[str, str] = ("Ada", "Bob"), ticks: int = 6) -> dict[str, Any]:
    board = Board(8, 5, slots=2)
    board.hold(0, "right")
    board.hold(1, "up")
    frames: list[dict[str, Any]] = []
    for _ in range(ticks):
        board.step()
        extra = {"type": "state", "player_names": list(names), "max_ticks": ticks, "started": True, "paused": False}
        frames.append({**board.state(), **extra, "tick_rate": 5.0, "done": False})
    results = {"scores": frames[-1]["scores"], "painted_tiles": frames[-1]["scores"], "ticks": ticks}
    return {"config": {"width": 8, "height": 5}, "player_names": list(names), "frames": frames, "results": results}


@contextmanager
def showing(directory: Path, value: dict[str, Any]) -> Generator[Server]:
    (directory / "replay").write_text(json.dumps(value))
    with running(directory, env={"COGAME_LOAD_REPLAY_URI": (directory / "replay").as_uri()}) as server:
        yield server


WATCH = """() => {
    window.ticks = [];
    new MutationObserver(() => ticks.push(Number(board.canvas.dataset.tick)))
        .observe(board.canvas, { attributeFilter: ["data-tick"] });
}"""


def test_a_replay_plays_by_itself_and_starts_over(pages: Pages, tmp_path: Path) -> None:
    with showing(tmp_path, replay()) as server:
        page = pages(server.http("/client/replay"))
        status(page, "running")
        page.evaluate(WATCH)
        for _ in range(3):
            page.keyboard.press("+")
        expect(page.locator("#speed")).to_have_text("8×")
        expect(page.locator("#faster")).to_be_disabled()
        until(page, "ticks.lastIndexOf(0) > ticks.indexOf(6) && ticks.indexOf(6) >= 0")
        ticks: list[int] = page.evaluate("() => ticks")
    for before, after in pairwise(ticks):
        assert after == (before + 1) % 7, f"in order, and from the end to the start: {ticks}"


def test_a_replay_can_be_paused_stepped_and_scrubbed(pages: Pages, tmp_path: Path) -> None:
    value = replay()
    with showing(tmp_path, value) as server:
        page = pages(server.http("/client/replay"))
        status(page, "running")
        page.keyboard.press("Space")
        status(page, "paused")
        page.keyboard.press("Home")
        expect(page.locator("#tick")).to_have_text("Tick 0 of 6")
        assert [score(page, slot) for slot in (0, 1)] == [0, 0]
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#tick")).to_have_text("Tick 2 of 6")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#tick")).to_have_text("Tick 1 of 6")
        page.locator("#scrub").fill("6")
        expect(page.locator("#tick")).to_have_text("Tick 6 of 6")
        assert [score(page, slot) for slot in (0, 1)] == value["results"]["painted_tiles"]
        expect(page.locator("#seconds")).to_contain_text("wins")
        page.locator("#scrub").fill("3")
        assert page.evaluate("() => board.state.tick_rate") == 5
        tile_turns_blue(page, 2, 0)
        page.locator("#slower").click()
        page.locator("#slower").click()
        expect(page.locator("#speed")).to_have_text("¼×")
        expect(page.locator("#slower")).to_be_disabled()
        status(page, "paused")
        page.locator("#play").click()
        status(page, "running")
        page.keyboard.press("End")
        expect(page.locator("#tick")).to_have_text("Tick 6 of 6")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_a_replay_fits_the_screen(pages: Pages, tmp_path: Path, size: dict[str, int]) -> None:
    with showing(tmp_path, replay()) as server:
        page = pages(server.http("/client/replay"), size=size)
        status(page, "running")
        controls = page.locator(".controls").bounding_box()
        assert controls is not None
        assert controls["y"] + controls["height"] <= size["height"]
        assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]


def test_empty_replay_is_explained(pages: Pages, tmp_path: Path) -> None:
    with showing(tmp_path, {**replay(), "frames": []}) as server:
        page = pages(server.http("/client/replay"))
        status(page, "failed")
        expect(page.locator("#notice")).to_contain_text("no frames")


# Names come from strangers

EVIL = ("<img src=x onerror=\"document.title='pwned'\">", "</script><script>document.title='pwned'</script>")


def check_harmless(page: Page) -> None:
    for slot, name in enumerate(EVIL):
        shown = page.locator(f"#scores [data-slot='{slot}'] .name")
        expect(shown).to_contain_text(name)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert page.title() != "pwned"


def test_player_name_is_escaped(pages: Pages, tmp_path: Path) -> None:
    players: list[Any] = [{"name": name} for name in EVIL]
    with running(tmp_path, config=small_config(**UNENDING, players=players)) as server:
        for path in (f"player?{server.query(0)}", "global"):
            page = pages(server.http(f"/client/{path}"))
            status(page, "running")
            check_harmless(page)


def test_player_name_in_a_replay_is_escaped(pages: Pages, tmp_path: Path) -> None:
    with showing(tmp_path, replay(names=EVIL)) as server:
        page = pages(server.http("/client/replay"))
        status(page, "running")
        page.locator("#scrub").fill("6")
        expect(page.locator("#seconds")).to_contain_text("wins")
        check_harmless(page)
