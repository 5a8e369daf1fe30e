"""Signing in and out, and acting as a player."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable

import anyio
import click

from coworld_client import CoworldClient
from coworld_client.credentials import CredentialStore, Token, normalise_server
from coworld_client.errors import NotAuthenticated, NotLoggedIn
from coworld_client.login import adopt_token, exchange_code, sign_in, sign_in_url, use_player
from coworld_core.api import OwnedPlayer, Whoami
from coworld_core.errors import EnvironmentFault

from . import exitcodes
from .browser import open_page, wants_browser
from .output import Output
from .platform_render import dump, rows_table
from .platform_tables import player_columns, whoami_details
from .running import Running
from .text import clean, command_line

__all__ = [
    "create_player",
    "finish_sign_in",
    "forget",
    "keep_token",
    "list_players",
    "show_identity",
    "sign_in_here",
    "take_on_player",
    "unset_player",
]


async def sign_in_here(server: str, running: Running, *, force: bool, browser: bool) -> int:
    """Sign in with the browser, unless that has been done.

    Args:
        server: Where to.
        running: The command.
        force: Whether to sign in even when there is a token that is good.
        browser: Whether the page may be opened.

    Raises:
        EnvironmentFault: Nobody is there to sign in.
    """
    out = running.out
    server = normalise_server(server)
    if not force and (known := await _signed_in(server)) is not None:
        _answer(out, server, known, "already_signed_in")
        out.say(f"You are signed in to {server} already, as {_name(known)}. --force signs in anew.")
        return exitcodes.OK
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        url = sign_in_url(server)
        raise EnvironmentFault(
            "Nobody is at this terminal to sign in.",
            code="no_terminal",
            hint=f"Open {url} and give the code to `{_again('exchange-code', server)}`; or give a token to "
            f"`{_again('set-token', server)}` by standard input; or set COWORLD_TOKEN.",
            context={"url": url},
        )
    token = await sign_in(server, show=_shown(out, browser=browser), paste=_pasted)
    return await keep_token(server, token, running)


async def _signed_in(server: str) -> Whoami | None:
    """Whose the token on this machine is; None when there is none that is good."""
    token = (await anyio.to_thread.run_sync(CredentialStore.from_environment().read, server)).token
    if token is None:
        return None
    async with CoworldClient(server, token=token) as api:
        try:
            known = await api.whoami()
        except NotAuthenticated:
            return None
    return None if known.subject_type.is_anonymous else known


def _shown(out: Output, *, browser: bool) -> Callable[[str], Awaitable[object]]:
    async def show(url: str) -> None:
        out.note(f"Sign in here:\n\n  {click.style(url, bold=True)}\n")
        out.note("If the browser cannot come back to this machine, paste the code that it shows, and press Enter.")
        if browser and wants_browser(None):
            await open_page(url, out)

    return show


async def _pasted() -> str | None:
    """A line that a person types. Nothing waits in a thread that the end of the program would have to wait for."""
    descriptor = sys.stdin.fileno()
    await anyio.wait_readable(descriptor)
    return os.read(descriptor, 4096).decode("utf-8", "replace").strip() or None


def _again(command: str, server: str) -> str:
    from coworld_client.credentials import DEFAULT_SERVER

    return command_line(*command.split(), *(["--server", server] if server != DEFAULT_SERVER else []))


async def finish_sign_in(server: str, code: str, running: Running) -> int:
    """Trade a code for a token, and keep that."""
    return await keep_token(server, await exchange_code(server, code), running)


async def keep_token(server: str, token: Token, running: Running) -> int:
    """Keep a token once the server has said whose it is."""
    out = running.out
    async with CoworldClient(server, token=token) as api:
        known = await adopt_token(api, CredentialStore.from_environment())
        _answer(out, api.server, known, "signed_in")
        out.say(f"Signed in to {api.server} as {_name(known)}.")
    if os.environ.get("COWORLD_TOKEN"):
        out.warn("COWORLD_TOKEN is set, and comes before the token that was kept.")
    return exitcodes.OK


def _answer(out: Output, server: str, known: Whoami, status: str) -> None:
    out.answer({"status": status, "server": server, **dump(known)})


def _name(known: Whoami) -> str:
    return clean(known.user_email or known.name or known.subject_id or "somebody", one_line=True)


async def show_identity(api: CoworldClient, running: Running) -> int:
    """Show who you are to a server.

    Raises:
        NotLoggedIn: Nobody: the server does not know the token.
    """
    known = await api.whoami()
    if known.subject_type.is_anonymous:
        raise NotLoggedIn(
            f"{api.server} does not know your token.",
            code="token_unknown",
            hint=f"Sign in again: `{_again('login', api.server)}`.",
            context={"server": api.server},
        )
    running.out.answer({"server": api.server, **dump(known)})
    running.out.say(whoami_details(known, api.server))
    return exitcodes.OK


async def forget(server: str, out: Output) -> int:
    """Forget the token and the player sessions of a server."""
    server = normalise_server(server)
    removed = await anyio.to_thread.run_sync(CredentialStore.from_environment().forget, server)
    out.answer({"server": server, "removed": removed})
    out.say(f"Signed out of {server}." if removed else f"You were not signed in to {server}.")
    if os.environ.get("COWORLD_TOKEN"):
        out.warn("COWORLD_TOKEN is still set.")
    return exitcodes.OK


# --- players ------------------------------------------------------------------------------------------------------


async def list_players(api: CoworldClient, out: Output) -> int:
    """List the players you own."""
    players: list[OwnedPlayer] = [player async for player in api.players.list()]
    active = (await anyio.to_thread.run_sync(CredentialStore.from_environment().read, api.server)).active
    out.answer([{**dump(player), "active": player.id == active} for player in players])
    out.say(
        rows_table(player_columns(active), players)
        if players
        else f"You have no players. `{_again('player create', api.server)} NAME` makes one."
    )
    return exitcodes.OK


async def create_player(api: CoworldClient, name: str, out: Output) -> int:
    """Make a player."""
    player = await api.players.create(name)
    out.answer(dump(player))
    out.say(clean(f"Made {player.id}, {player.name}.", one_line=True))
    return exitcodes.OK


async def take_on_player(api: CoworldClient, player_id: str, out: Output) -> int:
    """Act as a player from now on."""
    session = await use_player(api, player_id, CredentialStore.from_environment())
    out.answer({"server": api.server, "player_id": session.player_id, "expires_at": session.expires_at.isoformat()})
    out.say(f"You act as {clean(session.player_id)} until {session.expires_at.astimezone():%Y-%m-%d %H:%M}.")
    if os.environ.get("COWORLD_TOKEN"):
        out.warn("COWORLD_TOKEN is set, and comes before the player.")
    return exitcodes.OK


async def unset_player(server: str, out: Output) -> int:
    """Act as yourself again."""
    server = normalise_server(server)
    changed = await anyio.to_thread.run_sync(CredentialStore.from_environment().set_active, server, None)
    out.answer({"server": server, "changed": changed})
    out.say("You act as yourself." if changed else "You acted as yourself already.")
    return exitcodes.OK
