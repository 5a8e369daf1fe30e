"""The page of a certification in a real browser: nothing is loaded, nothing runs, and it fits and folds."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.sync_api import expect
from support.browser import DESKTOP, Pages, Size
from support.hostile_certification import HOSTILE, hostile_certification
from support.small_world import LONG, world

from coworld_runner.certification import Certification, render_page

pytestmark = pytest.mark.browser

NARROW: Size = {"width": 360, "height": 780}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Certification]:
    """The page and record of a real certification with passes, failures, skips and advice."""
    workspace = tmp_path_factory.mktemp("certified") / "out"

    def mixed(manifest: dict[str, Any]) -> None:
        manifest["certification"]["game_config"] = dict(LONG)
        manifest["player"][0]["source_url"] = f"https://gitlab.example.org/{'deep/' * 30}source"

    async def run() -> Certification:
        async with world(game_vices=("dies",), change=mixed) as bad:
            return await bad.certify(workspace)

    # The browser's own event loop has this thread
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(anyio.run, run).result()
    return workspace / "certification.html", found


@pytest.mark.parametrize("status", ["completed", "interrupted"])
def test_hostile_text_is_escaped(tmp_path: Path, pages: Pages, status: Any) -> None:
    path = tmp_path / "certification.html"
    path.write_text(render_page(hostile_certification(status)))
    page = pages(path.as_uri(), alone=True)
    for summary in page.locator("summary").all():
        if not summary.evaluate("node => node.parentElement.open"):
            summary.click()
    assert page.evaluate("document.title") != "owned"
    assert page.evaluate("document.scripts.length") == 0
    assert page.locator("img, svg, iframe, object, form, a[href^='javascript']").count() == 0
    for piece in HOSTILE:
        expect(page.locator(".detail").first).to_contain_text(piece)
        expect(page.locator("pre").first).to_contain_text(piece)
    # Text that tries to turn the reading direction around has no such character left to do it with
    assert page.evaluate("/[\\u202a-\\u202e]/.test(document.body.textContent)") is False
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desk", "phone"])
def test_certification_page_fits_the_window(
    pages: Pages, failed: tuple[Path, Certification], size: Size, dark: bool
) -> None:
    path, record = failed
    page = pages(path.as_uri(), size=size, dark=dark, alone=True)
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"{record.coworld} {record.version}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_dark_and_light_schemes_differ(pages: Pages, failed: tuple[Path, Certification]) -> None:
    path, _ = failed
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    assert pages(path.as_uri(), dark=True, alone=True).evaluate(brightness) < 200
    assert pages(path.as_uri(), dark=False, alone=True).evaluate(brightness) > 600


def test_failed_steps_are_expanded_and_linked(pages: Pages, failed: tuple[Path, Certification]) -> None:
    path, record = failed
    page = pages(path.as_uri(), alone=True)
    for step in record.steps:
        details = page.locator(f"[id='{step.id}'] > details")
        assert details.evaluate("node => node.open") is (step.status != "pass")
    smoke = page.locator("#smoke-episode")
    expect(smoke.locator("pre").first).to_contain_text("Traceback: <b>division</b> by zero")
    page.locator("nav a[href='#players-run']").click()
    expect(page).to_have_url(re.compile("#players-run$"))
    expect(page.locator("#players-run")).to_be_in_viewport()
    # And what passed unfolds by keyboard
    page.locator("#matriculate summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#matriculate .rules")).to_be_visible()
