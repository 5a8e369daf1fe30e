"""Labels of what is yours on a platform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api
from ..options.platform import Connection, platform_options
from ..output import Output
from ..render.rows import dump
from ..render.run_tables import labels_text

if TYPE_CHECKING:
    from coworld_client import CoworldClient

__all__ = ["commands", "warn_unlabelled"]

commands = NounGroup()


@commands.command("label")
@click.argument("thing", metavar="THING")
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE...")
@platform_options
def label(out: Output, connection: Connection, thing: str, changes: tuple[str, ...]) -> int:
    """Label what is yours on a platform.

    `NAME=` takes a label away. THING is an episode (ereq_…), an experience request (xreq_…), whose episodes have its
    labels, a Coworld (cow_…), or a policy: NAME for its newest version, NAME:vN or the id of a version. `coworld runs
    label` labels runs on this machine.
    """
    from coworld_core.records import label_changes

    wanted = label_changes(changes)

    async def body(api: CoworldClient, _: Running) -> int:
        changed = await api.labels.change(thing, wanted)
        out.answer(dump(changed))
        out.say(labels_text(changed.tags))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)


def warn_unlabelled(api: CoworldClient, out: Output, labels: Mapping[str, str], tags: Mapping[str, str] | None) -> None:
    """Warn if labels were given to a platform that keeps none."""
    if labels and tags is None:
        out.warn(f"{api.server} keeps no labels: those that were given are lost.")
