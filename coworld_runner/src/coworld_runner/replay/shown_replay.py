"""Shows a replay, or makes one page of it: with the package's static viewer if it is built, else with its game."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.to_thread

from coworld_core.episode.outcome import Exit
from coworld_core.ids import new_run_id

from ..backend import Backend
from ..episode.run_context import entered_backend
from ..package.resolver import Package, resolve_package
from ..package.viewer_bundle import ViewerBundle, find_bundle, read_bundle
from ..runs.event_bus import EventBus, Listener
from .bundle_page import bundled_page
from .recorded_page import ReplayPage, record_page
from .replay_file import Replay, find_replay, last_of, resolve_replay
from .replay_session import ReplayOptions, ReplaySession, open_replay_mode
from .viewer_server import open_viewer

__all__ = ["ShownReplay", "open_replay", "replay_page"]


class _MakePage(Protocol):
    def __call__(self, *, told: Sequence[Mapping[str, Any]] = ()) -> Awaitable[ReplayPage]: ...


@dataclass(frozen=True, kw_only=True)
class ShownReplay:
    """A replay that can be watched."""

    link: str
    """The page to open."""
    replay: Replay
    viewer: ViewerBundle | None
    """The static viewer that shows it; None: the game does."""
    game: ReplaySession | None
    """The game that shows it; None: the static viewer does."""
    page: _MakePage
    """Turns it into one page that needs neither the game nor a network; raises as `replay_page` does. `told` are
    further messages for the page of a game."""

    async def wait(self) -> Exit | None:
        """Wait for the end of the game; a viewer shows the replay until it is left."""
        return await self.game.unit.wait() if self.game is not None else await anyio.sleep_forever()


@asynccontextmanager
async def open_replay(
    package: Package | str | os.PathLike[str] = "",
    replay: str | os.PathLike[str] | None = None,
    *,
    backend: Backend | AbstractAsyncContextManager[Backend] | str = "auto",
    options: ReplayOptions | None = None,
    listeners: tuple[Listener, ...] = (),
    at: int | None = None,
) -> AsyncGenerator[ShownReplay]:
    """Show a replay until the block ends: in the package's static viewer if it is built, else in its game.

    Args:
        package: The Coworld, or a reference as `find_replay` reads it: the directory of an episode is enough.
        replay: A reference that `resolve_replay` accepts: a file, the directory of an episode, an address. None: the
            last one of the package.
        backend: Where the game runs, if it is the game that shows the replay: an entered backend, what enters one, or
            the name of one.
        options: How the game is started.
        listeners: Readers of the game's events.
        at: The tick to begin at, for pages of games that can, as those of the kit; a viewer begins at the start.

    Yields:
        What is shown, and where.

    Raises:
        EpisodeError: The game does not show the replay (`replay_unloadable`).
        UsageError: There is no such package, replay or backend, or the viewer's directory holds no viewer.
        ReplayError: The replay is empty, damaged, cut short or too large.
        BackendError: The engine failed.
    """
    options = options or ReplayOptions()
    if not isinstance(package, Package):
        found, replay = await anyio.to_thread.run_sync(find_replay, os.fspath(package), replay)
        package = await resolve_package(found)
    if replay is None:
        replay = await anyio.to_thread.run_sync(last_of, package)
    viewer = find_bundle(package)
    if viewer is not None and viewer.is_dir():
        declared = package.manifest.game.replay_viewer
        packed = declared is not None and declared.replay_compression == "gzip"
        bundle = await anyio.to_thread.run_sync(read_bundle, viewer)
        async with (
            resolve_replay(replay, timeout=options.ready_timeout) as file,
            open_viewer(bundle, file.path, packed=packed) as session,
        ):

            async def page(*, told: Sequence[Mapping[str, Any]] = ()) -> ReplayPage:
                del told  # Which only pages of games know
                return ReplayPage(
                    await anyio.to_thread.run_sync(partial(bundled_page, bundle, file.path, packed=packed))
                )

            yield ShownReplay(link=session.link, replay=file, viewer=bundle, game=None, page=page)
        return
    bus = EventBus(new_run_id(), *listeners)
    async with (
        resolve_replay(replay, timeout=options.ready_timeout) as file,
        entered_backend(backend, package) as entered,
        open_replay_mode(
            package.manifest, file.path, backend=entered, publish=bus.publish, options=options, run_id=bus.run_id
        ) as game,
    ):
        link = game.link if at is None else f"{game.link}#tick={at}"
        record = partial(record_page, game, options=options, at=at)
        yield ShownReplay(link=link, replay=file, viewer=None, game=game, page=record)


async def replay_page(
    package: Package | str | os.PathLike[str] = "",
    replay: str | os.PathLike[str] | None = None,
    *,
    backend: Backend | str = "auto",
    options: ReplayOptions | None = None,
    at: int | None = None,
) -> ReplayPage:
    """Turn a replay into one page; in a notebook it is shown inline. The arguments are those of `open_replay`.

    Raises:
        EpisodeError: The game does not show the replay (`replay_unloadable`), its page loads other files
            (`replay_page_not_alone`), or its socket does not stop sending (`replay_endless`).
        UsageError: There is no such package, replay or backend, or the viewer's directory holds no viewer.
    """
    async with open_replay(package, replay, backend=backend, options=options, at=at) as shown:
        return await shown.page()
