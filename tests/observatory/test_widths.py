"""The pages that were added for leagues that live and for operators, in a browser of three widths."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, Page, expect
from support.browser import Pages, opening, signed_in, visit
from support.league_play import league_of, play_rounds, strengths_of
from support.observatory_kit import Account, Platform, open_platform, seed

from observatory.api.leagues import create_league
from observatory.operations.moderation import disable_policy, disable_user, find_policy
from observatory.store.models import League, Round
from observatory.work.queue import Queue
from observatory.work.rounds import advance
from observatory.work.seasons import CONTINUOUS, change_league

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

WIDTHS = (360, 375, 768, 1280)
LONG = "Wolfeschlegelsteinhausenbergerdorffwelchevoralternwarengewissen"
"""A name without a place to break it, of 63 characters."""

CROWDED = """() => [...document.querySelectorAll('main table')].flatMap(table => {
    const panel = table.closest('.panel'), edge = panel.getBoundingClientRect().right + 1;
    const box = cell => cell.getBoundingClientRect();
    const squeezed = cell => cell.matches('.name') && cell.innerText.length > 20 && box(cell).width < 80;
    const is_wrong = cell => cell.checkVisibility() && (box(cell).right > edge || squeezed(cell));
    // many who have met take more room than there is, and then are scrolled: the first of the figures is still seen
    const cells = table.matches('.met') ? table.querySelectorAll('tbody td.number:nth-child(2)')
                                        : table.querySelectorAll('th, td');
    return [...cells].filter(is_wrong).map(cell => `${panel.id || panel.innerText.slice(0, 20)}: ${cell.innerText}`);
})"""
"""The cells of tables that are pushed out of their panels, and the names that are squeezed to a letter a line."""


@dataclass
class Scene:
    """An Observatory in another thread."""

    portal: BlockingPortal
    platform: Platform
    boss: Account
    league: str
    bare: str
    """A league in which nothing is."""
    over: str
    """A round that is over."""
    current: str
    """A round that is played."""
    policy: str


async def _set(portal: BlockingPortal, platform: Platform) -> Scene:
    services = platform.services
    await platform.fill_pool()
    boss = await platform.account("boss", team=True)
    world = await seed(services, (await platform.account("owner")).id)
    versions: dict[str, str] = {}
    for number in range(3):
        name = f"{LONG}{number}"
        account = await platform.account(name)
        versions[name] = await platform.policy(account, LONG + name)
        await platform.join(world, versions[name])
    await league_of(platform, world, pairing="round-robin")
    strengths = strengths_of(versions)
    # The second is not closed before the season is
    await play_rounds(platform, world.division, strengths, 2)
    async with services.database.writing() as session:
        await change_league(session, world.league, "season")
    await play_rounds(platform, world.division, strengths, 1)
    async with services.database.reading() as session:
        over = await session.scalar(sa.select(sa.func.max(Round.id)).where(Round.status == "running"))
    current = await advance(services.database, world.division)
    assert over is not None
    assert current is not None
    # One of its episodes is held by a worker that was killed
    assert await Queue(services.database, owner=f"{LONG}.example.org-1").claim() is not None
    async with services.database.writing() as session:
        await disable_user(session, f"{LONG}2", reason=LONG * 3)
        await disable_policy(session, await find_policy(session, versions[f"{LONG}1"]), reason=LONG * 3)
        bare = await create_league(session, f"Bare {LONG}", coworld=world.name)
        scene = Scene(portal, platform, boss, world.league, bare.id, over, current, versions[f"{LONG}0"])
        # Only now a league that plays by itself: the server would have begun rounds, too
        (await session.get_one(League, world.league)).commissioner_key = CONTINUOUS
        await change_league(session, world.league, "pause")
    return scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_platform(tmp_path_factory.mktemp("widths"), backend="none")) as platform,
    ):
        yield portal.call(_set, portal, platform)


@pytest.fixture
def pages(browser: Browser, scene: Scene) -> Generator[Pages]:
    del scene  # The server is there before the pages, and outlives them
    with opening(browser) as open_page:
        yield open_page


def look(page: Page, scene: Scene, path: str, *texts: str) -> None:
    """Open a page with all its details, and hold that nothing on it is pushed aside."""
    visit(page, scene.platform.url + path)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for text in texts:
        expect(page.get_by_text(text).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
    assert page.evaluate(CROWDED) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_long_names_do_not_break_page_layout(scene: Scene, pages: Pages, width: int) -> None:
    size = {"width": width, "height": 800}
    page = signed_in(pages, scene.platform.url, scene.boss.token, "/operator", size=size)
    look(page, scene, "/operator", "Audit log", f"{LONG}.example.org-1")
    for what, *texts in (
        ("accounts", "Make the account and its link", f"{LONG}2"),
        ("leagues", "Submissions close (UTC)", f"Bare {LONG}"),
        ("policies?state=disabled", LONG),
        ("episodes?state=running", f"{LONG}.example.org-1"),
        ("storage", "owner"),
        ("audit", "policy.disabled"),
    ):
        look(page, scene, f"/operator/{what}", *texts)
    look(page, scene, "/", f"{LONG}0")
    league = f"/leagues/{scene.league}"
    look(page, scene, league, "This league is paused", "Blocks won–lost", "Season 1", f"{LONG}0")
    look(page, scene, f"{league}/rounds/{scene.over}", "6 of 6 episodes are over", f"{LONG}0")
    look(page, scene, f"{league}/rounds/{scene.current}", "Results appear when the last episode is over.")
    look(page, scene, f"/policies/versions/{scene.policy}", f"{LONG}0")
    # Where nothing is yet
    look(page, scene, f"/leagues/{scene.bare}", "No standings yet", "No policy has been submitted yet.")
