"""The pages of every game of the kit, in a real browser: played with buttons and keys, watched, and played back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import DESKTOP, Pages, visit
from support.game_process import program
from support.hidden_roles import played, replay_bytes
from support.page_games import Race
from support.served_game import TOKENS

from coworld_core.rules import Play, ReplayHeader, ReplayWriter
from coworld_runner.kit.server import game_server

pytestmark = pytest.mark.browser

PAGES = Path(game_server.__file__).with_name("pages")
VILLAGE = "support.hidden_roles:Village"
NARROW = {"width": 360, "height": 740}
MIDDLE = {"width": 768, "height": 1024}


def fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the screen"


def has_turn(page: Page) -> None:
    """Wait until this seat may act; what it enters earlier goes nowhere, and what had the focus may still have it."""
    expect(page.locator("#status")).to_have_text("Your turn")


def place_of(page: Page, what: str) -> float:
    """How far from the top something is."""
    return float(page.locator(what).first.evaluate("node => Math.round(node.getBoundingClientRect().top)"))


def focused(page: Page) -> str:
    """What has the focus, in words; keys alone must be enough to know where one is."""
    return str(page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent"))


def test_people_play_with_keys_alone_while_another_watches(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path) as game:
        base = f"http://127.0.0.1:{game.port}"
        first = pages(f"{base}/client/player?slot=0&token={TOKENS[0]}", size=NARROW, dark=True, alone=True)
        expect(first.locator("#status")).to_have_text("Waiting")
        expect(first.locator("#notice")).to_have_text("Waiting for Seat 1.")
        expect(first.locator("#seats li")).to_have_text(["Seat 0 (you)", "Seat 1not here yet"])
        top = place_of(first, "section")
        second = pages(f"{base}/clients/player?slot=1&token={TOKENS[1]}", size=MIDDLE)
        viewer = pages(f"{base}/client/global", size=NARROW)
        wide = pages(f"{base}/client/global", dark=True)
        has_turn(first)
        expect(first.get_by_role("timer")).to_have_text(re.compile(r"Time left 0:\d\d"))
        expect(first.locator("#notice")).to_have_text("")
        expect(second.get_by_role("timer")).to_be_hidden()
        for page in (second, viewer):
            page.get_by_text("Rules", exact=True).click()
            expect(page.locator("#rules")).to_contain_text("whoever takes the last one wins")
        expect(first.locator("#controls button")).to_have_text(["1take 1", "2take 2", "3take 3"])
        for page in (first, second, viewer, wide):
            fits(page)
        for _ in range(2):
            first.keyboard.press("Tab")
        assert focused(first) == "1take 1"
        first.keyboard.press("Enter")
        expect(viewer.locator("#board pre")).to_have_text("|||")
        has_turn(second)
        second.keyboard.press("2")
        expect(viewer.locator("#status")).to_have_text("Tick 2")
        has_turn(first)
        expect(first.get_by_role("button", name="take 1")).to_be_focused()
        first.keyboard.press("9")
        first.keyboard.press("1")
        expect(first.locator("#status")).to_have_text("The game is over")
        expect(viewer.locator("#seats li")).to_have_text(["Seat 01", "Seat 10"])
        for page, said in ((first, "You won."), (second, "You lost. Seat 0 won."), (viewer, "Seat 0 won.")):
            expect(page.locator("#outcome")).to_have_text(said)
        assert place_of(first, "section") == top, "it jumps"
        assert game.process.wait(20) == 0

    replay_is_played_back(pages, tmp_path)


def test_people_talk_and_others_read_it(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.talking:TalkingSticks") as game:
        base = f"http://127.0.0.1:{game.port}"
        first = pages(f"{base}/client/player?slot=0&token={TOKENS[0]}", size=NARROW)
        second = pages(f"{base}/client/player?slot=1&token={TOKENS[1]}", size=NARROW, dark=True)
        viewer = pages(f"{base}/client/global", size=NARROW)
        has_turn(first)
        expect(viewer.locator("#talk")).to_be_hidden()
        second.get_by_label("Message").fill("<b>good</b> luck")
        second.keyboard.press("Enter")
        expect(second.locator("#said li")).to_have_text(["Seat 1<b>good</b> luck"])
        first.get_by_label("To", exact=True).select_option("To Seat 1")
        first.get_by_label("Message").fill("take 2")
        first.get_by_role("button", name="Say").click()
        first.get_by_label("Message").fill("please")
        first.keyboard.press("Enter")
        expect(first.locator("#notice")).to_have_text("a seat may say one message in a tick")
        expect(first.locator("#said li")).to_have_text(["Seat 1<b>good</b> luck", "Seat 0 to Seat 1take 2"])
        expect(viewer.locator("#said li")).to_have_text(["Seat 1<b>good</b> luck"])
        # Digits that are typed into a message are no moves
        expect(first.locator("#status")).to_have_text("Your turn")
        first.get_by_role("button", name="take 2").click()
        expect(first.locator("#said li")).to_have_text(["Seat 1<b>good</b> luck", "Seat 0 to Seat 1take 2"])
        expect(second.locator("#said li")).to_have_text(["Seat 1<b>good</b> luck", "Seat 0 to Seat 1take 2"])
        expect(viewer.locator("#said li")).to_have_text(["Seat 1<b>good</b> luck"])
        for page in (first, second, viewer):
            fits(page)
        second.get_by_label("Message").fill("ready")
        second.keyboard.press("Enter")
        for page in (first, second, viewer):
            page.reload()
        everything = ["Seat 1<b>good</b> luck", "Seat 0 to Seat 1take 2", "Seat 1ready"]
        for page in (first, second):
            expect(page.locator("#said li")).to_have_text(everything)
        expect(viewer.locator("#said li")).to_have_text([everything[0], everything[2]])
        has_turn(second)
        width = "node => node.clientWidth"
        assert first.get_by_label("Message").evaluate(width) > 0.8 * first.locator("aside").evaluate(width)
        second.get_by_role("button", name="take 2").click()
        expect(second.locator("#status")).to_have_text("The game is over")
        expect(second.get_by_label("Message")).to_be_disabled()
        expect(second.get_by_role("button", name="Say")).to_be_disabled()
        assert game.process.wait(20) == 0
    with program(
        tmp_path, "support.talking:TalkingSticks", COGAME_LOAD_REPLAY_URI=(tmp_path / "replay").as_uri()
    ) as show:
        page = pages(f"http://127.0.0.1:{show.port}/client/replay#tick=1", size=NARROW)
        expect(page.locator("#said li")).to_have_text(["Seat 0 to Seat 1take 2", "Seat 1<b>good</b> luck"])
        page.get_by_role("button", name="Back").click()
        expect(page.locator("#talk")).to_be_hidden()


def test_words_are_sent_with_enter(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.served_game:Talk") as game:
        base = f"http://127.0.0.1:{game.port}/client/player"
        first, second = (
            pages(f"{base}?slot={slot}&token={TOKENS[slot]}", size=size, dark=slot == 1)
            for slot, size in enumerate((MIDDLE, NARROW))
        )
        box, other = first.get_by_label("Your words"), second.get_by_label("Your words")
        has_turn(first)
        box.focus()
        first.keyboard.type("Two lines,")
        first.keyboard.press("Shift+Enter")
        first.keyboard.type("both mine")
        first.keyboard.press("Enter")
        has_turn(second)
        other.focus()
        second.keyboard.type("42")
        second.keyboard.press("Enter")
        has_turn(first)
        expect(box).to_be_focused()
        expect(box).to_have_value("")
        first.keyboard.press("Enter")
        has_turn(second)
        expect(other).to_be_focused()
        fits(second)
        second.keyboard.press("Enter")
        expect(second.locator("#status")).to_have_text("The game is over")
        assert game.process.wait(20) == 0
        said = [next(iter(tick.actions.values())) for tick in game.replay().ticks[1:]]
    assert said == ["Two lines,\nboth mine", "42", "", ""]


def test_seat_page_shows_picture_and_text_and_spectators_wait(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.served_game:SealedCards") as game:
        base = f"http://127.0.0.1:{game.port}/client"
        first, second = (
            pages(f"{base}/player?slot={slot}&token={TOKENS[slot]}", size=size, dark=slot == 1)
            for slot, size in enumerate((DESKTOP, NARROW))
        )
        viewer = pages(f"{base}/global", size=NARROW)
        expect(viewer.locator("#views")).to_have_text("The game is shown when it is over.")
        expect(viewer.locator("#board")).to_have_text("")
        for page, own, other in ((first, "hearts", "spades"), (second, "spades", "hearts")):
            expect(page.get_by_role("img", name=f"4 sticks, {own}-")).to_be_visible()
            expect(page.get_by_role("group", name="In words")).to_contain_text(f"You hold {own}-")
            assert other not in page.content()
            fits(page)
        box = "node => node.getBoundingClientRect().toJSON()"
        left, right = (first.locator(place).evaluate(box) for place in ("#board", "#words"))
        above, below = (second.locator(place).evaluate(box) for place in ("#board", "#words"))
        assert right["left"] >= left["right"], "side by side on a desk"
        assert below["top"] >= above["bottom"], "one under the other on a telephone"
        has_turn(first)
        first.keyboard.press("1")
        has_turn(second)
        expect(second.get_by_role("img", name="3 sticks, spades-")).to_be_visible()
        expect(viewer.locator("#status")).to_have_text("Tick 1")
        second.keyboard.press("3")
        expect(viewer.get_by_role("img", name="0 sticks, hearts-")).to_be_visible()
        expect(viewer.locator("#views")).to_be_hidden()
        assert game.process.wait(20) == 0
    uri = (tmp_path / "replay").as_uri()
    with program(tmp_path, "support.served_game:SealedCards", COGAME_LOAD_REPLAY_URI=uri) as show:
        page = pages(f"http://127.0.0.1:{show.port}/client/replay#tick=1", size=NARROW)
        expect(page.get_by_role("img", name="3 sticks, hearts-")).to_be_visible()
        page.get_by_label("Seen by").select_option("Seat 1")
        expect(page.get_by_role("img", name="3 sticks, spades-")).to_be_visible()
        page.get_by_role("button", name="Step").click()
        expect(page.get_by_role("img", name="0 sticks, spades-")).to_be_visible()
        fits(page)


def test_in_a_game_of_ticks_no_click_is_lost_and_the_focus_stays(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Race", sticks=1000) as game:
        base = f"http://127.0.0.1:{game.port}/client"
        page, other = (pages(f"{base}/player?slot={slot}&token={TOKENS[slot]}") for slot in range(2))
        clock = pages(f"{base}/global").locator("#status")

        def ticks_pass() -> None:
            for _ in range(2):
                expect(clock).not_to_have_text(clock.inner_text())

        expect(page.locator("#status")).to_have_text("Playing")
        page.get_by_role("button", name="right").hover()
        page.mouse.down()
        ticks_pass()
        page.mouse.up()
        expect(page.get_by_role("img", name="[3, 2]")).to_be_visible()
        ticks_pass()
        expect(page.get_by_role("button", name="right")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("img", name="[4, 2]")).to_be_visible()
        # More clicks than ticks: of those that came too late for their tick, the newest counts in the next.
        page.get_by_role("button", name="right").click(click_count=2)
        expect(page.get_by_role("img", name=re.compile(r"\[[56], 2\]"))).to_be_visible()
        ticks_pass()
        other.keyboard.press("ArrowLeft")
        expect(page.get_by_role("img", name=re.compile(r"\[[56], 1\]"))).to_be_visible()


def test_keys_scores_and_who_is_out(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Race", sticks=1000) as game:
        base = f"http://127.0.0.1:{game.port}/client"
        page, other = (pages(f"{base}/player?slot={slot}&token={TOKENS[slot]}", dark=slot == 0) for slot in range(2))
        viewer = pages(f"{base}/global")
        expect(page.locator("#seats li")).to_have_text(["Seat 0 (you)to act · 2", "Seat 1to act · 2"])
        page.locator("#observation summary").click()
        page.locator("body").press("j")
        expect(page.locator("#observation")).to_contain_text('"jumps": 1')
        expect(page.get_by_role("button", name="jump")).to_have_attribute("aria-keyshortcuts", "j")
        expect(page.get_by_role("button", name="stay")).to_have_attribute("aria-keyshortcuts", "1")
        shades = [one.evaluate(FIRST_DOT) for one in (page, other)]
        assert shades[0] > 200 > 50 > shades[1], "ink is light on dark, and dark on light"
        for place in (1, 0, -1):
            page.keyboard.press("ArrowLeft")
            expect(page.get_by_role("img", name=f"[{place}, 2]")).to_be_visible()
        expect(page.locator("#status")).to_have_text("You are out of the game")
        expect(page.locator("#controls button")).to_have_count(0)
        for one in (other, viewer):
            expect(one.locator("#seats li").first).to_have_text(re.compile(r"^Seat 0out · -1$"))


FIRST_DOT = "() => parseInt(getComputedStyle(document.querySelector('#board circle')).fill.match(/[0-9]+/)[0])"


def test_a_number_is_entered_in_a_field_or_with_a_slider(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Auction") as game:
        base = f"http://127.0.0.1:{game.port}/client/player"
        first, second = (
            pages(f"{base}?slot={slot}&token={TOKENS[slot]}", size=size, dark=slot == 1)
            for slot, size in enumerate((NARROW, MIDDLE))
        )
        has_turn(first)
        expect(first.locator("#controls button")).to_have_text("bid 0")
        for key in ("1", "7", "Enter"):
            first.keyboard.press(key)
        second.get_by_role("slider").press("End")
        second.get_by_role("button", name="bid 30").click()
        has_turn(first)
        first.get_by_label("bid", exact=True).fill("31")
        first.keyboard.press("Enter")
        expect(first.get_by_role("timer")).to_be_visible()
        first.get_by_label("bid", exact=True).fill("5")
        first.keyboard.press("Enter")
        expect(first.get_by_role("timer")).to_be_hidden()
        fits(first)
        expect(first.locator("#status")).to_have_text("Waiting")
        second.get_by_role("button", name="bid 30").click()
        for page in (first, second, second, first):
            has_turn(page)
            page.locator("#controls button").click()
        assert game.process.wait(20) == 0
        said = [tick.actions for tick in game.replay().ticks[1:3]]
    assert said == [{0: {"bid": 17}, 1: {"bid": 30}}, {0: {"bid": 5}, 1: {"bid": 30}}]


def test_digit_plays_the_card_of_that_number_and_no_part_of_a_longer_one(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Hand") as game:
        base = f"http://127.0.0.1:{game.port}/client/player"
        first, second = (pages(f"{base}?slot={slot}&token={TOKENS[slot]}", size=NARROW) for slot in range(2))
        has_turn(first)
        expect(first.locator("#controls button")).to_have_text(["pass"])
        first.keyboard.press("1")
        first.get_by_role("button", name="pass").click()
        has_turn(second)
        expect(second.locator("#controls button")).to_have_text(["77", "33", "pass"])
        second.keyboard.press("3")
        has_turn(first)
        expect(first.locator("#controls button")).to_have_text(["pass", "12", "33", "55"])
        for key in ("1", "2", "4", "5"):
            first.keyboard.press(key)
        has_turn(second)
        for key in ("1", "2", "7"):
            second.keyboard.press(key)
        assert game.process.wait(20) == 0
        assert [tick.actions for tick in game.replay().ticks[1:]] == [{0: "pass"}, {1: 3}, {0: 5}, {1: 7}]


WORDS: dict[str, Any] = {"enum": ["left out", "stay", "fold"]}
TAKE: dict[str, Any] = {"type": "object", "properties": {"take": {"type": "integer"}}}
CELL: dict[str, Any] = {"type": "object", "properties": {"row": {"type": "integer"}, "column": {"type": "integer"}}}
TEXT: dict[str, Any] = {"type": "string"}
TREE: dict[str, Any] = {"$ref": "#/$defs/T", "$defs": {"T": {"properties": {"next": {"$ref": "#/$defs/T"}}}}}


@pytest.mark.parametrize(
    ("schema", "hands", "keys"),
    [
        (WORDS, [["stay", "fold"]], {"stay": "1", "fold": "2"}),
        (TAKE, [[{"take": 3}, {"take": 1}]], {"take 3": "3", "take 1": "1"}),
        # A place in one hand would be a number in another
        ({"anyOf": [WORDS, {"type": "integer"}]}, [["stay", "fold"]], {"stay": "", "fold": ""}),
        ({"anyOf": [WORDS, {"type": "integer"}]}, [["stay", 2, 1]], {"stay": "", "2": "2", "1": "1"}),
        (TEXT, [["7", "K"], ["K", "Q"]], {"7": "7", "K": "", "Q": ""}),
        (TEXT, [["7 of hearts", "7 of clubs", "3 of clubs"]], {"7 of hearts": "", "7 of clubs": "", "3 of clubs": "3"}),
        # Numbers of two digits are not half played
        ({"type": "integer"}, [[3, 10, 1, 0]], {"3": "3", "10": "", "1": "", "0": ""}),
        ({"type": "integer"}, [[-1, 0, 1]], {"-1": "", "0": "0", "1": ""}),
        ({"type": "number"}, [[0.5, 5, 7]], {"0.5": "", "5": "", "7": "7"}),
        (TAKE, [[{"give": 7}, *({"take": n} for n in range(1, 12))]], {"give 7": ""}),
        # Places, where no action is known by its number
        (CELL, [[{"row": 0, "column": 1}, {"row": 2, "column": 1}]], {"column 1, row 0": "1", "column 1, row 2": "2"}),
        (TEXT, [["e4", "e2e4"]], {"e4": "1", "e2e4": "2"}),
        (TREE, [["stay"]], {"stay": "1"}),
    ],
)
def test_digit_is_the_number_of_an_action_or_else_the_place_of_its_button(
    keys_page: Page, schema: Any, hands: list[list[Any]], keys: dict[str, str]
) -> None:
    found = keys_page.evaluate(
        """([schema, hands]) => {
            [about, known, numbered, controls] = [{ action_schema: schema }, [], null, new Map()];
            const items = hands.map(choices).at(-1).filter((item) => "action" in item);
            return Object.fromEntries(items.map(({ action, press }) => [words(action), press || ""]));
        }""",
        [schema, hands],
    )
    assert found == keys


@pytest.fixture(scope="module")
def keys_page(browser: Browser) -> Page:
    """A page that has what decides about keys, and no game."""
    page = browser.new_page()
    page.set_content("<div id=board></div>")
    for part in ("common.js", "shapes.js", "controls.js"):
        page.add_script_tag(path=PAGES / part)
    return page


def test_fields_of_an_action_are_entered_one_by_one(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Fields", sticks=1) as game:
        base = f"http://127.0.0.1:{game.port}/client/player"
        first, second = (pages(f"{base}?slot={slot}&token={TOKENS[slot]}", size=NARROW) for slot in range(2))
        has_turn(first)
        first.get_by_label("bid", exact=True).fill("1234")
        first.get_by_label("loud").check()
        first.get_by_role("button", name="bid 1234, loud true").click()
        second.get_by_role("button", name="bid 0, loud false").click()
        assert game.process.wait(20) == 0
        assert game.replay().ticks[1].actions == {0: {"bid": 1234, "loud": True}, 1: {"bid": 0, "loud": False}}


def test_a_list_of_numbers_has_a_field_for_each(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Levers", sticks=1) as game:
        base = f"http://127.0.0.1:{game.port}/client/player"
        first, second = (pages(f"{base}?slot={slot}&token={TOKENS[slot]}", size=NARROW) for slot in range(2))
        has_turn(first)
        first.get_by_label("number 1", exact=True).fill("1")
        first.get_by_label("number 2", exact=True).fill("0.25")
        first.get_by_role("button", name="1, 0.25").click()
        second.get_by_role("button", name="0, 0").click()
        assert game.process.wait(20) == 0
        assert game.replay().ticks[1].actions == {0: [1, 0.25], 1: [0, 0]}


@pytest.mark.parametrize(
    ("scores", "me", "says"),
    [
        ([1, 0], 0, "You won."),
        ([1, 0], 1, "You lost. Ada won."),
        ([1, 0], None, "Ada won."),
        ([2.5, 2.5], 1, "A draw: all have 2.5."),
        ([3, 1, 3, 2], 2, "You won, together with Ada."),
        ([3, 1, 3, 2], 3, "You came 3rd of 4. Ada, Cid won."),
        ([7], 0, "You have a score of 7."),
        ([7], None, "Ada has a score of 7."),
        ([0, 1, 1, 1, 1, 1, 1, 1], 0, "You came 8th of 8. Bob, Cid, Dan, Eve, Fay and 2 more won."),
    ],
)
def test_the_end_in_words(keys_page: Page, scores: list[float], me: int | None, says: str) -> None:
    names = ["Ada", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal"][: len(scores)]
    assert keys_page.evaluate("([names, scores, me]) => outcome(names, scores, me)", [names, scores, me]) == says


def test_the_row_of_who_has_acted_says_so(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Levers") as game:
        base = f"http://127.0.0.1:{game.port}/client"
        first, second = (pages(f"{base}/player?slot={slot}&token={TOKENS[slot]}") for slot in range(2))
        has_turn(first)
        first.get_by_role("button", name="0, 0").click()
        expect(first.locator("#seats li")).to_have_text(["Seat 0 (you)has acted", "Seat 1"])
        expect(second.locator("#seats li")).to_have_text(["Seat 0", "Seat 1 (you)to act"])


@pytest.mark.parametrize("pace", [{"kind": "ticks", "hz": 4}, None])
def test_a_replay_runs_at_the_pace_of_its_game(pages: Pages, tmp_path: Path, pace: dict[str, Any] | None) -> None:
    play = Play(Race, seed=1)
    names = ["Ada", "Bob"]
    writer = ReplayWriter(ReplayHeader(rules="Race", version="0", config={}, seed=1, seats=2, names=names, pace=pace))
    writer.add(play.frame())
    for _ in range(40):
        play.step({})
        writer.add(play.frame())
    (tmp_path / "replay").write_bytes(writer.finish(reason="over"))
    with program(tmp_path, "support.page_games:Race", COGAME_LOAD_REPLAY_URI=(tmp_path / "replay").as_uri()) as show:
        page = pages(f"http://127.0.0.1:{show.port}/client/replay#tick=0")
        page.clock.install(time=0)
        visit(page)
        expect(page.locator("#status")).to_have_text("Tick 0")
        expect(page.locator("#seats li")).to_have_text(["Adato act · 2", "Bobto act · 2"])
        page.clock.pause_at(3_600_000)
        page.get_by_role("button", name="Play").click()
        page.clock.run_for(4_100)
        expect(page.locator("#status")).to_have_text("Tick 16" if pace else "Tick 20")


def test_page_of_a_delayed_game_announces_the_delay(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.served_game:LateCards") as game:
        viewer = pages(f"http://127.0.0.1:{game.port}/client/global")
        expect(viewer.locator("#views")).to_have_text("The game is shown 2 ticks late.")


def test_everybody_is_told_what_is_public(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, VILLAGE, sticks=2) as game:
        base = f"http://127.0.0.1:{game.port}/client"
        viewer = pages(f"{base}/global#eye=0", size=NARROW)
        expect(viewer.get_by_role("img", name="Day 0, no roles")).to_be_visible()
        seats = [pages(f"{base}/player?slot={slot}&token={TOKENS[slot]}") for slot in range(2)]
        for day in range(2):
            for page in (viewer, *seats):
                expect(page.locator("#known")).to_have_text(f"day {day}")
            for page in seats:
                has_turn(page)
                page.locator("#controls button").click()
        expect(viewer.locator("#status")).to_have_text("The game is over")
        expect(viewer.get_by_role("img", name="Day 2, no roles")).to_be_visible()
        fits(viewer)


def test_a_replay_is_seen_by_each_eye(pages: Pages, tmp_path: Path) -> None:
    """Nobody had a page open, and what was said and seen is there all the same, for the eye that is chosen."""
    data = replay_bytes(played(seats=2))
    (tmp_path / "replay").write_bytes(data)
    with program(tmp_path, VILLAGE, COGAME_LOAD_REPLAY_URI=(tmp_path / "replay").as_uri()) as show:
        page = pages(f"http://127.0.0.1:{show.port}/client/replay#tick=1&eye=1", size=NARROW)
        eyes, roles = page.get_by_label("Seen by"), page.get_by_role("img", name=re.compile("wolf"))
        expect(eyes.locator("option")).to_have_text(["All revealed", "The public", "0 A", "1 B"])
        expect(eyes).to_have_value("1")
        expect(page.get_by_role("img", name=re.compile("^Day 1, wolf-[0-9a-f]{8}$"))).to_be_visible()
        expect(page.get_by_role("group", name="In words")).to_have_text(re.compile("Day 1. You are wolf-"))
        expect(page.locator("#known")).to_have_text("day 1")
        expect(page.locator("#notice")).to_have_text("B: 0")
        expect(page.locator("#said li")).to_have_text(
            ["Aall, 0", "A to the team0 to team, 0", "B to the team1 to team, 0"]
        )
        eyes.select_option("The public")
        expect(page.get_by_role("img", name="Day 1, no roles")).to_be_visible()
        expect(page.locator("#said li")).to_have_text(["Aall, 0"])
        expect(page.locator("#notice")).to_have_text("")
        assert "wolf" not in page.locator("main").inner_html()
        eyes.select_option("All revealed")
        expect(page.get_by_role("img", name=re.compile("Day 1, wolf-.* and wolf-"))).to_be_visible()
        expect(page.locator("#notice")).to_have_text("A: 1 · B: 0")
        page.get_by_role("button", name="Step").click()
        page.get_by_role("button", name="Copy link").click()
        assert page.url.endswith("#tick=2&eye=all&pace=1")
        page.evaluate("location.hash = '#tick=2&eye=public'")
        expect(roles).to_be_hidden()
        page.evaluate("location.hash = '#tick=2&eye=7'")
        expect(eyes).to_have_value("public")
        expect(page.locator("#views")).to_be_hidden()
        fits(page)


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        ({"source_sha256": "0" * 64}, "The rules have changed since the game was played."),
        ({}, "The game is not what was recorded: played again, the drawing differs at tick 1."),
    ],
)
def test_a_replay_says_what_is_not_known_to_have_been_seen(
    pages: Pages, tmp_path: Path, alter: dict[str, Any], says: str
) -> None:
    replay = played(seats=2)
    ticks = [*replay.ticks[:1], replay.ticks[1].model_copy(update={"drawings": {0: "never was"}}), *replay.ticks[2:]]
    other = {"header": replay.header.model_copy(update=alter), "ticks": ticks}
    (tmp_path / "replay").write_bytes(replay_bytes(replay.model_copy(update=other)))
    with program(tmp_path, VILLAGE, COGAME_LOAD_REPLAY_URI=(tmp_path / "replay").as_uri()) as show:
        page = pages(f"http://127.0.0.1:{show.port}/client/replay#tick=1&eye=0")
        eyes = page.get_by_label("Seen by")
        expect(page.locator("#views")).to_have_text(f"{says} Shown is what was recorded.")
        expect(page.locator("#board")).to_have_text("never was")
        eyes.select_option("1 B")
        expect(page.locator("#views")).to_have_text(f"{says} What was seen was not recorded.")
        expect(page.locator("#board")).to_have_text("")
        eyes.select_option("All revealed")
        expect(page.locator("#views")).to_have_text(f"{says} Shown is the public view as it was recorded.")
        expect(page.get_by_role("img", name="Day 1, no roles")).to_be_visible()
        page.get_by_role("button", name="Back").click()
        known = page.get_by_role("img", name=re.compile("Day 0, wolf-"))
        expect(known if not alter else page.get_by_role("img", name="Day 0, no roles")).to_be_visible()


def replay_is_played_back(pages: Pages, played: Path) -> None:
    """Show what was just played: it plays by itself, steps, seeks and starts where a link says."""
    with program(played, COGAME_LOAD_REPLAY_URI=(played / "replay").as_uri()) as show:
        base = f"http://127.0.0.1:{show.port}/client/replay"
        page = pages(base, size=NARROW, alone=True)
        expect(page.get_by_label("Seen by")).to_be_hidden()
        expect(page.locator("#status")).to_have_text("The game is over")
        page.get_by_role("button", name="Back").click()
        expect(page.locator("#board pre")).to_have_text("|")
        expect(page.get_by_role("button", name="Play")).to_be_visible()
        page.locator("body").press("ArrowLeft")
        expect(page.locator("#notice")).to_have_text("Seat 0 (human): take 1")
        expect(page.locator("#rules")).to_contain_text("whoever takes the last one wins")
        page.get_by_label("Tick").press("Home")
        expect(page.locator("#status")).to_have_text("Tick 0")
        fits(page)
        expect(pages(f"{base}#tick=2").locator("#status")).to_have_text("Tick 2")
