"""The page of a game that is being written, in a real browser: it plays, follows what is saved, and seats people."""

from __future__ import annotations

import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import FrameLocator, Page, expect
from support.browser import Pages
from support.cli_kit import Started

from coworld_runner.kit.server.scaffolds import new_game

pytestmark = pytest.mark.browser

RELOAD = 20_000
"""Milliseconds for what starts a program to be seen, on a machine that has much else to do."""
NARROW = {"width": 360, "height": 740}


@contextmanager
def developing(place: Path) -> Generator[str]:
    """`coworld dev` in a directory, and the link that it prints; Ctrl-C ends it well."""
    command = Started(["dev", "--no-open-browser"], None, place)
    try:
        link = command.until(lambda: re.search(r"http://\S+\n", command.stdout), "the link")
        yield link[0].strip()
        command.send(signal.SIGINT)
        assert command.end().status == 0
    finally:
        command.close()


def line(text: str, part: str) -> int:
    """The number of the line that has it."""
    return text[: text.index(part)].count("\n") + 1


def seat(page: Page, slot: int) -> FrameLocator:
    return page.frame_locator(f'section[data-seat="{slot}"] iframe')


def test_a_game_is_played_while_it_is_written(pages: Pages, tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    rules = tmp_path / "game" / "small_game.py"
    begun = rules.read_text()
    with developing(tmp_path / "game") as link:
        page = pages(link, size=NARROW, dark=True)
        mine, other = seat(page, 0), seat(page, 1)
        viewer = page.frame_locator("#viewer iframe")

        # A person plays, a player answers, and its seat only shows what it is told
        mine.get_by_role("button", name="add 2").click()
        expect(mine.locator("#status")).to_have_text("Your turn", timeout=RELOAD)
        expect(other.locator("#status")).to_have_text("Waiting")
        expect(page.locator('section[data-seat="1"] iframe')).to_have_js_property("inert", True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the screen"

        # A file is saved: the page follows
        rules.write_text(begun.replace('of {goal}"', 'from {goal}"'))
        expect(viewer.get_by_role("img", name="0 from 10")).to_be_visible(timeout=RELOAD)
        rules.write_text(begun.replace("return [self.turn] if", "return [self.turn if"))
        expect(page.locator("#problem")).to_contain_text(
            f"small_game.py:{line(begun, 'return [self.turn]')} SyntaxError"
        )
        expect(page.locator("iframe")).to_have_count(0)
        rules.write_text(begun.replace("self.total += ", "self.total += self.nothing + "))
        mine.get_by_role("button", name="add 2").click()
        expect(page.locator("#problem")).to_contain_text("has no attribute 'nothing'", timeout=RELOAD)
        expect(page.locator("#place")).to_have_text(f"small_game.py:{line(begun, 'self.total += ')}")
        rules.write_text(begun)
        expect(viewer.get_by_role("img", name="0 of 10")).to_be_visible(timeout=RELOAD)
        expect(page.locator("#problem")).to_be_hidden()

        # The other seat is taken in mid-game, and given back
        page.locator('section[data-seat="1"]').get_by_role("button", name="Take over").click()
        mine.get_by_role("button", name="add 1").click()
        other.get_by_role("button", name="add 2").click()
        expect(viewer.get_by_role("img", name="3 of 10")).to_be_visible()
        mine.get_by_role("button", name="add 2").click()
        expect(other.locator("#status")).to_have_text("Your turn")
        page.locator('section[data-seat="1"]').get_by_role("button", name="Hand back").click()
        expect(mine.locator("#status")).to_have_text("Your turn", timeout=RELOAD)
        expect(page.locator("#log")).to_contain_text('seat 1 ("Random Player") reconnected')
        page.get_by_role("button", name="Restart").click()
        expect(viewer.get_by_role("img", name="0 of 10")).to_be_visible(timeout=RELOAD)
