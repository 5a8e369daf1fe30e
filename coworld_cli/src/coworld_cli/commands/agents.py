"""What is in a folder, as tools for agents."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..options.declarations import refuse_options
from ..options.values import DIRECTORY
from ..output import Output, output_options
from ..pages import read_pages
from ..standard_input import with_piped_input

__all__ = ["commands"]

commands = NounGroup()


@commands.command("mcp")
@click.option(
    "--root",
    type=DIRECTORY,
    default=".",
    metavar="DIR",
    help="The folder that tools are limited to.  [default: the current directory]",
)
@click.option("--allow", is_flag=True, help="Offer tools that remove something, too.")
@click.option("--http", is_flag=True, help="Serve by HTTP on this machine, to whoever has the token that is shown.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port, with --http.  [default: any]"
)
@output_options
def mcp(out: Output, root: Path, allow: bool, http: bool, port: int) -> int:
    """Offer what is in a folder as tools to agents.

    By the Model Context Protocol, an agent finds, validates and plays Coworlds, reads runs and logs, compares players,
    verifies and forks episodes, and reads the documentation. No tool reads or writes outside the folder; but games and
    players that are played are programs, and may do what you may. A host of agents starts this command and talks to it
    on stdin and stdout.
    """
    if not http:
        refuse_options({"port"}, "goes with --http.")

    pages = {name: page.text for name, page in read_pages().items()}

    async def work(running: Running) -> int:
        from coworld_runner.agent_tools import open_http_tools, serve_tools

        if not http:
            serve = partial(serve_tools, root, pages=pages, allow=allow)
            await running.until_interrupted(lambda: with_piped_input(serve))
            return exitcodes.OK
        from anyio import sleep_forever

        async with open_http_tools(root, port=port, pages=pages, allow=allow) as served:
            out.answer({"address": served.address, "token": served.token})
            out.say(f"{served.address}\nAuthorization: Bearer {served.token}")
            out.note("Anyone who has this token can use the tools. Ctrl-C ends it.")
            await running.until_interrupted(sleep_forever)
        return exitcodes.OK

    return run_async(out, work)
