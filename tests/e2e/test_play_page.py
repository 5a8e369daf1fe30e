"""`coworld play` with people: their pages in a real browser, and what the terminal says meanwhile."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.browser import Pages, counted_down, note_statuses
from support.cli_kit import Started

from coworld_runner.kit.server.scaffolds import new_game

pytestmark = pytest.mark.browser


def test_people_see_the_game_count_down_once_they_are_all_there(pages: Pages, tmp_path: Path) -> None:
    directory = new_game("small", directory=tmp_path / "small").directory
    run = Started(("play", directory, "--human", "0", "--human", "1", "-o", tmp_path / "out"), None, tmp_path)
    try:
        text = run.until(lambda: run.stdout if "/client/global" in run.stdout else None, "links")
        first, second = (re.findall(rf"http://\S+slot={slot}\S+", text)[0] for slot in (0, 1))
        early = pages(first)
        expect(early.locator("#status")).to_have_text("Waiting")
        note_statuses(early)
        pages(second)
        expect(early.locator("#status")).to_have_text("Your turn")
        assert counted_down(early)
        run.until(lambda: "everyone is there: starts in" in run.stderr, "the countdown in the terminal")
        run.send(signal.SIGINT)
        assert run.end().status == 130
    finally:
        run.close()


def test_a_rematch_is_played_on_the_same_links(pages: Pages, tmp_path: Path) -> None:
    directory = new_game("small", directory=tmp_path / "small").directory
    words = (
        "play",
        directory,
        "--human",
        "0",
        "--human",
        "1",
        "--rematch",
        "--set",
        "target=1",
        "-o",
        tmp_path / "out",
    )
    run = Started(words, None, tmp_path)
    try:
        text = run.until(lambda: run.stdout if "/client/global" in run.stdout else None, "links")
        first, second, viewer = (
            pages(re.findall(rf"http://\S+{part}\S*", text)[0]) for part in ("slot=0", "slot=1", "client/global")
        )
        for number in range(2):
            expect(first.locator("#status")).to_have_text("Your turn")
            first.keyboard.press("1")
            expect(first.locator("#status")).to_have_text("The game is over")
            expect(viewer.get_by_role("button", name="Rematch")).to_be_visible()
            # Some ask at once, others when the next game is there
            first.get_by_role("button", name="Rematch").click()
            expect(first.locator("#status")).to_have_text("Waiting")
            for page in (viewer, second):
                page.get_by_role("button", name="Rematch").click()
            run.until(lambda done=number: run.stderr.count("Rematch:") > done, "the next game")
        expect(first.locator("#status")).to_have_text("Your turn")
        run.send(signal.SIGINT)
        assert run.end().status == 130
        assert {path.name for path in tmp_path.glob("out*")} == {"out", "out-2", "out-3"}
    finally:
        run.close()
