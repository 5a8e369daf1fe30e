"""What lies along the ticks of a replay's page: the slider, keys, events, curves, links; and replays by strangers."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from support.browser import Pages
from support.game_process import program

from coworld_core.rules import Frame, ReplayHeader, ReplayWriter
from coworld_core.rules.seat_talk import SeatMessage

pytestmark = pytest.mark.browser

PHONE = {"width": 375, "height": 740}
NAMES = ["Ada", "<b>Bob</b>"]


def picture(tick: int) -> str:
    high = 40 - tick % 13
    return f'<svg viewBox="0 0 100 {high}"><title>tick {tick}</title><rect width="100" height="{high}"/></svg>'


def frame(tick: int, **known: Any) -> Frame:
    return Frame(tick=tick, to_act=(0,), drawing=picture(tick), **known)


@contextmanager
def shown(place: Path, frames: Iterable[Frame], *, names: list[str] = NAMES, **results: Any) -> Generator[str]:
    """The address of the page of a replay."""
    writer = ReplayWriter(
        ReplayHeader(
            rules="Race", version="0", config={}, seed=1, seats=2, names=names, pace={"kind": "ticks", "hz": 50}
        )
    )
    for one in frames:
        writer.add(one, {0: f"move {one.tick}"})
    (place / "replay").write_bytes(writer.finish(reason="over", results=results or None))
    with program(place, COGAME_LOAD_REPLAY_URI=(place / "replay").as_uri()) as show:
        yield f"http://127.0.0.1:{show.port}/client/replay"


def story() -> list[Frame]:
    """Thirteen ticks: Bob scores at 2, Ada speaks at 5, Bob is out from 9 on."""
    return [
        frame(
            tick,
            scores=(0, 1.5 if tick >= 2 else 0),
            eliminated=(1,) if tick >= 9 else (),
            messages=(SeatMessage(tick=5, seat=0, text="<i>aye</i>", to="all", hearers=(0, 1)),) if tick == 5 else (),
        )
        for tick in range(13)
    ]


def at(page: Page, tick: int) -> None:
    expect(page.locator("#status")).to_have_text(f"Tick {tick}" if tick < 12 else "The game is over")


def test_keys_and_events_lead_through_a_replay(pages: Pages, tmp_path: Path) -> None:
    with shown(tmp_path, story(), scores=[0, 3]) as address:
        page = pages(address, size=PHONE, alone=True)
        at(page, 12)
        play = page.get_by_role("button", name="Play")
        expect(play).to_be_visible()  # It does not begin again by itself
        for key, tick in (("Home", 0), (".", 1), ("ArrowRight", 2), (",", 1), ("ArrowLeft", 0), ("End", 12)):
            page.keyboard.press(key)
            at(page, tick)
        page.get_by_role("slider").focus()
        page.keyboard.press("Home")
        at(page, 0)
        after, before = (page.get_by_role("button", name=name) for name in ("Next event", "Previous event"))
        expect(before).to_be_disabled()
        for tick in (2, 5, 9, 12):
            after.click()
            at(page, tick)
        expect(after).to_be_disabled()
        before.click()
        at(page, 9)
        marks = page.get_by_role("group", name="Events").get_by_role("button")
        assert [mark.get_attribute("title") for mark in marks.all()] == [
            "2: <b>Bob</b> 0 → 1.5",
            "5: Ada speaks",
            "9: <b>Bob</b> is out",
            "12: <b>Bob</b> 1.5 → 3",
        ]
        marks.nth(1).click()
        at(page, 5)
        expect(page.get_by_role("img", name="Scores: Ada 0 to 0; <b>Bob</b> 0 to 3")).to_be_visible()
        slider, controls = (page.locator(place).bounding_box() for place in ("[type=range]", "#controls"))
        assert slider is not None
        assert controls is not None
        assert slider["width"] == controls["width"]
        page.locator("body").click(position={"x": 2, "y": 2})
        page.keyboard.press("Space")
        at(page, 12)
        page.get_by_label("Loop").check()
        play.click()
        for status in (re.compile("Tick"), "The game is over", re.compile("Tick")):
            expect(page.locator("#status")).to_have_text(status)


def test_a_link_says_tick_eye_and_pace(pages: Pages, tmp_path: Path) -> None:
    with shown(tmp_path, story()) as address:
        page = pages(f"{address}#tick=4&pace=2&theirs=x%26y")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        at(page, 4)
        speed = page.get_by_label("Speed")
        expect(speed).to_have_value("2")
        page.keyboard.press(".")
        speed.select_option("0.5")
        page.get_by_role("button", name="Copy link").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        link = f"{address}#tick=5&pace=0.5&theirs=x%26y"
        assert page.evaluate("navigator.clipboard.readText()") == page.url == link
        page.evaluate("location.hash = 'tick=9&pace=8'")
        at(page, 9)
        expect(speed).to_have_value("8")
        for nonsense in ("tick=1e1&pace=<b>&eye=9", "tick=-3", "%%%&tick", "pace=99999", "tick=3".ljust(9999, "3")):
            page.evaluate("text => { location.hash = text; }", nonsense)
            page.evaluate("new Promise((done) => { setTimeout(done); })")
            at(page, 9)
        expect(speed).to_have_value("8")
        page.evaluate("location.hash = 'tick=999999999'")
        at(page, 12)


PLACES = """() => [...document.querySelectorAll("#controls, #controls *, #seats li, #said, #notice")]
    .filter((node) => !node.closest("figure, option")).map((node) => JSON.stringify(node.getBoundingClientRect()))"""


@pytest.mark.parametrize("width", [375, 768, 1280])
def test_nothing_moves_from_tick_to_tick(width: int, pages: Pages, tmp_path: Path) -> None:
    with shown(tmp_path, story()) as address:
        page = pages(f"{address}#tick=0", size={"width": width, "height": 800})
        at(page, 0)
        places = page.evaluate(PLACES)
        for tick in range(1, 13):
            page.keyboard.press(".")
            at(page, tick)
            assert page.evaluate(PLACES) == places, f"at tick {tick}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def strange_scores() -> list[Frame]:
    """Too few, too many, and too large; who is out is nobody; and the ticks run backwards."""
    scores = [(), (1,), (1e308, -1e308, 5), (0, 0)]
    return [
        frame(
            9 - place,
            scores=one,
            eliminated=(-1, 10**9),
            messages=(SeatMessage(tick=0, seat=77, text="x", to=99, hearers=()),),
        )
        for place, one in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("frames", "names"),
    [
        (strange_scores, NAMES),
        (strange_scores, [f"<img src=x onerror=alert({seat})>" * 100 for seat in range(2000)]),
        (lambda: [frame(tick, scores=(tick % 3, 0)) for tick in range(20_000)], NAMES),
    ],
)
def test_a_replay_by_a_stranger(
    frames: Callable[[], list[Frame]], names: list[str], pages: Pages, tmp_path: Path
) -> None:
    with shown(tmp_path, frames(), names=names, scores="none") as address:
        page = pages(address, size=PHONE, alone=True)
        expect(page.locator("#seats li").first).to_be_visible()
        page.keyboard.press("End")
        expect(page.locator("#status")).to_have_text("The game is over")
        assert page.locator("#seats li").count() == min(len(names), 256)
        assert page.locator("#marks button").count() <= PHONE["width"] // 24
        assert page.locator("main img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_replay_without_ticks_says_so(pages: Pages, tmp_path: Path) -> None:
    with shown(tmp_path, []) as address:
        expect(pages(address, alone=True).locator("#status")).to_have_text("This replay has no ticks")
