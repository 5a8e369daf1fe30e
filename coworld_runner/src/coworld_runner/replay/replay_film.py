"""A replay as a picture, a GIF or a film: a headless browser shows its page tick by tick, and is photographed."""

from __future__ import annotations

import importlib.util
import io
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from coworld_core.errors import EnvironmentFault, EpisodeError, UsageError
from coworld_core.text.terminal import strip_controls

from ..backends.process.child_environment import child_environment
from ..runs.scratch import open_scratch
from ..runs.workspace import atomic_write
from .page_look import WatchedPage, open_browser, watched_page
from .shown_replay import ShownReplay

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["FilmPlan", "FilmedReplay", "check_film", "film_replay", "plan_film"]

_SLOWEST: Final = 5.0
"""Ticks a second, unless a film would then take longer than a minute."""
_USUAL_SECONDS: Final = 60.0
_MOST_SECONDS: Final = 600.0
_MOST_FRAMES: Final = 15.0
"""Frames a second; of a faster game, every second or third tick is shown, and so on."""
_LAST_SECONDS: Final = 2.0
"""How long the last frame stays."""
_PATIENCE: Final = 30.0
"""Seconds for a page to open, and for each of its ticks."""
_WIDTH: Final = 960
_HEIGHTS: Final = (360, 1080)
"""The lowest and the highest picture, in pixels, as is `_WIDTH`."""
_GO: Final = """tick => new Promise((done) => {
  location.hash = `tick=${tick}`;
  const look = () => {
    // Once for what is drawn in the next frame, and once until it is there
    if (document.body.dataset.tick === String(tick)) requestAnimationFrame(() => requestAnimationFrame(() => done()));
    else setTimeout(look, 10);
  };
  look();
})"""
_HIGH: Final = "() => Math.ceil(document.documentElement.scrollHeight)"


@dataclass(frozen=True, kw_only=True)
class FilmPlan:
    """Which ticks a film shows, and how fast."""

    ticks: Sequence[int]
    """The tick of each frame, from 0."""
    rate: float
    """Frames a second."""


@dataclass(frozen=True, kw_only=True)
class FilmedReplay:
    """A replay that was filmed."""

    path: Path
    frames: int
    seconds: float
    """How long it is; 0 for a picture."""


def check_film(target: Path) -> None:
    """Check that a file of this kind can be written here.

    Raises:
        UsageError: Its name does not end in .png, .gif or .mp4 (`film_kind`).
        EnvironmentFault: What makes such a file is missing (`film_program`); the hint says what to install.
    """
    kind = target.suffix.lower()
    if kind not in (".png", ".gif", ".mp4"):
        raise UsageError(
            f"{target.name} is no name of a picture or a film.",
            code="film_kind",
            hint="A picture ends in .png, a film in .gif or .mp4.",
        )
    if kind == ".png" or shutil.which("ffmpeg") or (kind == ".gif" and _has_pillow()):
        return
    raise EnvironmentFault(
        f"Nothing here can write a {kind[1:].upper()}.",
        code="film_program",
        hint="Install ffmpeg"
        + (", or `pip install coworld-runner[film]`." if kind == ".gif" else ", or write a .gif."),
    )


def plan_film(ticks: int, *, at: int = 0, per_second: float | None = None) -> FilmPlan:
    """Choose the frames of a film.

    Args:
        ticks: How many ticks there are, the start included.
        at: The tick to begin at.
        per_second: Ticks a second. None: five, or as many more as let the film end within a minute.

    Raises:
        UsageError: It would take longer than ten minutes (`film_long`).
    """
    first = min(at, ticks - 1)
    rate = per_second or max(_SLOWEST, (ticks - first) / _USUAL_SECONDS)
    if (seconds := (ticks - first) / rate) > _MOST_SECONDS:
        raise UsageError(
            f"The film would take {seconds / 60:.0f} minutes.",
            code="film_long",
            hint=f"A film takes at most {_MOST_SECONDS / 60:.0f}: show more ticks a second.",
        )
    every = math.ceil(rate / _MOST_FRAMES)
    shown = [*range(first, ticks - 1, every), ticks - 1]
    return FilmPlan(ticks=shown, rate=rate / every)


async def film_replay(
    shown: ShownReplay,
    target: Path,
    *,
    at: int | None = None,
    per_second: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FilmedReplay:
    """Write a shown replay as a picture (.png), a GIF or a film (.mp4).

    The page runs under its own policy, and reaches only the server that shows it.

    Args:
        shown: The replay, while it is shown.
        target: The file; it is replaced.
        at: The tick of a picture, by default the last; the tick at which a film begins.
        per_second: Ticks a second, as for `plan_film`.
        progress: Called with the number of frames so far, and of all.

    Raises:
        UsageError: As for `check_film` and `plan_film`.
        EnvironmentFault: There is no browser (`no_browser`), or what makes the film is missing or fails.
        EpisodeError: The page does not show the replay tick by tick (`film_page`).
        WorkspaceError: The file cannot be written.
    """
    check_film(target)
    is_picture = target.suffix.lower() == ".png"
    link = urlsplit(shown.link)
    async with open_scratch() as scratch, open_browser() as (browser, why_not):
        if browser is None:
            raise EnvironmentFault(
                f"The replay cannot be filmed: {why_not}.",
                code="no_browser",
                hint="Install Chromium and `pip install coworld-runner[film]`. replay_page makes a page without them.",
            )
        place = scratch.directory("film")
        async with watched_page(browser, link.netloc) as watched:
            ticks = await _opened(watched, shown.link)
            if is_picture:
                plan = FilmPlan(ticks=[ticks - 1 if at is None else min(at, ticks - 1)], rate=1.0)
            else:
                plan = plan_film(ticks, at=at or 0, per_second=per_second)
            for done, tick in enumerate(plan.ticks, start=1):
                picture = await _photograph(watched, tick)
                await anyio.to_thread.run_sync(_frame(place, done).write_bytes, picture)
                progress(done, len(plan.ticks))
        seconds = 0.0 if is_picture else len(plan.ticks) / plan.rate + _LAST_SECONDS
        if is_picture:
            content = await anyio.to_thread.run_sync(_frame(place, 1).read_bytes)
        elif target.suffix.lower() == ".gif" and _has_pillow():
            content = await anyio.to_thread.run_sync(_gif, place, plan)
        else:
            content = await _encoded(place, plan, target.suffix.lower())
        await anyio.to_thread.run_sync(atomic_write, target, content)
    return FilmedReplay(path=target, frames=len(plan.ticks), seconds=round(seconds, 2))


def _frame(place: Path, number: int) -> Path:
    return place / f"{number:06}.png"


def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


async def _opened(watched: WatchedPage, link: str) -> int:
    """Open the page, printed as on paper: without its controls; returns the number of ticks."""
    from playwright.async_api import Error

    page: Page = watched.page
    try:
        with anyio.fail_after(_PATIENCE):
            await page.emulate_media(media="print", reduced_motion="reduce")
            await page.set_viewport_size({"width": _WIDTH, "height": _HEIGHTS[0]})
            # Held at its start: what is drawn may depend on what was shown before
            await page.goto(f"{link.partition('#')[0]}#tick=0")
            await page.wait_for_selector("body[data-tick]", state="attached", timeout=_PATIENCE * 1000)
            count = await page.get_attribute("body", "data-ticks") or ""
            ticks = int(count) if count.isascii() and count.isdecimal() and len(count) < 9 else 0
            if ticks < 1:
                raise _not_by_ticks()
            await page.evaluate(_GO, ticks - 1)
            # As high as the page, and even, as films have to be
            high = min(int(await page.evaluate(_HIGH)), _HEIGHTS[1])
            await page.set_viewport_size({"width": _WIDTH, "height": high + high % 2})
    except (Error, TimeoutError) as error:
        raise _not_by_ticks() from error
    return ticks


async def _photograph(watched: WatchedPage, tick: int) -> bytes:
    from playwright.async_api import Error

    try:
        with anyio.fail_after(_PATIENCE):
            await watched.page.evaluate(_GO, tick)
            if picture := await watched.picture():
                return picture
    except (Error, TimeoutError) as error:
        raise _not_by_ticks() from error
    raise _not_by_ticks()


def _not_by_ticks() -> EpisodeError:
    return EpisodeError(
        "The replay cannot be filmed: its page does not show a tick when it is asked for one.",
        code="film_page",
        hint="It has to follow #tick=N, and to set data-ticks and data-tick on its body, as pages of the kit do.",
    )


def _gif(place: Path, plan: FilmPlan) -> bytes:
    from PIL import Image

    pictures = (
        Image.open(_frame(place, number)).convert("P", palette=Image.Palette.ADAPTIVE) for number in _numbers(plan)
    )
    each = round(1000 / plan.rate)
    durations = [each] * len(plan.ticks)
    durations[-1] += round(_LAST_SECONDS * 1000)
    made = io.BytesIO()
    first = next(pictures)
    first.save(made, "GIF", save_all=True, append_images=pictures, duration=durations, loop=0)
    return made.getvalue()


def _numbers(plan: FilmPlan) -> range:
    return range(1, len(plan.ticks) + 1)


async def _encoded(place: Path, plan: FilmPlan, kind: str) -> bytes:
    """Put the frames together with ffmpeg."""
    made = place / f"film{kind}"
    wait = f"tpad=stop_mode=clone:stop_duration={_LAST_SECONDS}"
    how = {
        ".mp4": ("-vf", wait, "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"),
        ".gif": ("-vf", f"{wait},split[a][b];[a]palettegen[p];[b][p]paletteuse", "-loop", "0"),
    }[kind]
    command = ["ffmpeg", "-v", "error", "-nostdin", "-framerate", f"{plan.rate:g}", "-i", str(place / "%06d.png")]
    done = await anyio.run_process([*command, *how, str(made)], env=child_environment(None), check=False)
    if done.returncode:
        said = strip_controls(done.stderr.decode("utf-8", "replace")).strip().splitlines()
        raise EnvironmentFault(f"ffmpeg could not make the film{': ' + said[-1] if said else ''}.", code="film_program")
    return await anyio.to_thread.run_sync(made.read_bytes)
