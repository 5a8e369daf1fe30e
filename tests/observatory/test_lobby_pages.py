"""The page of a lobby, from the draft to the result, as a host and a guest see it."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass

import httpx2
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, expect
from support.browser import Pages, assert_fits, opening, signed_in, visit
from support.observatory_kit import Account, Platform, World, open_platform, seed

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LONG = "Wolfeschlegelsteinhausenbergerdorffwelchevoralternwarengewissen"
"""A name without a place to break it, of 63 characters."""


@dataclass
class Scene:
    """An Observatory in another thread."""

    portal: BlockingPortal
    platform: Platform
    world: World
    ann: Account
    long: Account


async def _set(portal: BlockingPortal, platform: Platform) -> Scene:
    await platform.fill_pool()
    world = await seed(platform.services, (await platform.account("owner")).id)
    for name in ("bot", LONG):
        await platform.join(world, await platform.policy(await platform.account(f"{name}-author"), name))
    return Scene(portal, platform, world, await platform.account("ann"), await platform.account(LONG))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    opened = open_platform(tmp_path_factory.mktemp("lobbies"))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as platform:
        yield portal.call(_set, portal, platform)


@pytest.fixture
def pages(browser: Browser, scene: Scene) -> Generator[Pages]:
    del scene  # The server is there before the pages, and outlives them
    with opening(browser) as open_page:
        yield open_page


def test_host_and_guest_play_with_a_policy(scene: Scene, pages: Pages) -> None:
    host = signed_in(pages, scene.platform.url, scene.ann.token, f"/leagues/{scene.world.league}")
    host.get_by_role("button", name="Create a lobby").click()
    host.wait_for_url(re.compile("/lobbies/lby_"))
    path = host.url.removeprefix(scene.platform.url)
    rows = host.locator("#seats tbody tr")
    expect(rows.nth(0)).to_contain_text("ann")
    expect(rows.nth(1)).to_contain_text(f"{LONG}-author")
    for position, choice in ((1, "A person"), (2, "bot-author (bot:v1)")):
        host.get_by_label(f"Who sits in seat {position}").select_option(choice)
        host.get_by_label(f"Change seat {position}").click()
    expect(rows.nth(1)).to_contain_text("free")
    expect(rows.nth(2)).to_contain_text("bot-author champion")
    expect(host.get_by_text("It can start once 2 to 4 seats are filled")).to_be_visible()
    # Nobody knows of it yet who has not signed in, but may look
    visitor = pages(scene.platform.url + path)
    expect(visitor.get_by_text("to take a seat.")).to_be_visible()
    expect(visitor.locator("#seats button")).to_have_count(0)
    guest = signed_in(pages, scene.platform.url, scene.long.token, path)
    guest.get_by_label("Take seat 1").click()
    expect(guest.get_by_text("The host starts the game.")).to_be_visible()
    # The host's page tells of it by itself
    expect(rows.nth(1)).to_contain_text(LONG)
    host.get_by_role("button", name="Start the game").click()
    host.get_by_role("link", name="Go to your seat").click(timeout=300_000)
    expect(host.locator("#quick")).to_have_text('{"type":"state","game":"quick"}', timeout=300_000)
    guest.get_by_role("link", name="Go to your seat").click(timeout=300_000)
    guest.wait_for_url(re.compile(r"/client/player\?"))
    visit(host, scene.platform.url + path)
    host.get_by_role("link", name="See the result").click(timeout=300_000)
    expect(host.get_by_text("bot:v1").first).to_be_visible()
    expect(host.get_by_text(LONG).first).to_be_visible()


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_long_names_push_nothing_away(scene: Scene, pages: Pages, width: int, dark: bool) -> None:
    page = signed_in(
        pages,
        scene.platform.url,
        scene.long.token,
        f"/leagues/{scene.world.league}",
        size={"width": width, "height": 800},
        dark=dark,
    )
    page.get_by_role("button", name="Create a lobby").click()
    page.wait_for_url(re.compile("/lobbies/lby_"))
    expect(page.locator("#seats tbody tr")).to_have_count(4)
    assert_fits(page)
    inside = """() => { const edge = document.querySelector('#seats').getBoundingClientRect().right + 1;
        return [...document.querySelectorAll('#seats td, #seats select, #seats button')]
            .every(one => one.getBoundingClientRect().right <= edge); }"""
    assert page.evaluate(inside)
    page.get_by_role("button", name="Cancel this lobby").click()
    expect(page.get_by_text("This lobby is over.")).to_be_visible()
    expect(page.locator("#seats button")).to_have_count(0)


def test_cross_site_lobby_forms_are_refused(scene: Scene, pages: Pages) -> None:
    page = signed_in(pages, scene.platform.url, scene.ann.token, f"/leagues/{scene.world.league}")
    [cookie] = page.context.cookies()
    headers = {"Cookie": f"{cookie.get('name')}={cookie.get('value')}"}
    place = f"{scene.platform.url}/leagues/{scene.world.league}/lobbies"
    made = httpx2.post(place, headers=headers, timeout=300)
    assert made.status_code == 303
    lobby = scene.platform.url + made.headers["location"]
    elsewhere = {**headers, "Origin": "https://elsewhere.example"}
    for address in (place, f"{lobby}/leave", f"{lobby}/cancel", f"{lobby}/start"):
        assert httpx2.post(address, headers=elsewhere, timeout=300).status_code == 403, address
    for action, values, status in (
        ("seat", {"position": "1", "choice": "random", "revision": "7"}, 409),
        ("seat", {"position": "1", "choice": "nobody", "revision": "1"}, 404),
        ("seat", {"position": "x"}, 404),
        ("start", {}, 404),
        ("nothing", {}, 404),
        ("end", {}, 409),
    ):
        assert httpx2.post(f"{lobby}/{action}", headers=headers, data=values, timeout=300).status_code == status, action
    signed_out = httpx2.post(f"{lobby}/leave", timeout=300)
    assert (signed_out.status_code, signed_out.headers["location"][:14]) == (303, "/sign-in?next=")
    assert httpx2.get(f"{scene.platform.url}/lobbies/lby_none", headers=headers, timeout=300).status_code == 404
