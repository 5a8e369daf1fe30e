"""Reaching the game, at the start and again after a lost connection."""

from __future__ import annotations

import asyncio
import errno
import http
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from coworld_core.errors import CoworldError, UsageError
from coworld_core.loopback import is_loopback
from coworld_core.rules.seat_wire import MAX_MESSAGE
from coworld_core.text.size_text import shown_size

from ..tls import SHOW_CERTIFICATE, tls_context, tls_problem

if TYPE_CHECKING:
    from ssl import SSLContext

    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosedError

__all__ = ["CONNECT_SECONDS", "SeatError", "connected", "connected_again", "received"]

CONNECT_SECONDS: Final = 8.0
"""How long to try to reach the game, at the start and again after a lost connection."""

LOST_SECONDS: Final = 30.0
"""A game whose machine acknowledges nothing for this long is out of reach."""

_OR_TLS: Final = "Does that port speak TLS? Then its address begins with wss:// or https://."
_SILENCE: Final = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
"""How the system says that nothing comes back."""


class SeatError(CoworldError):
    """The player could not take part to the end; the message says why, without its token."""

    kind = "remote"
    default_code = "seat_lost"


async def connected(url: str, ssl: SSLContext | None = None) -> ClientConnection:
    """Connect to the game at an address, trying for `CONNECT_SECONDS`.

    The way to a wss:// address on another machine leads through the proxy that `https_proxy` names, unless `no_proxy`
    names the host. A ws:// address is in the network of the run, of which no proxy knows.

    Args:
        url: The address.
        ssl: Whom to trust if it is wss://; None: `tls_context()`.

    Raises:
        SeatError: The game cannot be reached, is not trusted (`tls_failed`), or refuses this player.
        UsageError: The address is not a websocket address, or the file that `COWORLD_CA_FILE` names or the proxy of the
            environment cannot be used.
    """
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidProxy, InvalidStatus, InvalidURI

    deadline = time.monotonic() + CONNECT_SECONDS
    place = _place(url)
    secure = url.lower().startswith("wss:")
    proxy = _proxy_to(url) if secure else None
    more: dict[str, Any] = {"ssl": ssl or tls_context()} if secure else {}
    pause = 0.05
    while True:
        hint = None
        try:
            # Older games do not answer pings.
            connection = await connect(
                url, ping_timeout=None, max_size=MAX_MESSAGE, compression=None, proxy=proxy, **more
            )
            _notice_loss(connection)
            return connection
        except InvalidStatus as refusal:
            status = refusal.response.status_code
            if status < 500:
                raise _refused(place, status, secure=secure) from None
            problem = f"HTTP {status}"
        except (InvalidProxy, ImportError) as error:
            # The address of a proxy may hold a password
            why = error.msg if isinstance(error, InvalidProxy) else error
            raise UsageError(
                f"The proxy that https_proxy names cannot be used: {why}.", code="proxy_unusable"
            ) from None
        except InvalidURI:
            raise UsageError(f"{place} is not a websocket address.", code="no_seat") from None
        except (OSError, InvalidHandshake, EOFError) as error:
            if (failed := tls_problem(error) or tls_problem(error.__cause__)) is not None:
                why, hint = failed
                raise SeatError(f"No trusted connection to {place}: {why}.", code="tls_failed", hint=hint) from None
            problem = str(error) or type(error).__name__
            # A server that is starting may say nothing, too, so this is no reason to give up
            if isinstance(error, InvalidMessage):
                hint = SHOW_CERTIFICATE if secure else _OR_TLS
            elif isinstance(error, ConnectionResetError) and secure:
                hint = "Does that port speak TLS? Otherwise its address begins with ws:// or http://."
        if time.monotonic() + pause > deadline:
            through = f" through {urlsplit(proxy).hostname}, the proxy that https_proxy names" if proxy else ""
            raise SeatError(f"Cannot reach the game at {place}{through}: {problem}.", hint=hint)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1.0)


async def connected_again(
    url: str, lost: ConnectionClosedError, *, greeted: bool, ssl: SSLContext | None = None
) -> ClientConnection | None:
    """Connect again to a game whose connection broke off.

    Args:
        url: Its address.
        lost: How the connection broke off.
        greeted: Whether the game has greeted this player.
        ssl: As for `connected`.

    Returns:
        The connection; None if a game that has greeted this player cannot be reached any more: it may have ended.

    Raises:
        SeatError: As for `connected`; or the network between the two is gone, so that the game may well go on
            (`link_lost`).
        UsageError: As for `connected`.
    """
    print("connection lost, trying again", file=sys.stderr, flush=True)
    try:
        return await connected(url, ssl)
    except SeatError as error:
        if error.code != SeatError.default_code or not greeted:
            raise
        # A program that ends closes its connections; only a network lets them go silent
        if _network_failed(lost):
            raise SeatError(
                f"The network between here and the game is gone. {error.message}",
                code="link_lost",
                hint="The game may still be there, and its seat with it: join again when the network is back.",
            ) from None
        print(error.message, file=sys.stderr, flush=True)
        return None


def _network_failed(lost: ConnectionClosedError) -> bool:
    cause = lost.__cause__
    return isinstance(cause, OSError) and cause.errno in _SILENCE


def _proxy_to(url: str) -> str | None:
    """The proxy of the environment that leads to an address; None: it is reached directly."""
    from urllib.request import getproxies, proxy_bypass

    address = urlsplit(url)
    host = address.hostname or ""
    try:
        place = f"{host}:{address.port or 443}"
    except ValueError:
        return None  # No address at all, which is said elsewhere
    return None if is_loopback(host) or proxy_bypass(place) else getproxies().get("https")


def _notice_loss(connection: ClientConnection) -> None:
    """Have the system end a connection whose other end acknowledges nothing, pings included."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    held = connection.transport.get_extra_info("socket")
    # Only Linux has it, and elsewhere the system gives up by itself after a quarter of an hour
    if option is not None and held is not None and held.family in (socket.AF_INET, socket.AF_INET6):
        held.setsockopt(socket.IPPROTO_TCP, option, int(LOST_SECONDS * 1000))


def _refused(place: str, status: int, *, secure: bool) -> SeatError:
    if status == http.HTTPStatus.UPGRADE_REQUIRED and not secure:
        return SeatError(f"{place} speaks TLS.", code="tls_failed", hint="Its address begins with wss:// or https://.")
    hint = _OR_TLS if status == http.HTTPStatus.BAD_REQUEST and not secure else None
    return SeatError(
        f"{place} refused this player (HTTP {status}): slot or token is wrong.", code="seat_refused", hint=hint
    )


async def received(connection: ClientConnection, url: str) -> str | bytes:
    """Wait for the next message of the game at an address.

    Raises:
        ConnectionClosed: The connection is closed without one.
        SeatError: The message is longer than `MAX_MESSAGE` (`message_too_long`).
    """
    from websockets.exceptions import ConnectionClosedError
    from websockets.frames import CloseCode

    try:
        return await connection.recv()
    except ConnectionClosedError as error:
        if error.sent is None or error.sent.code != CloseCode.MESSAGE_TOO_BIG or error.rcvd_then_sent:
            raise
        raise SeatError(
            f"The game at {_place(url)} has sent a message of more than {shown_size(MAX_MESSAGE)}.",
            code="message_too_long",
            hint="A player reads messages of up to that size: the game should send less at a time.",
        ) from None


def _place(url: str) -> str:
    """An address without its token."""
    return urlsplit(url)._replace(query="", fragment="").geturl()
