"""``coworld league``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, key_values

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.group("league", cls=NounGroup)
def command() -> None:
    """Ask for leagues of a Coworld (for the platform's team)."""


@command.command("create")
@click.argument("name")
@click.option(
    "--template",
    "-t",
    default="commissioner_driven",
    metavar="TEMPLATE",
    show_default=True,
    help="How the league is run.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set this otherwise than the template does; a value that is JSON is read as such. Repeatable.",
)
@connection_options
@output_options
def create(out: Output, connection: Connection, name: str, template: str, settings: tuple[str, ...]) -> int:
    """Ask for a league of the Coworld NAME."""
    pairs = key_values("--set", settings)

    from ..platform_input import json_values
    from ..platform_render import dump
    from ..platform_run import run_api
    from ..platform_tables import seed_details

    overrides = json_values(pairs)

    async def body(api: CoworldClient, _: Running) -> int:
        seed = await api.league_seeds.create(name, template=template, overrides=overrides or None)
        out.answer(dump(seed))
        out.say(seed_details(seed))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


@command.command("list")
@connection_options
@output_options
def list_(out: Output, connection: Connection) -> int:
    """List the leagues that were asked for."""
    from ..platform_render import dump, rows_table
    from ..platform_run import run_api
    from ..platform_tables import SEEDS

    async def body(api: CoworldClient, _: Running) -> int:
        rows = [row async for row in api.league_seeds.list()]
        out.answer([dump(row) for row in rows])
        out.say(rows_table(SEEDS, rows) if rows else "No leagues were asked for.")
        return exitcodes.OK

    return run_api(out, connection, body)
