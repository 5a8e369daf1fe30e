"""Your own tokens on a platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api
from ..options.platform import Connection, server_option
from ..output import Output, output_options
from ..render import tables
from ..render.rows import dump, show_rows
from ..render.text import clean

if TYPE_CHECKING:
    from coworld_client import CoworldClient

__all__ = ["commands"]

commands = NounGroup()


@commands.group("token", cls=NounGroup)
def token() -> None:
    """List, make and revoke your tokens on a server.

    They are managed as yourself, whichever player is active. Not every platform offers this.
    """


@token.command("list")
@server_option
@output_options
def list_(out: Output, server: str | None) -> int:
    """List your valid tokens and sessions, newest first; never their texts."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_rows(out, api.tokens.list(), tables.TOKENS, none="You have no tokens.")

    return run_api(out, Connection(server=server, as_user=True), body)


@token.command("create")
@click.argument("name")
@click.option("--days", type=click.IntRange(1), metavar="N", help="Days that it is valid.  [default: until revoked]")
@server_option
@output_options
def create(out: Output, server: str | None, name: str, days: int | None) -> int:
    """Make another token, and print it; it cannot be shown again.

    NAME says what it is for.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        made = await api.tokens.create(name, days=days)
        out.answer(dump(made))
        out.say(made.token)
        out.note(f"Its id is {clean(made.id)}: it cannot be shown again.")
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=True)


@token.command("revoke")
@click.argument("token_id", metavar="TOKEN_ID")
@server_option
@output_options
def revoke(out: Output, server: str | None, token_id: str) -> int:
    """Revoke a token, which is refused from now on."""

    async def body(api: CoworldClient, _: Running) -> int:
        gone = await api.tokens.revoke(token_id)
        out.answer(dump(gone))
        out.say(clean(f"Revoked {gone.id}{f', {gone.name}' if gone.name else ''}.", one_line=True))
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=True)
