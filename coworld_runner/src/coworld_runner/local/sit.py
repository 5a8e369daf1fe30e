"""A player in a seat of a game that runs anywhere."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from coworld_core.errors import UsageError
from coworld_core.manifest.models import Runnable

from ..backend import Unit
from ..backends.process.backend import ProcessBackend
from ..own_players.llm import LLM
from ..own_players.player import OwnPlayer
from ..own_players.reading import read_own_player
from ..own_players.recording import RECORDING
from ..own_players.requiring import require_own_player
from .programs import open_player

__all__ = ["open_seat", "socket_address"]

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?|.+\.py:[A-Za-z_]\w*")
"""``module``, ``module:act`` or ``file.py:act``."""


def socket_address(address: str) -> str:
    """The socket of a seat, by that address itself or by the link of the seat's page.

    Args:
        address: ``ws(s)://…/player?…``, or the page's link, ``http(s)://…/client/player?…``.

    Raises:
        UsageError: It is neither.
    """
    url = urlsplit(address.strip())
    if url.scheme in ("ws", "wss") and url.netloc:
        return url.geturl()
    path, pages = re.subn(r"/clients?/player(?=/|$)", "/player", url.path)
    if url.scheme not in ("http", "https") or not url.netloc or not pages:
        raise UsageError(
            "This is no address of a seat.",
            code="bad_address",
            hint="Take a seat's link, http://…/client/player?slot=…, or its socket, ws://…/player?slot=….",
        )
    if named := parse_qs(url.query).get("address"):
        return socket_address(re.sub("^http", "ws", named[0]))
    return url._replace(scheme=url.scheme.replace("http", "ws"), path=path, fragment="").geturl()


@asynccontextmanager
async def open_seat(address: str, player: str, *, secret_env: Mapping[str, str] | None = None) -> AsyncGenerator[Unit]:
    """Have a player play a seat, as a local process, until it has ended or the block does.

    Args:
        address: Of the seat, as ``socket_address`` takes it.
        player: A file or directory, as wherever players are named; or ``module:act``, ``file.py:act``.
        secret_env: Variables that it is handed; of the others it sees none of ours.

    Raises:
        UsageError: There is no such seat or player, or nothing in it can be run.
        StartError: It could not be started.
    """
    url = socket_address(address)
    here = Path.cwd()
    async with ProcessBackend(default_context=here) as backend:
        own = _read(player)
        if own is not None:
            require_own_player(own, backend, platform=None)
        run = ("python", "-m", "coworld_client.seat", player)
        async with open_player(
            Runnable(type="player", image="here:latest", run=run),
            own,
            slot=0,
            url=url,
            backend=backend,
            secret_env={**(own.secret_env if own is not None else {}), **(secret_env or {})},
        ) as unit:
            yield unit


def _read(player: str) -> OwnPlayer | None:
    """The file or directory; None for a function that is named."""
    made = player.startswith((LLM, RECORDING)) or player.endswith(".py") or Path(player).exists()
    if _FUNCTION.fullmatch(player) and not made:
        return None
    return read_own_player(player)
