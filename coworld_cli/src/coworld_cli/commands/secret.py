"""``coworld secret``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..output import Output, output_options
from ..platform_options import Connection, connection_options

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.group("secret", cls=NounGroup)
def command() -> None:
    """Keep, list and delete the secrets of a Coworld.

    A manifest names one as secret://coworld/NAME/SECRET in an environment; nobody can read it back.
    """


@command.command("put")
@click.argument("coworld", metavar="NAME")
@click.argument("secret")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True), metavar="FILE")
@connection_options
@output_options
def put(out: Output, connection: Connection, coworld: str, secret: str, file: Path) -> int:
    """Keep the content of FILE (- for standard input) as a secret, in place of what it was before."""
    from ..platform_input import read_bytes
    from ..platform_render import dump
    from ..platform_run import run_api
    from ..text import clean, size

    content = read_bytes(file)

    async def body(api: CoworldClient, _: Running) -> int:
        kept = await api.secrets.put(coworld, secret, content)
        out.answer(dump(kept))
        out.say(clean(f"Kept {kept.secret_name} of {kept.coworld_name}, {size(kept.size_bytes or 0)}.", one_line=True))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


@command.command("list")
@click.argument("coworld", metavar="NAME")
@connection_options
@output_options
def list_(out: Output, connection: Connection, coworld: str) -> int:
    """List the secrets of a Coworld: names, sizes and owners, never values."""
    from ..platform_render import dump, rows_table
    from ..platform_run import run_api
    from ..platform_tables import SECRETS

    async def body(api: CoworldClient, _: Running) -> int:
        rows = await api.secrets.list(coworld)
        out.answer([dump(row) for row in rows])
        out.say(rows_table(SECRETS, rows) if rows else "There are no secrets.")
        return exitcodes.OK

    return run_api(out, connection, body)


@command.command("delete")
@click.argument("coworld", metavar="NAME")
@click.argument("secret")
@connection_options
@output_options
def delete(out: Output, connection: Connection, coworld: str, secret: str) -> int:
    """Delete a secret of a Coworld."""
    from ..platform_render import dump
    from ..platform_run import run_api
    from ..text import clean

    async def body(api: CoworldClient, _: Running) -> int:
        gone = await api.secrets.delete(coworld, secret)
        out.answer(dump(gone))
        out.say(clean(f"Deleted {gone.secret_name} of {gone.coworld_name}.", one_line=True))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)
