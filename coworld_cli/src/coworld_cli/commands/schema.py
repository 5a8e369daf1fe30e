"""``coworld schema``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from ..output import Output, output_options, to_json

if TYPE_CHECKING:
    from coworld_runner.documents import DocumentName

__all__ = ["command"]

_NAMES: tuple[DocumentName, ...] = ("manifest", "episode-request", "episode", "summary", "certification", "event")


@click.command("schema")
@click.argument("name", type=click.Choice(_NAMES), metavar="NAME")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it to this file instead.",
)
@output_options
def command(out: Output, name: DocumentName, output: Path | None) -> int:
    """Print the JSON Schema of a document.

    NAME is one of:

    \b
    manifest         coworld_manifest.json
    episode-request  what `coworld run-episode` takes in place of players
    episode          episode.json, the record of an episode
    summary          summary.json, several episodes
    certification    certification.json
    event            one line of events.ndjson
    """  # noqa: D301 (click reads the backspace)
    from coworld_runner.documents import document_schema

    schema = document_schema(name)
    if output is None:
        # a schema is JSON whether --json was given or not
        click.echo(to_json(schema), nl=False)
        return exitcodes.OK
    from coworld_core.errors import UsageError

    from ..text import shown_path

    try:
        output.write_text(to_json(schema), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.", code="path_unwritable") from error
    out.answer({"schema": name, "path": str(output.absolute())})
    out.say(f"Wrote {shown_path(output)}.")
    return exitcodes.OK
