"""All replays of a directory on one page, one after the other, also those that arrive, and none that is broken."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Page, expect
from support.browser import Pages
from support.cli_kit import Started, coworld

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


@contextmanager
def shown(*words: str | Path) -> Generator[tuple[Started, dict[str, Any]]]:
    """A show of the command line, and its answer."""
    run = Started(("replay", *words, "--show", "--json", "--no-open-browser"), None, None)
    try:
        run.until(lambda: run.stdout.endswith("}\n"), "the answer")
        yield run, json.loads(run.stdout)
        run.send(signal.SIGINT)
        assert run.end().status == 0
    finally:
        run.close()


def shows(page: Page, name: str, *, last: bool = False) -> FrameLocator:
    """The page of the replay that is shown, once there is no other."""
    expect(page.locator("#what")).to_contain_text(f": {name}", timeout=30_000)
    expect(page.locator("iframe")).to_have_count(1)
    frame = page.frame_locator("iframe")
    if last:
        page.clock.run_for(60_000)
        expect(frame.locator("#status")).to_have_text("The game is over")
    return frame


def test_the_replays_of_a_directory(pages: Pages, tmp_path: Path) -> None:
    hall = tmp_path / "hall"
    for name, seed in (("a", "1"), ("c", "2")):
        done = coworld("run", ROOT / "examples/nim", "--backend", "process", "--seed", seed, "-o", hall / name)
        assert done.status == 0, done.stderr
    shutil.copytree(hall / "a", hall / "b")
    (hall / "b/replay").write_bytes(b"not one")
    with shown(hall) as (run, answer):
        assert answer["replays"] == 3
        page = pages(answer["link"])
        page.clock.install()
        page.reload()
        for name in ("a/replay", "c/replay", "a/replay"):
            shows(page, name, last=True)
        run.until(lambda: "Left out b/replay" in run.stderr, "what is left out")
        assert run.stderr.count("Left out") == 1
        shutil.copytree(hall / "c", hall / "d")
        (hall / "d/replay").touch()
        page.get_by_role("button", name="Next replay").click()
        shows(page, "c/replay")
        page.get_by_role("button", name="Next replay").click()
        frame = shows(page, "d/replay")
        # A replay is kept apart from the page that shows it, as a stranger may have written its game's page
        reached = frame.locator("body").evaluate("() => { try { return parent.document.title; } catch { return ''; } }")
        assert reached == ""
        page.set_viewport_size({"width": 1920, "height": 1080})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_a_show_begins_when_a_replay_has_come(pages: Pages, tmp_path: Path) -> None:
    hall = tmp_path / "hall"
    hall.mkdir()
    game = ROOT / "examples/nim"
    with shown(game, hall, "--backend", "process") as (_, answer):
        page = pages(answer["link"])
        expect(page.locator("#what")).to_have_text("There is no replay to show yet")
        done = coworld("run", game, "--backend", "process", "-o", tmp_path / "played")
        assert done.status == 0, done.stderr
        (tmp_path / "played/replay").rename(hall / "<i>final<")
        shows(page, "<i>final<")
