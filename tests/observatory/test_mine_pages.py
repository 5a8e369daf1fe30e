"""A league with many members, an entry's history, and what one has, in a browser of three widths."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser, Page, expect
from support.browser import Pages, assert_fits, opening, signed_in, visit
from support.league_play import contestants, league_of, play_rounds, strengths_of
from support.observatory_kit import Account, Platform, open_platform, seed

from observatory.store.models import League, Membership, Submission
from observatory.work.rounds import advance
from observatory.work.seasons import CONTINUOUS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

WIDTHS = (375, 768, 1280)
LONG = "Wolfeschlegelsteinhausenbergerdorffwelchevoralternwarengewissen"
"""A name without a place to break it, of 63 characters."""
MANY = 24


@dataclass
class Scene:
    """An Observatory in another thread, with a Swiss tournament in its third round."""

    platform: Platform
    ann: Account
    league: str
    entry: str


async def _set(platform: Platform) -> Scene:
    await platform.fill_pool()
    ann = await platform.account(LONG)
    world = await seed(platform.services, ann.id)
    await league_of(platform, world, pairing="swiss", rounds=9)
    hers = await platform.policy(ann, LONG)
    await platform.join(world, hers)
    versions = {LONG: hers, **await contestants(platform, world, MANY - 1)}
    await play_rounds(platform, world.division, strengths_of(versions), 2)
    assert await advance(platform.services.database, world.division) is not None
    await league_of(platform, world, pairing="swiss", rounds=9, every_seconds=9e5, closes_at="2999-01-01T00:00:00Z")
    async with platform.services.database.writing() as session:
        member = (await session.scalars(sa.select(Membership).where(Membership.policy_version_id == hers))).one()
        for number, status in enumerate(("rejected", "placed")):
            made = Submission(
                league_id=world.league, policy_version_id=hers, user_id=ann.id, status=status, notes=f"{LONG}{number}"
            )
            made.membership_id = member.id if status == "placed" else None
            session.add(made)
        (await session.get_one(League, world.league)).commissioner_key = CONTINUOUS
        return Scene(platform, ann, world.league, member.entry_id)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    opened = open_platform(tmp_path_factory.mktemp("mine"), backend="none")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as platform:
        yield portal.call(_set, platform)


@pytest.fixture
def pages(browser: Browser, scene: Scene) -> Generator[Pages]:
    del scene  # The server is there before the pages, and outlives them
    with opening(browser) as open_page:
        yield open_page


def top(page: Page, selector: str) -> float:
    """Where something begins, from the top of the page."""
    box = page.locator(selector).bounding_box()
    assert box is not None, selector
    return box["y"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_league_begins_with_how_to_take_part_and_folds_its_members(scene: Scene, pages: Pages, width: int) -> None:
    page = pages(f"{scene.platform.url}/leagues/{scene.league}", size={"width": width, "height": 800})
    assert_fits(page)
    members, table = page.locator("#members"), page.locator("[id^=div_]").first
    expect(members.get_by_text(f"{MANY} members")).to_be_visible()
    expect(members.locator("table")).to_be_hidden()
    expect(table.locator(".progress").first).to_contain_text("2 of 9 rounds of season 1 over")
    expect(page.get_by_text("Submissions close on")).to_be_visible()
    if width < 1280:
        assert top(page, "#part") < top(page, "[id^=div_]")
        assert page.evaluate("document.documentElement.scrollHeight") < 5500
    else:
        assert top(page, "#part") == top(page, "[id^=div_]")
    # What somebody has unfolded stays so when the page follows what goes on
    members.locator("summary").click()
    expect(members.locator("table")).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    with page.expect_response(lambda answer: answer.url == page.url):
        pass
    expect(members.locator("table")).to_be_visible()
    assert_fits(page)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_history_and_what_one_has_fit(scene: Scene, pages: Pages, width: int) -> None:
    size = {"width": width, "height": 800}
    page = signed_in(pages, scene.platform.url, scene.ann.token, "/mine", size=size)
    expect(page.get_by_role("navigation").get_by_text("Mine")).to_have_attribute("aria-current", "page")
    expect(page.locator("#submissions tbody tr")).to_have_count(2)
    expect(page.locator("#policies tbody tr")).to_have_count(1)
    assert_fits(page)
    page.get_by_role("link", name="history").click()
    page.wait_for_url(f"{scene.platform.url}/leagues/{scene.league}/entries/{scene.entry}")
    expect(page.locator("#charts polyline")).to_have_count(2)
    expect(page.locator("#rounds tbody tr")).to_have_count(2)
    expect(page.locator("#met tbody tr")).to_have_count(2)
    assert_fits(page)
    visit(page, f"{scene.platform.url}/leagues/{scene.league}")
    assert_fits(page)
