"""Looks at a Coworld's pages in a browser: a player's, the viewers', and the one that shows a replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio

from coworld_core.errors import EpisodeError, StartError
from coworld_core.manifest.models import GAME_HOSTED
from coworld_core.text.phrases import listed

from ..backend import Backend, Publish, Unit
from ..episode import contract_probes
from ..episode.single import EpisodeOptions, run_episode
from ..errors import OWN_DOING, unwrapped
from ..package.plan import plan_episode
from ..package.resolver import Package
from ..package.viewer_bundle import find_bundle
from ..replay.page_look import INSTALL_BROWSER, WatchedPage, open_browser, watched_page
from ..replay.replay_session import ReplayOptions, open_replay_mode
from ..replay.viewer_check import check_viewer_files, look_at_viewer
from .certification_record import Evidence
from .step_answers import StepAnswer, advice, failed_on, issue_evidence, note, passed, skipped

if TYPE_CHECKING:
    from playwright.async_api import Browser

__all__ = ["PageChecks", "PageName", "judge", "look_at_pages"]

PageName = Literal["player", "viewers", "replay"]
"""The pages, by who they are for."""

_DRAWN: Final = 4.0
"""Seconds that a page may take to show anything."""
_SETTLE: Final = 1.0
"""Seconds in which a page that shows something may still report errors."""
_LOOK_AGAIN: Final = 0.2
_DIRECTORY: Final = "pages"
"""The episode's directory, below the certification's."""
_ROUTES: Final[dict[PageName, str]] = {
    "player": "/client/player",
    "viewers": "/client/global",
    "replay": "/client/replay",
}


@dataclass(frozen=True, kw_only=True)
class PageChecks:
    """The answer of the step, and what goes with it."""

    answer: StepAnswer
    pictures: dict[PageName, bytes] = field(default_factory=dict[PageName, bytes])
    """PNGs of the pages that were looked at."""
    tokens: tuple[str, ...] = ()
    """The tokens of the episode."""


async def look_at_pages(
    package: Package,
    replay: Path,
    *,
    backend: Backend,
    publish: Publish,
    options: EpisodeOptions,
    replay_options: ReplayOptions,
    workspace: Path,
) -> PageChecks:
    """Play an episode with a browser as a viewer, and show its replay in the browser.

    What is wrong with a static replay viewer, which a platform shows as it is, fails the step. What is wrong with the
    game's own pages is advice: they may be made for larger windows, or need what this machine has not.

    Args:
        package: The Coworld.
        replay: The replay of the smoke episode, if it exists.
        backend: An entered backend.
        publish: Receives events.
        options: Those of the smoke episode.
        replay_options: How the game is started in replay mode.
        workspace: The certification's.
    """
    async with open_browser() as (browser, why_not):
        if browser is None:
            detail = f"Not tried: {why_not}."
            return PageChecks(answer=skipped("not_applicable", detail, hint=INSTALL_BROWSER))
        async with watched_page(browser) as player, watched_page(browser) as viewer:
            pages = _GamePages(player, viewer, hosted=package.manifest.game.player_runtime == GAME_HOSTED)
            how = dataclasses.replace(options, on_player_failure="continue", watch=False)
            directory = workspace / _DIRECTORY
            await run_episode(plan_episode(package), backend=backend, workspace=directory, options=how, probe=pages)
        evidence, pictures = [*pages.evidence, *pages.of_viewers()], dict(pages.pictures)
        if await anyio.Path(replay).is_file():
            rows, picture = await _show_replay(browser, package, replay, backend, publish, replay_options)
            evidence += rows
            pictures |= {"replay": picture} if picture else {}
    if any(item.broken for item in evidence):
        answer = failed_on("viewer_broken", evidence)
    else:
        seen = listed(name for name in _ROUTES if name in pictures)
        answer = passed(f"In a browser, pages were looked at: {seen or 'none'}.", evidence)
    return PageChecks(answer=answer, pictures=pictures, tokens=pages.tokens)


class _GamePages:
    """Hooks for the episode, during which the pages are looked at."""

    def __init__(self, player: WatchedPage, viewer: WatchedPage, *, hosted: bool) -> None:
        self._player, self._viewer, self._hosted = player, viewer, hosted
        self.tokens: tuple[str, ...] = ()
        self.evidence: list[Evidence] = []
        self._viewers_show = False
        self._viewers_complain: tuple[str, ...] = ()
        self.pictures: dict[PageName, bytes] = {}

    async def before_players(self, address: str, tokens: Sequence[str]) -> None:
        """Open the viewers' page, and look at the page of the first slot, whose player is not there yet."""
        self.tokens = tuple(tokens)
        query = contract_probes.seat_query(0, tokens[0]) if tokens else ""
        dialect, _ = await contract_probes.detect_dialect(address, "global")
        if trouble := await _visit(self._viewer, address, dialect.page("global")):
            self.evidence.append(_trouble("viewers", trouble))
            self._viewer.hosts.clear()
        if self._hosted or not tokens:
            return
        if trouble := await _visit(self._player, address, dialect.page("player", query)):
            self.evidence.append(_trouble("player", trouble))
        else:
            picture, rows = await _look("player", self._player)
            self.evidence += rows
            self.pictures |= {"player": picture} if picture else {}
        # The seat is its player's
        await self._player.page.close()

    async def during_play(self, address: str, tokens: Sequence[str], players: Sequence[Unit]) -> None:
        """Look at the viewers' page; cancelled when the game is over."""
        del address, tokens, players
        if not self._viewer.hosts:
            return
        while True:
            # What it complains of once the game is over does not count
            self._viewers_complain = tuple(self._viewer.complaints)
            picture = await self._viewer.picture()
            if picture:
                self.pictures["viewers"] = picture
            self._viewers_show = await self._viewer.shows_anything(picture)
            await anyio.sleep(_SETTLE if self._viewers_show else _LOOK_AGAIN)

    def of_viewers(self) -> list[Evidence]:
        """What is to be said of the viewers' page, after the episode."""
        if "viewers" in self.pictures:
            return judge("viewers", self._viewers_complain, self._viewer.outside, drawn=self._viewers_show)
        if self._viewer.hosts:
            return [note("page_not_seen", "The viewers page was not seen: the game was over too soon.")]
        return []


async def _visit(watched: WatchedPage, address: str, path: str) -> str:
    """Open a page; returns what went wrong."""
    from playwright.async_api import Error

    watched.hosts.add(address)
    try:
        await watched.page.goto(f"http://{address}{path}", wait_until="load", timeout=_DRAWN * 1000)
    except Error as error:
        return error.message.strip().splitlines()[0][:200]
    return ""


async def _look(name: PageName, watched: WatchedPage) -> tuple[bytes, list[Evidence]]:
    """Look at an open page; returns its picture, and what is to be said of it."""
    picture, drawn = await watched.drawn(_DRAWN)
    return picture, judge(name, watched.complaints, watched.outside, drawn=drawn)


def judge(name: PageName, complaints: Sequence[str], outside: Sequence[str], *, drawn: bool) -> list[Evidence]:
    """Say what is wrong with a page of the game: what it complained of and asked of others, and whether it is blank."""
    what, rows = f"The {name} page ({_ROUTES[name]})", list[Evidence]()
    if not drawn:
        hint = "Show at least that the game has not begun."
        rows.append(advice("page_blank", f"{what} shows nothing: it is of one colour.", hint=hint))
    for words in dict.fromkeys(complaints):
        hint = "Open it in a browser, and read its console."
        rows.append(advice("page_complains", f"{what}, on its console: {words}", hint=hint))
    if outside:
        hosts = listed(outside, limit=4)
        hint = "Serve what it needs from the game."
        rows.append(advice("page_asks_others", f"{what} asks other hosts, which it may not reach: {hosts}.", hint=hint))
    if not rows:
        rows.append(note("page_shown", f"{what} shows something, and does not complain."))
    return rows


def _trouble(name: PageName, trouble: str) -> Evidence:
    return advice("page_not_opened", f"The {name} page ({_ROUTES[name]}) could not be opened: {trouble}.")


async def _show_replay(
    browser: Browser, package: Package, replay: Path, backend: Backend, publish: Publish, options: ReplayOptions
) -> tuple[list[Evidence], bytes]:
    """Show the replay with the package's static viewer, or else with the game."""
    viewer = package.manifest.game.replay_viewer
    if viewer is not None:
        directory = find_bundle(package)
        bundle = (await check_viewer_files(directory))[0] if directory is not None else None
        if bundle is None:
            return [note("page_not_seen", "The replay viewer is not there, so it was not looked at.")], b""
        packed = viewer.replay_compression == "gzip"
        look = await look_at_viewer(browser, bundle, replay, packed=packed, seconds=options.ready_timeout)
        return [issue_evidence(issue) for issue in look.issues], look.picture
    try:
        with unwrapped():
            async with (
                open_replay_mode(
                    package.manifest, replay, backend=backend, publish=publish, options=options
                ) as session,
                watched_page(browser) as watched,
            ):
                address, _, path = session.link.removeprefix("http://").partition("/")
                if trouble := await _visit(watched, address, f"/{path}"):
                    return [_trouble("replay", trouble)], b""
                picture, rows = await _look("replay", watched)
                await anyio.sleep(_SETTLE)
                return rows, await watched.picture() or picture
    except (EpisodeError, StartError) as error:
        if isinstance(error, StartError) and error.code not in OWN_DOING:
            raise
        # Another step says so, too
        return [advice("page_not_opened", f"The replay page could not be opened: {error.message}")], b""
