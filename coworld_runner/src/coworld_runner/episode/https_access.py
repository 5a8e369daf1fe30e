"""Lets players reach named HTTPS hosts, through a proxy that runs as another unit of the episode."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.errors import CapabilityError, UsageError
from coworld_core.hints import Hint

from ..backend import Backend, Port
from ..package.plan import EpisodePlan
from ..runs.scratch import Scratch
from .episode_inputs import Setup
from .episode_ledger import Ledger
from .episode_options import EpisodeOptions
from .helper_units import helper_spec, open_helper

__all__ = ["PROXY", "open_proxy", "proxy_variables", "read_hosts", "require_way_out"]

PROXY = "https-proxy"
"""Name of the proxy's unit."""
_MOST_NOTES = 20


def read_hosts(text: str) -> tuple[str, ...]:
    """Read a list of HTTPS hosts: `api.example.com,*.example.org`.

    Raises:
        UsageError: An entry is not a host; the message says what would be right.
    """
    # Imported here because the module is also the proxy's program: it imports a server that few episodes need
    from ..web.proxies.https_proxy import host_problem

    hosts = tuple(dict.fromkeys(entry.strip().lower() for entry in text.split(",")))
    for host in hosts:
        if problem := host_problem(host):
            raise UsageError(f"{host!r} {problem}", code="bad_https_host")
    return hosts


def require_way_out(plan: EpisodePlan, backend: Backend, options: EpisodeOptions) -> None:
    """Check that players can be restricted to the HTTPS hosts that they may reach; starts nothing.

    Raises:
        UsageError: An entry is not a host, the players' network is not `game-only`, or the game runs its players
            itself, so that they have its network.
        CapabilityError: The backend cannot restrict them.
    """
    if not options.player_https:
        return
    read_hosts(",".join(options.player_https))
    if plan.game_hosts:
        raise UsageError(
            f"{plan.manifest.game.name} runs its players itself: they use its network, so these hosts have no effect.",
            code="https_hosts_without_effect",
            hint=Hint("leave_hosts_out", "Leave player_https out."),
        )
    if options.player_network == "open":
        raise UsageError(
            f"Players are to reach {', '.join(options.player_https)} alone, and their network is "
            f"{options.player_network}.",
            code="https_hosts_without_effect",
            hint=Hint(
                "leave_network_out", "Leave player_network out: its default allows only the game and those hosts."
            ),
        )
    if not backend.capabilities.proxies:
        raise CapabilityError(
            f"The {backend.name} backend cannot restrict players to named HTTPS hosts, which this episode requires.",
            hint=Hint(
                "backend_with_hosts",
                'Docker can (backend="docker"), and so can a cluster that enforces network policies.',
            ),
            context={"backend": backend.name, "capability": "proxies"},
        )


@asynccontextmanager
async def open_proxy(setup: Setup, ledger: Ledger, scratch: Scratch) -> AsyncGenerator[str]:
    """Run the proxy while players need it, then report what it refused as warnings of the episode.

    Yields:
        The proxy's `host:port` as players see it; empty if they may reach no hosts outside.

    Raises:
        EnvironmentFault: The proxy could not be started.
    """
    if not setup.options.player_https:
        yield ""
        return
    from ..web.proxies.https_proxy import LISTENS

    spec = helper_spec(
        setup,
        scratch,
        name=PROXY,
        package="web/proxies",
        module="https_proxy",
        argv=setup.options.player_https,
        ports=(Port(name="http", number=LISTENS),),
    )
    async with open_helper(setup, ledger, spec, what="the players' proxy") as proxy:
        try:
            yield proxy.endpoint().there
        finally:
            with anyio.CancelScope(shield=True):
                if proxy.exit is not None:
                    ledger.warn(f"The players' proxy ended before the episode did: it {proxy.exit}.")
                await proxy.stop(0)
                for words in await anyio.to_thread.run_sync(_refusals, spec.stdout):
                    ledger.warn(words)


def proxy_variables(proxy: str) -> Mapping[str, str]:
    """Return the variables that send a player's HTTPS traffic, and no other, through the proxy.

    Args:
        proxy: `host:port` of the proxy; empty if there is none.
    """
    if not proxy:
        return {}
    url = f"http://{proxy}"
    # What an image reaches directly elsewhere is reached here through this proxy or not at all
    return {"HTTPS_PROXY": url, "https_proxy": url, "NO_PROXY": "", "no_proxy": ""}


def _refusals(log: Path | None) -> list[str]:
    """Return what the proxy refused, in words."""
    assert log is not None
    told: list[str] = []
    for line in _lines(log):
        try:
            entry = json.loads(line)
            told.append(f"A player asked for {entry['refused']}, which {entry['why']}.")
        except (ValueError, KeyError, TypeError):
            continue  # A message from Python itself
    if len(told) > _MOST_NOTES:
        told[_MOST_NOTES:] = [f"The proxy refused {len(told) - _MOST_NOTES} more hosts: logs/{log.name} lists them."]
    return told


def _lines(log: Path) -> Iterable[str]:
    try:
        return log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ()
