"""Pages of an account and its teams, in a browser, at three widths."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser, expect
from support.browser import Pages, assert_fits, opening, signed_in
from support.observatory_kit import Account, Platform, open_platform

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LONG = "Wolfeschlegelsteinhausenbergerdorffwelchevoralternwarengewissen"
"""A name without a place to break it, of 63 characters."""


@dataclass
class Scene:
    """An Observatory in another thread, with two people."""

    platform: Platform
    long: Account
    ann: Account


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    opened = open_platform(tmp_path_factory.mktemp("accounts"))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as platform:
        yield Scene(platform, portal.call(platform.account, LONG), portal.call(platform.account, "ann"))


@pytest.fixture
def pages(browser: Browser, scene: Scene) -> Generator[Pages]:
    del scene  # The server is there before the pages, and outlives them
    with opening(browser) as open_page:
        yield open_page


@pytest.mark.parametrize("width", [375, 768, 1280])
def test_a_team_is_made_and_joined(scene: Scene, pages: Pages, width: int) -> None:
    team = f"{LONG[:50]} {width}"
    page = signed_in(pages, scene.platform.url, scene.long.token, "/account", size={"width": width, "height": 800})
    page.get_by_label("Make a team").fill(team)
    page.get_by_role("button", name="Make").click()
    row = page.locator("#teams tr", has_text=team)
    expect(row).to_contain_text(LONG)
    page.get_by_label(f"Invite into {team}").click()
    link = page.locator("#teams [role=status] code").inner_text()
    assert_fits(page)
    other = signed_in(
        pages,
        scene.platform.url,
        scene.ann.token,
        link.removeprefix(scene.platform.url),
        size={"width": width, "height": 800},
    )
    assert_fits(other)
    other.locator("main button").click()
    other.wait_for_url(scene.platform.url + "/account")
    expect(other.locator("#teams tr", has_text=team)).to_contain_text(f"{LONG}, ann")
    # Its captain takes her out
    page.reload()
    row.get_by_text("Remove a member").click()
    assert_fits(page)
    page.get_by_label(f"Remove ann from {team}").click()
    expect(row).not_to_contain_text("ann")
    other.reload()
    expect(other.locator("#teams tr", has_text=team)).to_have_count(0)
    # The last one says what becomes of what the team has, if it has anything
    page.get_by_label(f"Leave {team}").click()
    expect(page.locator("#teams tr", has_text=team)).to_have_count(0)


@pytest.mark.parametrize("width", [375, 768, 1280])
def test_what_a_deletion_does_is_said_first(scene: Scene, pages: Pages, width: int) -> None:
    page = signed_in(pages, scene.platform.url, scene.long.token, "/account", size={"width": width, "height": 800})
    page.get_by_role("link", name="Delete this account").click()
    expect(page.get_by_text("Stays:")).to_be_visible()
    assert_fits(page)
    expect(page.get_by_label("Type its name")).to_be_visible()
