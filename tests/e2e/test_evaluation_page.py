"""The page of evaluations in a real browser: nothing is loaded, nothing runs, it fits, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect
from support.browser import DESKTOP, Pages, Size
from support.hostile_certification import HOSTILE
from support.simulated import leave, mixture_plan, pickup_plan, played, ranking_plan, strengths

from coworld_core.episode.record import SlotRow
from coworld_runner.evaluation import read_evaluation, report_page
from coworld_runner.evaluation.evaluation_page import different_games

pytestmark = pytest.mark.browser

NARROW: Size = {"width": 360, "height": 780}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a page of three evaluations, two of them of another game, and one of hostile players."""
    root = tmp_path_factory.mktemp("page #1 ?")
    entrants = tuple(SlotRow(name=name) for name in (*HOSTILE, "A name that goes on for so long that it has to wrap"))
    rank = ranking_plan(entrants=entrants, slot_count=2, max_blocks=12, coworld=HOSTILE[0])
    rows = [row.model_copy(update={"message": HOSTILE[1]}) for row in played(rank, strengths({"player-1": 3.0}))]
    hostile = leave(root / "rank: 1", rank, rows)
    replay = hostile / rows[0].workspace / "replay"
    replay.parent.mkdir()
    replay.write_text("{}")
    mixed = mixture_plan(2, 1, max_blocks=8)
    valued = pickup_plan(2, slot_count=3, credit="shapley", max_blocks=6)
    runs = [
        hostile,
        leave(root / "run", mixed, played(mixed, strengths({}))),
        leave(root / "pickup", valued, played(valued, strengths({"candidate": 1.0}))),
    ]
    (root / "page.html").write_text(report_page([read_evaluation(run) for run in runs], beside=root))
    return root


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (NARROW, True)], ids=["desk", "phone"])
def test_hostile_text_is_escaped_and_fits(pages: Pages, left: Path, size: Size, dark: bool) -> None:
    page = pages((left / "page.html").as_uri(), size=size, dark=dark, alone=True)
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.scripts.length") == 0
    assert page.locator("img, iframe, object, form, a[href^='javascript']").count() == 0
    assert page.evaluate("/[\\u202a-\\u202e]/.test(document.body.textContent)") is False
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.locator("article")).to_have_count(3)
    expect(page.get_by_text("These runs are of different games")).to_have_count(1)
    # All that is drawn is inside its frame
    assert page.evaluate(
        """[...document.querySelectorAll(".plot circle, .plot line")].every(mark => {
            const [inner, outer] = [mark.getBoundingClientRect(), mark.closest("svg").getBoundingClientRect()];
            return inner.left >= outer.left && inner.right <= outer.right && outer.width > 100;
        })"""
    )


def test_links_lead_to_replays_that_are_there(left: Path) -> None:
    html = (left / "page.html").read_text()
    links = [unquote(link) for link in re.findall(r'href="(\./[^"]*)"', html)]
    assert [link for link in links if link.endswith("/replay")] == ["./rank: 1/block-0001.1-1/replay"]
    assert all((left / link).exists() for link in links)


def test_evaluations_of_one_game_need_no_warning(left: Path) -> None:
    runs = [read_evaluation(left / name).report for name in ("run", "pickup")]
    assert different_games(runs) == ""
