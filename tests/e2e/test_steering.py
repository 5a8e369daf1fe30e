"""Games in which people steer: keys, sliders, the pad and a gamepad, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser import Pages
from support.game_process import Program, program
from support.served_game import TOKENS

pytestmark = pytest.mark.browser

NARROW = {"width": 375, "height": 740}


def seats(pages: Pages, game: Program) -> list[Page]:
    base = f"http://127.0.0.1:{game.port}/client/player"
    both = [
        pages(f"{base}?slot={slot}&token={TOKENS[slot]}", size=NARROW, dark=slot == 1, alone=True) for slot in (0, 1)
    ]
    expect(both[0].locator("#status")).to_have_text("Playing")
    return both


def does(page: Page, first: str, second: str = "0 0") -> None:
    """Wait until the picture says what both ships did in the last tick, and that they go on doing it."""
    for _ in range(2):
        expect(page.get_by_role("img", name=f"{first}; {second}")).to_be_visible()
        tick_passes(page)


def tick_passes(page: Page) -> None:
    page.evaluate(TICKS)


TICKS = "async (tick = now.tick) => { while (now.tick < tick + 3) await new Promise(requestAnimationFrame); }"


def pad(page: Page) -> Locator:
    return page.get_by_role("slider", name="turn and thrust", exact=True)


def test_what_is_held_down_goes_on_and_what_is_let_go_ends(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Duel", sticks=2000) as game:
        page, other = seats(pages, game)
        expect(page.get_by_role("spinbutton", name="turn")).to_have_value("0")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.down("ArrowLeft")
        does(other, "-1 0")
        page.keyboard.down("ArrowUp")
        does(other, "-1 1")
        page.keyboard.up("ArrowLeft")
        does(other, "0 1")
        page.evaluate("dispatchEvent(new Event('blur'))")
        does(other, "0 0")
        page.keyboard.up("ArrowUp")
        # What has a key has a button, which is held down in the same way
        page.get_by_role("button", name="thrust 0.5, turn 0.5").hover()
        page.mouse.down()
        does(other, "0.5 0.5")
        page.mouse.up()
        does(other, "0 0")


def test_sliders_send_while_they_move_and_stay(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Duel", sticks=2000) as game:
        page, other = seats(pages, game)
        expect(page.locator("#controls").get_by_role("button", name="turn 0, thrust 0")).to_have_count(0)
        slider = page.get_by_role("slider", name="thrust, slider")
        box = slider.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 12, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"], box["y"] + box["height"] / 2, steps=5)
        does(other, "0 1")
        page.mouse.up()
        does(other, "0 1")
        # A key acts although the slider has the focus, and what it lets go returns to its default
        page.keyboard.press("b")
        does(other, "0 0")
        page.get_by_role("spinbutton", name="turn").fill("0.25")
        page.keyboard.press("Enter")
        does(other, "0.25 0")
        page.get_by_role("spinbutton", name="turn").fill("7")
        page.keyboard.press("Tab")
        does(other, "0.25 0")


def test_a_pad_takes_mouse_finger_and_arrows(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Duel", sticks=2000) as game:
        page, other = seats(pages, game)
        expect(pad(page)).to_have_attribute("aria-valuetext", "turn 0, thrust 0")
        pad(page).scroll_into_view_if_needed()
        box = pad(page).bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        does(other, "0 0.5")
        page.mouse.move(box["x"] - 50, box["y"] - 50)
        does(other, "-1 1")
        page.mouse.up()
        does(other, "0 0")
        finger = page.context.new_cdp_session(page)
        points = [{"x": box["x"] + box["width"] - 9, "y": box["y"] + 9}]
        finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points})
        does(other, "1 1")
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        does(other, "0 0")
        pad(page).focus()
        for key in ("ArrowRight", "ArrowUp", "ArrowUp"):
            page.keyboard.press(key)
        expect(pad(page)).to_have_attribute("aria-valuetext", "turn 0.2, thrust 0.2")
        does(other, "0.2 0.2")
        page.keyboard.press("Home")
        does(other, "0 0")


def test_where_the_last_action_holds_letting_go_changes_nothing(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Drift", sticks=2000) as game:
        page, other = seats(pages, game)
        page.keyboard.press("ArrowLeft")
        does(other, "-1 0")
        page.keyboard.press("ArrowUp")
        does(other, "-1 1")
        pad(page).click(position={"x": 87, "y": 87})
        does(other, "0 0.5")


GAMEPAD = """([axes, ...down]) => {
    const buttons = Array.from({ length: 16 }, (_, index) => ({ pressed: down.includes(index) }));
    navigator.getGamepads = () => [null, { axes, buttons }];
}"""


def test_a_gamepad_has_the_pad_the_arrows_and_the_other_keys(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Duel", sticks=2000) as game:
        page, other = seats(pages, game)
        page.evaluate(GAMEPAD, [[0.1, 0]])
        page.evaluate("dispatchEvent(new Event('gamepadconnected'))")
        for state, done in (
            ([[1, -0.5]], "1 0.5"),
            ([[0.01, 0]], "0 0"),
            ([[0, 0], 14], "-1 0"),
            ([[0, 0], 0], "0.5 0.5"),
            ([[0, 0]], "0 0"),
        ):
            page.evaluate(GAMEPAD, state)
            does(other, done)


def test_keys_of_choices_act_in_each_tick_while_they_are_held(pages: Pages, tmp_path: Path) -> None:
    with program(tmp_path, "support.page_games:Race", sticks=1000) as game:
        page, _ = seats(pages, game)
        expect(page.locator("#digits")).to_have_text("A digit chooses the button in that place.")
        page.keyboard.down("ArrowRight")
        page.evaluate("async () => { while (now.observation.at[0] < 6) await new Promise(requestAnimationFrame); }")
        page.keyboard.up("ArrowRight")
        for _ in range(2):
            tick_passes(page)
            stands = page.get_by_role("img").get_attribute("aria-label")
        tick_passes(page)
        assert page.get_by_role("img").get_attribute("aria-label") == stands
