"""Runs a game and its players as separate programs that are stopped on demand."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from coworld_core.documents.json_text import parse_json
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.manifest.game_results import MAX_RESULTS_BYTES
from coworld_core.manifest.models import Runnable

from ...backend import Backend, HttpProbe, Placement, Port, Unit, enforceable
from ...episode.backend_choice import make_backend, runs_as_processes
from ...episode.contract_probes import probe_page
from ...episode.episode_options import GAME_LIMITS, PLAYER_LIMITS
from ...episode.play_links import PlayLinks, play_links
from ...episode.program import Program, open_program
from ...episode.unit_specs import CONFIG, RESULTS, game_files, game_place, player_variables, reached_directly
from ...package.own_players.own_player import OwnPlayer
from ...package.resolver import Package
from ...runs.scratch import make_scratch

__all__ = ["OpenGame", "local_backend", "open_game", "open_player", "read_scores", "ready_game"]

_UNCOMPILED = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Without compiled files, a file saved twice within a second cannot be mistaken for its earlier version."""


@dataclass(frozen=True, kw_only=True)
class OpenGame:
    """A running game that accepts players."""

    unit: Unit
    links: PlayLinks
    tokens: tuple[str, ...] = field(repr=False)

    @property
    def address(self) -> str:
        """The game's `host:port`."""
        return self.unit.endpoint().here


def local_backend(package: Package) -> Backend:
    """Return the process backend for the user's own package, not yet entered.

    Raises:
        UsageError: The package was fetched from elsewhere, or does not say how to run it without images.
    """
    if package.fetched:
        raise UsageError(
            "This package comes from elsewhere, and local processes are for code you trust.",
            code="package_fetched",
            hint=Hint("play_in_containers", 'run_episode with backend="docker" runs it in containers.'),
        )
    if reason_against := runs_as_processes(package):
        raise UsageError(
            f"It cannot be run as local processes: {reason_against}.", code="not_local", hint="See compose.yaml."
        )
    return make_backend("process", package)


@asynccontextmanager
async def open_game(
    runnable: Runnable,
    *,
    config: Mapping[str, Any],
    backend: Backend,
    port: int = 0,
    stop_grace: float = 5.0,
) -> AsyncGenerator[Unit]:
    """Start a game, and stop it on leaving; it may not be ready yet (`ready_game` waits for that).

    Args:
        runnable: How to run it.
        config: Its config, with tokens.
        backend: An entered backend.
        port: Its port on this machine; 0: any free one.
        stop_grace: Seconds between TERM and KILL.

    Raises:
        StartError: It could not be started.
    """

    def environment(placement: Placement) -> Mapping[str, str]:
        files = game_files(lambda name: placement.input_uri(name) if name == CONFIG else placement.uri(name))
        return {**_UNCOMPILED, **runnable.env, **game_place(placement), **files}

    program = Program(
        name="game",
        component="game",
        image=runnable.image,
        argv=tuple(runnable.run),
        environment=environment,
        documents={CONFIG: lambda _: json.dumps(config)},
        ports=(Port(name="http", host_port=port),),
        limits=enforceable(GAME_LIMITS, backend.capabilities),
    )
    async with open_program(program, backend=backend, stop_grace=stop_grace) as running:
        yield running.unit


async def ready_game(unit: Unit, tokens: Sequence[str], *, timeout: float) -> OpenGame:
    """Wait until a game answers, and find its pages.

    Raises:
        NotReadyError: It ended first, or did not answer in time.
    """
    await unit.wait_ready(HttpProbe(timeout=timeout))
    dialect, _ = await probe_page(unit.endpoint().here, "player")
    links = play_links(unit, dialect, tokens, admin=False, extra=())
    return OpenGame(unit=unit, links=links, tokens=tuple(tokens))


async def read_scores(unit: Unit) -> list[float] | None:
    """Read the scores that a game has written; None if there are none."""
    assert unit.spec.directory is not None
    try:
        async with await anyio.open_file(unit.spec.directory / RESULTS, "rb") as file:
            document = parse_json(await file.read(MAX_RESULTS_BYTES + 1), max_bytes=MAX_RESULTS_BYTES)
        results: Any = document.value
        return [float(score) for score in results["scores"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


@asynccontextmanager
async def open_player(
    runnable: Runnable,
    own: OwnPlayer | None,
    *,
    slot: int,
    url: str,
    backend: Backend,
    seed: int | None = None,
    secret_env: Mapping[str, str] | None = None,
    stop_grace: float = 5.0,
) -> AsyncGenerator[Unit]:
    """Start a player, and stop it on leaving.

    Args:
        runnable: How to run it, unless it is one of the user's own.
        own: The user's own player, if it is one. A file or directory runs where it is, so that its error messages name
            the user's lines.
        slot: Its seat.
        url: The address of its seat, including the token.
        backend: An entered backend.
        seed: Its seed; None: random.
        secret_env: Secrets that it receives.
        stop_grace: Seconds between TERM and KILL.

    Raises:
        StartError: It could not be started.
    """
    argv = tuple(runnable.run)
    made = make_scratch() if own is not None and not own.path.exists() else None
    if own is not None:
        place = made.directory("player") if made else own.path if own.path.is_dir() else own.path.parent
        if made:
            own.put(place)
        argv = own.argv(str(place), in_image=False)

    def environment(placement: Placement) -> Mapping[str, str]:
        return {**_UNCOMPILED, **runnable.env, **player_variables(placement, slot, url, seed=seed)}

    program = Program(
        name=f"player-{slot}",
        component="player",
        image=runnable.image,
        argv=argv,
        environment=environment,
        secret_env=secret_env or {},
        direct=reached_directly(url),
        limits=enforceable(PLAYER_LIMITS, backend.capabilities),
    )
    with made or contextlib.nullcontext():
        async with open_program(program, backend=backend, stop_grace=stop_grace) as running:
            yield running.unit
