"""The players you own, and which of them you act as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api, run_async
from ..options.platform import Connection, resolved, server_option
from ..options.values import IdType
from ..output import Output, output_options
from ..render.rows import dump, rows_table
from ..render.tables import player_columns
from ..render.text import again, clean

if TYPE_CHECKING:
    from coworld_client import CoworldClient

__all__ = ["commands"]

commands = NounGroup()


@commands.group("player", cls=NounGroup)
def player() -> None:
    """List, create and switch player identities.

    Players are identities that you own. While one is active, every command acts as that player.
    """


def _yourself(server: str | None) -> Connection:
    """Players are managed by their owner, whichever of them is active."""
    return Connection(server=server, as_user=True)


@player.command("list")
@server_option
@output_options
def list_(out: Output, server: str | None) -> int:
    """List your players; the active one is marked."""

    async def body(api: CoworldClient, _: Running) -> int:
        from anyio import to_thread

        from coworld_client import CredentialStore

        players = await api.players.list()
        active = (await to_thread.run_sync(CredentialStore.from_environment().read, api.server)).active
        out.answer([{**dump(row), "active": row.id == active} for row in players])
        none = f"You have no players. `{again('player create', api.server)} NAME` creates one."
        out.say(rows_table(player_columns(active), players) if players else none)
        return exitcodes.OK

    return run_api(out, _yourself(server), body)


@player.command("create")
@click.argument("name")
@server_option
@output_options
def create(out: Output, server: str | None, name: str) -> int:
    """Create a player."""

    async def body(api: CoworldClient, _: Running) -> int:
        made = await api.players.create(name)
        out.answer(dump(made))
        out.say(clean(f"Created {made.id}, {made.name}.", one_line=True))
        return exitcodes.OK

    return run_api(out, _yourself(server), body, changes=True)


@player.command("use")
@click.argument("player", type=IdType("player", names=True), metavar="PLAYER")
@server_option
@output_options
def use(out: Output, server: str | None, player: str) -> int:
    """Act as one of your players, for a day.

    PLAYER is its name or its id.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        from coworld_client import CredentialStore
        from coworld_client.sign_in import use_player

        session = await use_player(api, player, CredentialStore.from_environment())
        out.answer({"server": api.server, "player_id": session.player_id, "expires_at": session.expires_at.isoformat()})
        out.say(f"You act as {clean(session.player_id)} until {session.expires_at.astimezone():%Y-%m-%d %H:%M}.")
        out.warn_of_token("is set, and takes precedence over the player.")
        return exitcodes.OK

    return run_api(out, _yourself(server), body)


@player.command("unset")
@server_option
@output_options
def unset(out: Output, server: str | None) -> int:
    """Act as yourself again."""

    async def body(_: Running) -> int:
        from anyio import to_thread

        from coworld_client.sign_in import CredentialStore

        address = resolved(server)
        changed = await to_thread.run_sync(CredentialStore.from_environment().set_active, address, None)
        out.answer({"server": address, "changed": changed})
        out.say("You act as yourself." if changed else "You were already acting as yourself.")
        return exitcodes.OK

    return run_async(out, body)
