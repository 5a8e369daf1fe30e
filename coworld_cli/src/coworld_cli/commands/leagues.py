"""Leagues and their divisions, rounds, standings and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api
from ..options.platform import (
    Connection,
    Listing,
    division_filter,
    league_filter,
    listing_options,
    platform_options,
    player_filter,
    policy_filter,
    round_filter,
)
from ..options.values import FILE, IdType, key_values
from ..output import Output, published_option
from ..render import tables
from ..render.rows import dump, rows_table, show_list, show_one, show_rows
from ..render.text import clean, shown_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from coworld_client import CoworldClient
    from coworld_core.api import LeaderboardEntry, LeaderboardView

__all__ = ["commands"]

commands = NounGroup()


@commands.command("leagues")
@click.argument("league", required=False, type=IdType("league", names=True), metavar="[LEAGUE]")
@listing_options(None, cursor=False, noun="leagues")
@platform_options
def leagues(out: Output, connection: Connection, listing: Listing, league: str | None) -> int:
    """List leagues, or show one.

    LEAGUE is its name or its id.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        if league is not None:
            return await show_one(out, api.leagues.get(league), tables.league_details)
        return await show_list(out, api.leagues.list(limit=listing.limit), tables.LEAGUES, listing, noun="league")

    return run_api(out, connection, body, anonymous=True)


@commands.command("divisions")
@click.argument("division", required=False, type=IdType("division", names=True), metavar="[DIVISION]")
@league_filter
@listing_options(None, cursor=False, noun="divisions")
@platform_options
def divisions(out: Output, connection: Connection, listing: Listing, division: str | None, **filters: Any) -> int:
    """List divisions, or show one.

    DIVISION is its name, also as LEAGUE/DIVISION, or its id.
    """
    if division and any(filters.values()):
        raise click.UsageError("--league is for lists; one division is DIVISION or LEAGUE/DIVISION.")

    async def body(api: CoworldClient, _: Running) -> int:
        if division is not None:
            return await show_one(out, api.divisions.get(division), tables.division_details)
        pager = api.divisions.list(**filters, limit=listing.limit)
        return await show_list(out, pager, tables.DIVISIONS, listing, noun="division")

    return run_api(out, connection, body, anonymous=True)


@commands.command("results")
@click.argument(
    "target", type=IdType("league", "division", "round", names=True), metavar="LEAGUE | LEAGUE/DIVISION | ROUND_ID"
)
@click.option(
    "--include-recent-rounds",
    type=click.IntRange(min=0),
    default=3,
    metavar="N",
    show_default=True,
    help="Include the last N rounds in each row of a division (with --json).",
)
@platform_options
def results(out: Output, connection: Connection, target: str, include_recent_rounds: int) -> int:
    """Show the standings of a league, a division or a round.

    A league is given by its name or id, a division by LEAGUE/DIVISION or its id. For a league, this lists the divisions
    in order, or the players if there is only one division; for a division, its players, with all that its server ranks
    them by; for a round, the score of each policy. Under --json, each division of a league has its `standings`.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        from coworld_core.api import id_kind, is_id

        kind = id_kind(target) if is_id(target, ("league", "division", "round")) else None

        async def scored() -> Any:
            return (await api.rounds.get(target)).results

        if kind == "round":
            return await show_rows(out, scored(), tables.ROUND_RESULTS, none="The round has no results yet.")
        division = target
        if kind != "division" and "/" not in target:
            ladder = await api.leagues.ladder(target)
            if out.json:
                boards = [await _standings(api, row.id, include_recent_rounds) for row in ladder]
                told = zip(ladder, boards, strict=True)
                out.answer([{**dump(row), "standings": _as_json(*board)} for row, board in told])
                return exitcodes.OK
            out.say(rows_table(tables.LADDER, ladder) if ladder else "The league has no divisions.")
            if len(ladder) != 1:
                return exitcodes.OK
            division = ladder[0].id
            out.say()
        rows, view = await _standings(api, division, include_recent_rounds)
        out.answer(_as_json(rows, view))
        if view is not None:
            out.say(rows_table(tables.view_columns(view), view.rows))
            if view.description:
                out.say(f"\n{clean(view.description)}")
        else:
            out.say(rows_table(tables.LEADERBOARD, rows) if rows else "Nobody has played in this division yet.")
        return exitcodes.OK

    return run_api(out, connection, body)


async def _standings(
    api: CoworldClient, division: str, recent_rounds: int
) -> tuple[Sequence[LeaderboardEntry], LeaderboardView | None]:
    """A division's standings, and the view of them that says what they are sorted by, on servers that have one."""
    from coworld_client.errors import NotFound, NotOffered

    rows = await api.divisions.leaderboard(division, recent_rounds=recent_rounds)
    try:
        board = await api.divisions.leaderboards(division) if rows else None
    except (NotFound, NotOffered):
        board = None
    views = {view.key: view for view in board.views} if board is not None else {}
    first = board.default_view_key if board is not None else None
    return rows, views.get(first or "") or next(iter(views.values()), None)


def _as_json(rows: Sequence[LeaderboardEntry], view: LeaderboardView | None) -> list[dict[str, Any]]:
    values = {line.get("subject_id"): line.get("values") for line in view.rows} if view is not None else {}
    known = ((row, values.get(row.player_id)) for row in rows)
    return [{**dump(row), **({"values": found} if found else {})} for row, found in known]


@commands.command("season-results")
@click.argument("league", type=IdType("league", names=True), metavar="LEAGUE")
@click.argument("number", required=False, type=click.IntRange(1), metavar="[NUMBER]")
@click.option("--output", "-o", type=FILE, metavar="FILE", help="Write the table as CSV or Parquet (.csv, .parquet).")
@platform_options
def season(out: Output, connection: Connection, league: str, number: int | None, output: Path | None) -> int:
    """Show a season of a league, or write it into a file.

    LEAGUE is its name or its id. Without NUMBER, it is the running season, as if it ended now.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        from ..files import write_whole

        found = await api.leagues.season(league, number)
        if output is not None:
            written = write_whole(output, found.to_bytes(output.suffix))
            out.answer({"file": str(written), "season": found.number, "rows": len(found.to_records())})
            out.say(f"{shown_path(written)}: season {found.number} of {clean(found.league, one_line=True)}.")
            return exitcodes.OK
        out.answer(dump(found))
        out.say(tables.season_details(found))
        return exitcodes.OK

    return run_api(out, connection, body, anonymous=True)


@commands.command("rounds")
@click.argument("round", required=False, type=IdType("round"), metavar="[ROUND_ID]")
@league_filter
@division_filter
@click.option("--status", metavar="STATUS", help="Only those with this status.")
@listing_options(25, offset=True, cursor=True, noun="rounds")
@platform_options
def rounds(out: Output, connection: Connection, listing: Listing, round: str | None, **filters: Any) -> int:
    """List rounds, or show one.

    Under --json a list is an object with `entries`, `total_count`, `limit`, `offset` and `next_cursor`.
    """
    if round and any(filters.values()):
        raise click.UsageError("Filters are for lists; they do not go with the id of a round.")

    async def body(api: CoworldClient, _: Running) -> int:
        if round is not None:
            return await show_one(out, api.rounds.get(round), tables.round_details)
        pager = api.rounds.list(**filters, limit=listing.limit, offset=listing.offset, cursor=listing.cursor)
        return await show_list(out, pager, tables.ROUNDS, listing, noun="round", envelope=True)

    return run_api(out, connection, body)


@commands.command("events")
@league_filter
@division_filter
@round_filter
@click.option("--event-type", metavar="TYPE", help="Only those of this type.")
@click.option("--audience", metavar="AUDIENCE", help="Only those for this audience.")
@policy_filter
@player_filter
@listing_options(50, noun="events")
@platform_options
def events(out: Output, connection: Connection, listing: Listing, **filters: Any) -> int:
    """List what happened in competitions."""

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.events.list(**filters, limit=listing.limit, cursor=listing.cursor)
        return await show_list(out, pager, tables.EVENTS, listing, noun="event")

    return run_api(out, connection, body)


@commands.group("league", cls=NounGroup)
def league() -> None:
    """Request leagues for a Coworld (for the platform's team)."""


@league.command("create")
@click.argument("name")
@published_option("--default-variant", says="whoever runs the platform chooses the variant of a league.")
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
    help="Override a setting of the template; JSON values are parsed. Repeatable.",
)
@platform_options
def create(out: Output, connection: Connection, name: str, template: str, settings: tuple[str, ...]) -> int:
    """Request a league for the Coworld NAME."""
    pairs = key_values("--set", settings)

    from ..files import json_values

    overrides = json_values(pairs)

    async def body(api: CoworldClient, _: Running) -> int:
        made = api.league_seeds.create(name, template=template, overrides=overrides or None)
        return await show_one(out, made, tables.seed_details)

    return run_api(out, connection, body, changes=True)


@league.command("list")
@platform_options
def list_(out: Output, connection: Connection) -> int:
    """List requested leagues."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_rows(out, api.league_seeds.list(), tables.SEEDS, none="No leagues were requested.")

    return run_api(out, connection, body)


@league.command("officers")
@click.argument("name", type=IdType("league", names=True), metavar="LEAGUE")
@platform_options
def officers(out: Output, connection: Connection, name: str) -> int:
    """List the people who help to run a league."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_rows(out, api.leagues.officers(name), tables.OFFICERS, none="Only operators run this league.")

    return run_api(out, connection, body)


@league.command("appoint")
@click.argument("name", type=IdType("league", names=True), metavar="LEAGUE")
@click.argument("user")
@click.argument("role", type=click.Choice(["organiser", "assistant", "none"]))
@platform_options
def appoint(
    out: Output, connection: Connection, name: str, user: str, role: Literal["organiser", "assistant", "none"]
) -> int:
    """Give USER a role in a league, or take it away with none.

    Organisers see everything of their league, retire entries and name assistants, who see everything. Operators name
    organisers, with --elevated.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_rows(
            out, api.leagues.appoint(name, user, role), tables.OFFICERS, none="Only operators run this league now."
        )

    return run_api(out, connection, body, changes=True)
