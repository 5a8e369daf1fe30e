"""The pages in a real browser: standings, episodes that change while one looks, replays, signing in."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, Page, expect
from support.browser import DESKTOP, PHONE, Pages, assert_fits, opening, sign_in
from support.observatory_kit import MISFITS, Account, Platform, World, open_platform, roster, seed, until_over

from observatory.hosted import sessions as hosted_sessions

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]

PATIENCE = 300
"""Seconds for anything, on a machine that is busy with other things."""
HOSTILE = '<img src=x onerror="alert(1)">'


@dataclass
class Scene:
    """An Observatory in another thread; the browser's own event loop has this one."""

    portal: BlockingPortal
    platform: Platform
    ann: Account
    eve: Account
    world: World
    public: dict[str, Any]
    private: dict[str, Any]
    broken: dict[str, Any]
    faulty: dict[str, Any]

    def ask(self, **body: Any) -> dict[str, Any]:
        """Ask for an episode as ann; returns it."""
        return self.portal.call(_ask, self.platform, self.ann, body)

    def url(self, path: str) -> str:
        return self.platform.url + path


async def _ask(platform: Platform, account: Account, body: dict[str, Any], *, wait: bool = False) -> dict[str, Any]:
    async with platform.client(account) as client:
        answer = await client.post("/v2/experience-requests", json=body)
        assert answer.status_code == 200, answer.text
        made = await until_over(client, answer.json()["id"]) if wait else answer.json()
        return made["episodes"][0]


async def _set(portal: BlockingPortal, platform: Platform) -> Scene:
    await platform.fill_pool()
    ann, eve = await platform.account("ann"), await platform.account("eve")
    world = await seed(platform.services, ann.id)
    misfits = await seed(platform.services, ann.id, subject=MISFITS)
    versions = [await platform.policy(owner, name) for owner, name in ((ann, "north-star"), (eve, HOSTILE))]
    for version in versions:
        await platform.join(world, version)
    scheduled = await platform.until_played(await platform.play_round(world, *versions))
    await platform.policy(ann, "well", "well", subject=MISFITS)
    await platform.policy(ann, "falls", "exits-3-midway", subject=MISFITS)
    bodies = [
        {"coworld_id": world.id, "roster": roster("north-star", "north-star"), "game_config_overrides": {"seed": 0}},
        {
            "coworld_id": misfits.id,
            "roster": roster("well", "well"),
            "game_config_overrides": {"behaviour": "exits-5", "play_seconds": 0.1},
        },
        {
            "coworld_id": misfits.id,
            "roster": roster("well", "falls"),
            "game_config_overrides": {"play_seconds": 1.0},
        },
    ]
    private, broken, faulty = [await _ask(platform, ann, body, wait=True) for body in bodies]
    async with platform.client() as anybody:
        public = (await anybody.get(f"/v2/episode-requests/{scheduled.id}")).json()
    return Scene(portal, platform, ann, eve, world, public, private, broken, faulty)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    with (
        pytest.MonkeyPatch.context() as patch,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_platform(tmp_path_factory.mktemp("web"))) as platform,
    ):
        patch.setattr(hosted_sessions, "START_SECONDS", PATIENCE)
        yield portal.call(_set, portal, platform)


@pytest.fixture
def pages(browser: Browser, scene: Scene) -> Generator[Pages]:
    with opening(browser) as open_page:
        yield open_page
    # The server outlives the test, and a game that is shown would outlive it for a while, too
    scene.portal.call(_end_games, scene.platform)


async def _end_games(platform: Platform) -> None:
    sessions = platform.services.runtime.sessions
    assert sessions is not None
    await sessions.end()


def fits(page: Page) -> None:
    """Hold that nothing has to be scrolled sideways, once the page has its style."""
    assert_fits(page)


def test_api_documentation_loads_nothing_external(scene: Scene, pages: Pages) -> None:
    page = pages(scene.url("/docs"))
    expect(page.locator("#swagger-ui")).to_contain_text("/v2/leagues", timeout=PATIENCE * 1000)


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)], ids=["desk", "phone"])
def test_leagues_and_episodes_without_an_account(scene: Scene, pages: Pages, size: dict[str, int], dark: bool) -> None:
    page = pages(scene.url("/"), size=size, dark=dark)
    expect(page.get_by_role("heading", name="Leagues")).to_be_visible()
    fits(page)
    row = page.locator(f"[data-episode='{scene.public['id']}']")
    expect(row.locator(".badge")).to_have_text("completed")
    # What somebody calls a policy is text
    expect(row).to_contain_text(HOSTILE)
    assert page.locator(f"[data-episode='{scene.private['id']}']").count() == 0
    page.get_by_role("link", name="Quick League").click()
    expect(page.get_by_role("heading", name="Quick League")).to_be_visible()
    # Eve sat in slot 1, whose score is higher by one
    expect(page.locator("tr.first")).to_contain_text("eve")
    page.get_by_text("2 members").click()
    expect(page.get_by_text("champion").first).to_be_visible()
    fits(page)
    page.locator(f"[data-episode='{scene.public['id']}'] a").click()
    expect(page.locator(".scores li")).to_have_count(2)
    fits(page)
    # The game's log is for everybody, a player's for its owner
    expect(page.locator(".logs details")).to_have_count(1)
    page.locator(".logs summary").click()
    expect(page.locator("pre")).to_have_text("quick: ready\n")


def test_league_page_shows_owners_and_refreshes(scene: Scene, pages: Pages) -> None:
    page = pages(scene.url(f"/leagues/{scene.world.league}"), size={"width": 360, "height": 780})
    first = page.locator("tr.first")
    expect(first).to_contain_text(f"{HOSTILE}:v1")
    before = int(first.locator("td.number").last.inner_text())
    expect(page.locator("#part pre")).to_contain_text("coworld upload-policy ./bot.py --league 'Quick League' --server")
    fits(page)
    versions = scene.portal.call(_seated, scene.platform, scene.public["id"])
    scene.portal.call(scene.platform.until_played, scene.portal.call(scene.platform.play_round, scene.world, *versions))
    # Nobody has asked for the page again
    expect(first.locator("td.number").last).not_to_have_text(str(before))
    fits(page)


async def _seated(platform: Platform, episode: str) -> list[str]:
    return [seat.policy_version_id or "" for seat in (await platform.episode(episode)).participants]


def test_scores_precede_logs_on_a_phone(scene: Scene, pages: Pages) -> None:
    path = f"/episodes/{scene.public['id']}"
    tops: dict[bool, dict[str, float]] = {}
    for phone in (True, False):
        page = pages(scene.url(path), size=PHONE if phone else DESKTOP)
        boxes = {name: page.locator(name).bounding_box() for name in ("#stage", ".scores", ".logs")}
        tops[phone] = {name: box["y"] for name, box in boxes.items() if box is not None}
    assert tops[True]["#stage"] < tops[True][".scores"] < tops[True][".logs"]
    assert tops[False][".scores"] < tops[False][".logs"]


def test_missing_pages_use_the_sites_layout(scene: Scene) -> None:
    with httpx2.Client(base_url=scene.platform.url, timeout=60) as anybody:
        browser = {"Accept": "text/html,*/*"}
        for path, status, said in (
            ("/nope", 404, "There is no page at this address."),
            ("/leagues/league_none", 404, "There is no such league"),
            ("/cli-auth", 200, "Enter your token."),
            ("/cli-auth?callback=http://evil.example/", 400, "would send your token to another machine"),
        ):
            answer = anybody.get(path, headers=browser)
            assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), path
            assert said in answer.text, path
            assert "/static/observatory.css" in answer.text, path
            assert 'href="/docs"' in answer.text, path
        # Programs get what they understand
        for path, headers in (("/nope", {}), ("/observatory/v2/nope", browser)):
            assert anybody.get(path, headers=headers).json()["type"] == "not_found"


def test_signed_in_user_sees_own_private_episodes(scene: Scene, pages: Pages) -> None:
    place = scene.url(f"/episodes/{scene.private['id']}")
    page = pages(scene.url(f"/sign-in?next=/episodes/{scene.private['id']}"))
    sign_in(page, scene.ann.token, place)
    expect(page.locator(".logs details")).to_have_count(3)
    expect(page.get_by_text("yours")).to_have_count(2)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the replay").click()
    assert download.value.path().read_text() == "quick replay of seed 0\n"
    cookie = next(item for item in page.context.cookies() if item["name"] == "observatory_session")
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(scene.url("/"))
    # The cookie is worth nothing any more, whoever has kept it
    answer = httpx2.get(place, headers={"Cookie": f"observatory_session={cookie['value']}"}, timeout=PATIENCE)
    assert answer.status_code == 404
    assert "Not found" in answer.text


def test_failed_episode_page_shows_the_error(scene: Scene, pages: Pages) -> None:
    page = pages(scene.url(f"/sign-in?next=/episodes/{scene.broken['id']}"), size=PHONE, dark=True)
    sign_in(page, scene.ann.token, scene.url(f"/episodes/{scene.broken['id']}"))
    expect(page.locator(".trouble")).to_contain_text("game_unhealthy")
    expect(page.get_by_text("There is no replay.")).to_be_visible()
    assert page.locator("#play-replay").count() == 0
    fits(page)


def test_player_fault_is_shown_at_its_seat(scene: Scene, pages: Pages) -> None:
    page = pages(scene.url(f"/sign-in?next=/episodes/{scene.faulty['id']}"), size=PHONE)
    sign_in(page, scene.ann.token, scene.url(f"/episodes/{scene.faulty['id']}"))
    expect(page.locator(".badge").first).to_have_text("completed")
    expect(page.locator("[data-fault='1']")).to_contain_text("status 3")
    assert page.locator("[data-fault='0']").count() == 0
    fits(page)


def test_episode_page_updates_live(scene: Scene, pages: Pages) -> None:
    body = {
        "target": {"league_id": scene.world.league},
        "roster": roster("north-star", "north-star"),
        "game_config_overrides": {"linger": 2, "seed": 0},
    }
    episode = scene.ask(**body)
    page = pages(scene.url(f"/episodes/{episode['id']}"))
    # Nobody touches it: the feed says when it runs and when it is over, and then its replay is there
    expect(page.locator("#play-replay")).to_be_visible(timeout=300_000)
    expect(page.locator(".badge").first).to_have_text("completed")
    expect(page.locator("[data-score='1']")).to_have_text("1")


def test_replay_is_shown_by_the_game_in_a_sandboxed_frame(scene: Scene, pages: Pages) -> None:
    page = pages(scene.url(f"/episodes/{scene.public['id']}"))
    page.get_by_role("button", name="Watch the replay").click()
    frame = page.frame_locator("iframe.stage")
    expect(frame.locator("#quick")).to_have_text('{"type":"state","game":"quick"}', timeout=300_000)
    # The game's page is a stranger here: it sees no cookie, and cannot read this server's answers
    inside = next(one for one in page.frames if one != page.main_frame)
    assert inside.evaluate("window.origin") == "null"
    assert inside.evaluate("(() => { try { return document.cookie } catch { return 'refused' } })()") == "refused"
    expect(page.get_by_role("link", name="Open in its own tab")).to_be_visible()


def test_people_join_a_play_session_from_its_page(scene: Scene, pages: Pages) -> None:
    async def start() -> dict[str, Any]:
        async with scene.platform.client(scene.ann) as client:
            answer = await client.post("/v2/coworlds/play/session", json={"coworld_id": scene.world.id})
            assert answer.status_code == 200, answer.text
            return answer.json()

    lobby = scene.portal.call(start)["lobby_url"]
    page = pages(lobby)
    page.get_by_role("button", name="Take a seat").click()
    page.wait_for_url(re.compile(r"/sign-in\?next="))
    sign_in(page, scene.ann.token, lobby)
    page.get_by_role("button", name="Take a seat").click()
    expect(page.locator("#quick")).to_have_text('{"type":"state","game":"quick"}', timeout=120_000)
    other = pages(f"{scene.platform.url}/sign-in?next=/play/{lobby.rpartition('/')[2]}")
    sign_in(other, scene.eve.token, lobby)
    expect(other.locator(".scores li").first).to_contain_text("ann")
    other.get_by_role("button", name="Take a seat").click()
    other.wait_for_url(re.compile(r"/client/player\?"))
    # Both are there, so the quick game is over
    lobby_again = pages(lobby)
    expect(lobby_again.get_by_role("heading", name="quick")).to_be_visible()


def test_published_platform_links_redirect(scene: Scene, pages: Pages) -> None:
    page = pages(scene.url(f"/observatory/v2#tab=leagues&detail=league:{scene.world.league}"))
    page.wait_for_url(scene.url(f"/leagues/{scene.world.league}"))
    expect(page.get_by_role("heading", name="Quick League")).to_be_visible()


def test_private_pages_are_hidden_from_strangers(scene: Scene) -> None:
    with httpx2.Client(base_url=scene.platform.url, timeout=PATIENCE) as anybody:
        for path in (
            f"/episodes/{scene.private['id']}",
            f"/episodes/{scene.private['id']}/files/results",
            f"/episodes/{scene.public['id']}/files/player_logs/0",
            f"/episodes/{scene.public['id']}/files/secrets",
            "/episodes/none",
            "/leagues/none",
            "/policies/versions/none",
            "/play/none",
            "/static/none",
        ):
            assert anybody.get(path).status_code == 404, path
        for path in ("/", f"/episodes/{scene.public['id']}", "/sign-in"):
            headers = anybody.get(path).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
        changes = anybody.get("/live", params={"ids": f"{scene.private['id']},{scene.public['id']}"}).json()
        assert [row["id"] for row in changes["episodes"]] == [scene.public["id"]]


def test_cross_site_requests_are_refused(scene: Scene) -> None:
    with httpx2.Client(base_url=scene.platform.url, timeout=PATIENCE) as browser:
        form = {"token": scene.ann.token, "next": "https://example.org/"}
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://example.org"}):
            assert browser.post("/sign-in", data=form, headers=headers).status_code == 403
            assert browser.post(f"/episodes/{scene.public['id']}/replay", headers=headers).status_code == 403
            assert browser.post("/sign-out", headers=headers).status_code == 403
        bad = browser.post("/sign-in", data={"token": "obs_none"})
        assert (bad.status_code, "not valid on this server" in bad.text) == (403, True)
        # And a good one leads to no other site
        good = browser.post("/sign-in", data=form)
        assert (good.status_code, good.headers["location"]) == (303, "/")
        # The cookie reads; it does not write
        body = {"coworld_id": scene.world.id, "roster": roster("north-star", "north-star")}
        assert browser.get("/observatory/v2/experience-requests").status_code == 200
        assert browser.post("/observatory/v2/experience-requests", json=body).status_code == 401
