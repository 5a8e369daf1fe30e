"""``coworld player``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .._group import NounGroup
from ..output import Output, output_options
from ..platform_options import Connection, id_type, platform_server_option

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.group("player", cls=NounGroup)
def command() -> None:
    """List, make, take on and lay down player identities.

    Players are identities that you own. While one is active, every command acts as that player.
    """


def _yourself(server: str) -> Connection:
    """Players are managed by their owner, whichever of them is active."""
    return Connection(server=server, as_user=True)


@command.command("list")
@platform_server_option
@output_options
def list_(out: Output, server: str) -> int:
    """List your players; the active one is marked."""
    from ..platform_run import run_api
    from ..platform_signin import list_players

    async def body(api: CoworldClient, _: Running) -> int:
        return await list_players(api, out)

    return run_api(out, _yourself(server), body)


@command.command("create")
@click.argument("name")
@platform_server_option
@output_options
def create(out: Output, server: str, name: str) -> int:
    """Make a player."""
    from ..platform_run import run_api
    from ..platform_signin import create_player

    async def body(api: CoworldClient, _: Running) -> int:
        return await create_player(api, name, out)

    return run_api(out, _yourself(server), body, changes=True)


@command.command("use")
@click.argument("player", type=id_type("player"), metavar="PLY")
@platform_server_option
@output_options
def use(out: Output, server: str, player: str) -> int:
    """Act as a player of yours, for a day."""
    from ..platform_run import run_api
    from ..platform_signin import take_on_player

    async def body(api: CoworldClient, _: Running) -> int:
        return await take_on_player(api, player, out)

    return run_api(out, _yourself(server), body)


@command.command("unset")
@platform_server_option
@output_options
def unset(out: Output, server: str) -> int:
    """Act as yourself again."""
    from ..platform_signin import unset_player
    from ..running import run_async

    return run_async(out, lambda _: unset_player(server, out))
