"""A replay as one file, opened without a game: played back from file://, and inline as a notebook shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.browser import Pages
from support.cli_kit import coworld

from coworld_runner import ReplayPage
from coworld_runner.serving.starting import new_game

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


def written(package: Path, place: Path, *words: str) -> str:
    """Where the page of a game's replay is."""
    assert coworld("run-episode", package, "-o", place / "played", *words).status == 0
    done = coworld("replay", package, place / "played", "--html", place / "page.html")
    assert done.status == 0, done.stderr
    return (place / "page.html").as_uri()


def test_a_replay_of_the_kit(pages: Pages, tmp_path: Path) -> None:
    page = pages(written(new_game("small", directory=tmp_path / "small").directory, tmp_path), alone=True)
    page.get_by_label("Tick").press("End")
    expect(page.locator("#status")).to_have_text("The game is over")


def test_a_replay_of_paint_arena(pages: Pages, tmp_path: Path) -> None:
    page = pages(written(ROOT / "examples/paintarena", tmp_path, "--variant", "quick"), alone=True)
    page.locator("body").press("End")
    expect(page.locator("#tick")).to_have_text("Tick 20 of 20")
    notebook = tmp_path / "notebook.html"
    whole = ReplayPage((tmp_path / "page.html").read_text(encoding="utf-8"))
    notebook.write_text(f"<!doctype html>{whole._repr_html_()}", encoding="utf-8")
    inline = pages(notebook.as_uri()).frame_locator("iframe")
    expect(inline.locator("#status")).to_have_text("Playing")
