"""The bundle of an episode: what it has left, as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from coworld_core.text import shown_size

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api, run_async
from ..options.common import overwrite_option
from ..options.platform import Connection, include_option, platform_options
from ..options.values import FILE
from ..output import Output
from ..render.text import clean, shown_path, table
from ..render.transfers import shown_progress

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_core.api import BundlePart
    from coworld_core.roles import Bundle

__all__ = ["commands"]

commands = NounGroup()


@commands.command("bundle")
@click.argument("run")
@include_option
@click.option(
    "--slot",
    "slots",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Include players' logs and artifacts only of this slot; repeatable.",
)
@click.option("--output", "-o", type=FILE, metavar="FILE", help="File to write.  [default: ./ID.zip]")
@overwrite_option
@platform_options
def bundle(
    out: Output,
    connection: Connection,
    run: str,
    include: tuple[BundlePart, ...],
    slots: tuple[int, ...],
    output: Path | None,
    overwrite: bool,
) -> int:
    """Pack what an episode has left into one file.

    RUN is the directory of an episode; RUN/N, the Nth of a run of several, or RUN/KEY; latest, the last one at or below
    the current directory; another bundle; or an ereq_… id, whose bundle is downloaded. The file is a zip whose
    manifest.json lists the contents: results, replay, logs, what players left, and the error if there was one. Parts
    that there are not are left out. The episode must have ended.
    """
    from ..files import platform_episode

    episode = platform_episode(run)
    if episode is None:
        connection.refuse("is for episodes of a platform, and RUN is on this machine.")
        return run_async(out, lambda _: _local(run, include, slots, output, out, overwrite=overwrite))

    async def download(api: CoworldClient, running: Running) -> int:
        from coworld_runner.roles import bundle_episode

        from ..files import target_file

        target = target_file(output, f"{episode}.zip", overwrite=overwrite)
        running.resumable()
        with shown_progress(out, target.name) as tell:
            await api.episodes.download_bundle(episode, target, include=include or None, on_progress=tell)
        # Checked, and without the slots that were not asked for
        return _show(await bundle_episode(target, target, slots=slots or None), out)

    return run_api(out, connection, download)


async def _local(
    run: str,
    include: tuple[BundlePart, ...],
    slots: tuple[int, ...],
    output: Path | None,
    out: Output,
    *,
    overwrite: bool,
) -> int:
    import anyio.to_thread

    from coworld_runner.roles import bundle_episode, read_episode

    from ..files import target_file

    episode = await anyio.to_thread.run_sync(read_episode, run)
    target = target_file(output, f"{episode.id}.zip", overwrite=overwrite)
    return _show(await bundle_episode(episode, target, include=include or None, slots=slots or None), out)


def _show(bundle: Bundle, out: Output) -> int:
    """Say what is in a bundle."""
    size = bundle.path.stat().st_size
    out.answer(
        {
            "path": str(bundle.path),
            "size": size,
            "episode_id": bundle.episode_id,
            "status": bundle.status,
            "include": bundle.manifest["include"],
            "files": [
                {"part": file.token, "key": file.key, "entry": file.entry, "size": file.size} for file in bundle.files
            ],
        }
    )
    if bundle.files:
        rows = [(clean(file.entry, one_line=True), shown_size(file.size)) for file in bundle.files]
        out.say(table(rows, right=(1,), indent="  "))
    else:
        out.note("Nothing of what was asked for is there, so there is only a manifest in it.")
    words = {"success": "an episode that counts", "failed": "an episode that failed"}.get(bundle.status, "an episode")
    out.say(f"Wrote {shown_path(bundle.path)}, {shown_size(size)}: {words}.")
    return exitcodes.OK
