"""Serves rules, or the game of a package, from this machine for anyone who has the links."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

from coworld_core.errors import EpisodeError, NotReadyError
from coworld_core.ids import generate_tokens
from coworld_core.manifest.models import Runnable
from coworld_core.rules import load_rules, read_config

from ...backend import Backend
from ...backends.process.process_backend import ProcessBackend
from ...episode.play_links import PlayLinks
from ...package.plan import plan_episode, plan_for_people
from ...package.resolver import resolve_package
from ...web.gateway import Gateway
from .local_programs import OpenGame, local_backend, open_game, ready_game

__all__ = ["Served", "open_served"]

_CONNECT_SECONDS: Final = 1800
"""Seconds that rules without a manifest wait for players to connect."""


@dataclass(frozen=True, kw_only=True)
class Served(OpenGame):
    """A game that is served, with the names of its seats."""

    shared_links: PlayLinks
    """The links to hand out: those for other machines, if there are any, else `links`."""
    name: str
    names: tuple[str, ...]
    """Names of the seats."""


@asynccontextmanager
async def open_served(
    game: str,
    *,
    config: Mapping[str, Any] | None = None,
    seed: int | None = None,
    port: int = 0,
    gateway: Gateway | None = None,
    timeout: float = 60.0,
) -> AsyncGenerator[Served]:
    """Serve one game on the loopback interface until the block ends, and for other machines if that is asked for.

    Args:
        game: `module:Class`, a file with rules, or a directory with a manifest.
        config: The game's config, merged over that of the package's first variant. New `tokens` are generated unless
            it holds some.
        seed: The game's seed.
        port: The port on the loopback interface; 0: any free one.
        gateway: The open way to the game for other machines (`open_gateway`); None: there is none.
        timeout: Seconds for the game to become ready.

    Raises:
        UsageError: There is no such game, or it does not accept this config.
        ManifestError: The manifest has errors, or the config does not satisfy it.
        EpisodeError: The game did not become ready; the end of its log is in `context['log_tail']`.
    """
    is_package = await anyio.Path(game).is_dir()
    found = await _of_package(game, config or {}, seed) if is_package else _of_rules(game, config or {}, seed)
    async with (
        found.backend as backend,
        open_game(found.runnable, config=found.config, backend=backend, port=port) as unit,
    ):
        tokens = tuple(found.config["tokens"])
        try:
            ready = await ready_game(unit, tokens, timeout=timeout)
        except NotReadyError as error:
            raise EpisodeError(error.message, code="not_served", context={"log_tail": await unit.log_tail()}) from error
        shared = ready.links
        if gateway is not None:
            gateway.lead(ready.address)
            shared = ready.links.at(gateway.base)
        yield Served(**vars(ready), shared_links=shared, name=found.name, names=found.names)


@dataclass(frozen=True, kw_only=True)
class _Found:
    name: str
    names: tuple[str, ...]
    runnable: Runnable
    config: Mapping[str, Any]
    backend: Backend


async def _of_package(game: str, config: Mapping[str, Any], seed: int | None) -> _Found:
    package = await resolve_package(game)
    variant, changes = package.manifest.variants[0].id, {key: config[key] for key in config if key != "tokens"}
    plan = plan_for_people(plan_episode(package, variant=variant, seed=seed, config=changes))
    tokens = tuple(config.get("tokens") or plan.new_tokens())
    return _Found(
        name=package.manifest.game.name,
        names=tuple(seat.name for seat in plan.seats),
        runnable=package.manifest.game.runnable,
        config=plan.config_with_tokens(tokens),
        backend=local_backend(package),
    )


def _of_rules(game: str, config: Mapping[str, Any], seed: int | None) -> _Found:
    # The game runs in this directory, and finds its modules there.
    rules = load_rules(game, directory=Path.cwd())
    count = len(config.get("players") or ()) or rules.seats
    whole: dict[str, Any] = {
        "player_connect_timeout_seconds": _CONNECT_SECONDS,
        **({} if seed is None else {"seed": seed}),
        "tokens": list(generate_tokens(count)),
        **config,
    }
    run = ("python", "-m", "coworld_runner.kit.server", game)
    return _Found(
        name=rules.__name__,
        names=read_config(rules, whole).names,
        runnable=Runnable(type="game", image="here:latest", run=run),
        config=whole,
        backend=ProcessBackend(default_context=Path.cwd()),
    )
