"""``coworld submit``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from ..browser import open_page, wants_browser
from ..options import browser_option
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type, policy_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_core.api import AutoChampion

    from ..running import Running

__all__ = ["command"]


@click.command("submit")
@click.argument("policy", type=policy_type(), metavar="POLICY")
@click.option("--league", "-l", required=True, type=id_type("league"), metavar="LEAGUE_ID", help="Where to.")
@click.option(
    "--auto-champion",
    type=click.Choice(["always", "never", "lineage"]),
    default="always",
    show_default=True,
    help="Whether it becomes your champion in the league.",
)
@browser_option
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    policy: str,
    league: str,
    auto_champion: AutoChampion,
    open_browser: bool | None,
) -> int:
    """Submit a policy to a league.

    POLICY is NAME (its newest version), NAME:N, NAME:vN or the id of a version. It must be yours.
    """
    from ..platform_render import dump
    from ..platform_run import find_version, run_api
    from ..platform_tables import submission_details

    async def body(api: CoworldClient, _: Running) -> int:
        version = await find_version(api, policy)
        made = await api.submissions.create(league, version, auto_champion=auto_champion)
        page = api.web_url(f"/observatory/v2#tab=uploads&detail=policy-version:{version.id}")
        out.answer({**dump(made), "policy_version_id": version.id, "page": page})
        out.say(submission_details(made, policy=policy, league=league, auto_champion=auto_champion, page=page))
        if wants_browser(open_browser):
            await open_page(page, out)
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)
