"""``coworld hosted-game``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.group("hosted-game", cls=NounGroup)
def command() -> None:
    """Play a Coworld on the platform, with people."""


@command.command("create")
@click.argument("coworld", type=id_type("coworld"), metavar="COWORLD_ID")
@click.option("--variant", metavar="ID", help="Variant to play. Default: the Coworld's own.")
@click.option("--spectators/--no-spectators", default=True, show_default=True, help="Whether others may watch.")
@connection_options
@output_options
def create(out: Output, connection: Connection, coworld: str, variant: str | None, spectators: bool) -> int:
    """Start a game that people join.

    The links hold the game's tokens: whoever has one can use it.
    """
    from ..platform_render import dump
    from ..platform_run import run_api
    from ..platform_tables import play_session_details

    async def body(api: CoworldClient, _: Running) -> int:
        session = await api.hosted.create(coworld, variant=variant, spectators=spectators)
        out.answer(dump(session))
        out.say(play_session_details(session))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


@command.command("join")
@click.argument("session", metavar="SESSION_ID")
@connection_options
@output_options
def join(out: Output, connection: Connection, session: str) -> int:
    """Take a seat in a game."""
    from ..platform_render import dump
    from ..platform_run import run_api
    from ..platform_tables import seat_details

    async def body(api: CoworldClient, _: Running) -> int:
        seat = await api.hosted.join(session)
        out.answer(dump(seat))
        out.say(seat_details(seat))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)
