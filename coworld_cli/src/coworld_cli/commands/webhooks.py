"""Your webhooks on a platform."""

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


@commands.group("webhook", cls=NounGroup)
def webhook() -> None:
    """Have an address told of what happens to your policies.

    It is told when a submission is rejected, a policy disqualified, and a season over.
    """


@webhook.command("list")
@server_option
@output_options
def list_(out: Output, server: str | None) -> int:
    """List your webhooks, and why the last attempt failed, if it did."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_rows(out, api.webhooks.list(), tables.WEBHOOKS, none="You have no webhook.")

    return run_api(out, Connection(server=server, as_user=True), body)


@webhook.command("create")
@click.argument("url")
@server_option
@output_options
def create(out: Output, server: str | None, url: str) -> int:
    """Have URL told of events, and print the key that signs them, which is shown only once."""

    async def body(api: CoworldClient, _: Running) -> int:
        made = await api.webhooks.create(url)
        out.answer({**dump(made), "key": made.key})
        out.note(clean(f"{made.url} is told of events. This is the key that signs them:", one_line=True))
        out.say(made.key)
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=True)


@webhook.command("delete")
@click.argument("id_", metavar="ID")
@server_option
@output_options
def delete(out: Output, server: str | None, id_: str) -> int:
    """Remove a webhook."""

    async def body(api: CoworldClient, _: Running) -> int:
        gone = await api.webhooks.delete(id_)
        out.answer(dump(gone))
        out.say(clean(f"{gone.url} is told no more.", one_line=True))
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=True)
