"""Games that are played on their picture, in a real browser; and pictures that want to do more than be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser import Pages
from support.game_process import Program, program
from support.hostile_pictures import ELSEWHERE, HOSTILE, KEPT
from support.served_game import TOKENS

from coworld_core.rules import Frame, ReplayHeader, ReplayWriter
from coworld_core.text.svg_names import INLINE_SVG

pytestmark = pytest.mark.browser

NARROW = {"width": 375, "height": 740}


def seats(pages: Pages, game: Program) -> list[Page]:
    base = f"http://127.0.0.1:{game.port}/client/player"
    return [
        pages(f"{base}?slot={slot}&token={TOKENS[slot]}", size=NARROW, dark=slot == 1, alone=True) for slot in (0, 1)
    ]


def has_turn(page: Page) -> None:
    expect(page.locator("#status")).to_have_text("Your turn")


def shape(page: Page, name: str) -> Locator:
    return page.locator("#board").get_by_role("button", name=name, exact=True)


def actions(game: Program) -> list[Mapping[int, object]]:
    assert game.process.wait(20) == 0
    return [tick.actions for tick in game.replay().ticks[1:]]


def test_a_move_is_two_clicks_or_two_keys(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Jumps") as game:
        first, second = seats(pages, game)
        watcher = pages(f"http://127.0.0.1:{game.port}/client/global", size=NARROW)
        has_turn(first)
        expect(first.locator("#controls button")).to_have_count(0)
        expect(first.locator("#board").get_by_role("button")).to_have_count(1)
        assert first.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # The token lies on the square
        shape(first, "Seat 0, square 0").click()
        expect(shape(first, "Seat 0, square 0")).to_have_attribute("aria-pressed", "true")
        expect(first.locator("#notice")).to_have_text("start 0 …")
        expect(first.locator("#board").get_by_role("button")).to_have_count(3)
        first.keyboard.press("Escape")
        expect(first.locator("#board").get_by_role("button")).to_have_count(1)
        for name in ("Seat 0, square 0", "Seat 0, square 2"):
            shape(first, name).click()
        expect(first.locator("#status")).to_have_text("Waiting")
        has_turn(second)
        second.keyboard.press("Tab")
        second.keyboard.press("Tab")
        expect(shape(second, "Seat 1, square 0")).to_be_focused()
        second.keyboard.press("Enter")
        expect(shape(second, "Seat 1, square 0")).to_be_focused()
        second.keyboard.press("Tab")
        second.keyboard.press(" ")
        has_turn(first)
        expect(first.get_by_role("group", name="Squares 2 and 1")).to_be_visible()
        # The same picture, on which nothing is a button
        expect(watcher.get_by_role("img", name="Squares 2 and 1")).to_be_visible()
        expect(watcher.locator("[role=button], #board [tabindex]")).to_have_count(0)
        for name in ("Seat 0, square 2", "Seat 0, square 4"):
            shape(first, name).click()
        expect(first.locator("#status")).to_have_text("The game is over")
        expect(first.locator("#board [role=button]:not([aria-disabled=true])")).to_have_count(0)
        assert actions(game) == [{0: {"start": 0, "to": 2}}, {1: {"start": 0, "to": 1}}, {0: {"start": 2, "to": 4}}]


def test_only_legal_shapes_are_buttons_and_what_has_no_shape_has_one_below(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Mixed", sticks=3) as game:
        first, second = seats(pages, game)
        has_turn(first)
        expect(first.locator("#board").get_by_role("button")).to_have_count(4)
        expect(shape(first, "Seven")).to_have_attribute("tabindex", "-1")
        expect(first.locator("#controls button:visible")).to_have_text(["pass"])
        first.locator("#board text", has_text="9").click()
        first.evaluate("press(document.querySelector(`[data-action='{\"card\":9}']`))")
        expect(first.locator("#status")).to_have_text("Your turn")
        shape(first, "Seven").click()
        second.keyboard.press("3")
        for page, how in ((first, "near"), (second, "far")):
            has_turn(page)
            shape(page, "go a").click()
            expect(page.locator("#controls button:visible")).to_have_count(3)
            page.get_by_role("button", name=f"go a, how {how}").click()
        has_turn(first)
        first.get_by_role("button", name="pass").click()
        shape(second, "card 3").click()
        expected: list[Mapping[int, object]] = [
            {0: {"card": 7}, 1: {"card": 3}},
            {0: {"go": "a", "how": "near"}, 1: {"go": "a", "how": "far"}},
            {0: "pass", 1: {"card": 3}},
        ]
        assert actions(game) == expected


def test_a_shape_fills_in_a_field_of_the_form(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Sliders", sticks=1) as game:
        first, second = seats(pages, game)
        has_turn(first)
        for page, bar in ((first, "bar 1"), (second, "bar 2")):
            shape(page, bar).click()
            expect(shape(page, bar)).to_have_attribute("aria-pressed", "true")
        first.get_by_label("loud").check()
        first.get_by_role("button", name="bid 2000, loud true").click()
        second.get_by_role("button", name="bid 3000, loud false").click()
        assert actions(game) == [{0: {"bid": 2000, "loud": True}, 1: {"bid": 3000, "loud": False}}]


def test_no_action_of_a_picture_is_one_of_another_seat_or_not_legal(pages: Pages, tmp_path: Path) -> None:
    """The page does not send what is not legal, and what says whose action it is is not an action."""
    with program(tmp_path, "support.page_games:Jumps") as game:
        first, second = seats(pages, game)
        has_turn(first)
        for action in ('{"start":0,"to":4}', '{"seat":1,"start":0,"to":1}', "{", '"__proto__"'):
            second.evaluate(
                "showBoard", f"<svg viewBox='0 0 9 9'><rect width='9' height='9' data-action='{action}'/></svg>"
            )
            first.evaluate(
                "showBoard", f"<svg viewBox='0 0 9 9'><rect width='9' height='9' data-action='{action}'/></svg>"
            )
            for page in (first, second):
                page.evaluate("markShapes(true)")
                page.locator("#board rect").click()
                page.evaluate("press(document.querySelector('#board rect'))")
        shapes = "<svg viewBox='0 0 9 9'><rect width='9' height='9' data-action='{\"start\":0,\"to\":1}'/></svg>"
        second.evaluate("showBoard", shapes)
        second.locator("#board rect").click()
        first.evaluate("showBoard", shapes)
        first.evaluate("showState()")
        shape(first, "start 0, to 1").click()
        has_turn(second)
    assert "refused" not in game.printed()


def test_a_picture_does_nothing_but_be_a_picture(pages: Pages, tmp_path: Path) -> None:
    """A replay that a stranger has written, under the page's own policy: whatever it says to the console fails, too."""
    header = ReplayHeader(rules="Sticks", version="0", config={}, seed=1, seats=2, names=["a", "b"])
    writer = ReplayWriter(header)
    for tick, drawing in enumerate(HOSTILE.values()):
        writer.add(Frame(tick=tick, to_act=(0,), drawing=drawing))
    (tmp_path / "replay").write_bytes(writer.finish(reason="over"))
    with program(tmp_path, COGAME_LOAD_REPLAY_URI=(tmp_path / "replay").as_uri()) as show:
        page = pages(f"http://127.0.0.1:{show.port}/client/replay", size=NARROW, alone=True)
        page.get_by_role("button", name="Pause").click()
        page.get_by_label("Tick").press("Home")
        address = page.url
        around = page.evaluate(AROUND)
        for number, name in enumerate(HOSTILE):
            expect(page.locator("#status")).to_have_text(
                f"Tick {number}" if number < len(HOSTILE) - 1 else "The game is over"
            )
            page.locator("#board").click()
            page.mouse.move(1, 1)
            found = page.evaluate(CONTENT)
            assert set(found["elements"]) <= {*INLINE_SVG["elements"], "pre"}, name
            assert not [one for one in found["attributes"] if one.lower().startswith("on") or ELSEWHERE in one], name
            assert (found["ran"], page.url) == (None, address), name
            assert page.evaluate(AROUND) == around, f"{name} covers or changes the page"
            page.get_by_role("button", name="Step").click()


CONTENT = """() => {
    const nodes = [...document.querySelectorAll("#board *")];
    return {
        elements: nodes.map((node) => node.localName),
        attributes: nodes.flatMap((node) => [...node.attributes].map(({ name, value }) => `${name}=${value}`)),
        ran: window.ran || null,
    };
}"""
AROUND = """() => {
    const { top } = document.querySelector("header #status").getBoundingClientRect();
    const { backgroundColor, display } = getComputedStyle(document.body);
    const over = document.elementFromPoint(20, 20).closest("header, #board, body").localName;
    return [Math.round(top), over, backgroundColor, display, document.querySelectorAll("[id=status]").length];
}"""


def test_what_a_picture_may_have_is_shown(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path) as game:
        page = pages(f"http://127.0.0.1:{game.port}/client/global", alone=True)
        expect(page.locator("#board pre")).to_have_text("||||")
        page.evaluate("showBoard", KEPT)
        look = "node => ['fill', 'stroke', 'opacity', 'position'].map(name => getComputedStyle(node)[name])"
        shown = ['url("#picture-shade")', "rgb(255, 0, 0)", "0.5", "static"]
        assert page.locator("#board rect").evaluate(look) == shown
        expect(page.get_by_role("img", name="All of it")).to_be_visible()
        assert page.locator("#board use").get_attribute("href") == "#picture-dot"
        assert page.locator("#board svg").get_attribute("viewBox") == "0 0 40 20", "made of its size"
        assert page.locator("#board animate").get_attribute("attributeName") == "r"
        page.evaluate("showBoard", "<svg><g></svg>")
        expect(page.locator("#board")).to_have_text(
            "This picture cannot be shown: it is too large, or not well-formed."
        )
