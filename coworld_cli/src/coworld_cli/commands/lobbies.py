"""Lobbies: games of a league that people and policies play together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api
from ..options.platform import Connection, label_option, platform_options
from ..options.values import IdType, key_values
from ..output import Output
from ..render.lobby_text import lobby_details
from ..render.rows import dump, show_one
from .labels import warn_unlabelled

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_core.api import Lobby

__all__ = ["commands"]

commands = NounGroup()

_lobby_argument = click.argument("lobby", type=IdType("lobby"), metavar="LOBBY_ID")
_position_argument = click.argument("position", type=click.IntRange(min=0), metavar="POSITION")
_revision_option = click.option(
    "--revision",
    type=click.IntRange(min=0),
    metavar="N",
    help="Refuse if the lobby has another revision by now. Default: the present one.",
)


@commands.group("lobby", cls=NounGroup)
def group() -> None:
    """Play a league's game, with people and policies."""


@group.command("create")
@click.argument("league", metavar="LEAGUE")
@click.option(
    "--variant", metavar="ID", help="Variant to play, or a pattern that matches only one. Default: the league's."
)
@click.option("--num-players", type=click.IntRange(min=1), metavar="N", help="Number of seats. Default: the variant's.")
@click.option(
    "--seat",
    "seats",
    multiple=True,
    metavar="POSITION:KIND",
    help="Who sits in a seat: human_open, random, closed or league_player:PLAYER_ID. Repeatable.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a key of the game config; JSON values are parsed. Repeatable.",
)
@label_option("Label the game, and the episode that it becomes")
@platform_options
def create(
    out: Output,
    connection: Connection,
    league: str,
    variant: str | None,
    num_players: int | None,
    seats: tuple[str, ...],
    overrides: tuple[str, ...],
    labels: dict[str, str],
) -> int:
    """Draft a lobby in LEAGUE, a name or an id.

    You have seat 0, the league's newest champion seat 1, and any champion the others. The draft expires after an hour.
    """
    pairs = key_values("--override", overrides)

    from coworld_core.api import LobbySeatBody

    from ..files import json_values

    chosen = [LobbySeatBody.parse(seat) for seat in seats]
    settings = json_values(pairs)

    async def body(api: CoworldClient, _: Running) -> int:
        where = await api.leagues.id_of(league)
        how: dict[str, Any] = {"variant": variant, "players": num_players, "labels": labels}
        made = await api.lobbies.create(where, seats=chosen, overrides=settings or None, **how)
        warn_unlabelled(api, out, labels, made.tags)
        out.answer(dump(made))
        out.say(lobby_details(made))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


@group.command("get")
@_lobby_argument
@platform_options
def get(out: Output, connection: Connection, lobby: str) -> int:
    """Show a lobby."""
    return _shown(out, connection, lambda api: api.lobbies.get(lobby), changes=False)


@group.command("start")
@_lobby_argument
@_revision_option
@platform_options
def start(out: Output, connection: Connection, lobby: str, revision: int | None) -> int:
    """Start the game of your draft."""
    return _shown(out, connection, lambda api: api.lobbies.start(lobby, revision=revision))


@group.command("seat")
@_lobby_argument
@click.argument("seat", metavar="POSITION:KIND")
@_revision_option
@platform_options
def seat(out: Output, connection: Connection, lobby: str, seat: str, revision: int | None) -> int:
    """Decide who sits in a seat of your draft.

    KIND is human_open (anyone who claims it), random (any champion of the league), closed, or league_player:PLAYER_ID
    (the champion of a player).
    """
    from coworld_core.api import LobbySeatBody

    chosen = LobbySeatBody.parse(seat)
    return _shown(
        out,
        connection,
        lambda api: api.lobbies.seat(lobby, chosen.position, chosen.kind, player=chosen.player_id, revision=revision),
    )


@group.command("claim")
@_lobby_argument
@_position_argument
@platform_options
def claim(out: Output, connection: Connection, lobby: str, position: int) -> int:
    """Take an open seat of a draft."""
    return _shown(out, connection, lambda api: api.lobbies.claim(lobby, position))


@group.command("remove")
@_lobby_argument
@_position_argument
@platform_options
def remove(out: Output, connection: Connection, lobby: str, position: int) -> int:
    """Remove a person from a seat of your draft."""
    return _shown(out, connection, lambda api: api.lobbies.remove(lobby, position))


@group.command("leave")
@_lobby_argument
@platform_options
def leave(out: Output, connection: Connection, lobby: str) -> int:
    """Leave your seat of a draft."""
    return _shown(out, connection, lambda api: api.lobbies.leave(lobby))


@group.command("cancel")
@_lobby_argument
@platform_options
def cancel(out: Output, connection: Connection, lobby: str) -> int:
    """Cancel your draft."""
    return _shown(out, connection, lambda api: api.lobbies.cancel(lobby))


@group.command("end")
@_lobby_argument
@platform_options
def end(out: Output, connection: Connection, lobby: str) -> int:
    """End the game of your lobby; nothing of it is kept."""
    return _shown(out, connection, lambda api: api.lobbies.end(lobby))


def _shown(
    out: Output, connection: Connection, call: Callable[[CoworldClient], Awaitable[Lobby]], *, changes: bool = True
) -> int:
    """Call the platform, and show the lobby that it answers with."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_one(out, call(api), lobby_details)

    return run_api(out, connection, body, changes=changes)
