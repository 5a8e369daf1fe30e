"""What roles say, in a real browser: grades, reports in their frames, buttons; and reports that mean harm."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, Page, Request, expect
from support.browser import PHONE, Pages, assert_fits, opening, signed_in
from support.hostile_reports import ELSEWHERE, HOSTILE
from support.observatory import until_committed
from support.observatory_kit import Account, Platform, World, open_platform, seed
from support.quick_roles import with_roles

from coworld_core.roles.safe_render import RENDER_HEADERS
from observatory.api.leagues import change_league_settings
from observatory.store.models import RoleRun

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]

SAMPLE = ("svg-image-elsewhere", "css-image-set", "handler-onerror", "href-javascript-with-a-tab", "link-preload")
PATIENCE = 300_000


@dataclass
class Scene:
    """An Observatory in another thread, with an episode that was graded and is to be looked at."""

    portal: BlockingPortal
    platform: Platform
    ann: Account
    bob: Account
    world: World
    episode: str
    round: str

    def url(self, path: str) -> str:
        return self.platform.url + path


async def _set(portal: BlockingPortal, platform: Platform, subject: Any) -> Scene:
    await platform.fill_pool()
    ann, bob = await platform.account("ann"), await platform.account("bob")
    world = await seed(platform.services, ann.id, subject=subject)
    versions = [await platform.policy(ann, "left"), await platform.policy(bob, "right")]
    for version in versions:
        await platform.join(world, version)
    async with platform.services.database.writing() as session:
        await change_league_settings(session, world.league, terms={"grade": True})
    row = await platform.until_played(await platform.play_round(world, *versions))

    async def graded() -> bool | None:
        async with platform.client() as client:
            runs = (await client.get(f"/v2/episode-requests/{row.id}/role-runs")).json()
            return all(run["status"] in ("completed", "failed") for run in runs) or None

    await until_committed(graded, seconds=300)
    assert row.round_id is not None
    return Scene(portal, platform, ann, bob, world, row.id, row.round_id)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    place = tmp_path_factory.mktemp("roles")
    subject = with_roles(
        place / "quick",
        ("grader", "margin", "measures"),
        ("grader", "broken", "fails"),
        ("reporter", "summary", "reports"),
        ("diagnoser", "edges", "diagnoses"),
    )
    opened = open_platform(place, packages=[subject.directory])
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as platform:
        yield portal.call(_set, portal, platform, subject)


@pytest.fixture
def pages(browser: Browser, scene: Scene) -> Generator[Pages]:
    del scene  # The server is there before the pages, and outlives them
    with opening(browser) as open_page:
        yield open_page


def fits(page: Page) -> None:
    assert_fits(page)


def test_grades_are_shown_where_episodes_are(scene: Scene, pages: Pages) -> None:
    page = pages(scene.url(f"/leagues/{scene.world.league}"), size={"width": 360, "height": 800}, dark=True)
    expect(page.locator("#after")).to_contain_text("is graded by the game's own programs")
    expect(page.locator("#rounds td[data-label='mean grade']")).to_have_text("0.25")
    expect(page.locator(f"[data-episode='{scene.episode}'] td[data-label='grade']")).to_have_text("0.25")
    fits(page)
    page.goto(scene.url(f"/leagues/{scene.world.league}/rounds/{scene.round}"))
    expect(page.locator("#grade")).to_have_text("Mean grade: 0.25 margin.")
    page.goto(scene.url(f"/episodes/{scene.episode}"))
    grades = page.locator("#grades li")
    expect(grades.nth(0)).to_contain_text("margin")
    expect(grades.nth(0).locator("b")).to_have_text("0.25")
    expect(grades.nth(0)).to_contain_text("scale: 1: as close as can be")
    expect(grades.nth(1)).to_contain_text("program_error")
    # A visitor asks for nothing
    expect(page.locator("#ask")).to_have_count(0)
    fits(page)


def test_report_and_diagnosis_are_asked_for_and_shown_in_frames(scene: Scene, pages: Pages) -> None:
    page = signed_in(pages, scene.platform.url, scene.ann.token, f"/episodes/{scene.episode}", size=PHONE)
    ask = page.locator("#ask")
    # What is done cannot be asked for; what has failed can
    expect(ask.locator("form")).to_have_count(4)
    ask.get_by_role("button", name="Report", exact=True).click()
    page.wait_for_url("**#reports")
    page.locator("#ask").get_by_role("button", name="Diagnose left:v1").click()
    expect(page.locator("#reports iframe")).to_have_count(2, timeout=PATIENCE)
    expect(page.locator("#ask form")).to_have_count(2)
    for details in page.locator("#reports > details:not([open]) > summary").all():
        details.click()
    report = page.frame_locator("iframe[title='reporter summary']")
    expect(report.get_by_text("Shown")).to_be_visible()
    # Its style and its picture come along, though the frame sends no cookie
    expect(report.locator("body")).to_have_css("font-family", "sans-serif")
    diagnosis = page.frame_locator("iframe[title='diagnoser edges']")
    expect(diagnosis.get_by_role("heading", name="left:v1")).to_be_visible()
    for frame in (report, diagnosis):
        picture = frame.locator("img")
        expect(picture).to_be_visible()
        assert picture.evaluate("async one => { await one.decode(); return one.naturalWidth }") == 40
    fits(page)
    # Nobody else sees the diagnosis: neither on a page, nor by an address without a ticket of this server
    href = page.locator("#reports details", has_text="edges").get_by_role("link", name="On a page of its own")
    place = href.get_attribute("href")
    framed = page.locator("iframe[title='diagnoser edges']").get_attribute("src")
    assert place is not None
    assert framed is not None
    other = signed_in(pages, scene.platform.url, scene.bob.token, f"/episodes/{scene.episode}")
    expect(other.locator("#reports iframe")).to_have_count(1)
    assert httpx2.get(scene.url(place), timeout=60).status_code == 404
    assert httpx2.get(scene.url(f"{place}/output"), timeout=60).status_code == 404
    _, _, ticket, rest = framed.split("/", 3)
    forged = f"{ticket[:-1]}{'0' if ticket[-1] != '0' else '1'}"
    assert httpx2.get(scene.url(f"/reports/{forged}/{rest}"), timeout=60).status_code == 403
    answer = httpx2.get(scene.url(framed), timeout=60)
    assert {name: answer.headers[name] for name in RENDER_HEADERS} == dict(RENDER_HEADERS)
    assert httpx2.get(scene.url(framed.replace("diagnosis.md", "none.md")), timeout=60).status_code == 404


def test_bundle_has_the_parts_that_are_ticked(scene: Scene, pages: Pages) -> None:
    page = signed_in(pages, scene.platform.url, scene.bob.token, f"/episodes/{scene.episode}")
    page.get_by_text("All in one zip").click()
    page.get_by_label("replay").uncheck()
    page.get_by_label("metadata").uncheck()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download the bundle").click()
    with zipfile.ZipFile(started.value.path()) as bundle:
        names = set(bundle.namelist())
    assert names == {"manifest.json", "results.json", "logs/game.log", "logs/policy_agent_1.log"}


async def _plant(platform: Platform, episode: str, name: str, files: Mapping[str, str]) -> str:
    """Store a report as if the check had let it pass; returns its id."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for entry, content in files.items():
            archive.writestr(entry, content)
    stored = await platform.services.artifacts.put(f"roles/{name}", packed.getvalue())
    async with platform.services.database.writing() as session:
        run = RoleRun(
            episode_request_id=episode,
            user_id=(await platform.episode(episode)).user_id,
            role="reporter",
            runnable_id=name,
            slots=[],
            key=name.ljust(64, "0"),
            status="completed",
            answer={"render": "report.html"},
            output_key=stored.key,
            output_size=stored.size,
            output_sha256=stored.sha256,
        )
        session.add(run)
        await session.flush()
        return run.id


def test_nothing_leaves_a_hostile_report_and_nothing_runs(scene: Scene, pages: Pages, browser: Browser) -> None:
    ids: list[str] = []
    for name in SAMPLE:
        hostile = HOSTILE[name]
        files = {"report.html": hostile.page, **hostile.files}
        ids.append(scene.portal.call(_plant, scene.platform, scene.episode, name, files))
    context = browser.new_context()
    try:
        page = context.new_page()
        requests: list[Request] = []
        page.on("request", lambda request: requests.append(request))
        page.add_init_script("window.heard = []; addEventListener('message', event => heard.push(event.data))")
        for id in ids:
            page.goto(scene.url(f"/episodes/{scene.episode}/roles/{id}"))
            frame = page.frames[1]
            frame.wait_for_load_state()
            for link in frame.locator("a, button, text").all():
                link.dispatch_event("click", timeout=2000)
            # Opened alone, it is in a sandbox too
            address = page.locator("iframe.report").get_attribute("src")
            assert page.evaluate("heard") == []
            page.goto(scene.url(str(address)))
            assert page.evaluate("origin") == "null"
            assert page.evaluate("heard") == []
        left = [asked.url for asked in requests if asked.failure not in ("csp", "origin")]
        assert [url for url in left if url.startswith(ELSEWHERE)] == []
        assert any(url.startswith(scene.url("/reports/")) for url in left)
    finally:
        context.close()
