"""Runs a player in a seat of a game, wherever the game runs."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio.to_thread

from coworld_core.errors import UsageError
from coworld_core.manifest.models import Runnable
from coworld_core.rules.seat_wire import CA_ENV, CLIENT_CERT_ENV

from ...backend import Unit
from ...backends.process.process_backend import ProcessBackend
from ...package.own_players.llm_player import LLM
from ...package.own_players.named_player import read_own_player
from ...package.own_players.own_player import OwnPlayer
from ...package.own_players.player_requirements import require_key, require_own_player
from ...package.own_players.recorded_player import RECORDING
from .local_programs import open_player

__all__ = ["open_seat", "socket_address"]

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?|.+\.py:[A-Za-z_]\w*")
"""`module`, `module:act` or `file.py:act`."""


def socket_address(address: str) -> str:
    """Return the address of a seat's socket, given that address or the link of the seat's page.

    Args:
        address: `ws(s)://…/player?…`, or the page's link, `http(s)://…/client/player?…`.

    Raises:
        UsageError: The address is neither.
    """
    url = urlsplit(address.strip())
    if url.scheme in ("ws", "wss") and url.netloc:
        return url.geturl()
    path, pages = re.subn(r"/clients?/player(?=/|$)", "/player", url.path)
    if url.scheme not in ("http", "https") or not url.netloc or not pages:
        raise UsageError(
            "This is not the address of a seat.",
            code="bad_address",
            hint="Take a seat's link, http://…/client/player?slot=…, or its socket, ws://…/player?slot=….",
        )
    if named := parse_qs(url.query).get("address"):
        return socket_address(re.sub("^http", "ws", named[0]))
    return url._replace(scheme=url.scheme.replace("http", "ws"), path=path, fragment="").geturl()


@asynccontextmanager
async def open_seat(
    address: str,
    player: str,
    *,
    secret_env: Mapping[str, str] | None = None,
    ca: str | os.PathLike[str] | None = None,
) -> AsyncGenerator[Unit]:
    """Run a player in a seat as a local process; stop it when the block ends.

    Args:
        address: Address of the seat, as for `socket_address`.
        player: A player as `read_own_player` accepts it, or a function: `module:act`, `file.py:act`.
        secret_env: Environment variables for the player, which does not inherit ours, except for those about TLS
            (`SSL_CERT_FILE`, `SSL_CERT_DIR`, `COWORLD_CA_FILE` and `COWORLD_CLIENT_CERT`) and, for a seat at wss://,
            those about the way out (`https_proxy` and `no_proxy`, in either spelling).
        ca: A file with the certificate of an authority, as PEM, that the player trusts as well. A player in another
            language reads its path in `COWORLD_CA_FILE`; Node trusts it by itself.

    Raises:
        UsageError: There is no such seat or player, the player cannot be run, or there is no such authority
            (`bad_certificate`).
        StartError: It could not be started.
    """
    url = socket_address(address)
    here = Path.cwd()
    trust = await anyio.to_thread.run_sync(_tls_variables, ca)
    async with ProcessBackend(default_context=here) as backend:
        own = _read(player)
        if own is not None:
            require_own_player(own, backend, platform=None)
            require_key(own)
        run = ("python", "-m", "coworld_client.seat", player)
        async with open_player(
            Runnable(type="player", image="here:latest", run=run, env={**trust, **_way_out(url)}),
            own,
            slot=0,
            url=url,
            backend=backend,
            secret_env={**(own.secret_env if own is not None else {}), **(secret_env or {})},
        ) as unit:
            yield unit


def _tls_variables(ca: str | os.PathLike[str] | None) -> dict[str, str]:
    """A player's variables about TLS, with absolute paths, since it runs in a directory of its own."""
    named = {name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", CA_ENV, CLIENT_CERT_ENV)}
    named[CA_ENV] = os.fspath(ca) if ca is not None else named[CA_ENV]
    found = {name: str(Path(path).absolute()) for name, path in named.items() if path}
    if (authority := found.get(CA_ENV)) is not None:
        try:
            ssl.create_default_context().load_verify_locations(authority)
        except OSError as error:
            why = "it is not PEM" if isinstance(error, ssl.SSLError) else error.strerror
            raise UsageError(
                f"There is no certificate of an authority in {authority}: {why}.", code="bad_certificate"
            ) from error
        found["NODE_EXTRA_CA_CERTS"] = authority
    return found


def _way_out(url: str) -> dict[str, str]:
    """The variables with the proxy to other networks, for a seat that may be there."""
    names = ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY") if url.startswith("wss:") else ()
    found = {name: os.environ[name] for name in names if os.environ.get(name)}
    # Node looks for a proxy only if it is told to
    return {**found, "NODE_USE_ENV_PROXY": "1"} if found else {}


def _read(player: str) -> OwnPlayer | None:
    """Return the player; None if the word names a function."""
    made = player.startswith((LLM, RECORDING)) or player.endswith(".py") or Path(player).exists()
    if _FUNCTION.fullmatch(player) and not made:
        return None
    return read_own_player(player)
