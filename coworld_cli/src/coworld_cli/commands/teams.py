"""Your teams on a platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

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


@commands.group("team", cls=NounGroup)
def team() -> None:
    """Own policies and entries together, as a team.

    `--as-team NAME` uploads for one; its members submit, nominate and retire what it has, and read its logs. A person
    plays in a league in one name: the own one, or that of one team.
    """


@team.command("list")
@server_option
@output_options
def list_(out: Output, server: str | None) -> int:
    """List your teams with their members, the captain first."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_rows(out, api.teams.list(), tables.TEAMS, none="You are in no team.")

    return run_api(out, Connection(server=server, as_user=True), body)


@team.command("create")
@click.argument("name")
@server_option
@output_options
def create(out: Output, server: str | None, name: str) -> int:
    """Make a team, with you as its captain."""

    async def body(api: CoworldClient, _: Running) -> int:
        made = await api.teams.create(name)
        out.answer(dump(made))
        out.say(clean(f"Made the team {made.name}, {made.id}.", one_line=True))
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=True)


@team.command("invite")
@click.argument("name")
@click.option("--days", type=click.IntRange(1, 365), default=14, show_default=True, help="Days that the link works.")
@server_option
@output_options
def invite(out: Output, server: str | None, name: str, days: int) -> int:
    """Print a link by which one person joins a team of yours, once."""

    async def body(api: CoworldClient, _: Running) -> int:
        made = await api.teams.invite(name, days=days)
        out.answer(dump(made))
        out.say(made.link)
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=True)


@team.command("join")
@click.argument("link")
@server_option
@output_options
def join(out: Output, server: str | None, link: str) -> int:
    """Join a team by the LINK of an invitation, or the code at its end."""

    async def body(api: CoworldClient, _: Running) -> int:
        joined = await api.teams.join(link)
        out.answer(dump(joined))
        out.say(clean(f"You are a member of {joined.name}.", one_line=True))
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=True)


@team.command("leave")
@click.argument("name")
@click.argument("member", default="me", metavar="[MEMBER]")
@click.option(
    "--entries",
    type=click.Choice(["retire", "keep"]),
    help="For the last member: end the team's entries and close it, or let them play on.",
)
@server_option
@output_options
def leave(out: Output, server: str | None, name: str, member: str, entries: Literal["retire", "keep"] | None) -> int:
    """Leave a team; its captain may take MEMBER out of it.

    Who leaves keeps nothing of it. The captain is who has been in the team for longest.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        left = await api.teams.leave(name, member, entries=entries)
        out.answer(dump(left))
        ended = f" The team is closed, and {left.entries_ended} of its entries ended." if left.entries_ended else ""
        out.say(clean(f"{left.member} has left {left.team}.{ended}", one_line=True))
        return exitcodes.OK

    return run_api(out, Connection(server=server, as_user=True), body, changes=True)
