"""Shows a replay with the game's own image, in replay mode, with one read-only file."""

from __future__ import annotations

import functools
import time
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.from_thread

from coworld_core import time_limits
from coworld_core.errors import CoworldError, EpisodeError, NotReadyError
from coworld_core.files.compression import Compression
from coworld_core.manifest.models import Manifest
from coworld_core.ports import EXTRA_PORTS_ENV, parse_extra_ports

from ..backend import Backend, HttpProbe, Limits, Placement, Port, Publish, Unit, enforceable
from ..episode import contract_probes
from ..episode.episode_options import GAME_LIMITS
from ..episode.play_links import extra_port_environment, extra_unit_ports
from ..episode.program import Program, open_program

__all__ = ["REPLAY_SUFFIXES", "ReplayOptions", "ReplaySession", "open_replay_mode", "verify_replay"]

REPLAY_SUFFIXES: Mapping[Compression, str] = {"none": "", "zlib": ".json.z", "gzip": ".json.gz"}
"""The end of a replay's name in replay mode, by how it is packed."""
_FILE = "replay"
_PIECE = 1 << 18


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """How a replay is shown. Times are seconds."""

    ready_timeout: float = time_limits.REPLAY_SHOWN
    """For the replay to be fetched, and for the game to answer `/healthz`."""
    message_timeout: float = 10.0
    """For the first message on `/replay`, if that is checked."""
    stop_grace: float = 5.0
    """Between TERM and KILL."""
    limits: Limits = GAME_LIMITS
    """For the game; defaults a backend cannot enforce are dropped."""
    platform: str | None = None
    """os/architecture of the image; None: the engine's own."""


@dataclass(frozen=True, kw_only=True)
class ReplaySession:
    """A game that shows a replay."""

    link: str
    """The page to open."""
    run_id: str
    backend: str
    """Name of the backend."""
    unit: Unit
    local_ports: Mapping[int, str]
    """`host:port` of each extra port, by its number in the game."""
    socket_path: str
    """Path of the replay's websocket."""


@asynccontextmanager
async def open_replay_mode(
    manifest: Manifest,
    replay: Path,
    *,
    backend: Backend,
    publish: Publish,
    options: ReplayOptions | None = None,
    logs: Path | None = None,
    run_id: str | None = None,
    packing: Compression = "none",
) -> AsyncGenerator[ReplaySession]:
    """Start a game in replay mode, and stop it on leaving.

    Supports both dialects: `COGAME_LOAD_REPLAY_URI`, and the older `COGAME_REPLAY_SERVER=1` with the replay
    named in the page's address.

    Args:
        manifest: The Coworld.
        replay: A file with the replay as the game wrote it (not compressed). The game gets a copy.
        backend: An entered backend.
        publish: Receives the events.
        options: How to run it.
        logs: A directory for the game's logs.
        run_id: The run's label; a new one by default.
        packing: How to pack it; hosted viewers give zlib. A name then ends in `.json.z` or `.json.gz`, by which games
            of the first generations know it, and so in `.z` or `.gz`, by which later ones do.

    Yields:
        The session, once the page answers.

    Raises:
        EpisodeError: Code `replay_unloadable`: the game did not start with this replay, or shows no page.
        UsageError: There is no such file, or it cannot be read.
        BackendError: The engine failed.
    """
    options = options or ReplayOptions()
    runnable = manifest.game.runnable
    extra_text = runnable.env.get(EXTRA_PORTS_ENV)
    extra = parse_extra_ports(extra_text) if extra_text is not None else ()
    file = f"{_FILE}{REPLAY_SUFFIXES[packing]}"

    def environment(placement: Placement) -> Mapping[str, str]:
        return {
            **runnable.env,
            **extra_port_environment(placement, extra),
            "COGAME_HOST": placement.listen_host,
            "COGAME_PORT": str(placement.listen["http"]),
            "COGAME_LOAD_REPLAY_URI": placement.input_uri(file),
            "COGAME_REPLAY_SERVER": "1",
        }

    program = Program(
        name="replay",
        component="replay",
        image=runnable.image,
        argv=tuple(runnable.run),
        environment=environment,
        inputs={file: replay if packing == "none" else functools.partial(_compress, replay, packing)},
        ports=(Port(name="http"), *extra_unit_ports(extra)),
        # As for the game that played it
        network="game-only" if backend.capabilities.network_isolation else "open",
        limits=enforceable(options.limits, backend.capabilities),
        platform=options.platform,
    )
    async with open_program(
        program, backend=backend, publish=publish, run_id=run_id, logs=logs, stop_grace=options.stop_grace
    ) as running:
        unit = running.unit
        try:
            await unit.wait_ready(HttpProbe(timeout=options.ready_timeout))
        except NotReadyError as error:
            raise await _unloadable(unit, error.message) from error
        address, uri = unit.endpoint().here, running.placement.input_uri(file)
        dialect, result = await _page(address, uri)
        if not result.ok:
            raise await _unloadable(unit, f"The game shows no replay page: {result.detail}.")
        yield ReplaySession(
            link=f"http://{address}{contract_probes.replay_page_path(dialect, uri)}",
            run_id=running.run_id,
            backend=backend.name,
            unit=unit,
            local_ports={port.container: unit.endpoint(f"port-{port.container}").here for port in extra},
            socket_path=contract_probes.replay_socket_path(dialect, uri),
        )


async def _page(address: str, uri: str) -> tuple[contract_probes.Dialect, contract_probes.ProbeResult]:
    """Request the replay page, first in the current dialect; in the older one the page needs its `uri`."""
    dialect, result = await contract_probes.probe_page(address, "replay", redirects=True, content=True)
    if result.ok or dialect is contract_probes.CURRENT:
        return dialect, result
    path = contract_probes.replay_page_path(dialect, uri)
    try:
        seen = await contract_probes.get_page(address, path)
    except (OSError, TimeoutError) as error:
        seen = str(error)
    return dialect, contract_probes.page_result("replay", f"GET {path}", seen, redirects=True, content=True)


async def verify_replay(
    manifest: Manifest,
    replay: Path,
    *,
    backend: Backend,
    publish: Publish,
    options: ReplayOptions | None = None,
    logs: Path | None = None,
    packing: Compression = "none",
) -> float:
    """Check that a game shows a replay: it starts, serves the page, and sends a first message on `/replay`.

    The arguments are those of `open_replay_mode`.

    Returns:
        The seconds that this took.

    Raises:
        EpisodeError: Code `replay_unloadable`, with what was seen and the game's log tail.
    """
    options = options or ReplayOptions()
    begun = time.monotonic()
    async with open_replay_mode(
        manifest, replay, backend=backend, publish=publish, options=options, logs=logs, packing=packing
    ) as session:
        result = await contract_probes.first_message(
            session.unit.endpoint().here, session.socket_path, timeout=options.message_timeout, limited=False
        )
        if not result.ok:
            raise await _unloadable(session.unit, f"The game does not play the replay: {result.detail}.")
    return round(time.monotonic() - begun, 3)


async def _unloadable(unit: Unit, message: str) -> CoworldError:
    tail = await unit.log_tail()
    return EpisodeError(
        message,
        code="replay_unloadable",
        hint="In replay mode (COGAME_LOAD_REPLAY_URI) a game serves /healthz, /client/replay and /replay.",
        context={"log_tail": tail},
    )


def _compress(source: Path, packing: Compression, target: Path) -> None:
    """Make a packed copy of a file piece by piece. Runs in a worker thread and stops when its task is cancelled."""
    packer = zlib.compressobj(wbits=31 if packing == "gzip" else 15)
    with source.open("rb") as plain, target.open("xb") as packed:
        while piece := plain.read(_PIECE):
            anyio.from_thread.check_cancelled()
            packed.write(packer.compress(piece))
        packed.write(packer.flush())
