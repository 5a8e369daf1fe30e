"""Episodes that are going on, here and on a platform: list, watch and stop them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, opened_client, run_api, run_async
from ..options.common import seconds_option
from ..options.declarations import SectionCommand, first_given, refuse_options, takes
from ..options.platform import Connection, Listing, platform_options
from ..options.play_options import WhereOptions
from ..output import Output
from ..render import tables
from ..render.episode_states import change_line, episode_info_text, episode_infos_text, stopped_jobs_text
from ..render.rows import show_one
from .local_runs import PlaceOptions

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_core.controller import EpisodeController, EpisodeHandle, EpisodeInfo
    from coworld_runner.control import LocalController
    from coworld_runner.jobs import StoppedJobs

__all__ = ["commands", "list_local", "watch_hosted"]

commands = NounGroup()

_TIMEOUT = 120.0
_NO_CLUSTER = (
    *("backend", "platform", "install", "collector_image", "pull_secrets", "pods", "allow_privileged"),
    "network_policy",
)
"""What of `WhereOptions` does not say which cluster."""


def _local(places: PlaceOptions) -> LocalController:
    from coworld_runner.control import LocalController

    return LocalController(*places.root, index=places.index)


def list_local(
    out: Output,
    places: PlaceOptions,
    listing: Listing,
    *,
    states: Sequence[str],
    labels: Mapping[str, str],
    watch: bool,
) -> int:
    """List the runs of this machine, or follow them."""

    async def work(running: Running) -> int:
        async with _local(places) as controller:
            if watch:
                return await _watch(controller, running, states, labels, jsonl=listing.jsonl)
            limit = listing.limit
            found = await controller.recent(states=states, labels=labels, limit=limit + 1 if limit else None)
            shown = found[:limit]
            if listing.jsonl:
                for info in shown:
                    out.line(info.model_dump(mode="json"))
                return exitcodes.OK
            more = len(found) > len(shown)
            out.answer({"episodes": [info.model_dump(mode="json") for info in shown], "more": more})
            out.say(episode_infos_text(shown, more=more))
        return exitcodes.OK

    return run_async(out, work)


def watch_hosted(
    out: Output, connection: Connection, listing: Listing, *, states: Sequence[str], labels: Mapping[str, str]
) -> int:
    """Follow the episodes that one has requested on a platform."""

    async def body(api: CoworldClient, running: Running) -> int:
        from coworld_client import HostedController

        return await _watch(HostedController(api), running, states, labels, jsonl=listing.jsonl)

    return run_api(out, connection, body)


async def _watch(
    controller: EpisodeController, running: Running, states: Sequence[str], labels: Mapping[str, str], *, jsonl: bool
) -> int:
    """Tell each change, until a signal comes."""
    out = running.out

    async def follow() -> None:
        async for change in controller.watch(states=states, labels=labels, full=True):
            if change.info is None:
                continue
            if jsonl or out.json:
                out.line(change.info.model_dump(mode="json"))
            else:
                out.say(change_line(change.info))

    await running.until_interrupted(follow)
    return exitcodes.OK


@commands.command("stop", cls=SectionCommand)
@click.argument("run", metavar="RUN")
@click.option("--hard", is_flag=True, help="Kill the run's process, and remove what it leaves.")
@seconds_option("--wait", _TIMEOUT, "Maximum time to wait until it has ended.")
@takes("places", PlaceOptions)
@takes("where", WhereOptions, without=_NO_CLUSTER)
@platform_options
def stop(
    out: Output, connection: Connection, places: PlaceOptions, where: WhereOptions, run: str, hard: bool, wait: float
) -> int:
    """Stop a run here or on a cluster, or cancel one on a platform.

    RUN is the directory of a run, `latest`, or the beginning of a run's id. Any process of yours may have started it:
    that process is asked to stop, as by Ctrl-C, and keeps what it has. With --hard, it is killed.

    RUN can also be the --store with which pods of a cluster play, or with --namespace the label of such a run there, or
    one of its Jobs: it is ended at once, whoever drives it. What was played is in the store, and the same command goes
    on from there.

    RUN can also be an episode (ereq_…) or an experience request (xreq_…) of a platform, which is cancelled. What has
    begun there comes to its end. A game for people that you have started (cps_…) is ended at once, and nothing of it is
    kept.

    The exit status is 1 if it has not ended in time.
    """
    from coworld_runner.jobs import is_stored

    if is_stored(run) or first_given({"context", "namespace", "kubeconfig"}):
        refuse_options({"root", "index", "hard", "wait"}, "is for runs on this machine.")
        return _stop_jobs(out, run, where)
    if run.startswith(("xreq_", "ereq_", "cps_")):
        refuse_options({"root", "index"}, "is for runs on this machine.")
    else:
        connection.refuse("is for episodes of a platform, and RUN is on this machine.")
    if run.startswith("xreq_"):
        refuse_options({"hard"}, "is for runs on this machine.")
        refuse_options({"wait"}, "is for a run or an episode: a request is cancelled at once.")

        async def cancel(api: CoworldClient, _: Running) -> int:
            return await show_one(out, api.experience.cancel(run), tables.experience_details)

        return run_api(out, connection, cancel, changes=True)

    async def work(running: Running) -> int:
        running.so_far = ""
        if run.startswith(("ereq_", "cps_")):
            from coworld_client import HostedController

            async with opened_client(connection) as api:
                return await _stopped(await HostedController(api).episode(run), running, hard=hard, wait=wait)
        async with _local(places) as controller:
            return await _stopped(await controller.episode(run), running, hard=hard, wait=wait)

    return run_async(out, work)


def _stop_jobs(out: Output, run: str, where: WhereOptions) -> int:
    """End a run that pods of a cluster play."""

    async def end(_: Running) -> StoppedJobs:
        from coworld_runner.jobs import stop_jobs

        return await stop_jobs(run, cluster=where.cluster())

    ended = run_async(out, end)
    out.answer({"ended": True, **asdict(ended)})
    out.say(stopped_jobs_text(ended))
    return exitcodes.OK


async def _stopped(episode: EpisodeHandle, running: Running, *, hard: bool, wait: float) -> int:
    import anyio

    out = running.out
    await episode.terminate(hard=hard)
    info: EpisodeInfo | None = None
    with anyio.move_on_after(wait):
        info = await episode.result()
    ended = info is not None
    info = info or await episode.info()
    out.answer({"ended": ended, "episode": info.model_dump(mode="json")})
    out.say(episode_info_text(info))
    if not ended:
        out.note(f"It has not ended within {wait:g} s; --hard kills a run on this machine.")
    return exitcodes.OK if ended else exitcodes.ANSWER_IS_NO
