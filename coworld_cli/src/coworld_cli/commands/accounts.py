"""Signing in to a platform, and out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api, run_async
from ..options.declarations import refuse_options
from ..options.platform import Connection, platform_options, resolved, server_option, sign_in_option
from ..options.values import INPUT_FILE
from ..output import Output, output_options
from ..render.rows import dump
from ..render.tables import deletion_details, whoami_details
from ..render.text import again, clean

if TYPE_CHECKING:
    from coworld_client import CoworldClient, Token
    from coworld_core.api import Whoami

__all__ = ["commands"]

commands = NounGroup()


@commands.command("login")
@click.option("--no-browser", is_flag=True, help="Show the address instead of opening a browser.")
@click.option("--force", "-f", is_flag=True, help="Sign in again, even if you are signed in.")
@click.option("--with-token", is_flag=True, help="Read a token from standard input instead.")
@sign_in_option
@output_options
def login(out: Output, server: str, no_browser: bool, force: bool, with_token: bool) -> int:
    """Sign in with the browser, and save the token.

    It is saved in ~/.softmax/credentials.yaml (SOFTMAX_CONFIG_DIR changes the directory), readable only by you.
    COWORLD_TOKEN takes precedence over it and is never saved.
    """
    if not with_token:
        return run_async(out, lambda _: _sign_in(server, out, force=force, browser=not no_browser))

    refuse_options({"no_browser", "force"}, "is for signing in with the browser: it does not go with --with-token.")

    from coworld_client import Token

    from ..files import read_secret

    token = Token(read_secret(Path("-"), what="token"))
    return run_async(out, lambda _: _keep(server, token, out))


async def _sign_in(server: str, out: Output, *, force: bool, browser: bool) -> int:
    """Sign in with the browser, unless already signed in."""
    import sys

    from coworld_client.sign_in import normalise_server, sign_in, sign_in_url, signed_in
    from coworld_core.errors import EnvironmentFault

    from ..browser import open_page, wants_browser
    from ..terminal import typed_line

    server = normalise_server(server)
    if not force and (known := await signed_in(server)) is not None:
        out.answer({"status": "already_signed_in", "server": server, **dump(known)})
        out.say(f"You are already signed in to {server} as {_name(known)}. Use --force to sign in again.")
        return exitcodes.OK
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        url = sign_in_url(server)
        raise EnvironmentFault(
            "Signing in needs an interactive terminal.",
            code="no_terminal",
            hint=f"Open {url} and pass the code to `{again('exchange-code', server)}`; or pass a token to "
            f"`{again('set-token', server)}` on standard input; or set COWORLD_TOKEN.",
            context={"url": url},
        )

    async def show(url: str) -> None:
        out.note(f"Sign in here:\n\n  {click.style(url, bold=True)}\n")
        out.note("If the browser cannot reach this machine, paste the code that it shows and press Enter.")
        if browser and wants_browser(None):
            await open_page(url, out)

    return await _keep(server, await sign_in(server, show=show, paste=typed_line), out)


async def _keep(server: str, token: Token, out: Output) -> int:
    """Save a token once the server has confirmed whose it is."""
    from coworld_client import CoworldClient, CredentialStore
    from coworld_client.sign_in import adopt_token

    async with CoworldClient(server, token=token) as api:
        known = await adopt_token(api, CredentialStore.from_environment())
        out.answer({"status": "signed_in", "server": api.server, **dump(known)})
        out.say(f"Signed in to {api.server} as {_name(known)}.")
    out.warn_of_token("is set, and takes precedence over the saved token.")
    return exitcodes.OK


def _name(known: Whoami) -> str:
    return clean(known.user_email or known.name or known.subject_id or "somebody", one_line=True)


@commands.command("logout")
@server_option
@output_options
def logout(out: Output, server: str | None) -> int:
    """Forget the token and the player sessions of a server."""

    async def forget(_: Running) -> int:
        from anyio import to_thread

        from coworld_client.sign_in import CredentialStore

        address = resolved(server)
        removed = await to_thread.run_sync(CredentialStore.from_environment().forget, address)
        out.answer({"server": address, "removed": removed})
        out.say(f"Signed out of {address}." if removed else f"You were not signed in to {address}.")
        out.warn_of_token("is still set.")
        return exitcodes.OK

    return run_async(out, forget)


@commands.command("whoami")
@platform_options
def whoami(out: Output, connection: Connection) -> int:
    """Show your account on a server.

    The exit status is 3 if you are not signed in: there is no token, the server does not know it, or the session of a
    player has ended.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        from coworld_client import NotLoggedIn

        known = await api.whoami()
        if known.subject_type.is_anonymous:
            raise NotLoggedIn(
                f"{api.server} does not know your token.",
                code="token_unknown",
                hint=f"Sign in again: `{again('login', api.server)}`.",
                context={"server": api.server},
            )
        out.answer({"server": api.server, **dump(known)})
        out.say(whoami_details(known, api.server))
        return exitcodes.OK

    return run_api(out, connection, body)


@commands.command("set-token")
@click.argument("token", required=False)
@click.option("--file", type=INPUT_FILE, metavar="FILE", help="File to read it from.  [default: standard input]")
@sign_in_option
@output_options
def set_token(out: Output, server: str, token: str | None, file: Path | None) -> int:
    """Save a token that you have.

    The token is read from standard input, and the server must know it. TOKEN on the command line works too, but process
    lists and the shell history show it.
    """
    if token is not None and file is not None:
        raise click.UsageError("Give the token once: TOKEN and --file exclude each other.")

    from coworld_client import Token

    from ..files import read_secret

    if token is not None:
        out.warn("the token was given on the command line, where process lists and the shell history show it.")
    given = Token(token if token is not None else read_secret(file, what="token"))
    return run_async(out, lambda _: _keep(server, given, out))


@commands.command("exchange-code")
@click.argument("code", required=False)
@sign_in_option
@output_options
def exchange_code(out: Output, server: str, code: str | None) -> int:
    """Finish a sign-in with the code that the browser showed.

    Without CODE, it is read from standard input. A code works once and expires soon.
    """
    from ..files import read_secret

    given = code if code is not None else read_secret(None, what="code")

    async def finish(_: Running) -> int:
        from coworld_client.sign_in import exchange_code

        return await _keep(server, await exchange_code(server, given), out)

    return run_async(out, finish)


@commands.command("delete-account")
@click.option("--name", metavar="NAME", help="The account's name: delete it, for good.")
@server_option
@output_options
def delete_account(out: Output, server: str | None, name: str | None) -> int:
    """Say what deleting your account would do, or delete it.

    Episodes, replays and standings stay under a neutral name, since others have a part in them.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        done = await api.delete_account(name)
        out.answer(dump(done))
        out.say(deletion_details(done, deleted=name is not None))
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=name is not None)
