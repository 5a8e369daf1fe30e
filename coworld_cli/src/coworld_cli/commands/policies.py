"""Policies: your versions and their files; and policies in leagues: submissions and memberships."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api
from ..options.common import browser_option
from ..options.platform import (
    Connection,
    Listing,
    division_filter,
    label_filter,
    league_filter,
    listing_options,
    mine_filter,
    platform_options,
    player_filter,
    policy_filter,
)
from ..options.values import DIRECTORY, IdType, PolicyType, key_values
from ..output import Output
from ..render import tables
from ..render.rows import dump, rows_table, show_list, show_one

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from coworld_client import CoworldClient
    from coworld_core.api import AutoChampion

__all__ = ["commands"]

commands = NounGroup()


@commands.group("policies", cls=NounGroup)
def policies() -> None:
    """List your policies, and download their files.

    A policy is a player that you have uploaded. `coworld registry` keeps players on this machine, and `coworld
    memberships --mine` lists policies that are in leagues.
    """


@policies.command("list")
@click.argument("name", required=False)
@label_filter
@listing_options(None, noun="versions", cursor=False)
@platform_options
def list_(out: Output, connection: Connection, listing: Listing, name: str | None, labels: dict[str, str]) -> int:
    """List the versions of your policies, or of the policy NAME, the newest first.

    `coworld memberships --mine` lists those that are in leagues.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.policies.list(name=name, labels=labels, limit=listing.limit)
        return await show_list(out, pager, tables.POLICY_VERSIONS, listing, noun="version")

    return run_api(out, connection, body)


@policies.command("download")
@click.argument("policy", type=PolicyType(), metavar="POLICY")
@click.option("--output", "-o", type=DIRECTORY, required=True, metavar="DIR", help="Where to put its files.")
@platform_options
def download(out: Output, connection: Connection, policy: str, output: Path) -> int:
    """Download the files of a policy of yours, as they were uploaded.

    POLICY is NAME (its newest version), NAME:N or NAME:vN. Files are checked, and nothing is overwritten. A policy that
    is an image has none, and only some platforms give files out.
    """
    from ..render.text import clean, shown_path
    from ..render.transfers import shown_progress

    async def body(api: CoworldClient, _: Running) -> int:
        row = await api.policies.lookup(policy)
        with shown_progress(out, row.label) as told:
            path = await api.policies.download(row, output, on_progress=told)
        out.answer({**dump(row), "path": str(path)})
        out.say(f"{clean(row.label, one_line=True)}: {shown_path(path)}")
        return exitcodes.OK

    return run_api(out, connection, body)


@commands.command("memberships")
@league_filter
@division_filter
@policy_filter
@player_filter
@mine_filter
@click.option("--active-only", is_flag=True, help="Only competing ones.")
@click.option("--champions-only", is_flag=True, help="Only those nominated by their owners.")
@listing_options(None, noun="memberships")
@platform_options
def memberships(out: Output, connection: Connection, listing: Listing, **filters: Any) -> int:
    """List the policies that are in leagues."""

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.memberships.list(**filters, limit=listing.limit, cursor=listing.cursor)
        return await show_list(out, pager, tables.MEMBERSHIPS, listing, noun="membership")

    return run_api(out, connection, body)


@commands.command("submissions")
@league_filter
@policy_filter
@player_filter
@mine_filter
@listing_options(None, noun="submissions")
@platform_options
def submissions(out: Output, connection: Connection, listing: Listing, **filters: Any) -> int:
    """List submissions of policies to leagues."""

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.submissions.list(**filters, limit=listing.limit, cursor=listing.cursor)
        return await show_list(out, pager, tables.SUBMISSIONS, listing, noun="submission")

    return run_api(out, connection, body)


@commands.command("submit")
@click.argument("policy", type=PolicyType(), metavar="POLICY")
@click.option(
    "--league",
    "-l",
    required=True,
    type=IdType("league", names=True),
    metavar="LEAGUE",
    help="The league: its name or its id.",
)
@click.option(
    "--auto-champion",
    type=click.Choice(["always", "never", "lineage"]),
    default="always",
    show_default=True,
    help="Whether it becomes your champion in the league.",
)
@click.option(
    "--player", type=IdType("player", names=True), metavar="PLAYER", help="Submit as this player of yours: name or id."
)
@click.option("--preference", multiple=True, metavar="KEY=VALUE", help="A preference for the league; repeatable.")
@browser_option
@platform_options
def submit(
    out: Output,
    connection: Connection,
    policy: str,
    league: str,
    auto_champion: AutoChampion,
    player: str | None,
    preference: tuple[str, ...],
    open_browser: bool | None,
) -> int:
    """Submit a policy to a league.

    POLICY is NAME (its newest version), NAME:N, NAME:vN or the id of a version. It must be yours.
    """
    pairs = key_values("--preference", preference)

    async def body(api: CoworldClient, _: Running) -> int:
        from coworld_core.api import PolicyRef

        from ..files import json_values

        where = await api.leagues.id_of(league)
        ref = PolicyRef.parse(policy)
        version = ref.id or (await api.policies.lookup(ref)).id
        return await submit_version(
            api,
            out,
            version,
            where,
            policy=policy,
            auto_champion=auto_champion,
            player=player,
            preferences=json_values(pairs) or None,
            open_browser=open_browser,
        )

    return run_api(out, connection, body, changes=True)


async def submit_version(
    api: CoworldClient,
    out: Output,
    version: str,
    league: str,
    *,
    policy: str,
    auto_champion: AutoChampion = "always",
    player: str | None = None,
    preferences: Mapping[str, Any] | None = None,
    open_browser: bool | None = False,
    also: Mapping[str, Any] | None = None,
) -> int:
    """Submit a policy version to a league and report the outcome; `also` is added to the answer under `--json`."""
    from coworld_core.api import PolicyRef

    from ..browser import open_page, wants_browser

    made = await api.submissions.create(
        league, PolicyRef(id=version), auto_champion=auto_champion, player=player, preferences=preferences
    )
    page = api.web_url(f"/observatory/v2#tab=uploads&detail=policy-version:{version}")
    submitted = {**dump(made), "policy_version_id": version, "page": page}
    out.answer({**also, "submission": submitted} if also is not None else submitted)
    out.say(tables.submission_details(made, policy=policy, league=league, auto_champion=auto_champion, page=page))
    if wants_browser(open_browser):
        await open_page(page, out)
    return exitcodes.OK


@commands.command("champion")
@click.argument("policy", type=IdType("membership", names=True), metavar="POLICY | LPM_ID")
@league_filter
@platform_options
def champion(out: Output, connection: Connection, policy: str, league: str | None) -> int:
    """Nominate one of your policies in a league as your champion.

    Champions play the league's rounds. POLICY is NAME, NAME:N, NAME:vN or the id of a version; --league is needed if it
    is in several leagues. LPM_ID is the id of a membership.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        nominated = api.memberships.nominate(policy, league=league)
        return await show_one(out, nominated, lambda row: rows_table(tables.MEMBERSHIPS, [row]))

    return run_api(out, connection, body, changes=True)


@commands.command("retire-membership")
@click.argument("policy", type=IdType("membership", names=True), metavar="POLICY | LPM_ID")
@league_filter
@click.option("--reason", metavar="TEXT", help="The reason, for later readers.")
@platform_options
def retire_membership(out: Output, connection: Connection, policy: str, league: str | None, reason: str | None) -> int:
    """Take a policy out of its league.

    POLICY is NAME, NAME:N, NAME:vN or the id of a version; --league is needed if it is in several leagues. LPM_ID is
    the id of a membership.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        retired = api.memberships.retire(policy, league=league, reason=reason)
        return await show_one(out, retired, lambda row: rows_table(tables.MEMBERSHIPS, [row]))

    return run_api(out, connection, body, changes=True)
