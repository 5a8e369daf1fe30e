"""Lets players reach named HTTPS hosts, through a proxy that runs as another unit of the episode."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.errors import CapabilityError, EnvironmentFault, ImageError, NotReadyError, StartError, UsageError
from coworld_core.hints import Hint

from ..backend import INPUTS_MOUNT, Backend, HttpProbe, Limits, Port, UnitSpec, without_limits
from ..package.plan import EpisodePlan
from ..runs.scratch import Scratch
from .episode_inputs import Setup
from .episode_ledger import Ledger
from .episode_options import EpisodeOptions

__all__ = ["PROXY", "open_proxy", "proxy_variables", "read_hosts", "require_way_out"]

PROXY = "https-proxy"
"""Name of the proxy's unit."""
_PROGRAM = "https_proxy.py"
_LIMITS = Limits(memory_bytes=256 << 20, pids=512, disk_bytes=16 << 20, disk_entries=100, log_bytes=1 << 20)
_MOST_NOTES = 20


def read_hosts(text: str) -> tuple[str, ...]:
    """Read a list of HTTPS hosts: `api.example.com,*.example.org`.

    Raises:
        UsageError: An entry is not a host; the message says what would be right.
    """
    # Imported here because the module is also the proxy's program: it imports a server that few episodes need
    from ..web.https_proxy import host_problem

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
    spec = _spec(setup, scratch)
    try:
        await setup.backend.ensure_image(spec.image, publish=ledger.publish)
    except ImageError as error:
        error.hint = "COWORLD_COLLECTOR_IMAGE names another image with Python 3.9 or later, for the players' proxy."
        raise
    async with AsyncExitStack() as stack:
        try:
            (proxy,) = await stack.enter_async_context(setup.backend.units([spec], publish=ledger.publish, grace=0))
            await proxy.wait_ready(HttpProbe(timeout=setup.options.ready_timeout_seconds))
        except (StartError, NotReadyError) as error:
            raise EnvironmentFault(
                f"The players' proxy could not be started: {error.message}",
                code="proxy_failed",
                hint=error.hint or f"It needs an image with Python 3.9 or later, and runs in {spec.image}.",
                context=error.context,
            ) from error
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


def _spec(setup: Setup, scratch: Scratch) -> UnitSpec:
    from ..backends._own_source import own_source
    from ..web.https_proxy import LISTENS

    inputs = scratch.directory(f"{PROXY}-files")
    program = inputs / _PROGRAM
    program.write_bytes(own_source(f"web/{_PROGRAM}"))
    for path, mode in ((inputs, 0o755), (program, 0o644)):
        path.chmod(mode)
    spec = UnitSpec(
        run_id=setup.run.bus.run_id,
        name=PROXY,
        component="proxy",
        image=setup.backend.helper_image,
        argv=("python3", "-I", "-S", f"{INPUTS_MOUNT}/{_PROGRAM}", *setup.options.player_https),
        inputs=inputs,
        ports=(Port(name="http", number=LISTENS),),
        limits=_LIMITS,
        stdout=setup.layout.logs / f"{PROXY}.log",
        lifetime=setup.lifetime,
    )
    return without_limits(spec, setup.backend.capabilities)


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
