"""Replays on this machine and on a platform: listing, downloading and showing them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coworld_core import time_limits
from coworld_core.text import plural

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api, run_async
from ..options.common import browser_option, concurrency_option, in_terminal_option, overwrite_option, seconds_option
from ..options.declarations import refuse_options, takes
from ..options.platform import (
    Connection,
    Listing,
    division_filter,
    league_filter,
    listing_options,
    mine_filter,
    platform_options,
    policy_filter,
    round_filter,
)
from ..options.play_options import PackageOptions, WhereOptions
from ..options.values import DIRECTORY, FILE, IdType
from ..output import Output, output_options
from ..render.rows import rows_table
from ..render.tables import REPLAYS
from ..render.text import clean, command_line, shown_path, table
from ..render.transfers import shown_progress
from .forks import seat_option

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from coworld_client import AsyncPager, CoworldClient
    from coworld_client.transfers import EvidenceKind
    from coworld_core.api import EpisodeRequest
    from coworld_runner.replay import ShownReplay

__all__ = ["commands"]

commands = NounGroup()

_shown_within = seconds_option(
    "--timeout-seconds", time_limits.REPLAY_SHOWN, "Time to fetch the replay, and for the game to show it."
)


@commands.command("replay")
@takes("options", PackageOptions, manifest={"required": False, "default": "", "metavar": "[MANIFEST"})
@click.argument("replay", required=False, metavar="[REPLAY]]")
@click.option(
    "--html", type=FILE, metavar="FILE", help="Write it as a single page that opens without the game or a network."
)
@click.option(
    "--output",
    "-o",
    type=FILE,
    metavar="FILE",
    help="Write it as a picture (.png) or a film (.gif or .mp4), which a headless browser makes.",
)
@overwrite_option
@click.option(
    "--chances",
    is_flag=True,
    help="With --html: show what each seat could expect, and its costliest moves, by continuing the game.",
)
@seconds_option("--seconds", 20.0, "Time for continuations.")
@seat_option
@click.option(
    "--show",
    is_flag=True,
    help="Show all replays of a directory one after the other, for the screen of a hall.",
)
@click.option(
    "--at",
    type=click.IntRange(min=0),
    metavar="TICK",
    help="Open it at this tick, if its page can, as those of the kit; the tick of a picture.",
)
@_shown_within
@browser_option
@in_terminal_option
@click.option(
    "--speed",
    type=click.FloatRange(min=0.1, max=60),
    metavar="N",
    help="Ticks a second, in the terminal or in a film.  [default: 5; more if a film would take over a minute]",
)
@output_options
def replay(
    out: Output,
    options: PackageOptions,
    replay: str | None,
    html: Path | None,
    output: Path | None,
    overwrite: bool,
    chances: bool,
    seconds: float,
    seats: tuple[tuple[int, str], ...],
    show: bool,
    at: int | None,
    timeout_seconds: float,
    open_browser: bool | None,
    in_terminal: bool,
    speed: float | None,
) -> int:
    """Show a replay in the browser or terminal, or film it.

    The browser shows it until Ctrl-C.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. REPLAY is a file, a
    bundle, the directory of an episode, RUN/N for the Nth of a run of several, or a file://, http(s):// or s3://
    address; gzip and zlib are unpacked. REPLAY defaults to the last one of the package; without both arguments, it is
    the last one at or below the current directory. The directory of an episode is enough, too, as it says which game
    played it. If the game has a static replay viewer that is built, the viewer shows it, and the game itself does not
    run.

    With --show, the directory is the last argument: the results of a package, or any other that holds episodes; after
    MANIFEST, it may also hold files that are replays of that game. What arrives there is shown, too.

    With --chances, the players of the episode, or those that are named with --seat, go on from many of its ticks with
    other chance, as with fork.

    Pictures and films need Chromium, Chrome or Edge, and `pip install "coworld-runner[film]"`; an .mp4 also ffmpeg.
    """
    if output is not None and (html is not None or open_browser or in_terminal):
        raise click.UsageError("--output excludes --html, --open-browser and --in-terminal.")
    if output is None:
        refuse_options({"overwrite"}, "goes with --output.")
    if html is None or not chances:
        refuse_options({"chances"}, "goes with --html.")
        refuse_options({"seconds", "seats"}, "goes with --chances.")
    if show:
        if html is not None or output is not None or in_terminal:
            raise click.UsageError("--show excludes --html, --output and --in-terminal.")
        refuse_options({"at", "speed"}, "does not go with --show.")
        return run_async(out, lambda running: _all(options, replay, running, timeout_seconds, open_browser))
    if html is not None and open_browser:
        raise click.UsageError(
            "--html and --open-browser exclude each other: one writes a file, the other shows a running game."
        )
    if in_terminal:
        if html is not None or open_browser:
            raise click.UsageError("--in-terminal excludes --html and --open-browser.", click.get_current_context())
        refuse_options({"at"}, "is for the browser: it does not go with --in-terminal.")
        return run_async(out, lambda running: _in_terminal(options, replay, running, timeout_seconds, speed or 5.0))
    if output is not None:
        from ..files import target_file

        target = target_file(output, "", overwrite=overwrite)
        return run_async(
            out,
            lambda running: _film(options, replay, running, target, timeout=timeout_seconds, at=at, speed=speed),
        )
    refuse_options({"speed"}, "goes with --in-terminal or --output.")
    return run_async(
        out,
        lambda running: _show(
            options,
            replay,
            running,
            timeout=timeout_seconds,
            open_browser=open_browser,
            html=html,
            at=at,
            chances={"seconds": seconds, "players": dict(seats)} if chances else None,
        ),
    )


async def _show(
    options: PackageOptions,
    replay: str | PathLike[str] | None,
    running: Running,
    *,
    timeout: float,
    open_browser: bool | None,
    html: Path | None = None,
    at: int | None = None,
    chances: Mapping[str, Any] | None = None,
) -> int:
    """Show a replay until the user stops it, or write it as a single page."""
    from coworld_runner import open_replay
    from coworld_runner.package import find_bundle
    from coworld_runner.replay import ReplayOptions, find_replay, last_of

    from ..browser import open_page, wants_browser
    from ..files import write_whole
    from ..render.progress import Progress
    from ..run_preparation import find_package, opened_backend, unit_status

    out = running.out
    manifest, replay = find_replay(options.manifest, replay)
    options = options.but(manifest=manifest)
    package = await find_package(options, running)
    viewer = find_bundle(package)
    if viewer is not None and not viewer.is_dir():
        out.note(f"Its replay viewer is not built ({shown_path(viewer)}), so the game itself shows the replay.")
    async with open_replay(
        package,
        replay,
        backend=opened_backend(options, package, running),
        options=ReplayOptions(ready_timeout=timeout, platform=options.platform),
        listeners=(Progress(running),),
        at=at,
    ) as shown:
        if at is not None and shown.viewer is not None:
            out.note("Its static viewer shows the replay from the start: --at is for pages of games.")
        if html is not None:
            report = None
            if chances is not None:
                from coworld_runner.evaluation import run_chances

                from ..render.forks import chances_text

                found = replay if replay is not None else last_of(package)
                report = await run_chances(found, game=package, tell=out.counted("continuations"), **chances)
                out.say(chances_text(report))
            told = [{"type": "chances", **report.model_dump(mode="json")}] if report is not None else []
            target = write_whole(html, (await shown.page(told=told)).html.encode())
            # The page takes the tick where the running game's takes it
            link = f"{target.as_uri()}{''.join(shown.link.partition('#')[1:])}"
            answer: dict[str, object] = {"html": str(target), "link": link, "replay": shown.replay.source}
            out.answer(answer if report is None else {**answer, "chances": report.model_dump(mode="json")})
            out.say(f"Wrote {shown_path(target)}: it opens in any browser, without a network.")
            if at is not None:
                out.say(f"Watch it:  {click.style(link, bold=True)}")
            return exitcodes.OK
        _say_where(shown, out)
        if wants_browser(open_browser):
            running.tasks.start_soon(open_page, shown.link, out)
        ended = await running.until_interrupted(shown.wait)
        if shown.game is None:
            return exitcodes.OK
        return await unit_status(ended, shown.game.unit, out, doing="showed the replay")


async def _all(
    options: PackageOptions, directory: str | None, running: Running, timeout: float, open_browser: bool | None
) -> int:
    """Show the replays of a directory until the user stops it."""
    import anyio

    from coworld_runner.replay import ReplayOptions, open_show

    from ..browser import open_page, wants_browser

    out = running.out
    options.refuse_cluster(("auto",))
    async with open_show(
        directory or options.manifest or ".",
        options.manifest if directory else "",
        backend=options.backend,
        options=ReplayOptions(ready_timeout=timeout, platform=options.platform),
        tell=lambda name, why: out.note(f"Left out {clean(name, one_line=True)}: {clean(why, one_line=True)}"),
    ) as show:
        out.answer({"link": show.link, "replays": show.count})
        out.say(f"{plural(show.count, 'replay')}. Watch:  {click.style(show.link, bold=True)}")
        out.note("Ctrl-C ends it.")
        if wants_browser(open_browser):
            running.tasks.start_soon(open_page, show.link, out)
        await running.until_interrupted(anyio.sleep_forever)
    return exitcodes.OK


async def _film(
    options: PackageOptions,
    replay: str | PathLike[str] | None,
    running: Running,
    target: Path,
    *,
    timeout: float,
    at: int | None,
    speed: float | None,
) -> int:
    """Write a replay as a picture or a film."""
    from coworld_runner import open_replay
    from coworld_runner.replay import ReplayOptions, check_film, film_replay, find_replay

    from ..run_preparation import find_package, opened_backend

    out = running.out
    check_film(target)
    manifest, replay = find_replay(options.manifest, replay)
    options = options.but(manifest=manifest)
    package = await find_package(options, running)
    async with open_replay(
        package,
        replay,
        backend=opened_backend(options, package, running),
        options=ReplayOptions(ready_timeout=timeout, platform=options.platform),
    ) as shown:
        with shown_progress(out, "frames", amount=str) as tell:
            film = await film_replay(shown, target, at=at, per_second=speed, progress=tell)
    size = f"{plural(film.frames, 'frame')}, {film.seconds:g} s" if film.seconds else "a picture"
    out.answer({"output": str(target), "frames": film.frames, "seconds": film.seconds, "replay": shown.replay.source})
    out.say(f"Wrote {shown_path(target)}: {size}.")
    return exitcodes.OK


def _say_where(shown: ShownReplay, out: Output) -> None:
    """Print the link of a replay."""
    source, game = shown.replay.source, shown.game
    ports = {str(port): address for port, address in game.local_ports.items()} if game is not None else {}
    answer: dict[str, object] = {"link": shown.link}
    if shown.viewer is not None:
        answer |= {"viewer": str(shown.viewer.directory), "replay": source}
    if game is not None:
        answer |= {"run_id": game.run_id, "backend": game.backend, "replay": source, "local_ports": ports}
    out.answer(answer)
    where = shown_path(source) if "://" not in source else clean(source, one_line=True)
    out.say(table([("Replay:", where), ("Watch: ", click.style(shown.link, bold=True))]))
    for port, address in sorted(ports.items()):
        out.say(f"Port {port}: {address}")
    out.note("Ctrl-C ends it.")


async def _in_terminal(
    options: PackageOptions, replay: str | None, running: Running, timeout: float, speed: float
) -> int:
    """Show a replay in the terminal."""
    from coworld_runner.replay import find_replay, last_of, open_seat_texts, resolve_replay

    from ..run_preparation import find_package
    from ..terminal_view import show_replay

    manifest, found = find_replay(options.manifest, replay)
    package = await find_package(options.but(manifest=manifest), running)

    async def show() -> Mapping[str, Any]:
        async with (
            resolve_replay(found or last_of(package), timeout=timeout) as file,
            open_seat_texts(package, file.path) as text,
        ):
            return await show_replay(running.out, file.path, package.manifest.game.name, per_second=speed, text=text)

    shown = await running.until_interrupted(show)
    running.out.answer(shown if shown is not None else {"interrupted": True})
    return exitcodes.OK


# --- on a platform ------------------------------------------------------------------------------------------------


@commands.command("replays")
@league_filter
@division_filter
@round_filter
@policy_filter
@mine_filter
@click.option(
    "--download-dir", "-o", type=DIRECTORY, metavar="DIR", help="Download them into this directory, with an index.json."
)
@concurrency_option("downloads")
@listing_options(1000, offset=True, noun="replays")
@platform_options
def replays(
    out: Output,
    connection: Connection,
    listing: Listing,
    download_dir: Path | None,
    concurrency: int,
    **filters: Any,
) -> int:
    """List replays, or download them.

    Replays are saved as EREQ_ID.replay, exactly as the game wrote them. Existing files are not fetched again. If one
    fails, the others go on, and the exit status is 1.
    """
    if download_dir is not None and listing.jsonl:
        raise click.UsageError("--jsonl is for lists; a download writes index.json, and --json prints it.")

    async def body(api: CoworldClient, running: Running) -> int:
        pager = api.episodes.list(
            **filters, with_replay=True, limit=listing.limit, offset=listing.offset, cursor=listing.cursor
        )
        if download_dir is None:
            return await _list(pager, listing, out)
        return await _download(api, pager, download_dir, running, concurrency=concurrency)

    return run_api(out, connection, body)


async def _list(pager: AsyncPager[EpisodeRequest], listing: Listing, out: Output) -> int:
    """List the episodes that have a replay, and the command that shows each."""
    from coworld_client.transfers import replay_entry

    rows: list[EpisodeRequest] = []
    more = False
    async for page in pager.pages():
        more = page.has_more
        if listing.jsonl:
            for row in page.items:
                out.line(replay_entry(row))
        rows += page.items
    if not listing.jsonl:
        out.answer([replay_entry(row) for row in rows])
        shown = [(row, command_line("replay-open", row.id)) for row in rows]
        out.say(rows_table(REPLAYS, shown) if rows else "There are no replays.")
    if more:
        out.note(f"{plural(len(rows), 'replay')} shown; --all lists all of them.")
    return exitcodes.OK


async def _download(
    api: CoworldClient, pager: AsyncPager[EpisodeRequest], directory: Path, running: Running, *, concurrency: int
) -> int:
    """Fetch replays, and say where they and their index are."""
    from coworld_client.transfers import INDEX_NAME, collect_replays, new_directory, replay_entry

    out = running.out
    root = new_directory(directory)
    running.resumable()
    running.evidence = str(root)
    found = await collect_replays(
        api,
        await pager,
        directory,
        concurrency=concurrency,
        on_fetched=lambda row, there, total: out.note(f"{row.id}: {there} of {total}"),
    )
    have = [item for item in found if item.path is not None]
    failed = [item for item in found if item.error is not None]
    out.answer([replay_entry(item.episode, directory / item.path.name) for item in have if item.path is not None])
    out.say(f"{plural(len(have), 'replay')} in {shown_path(root)}, listed in {shown_path(root / INDEX_NAME)}.")
    for item in failed:
        out.note(f"Could not fetch {item.episode.id}: {clean(str(item.error), one_line=True)}")
    if failed:
        out.note("Repeat the command to try those again.")
    return exitcodes.ANSWER_IS_NO if failed else exitcodes.OK


@commands.command("replay-open")
@click.argument("episode", type=IdType("episode request"), metavar="EREQ_ID")
@click.option("--hosted", is_flag=True, help="Show it on the platform instead of this machine.")
@_shown_within
@click.option("--with-artifacts", is_flag=True, help="Also download the files that players left.")
@click.option(
    "--artifacts-dir", type=DIRECTORY, metavar="DIR", help="Directory to write to.  [default: ./EREQ_ID-artifacts]"
)
@click.option("--mine", is_flag=True, help="With --with-artifacts: only those of your players.")
@browser_option
@takes("where", WhereOptions)
@platform_options
def replay_open(
    out: Output,
    connection: Connection,
    where: WhereOptions,
    episode: str,
    hosted: bool,
    timeout_seconds: float,
    with_artifacts: bool,
    artifacts_dir: Path | None,
    mine: bool,
    open_browser: bool | None,
) -> int:
    """Show an episode's replay in the browser.

    The Coworld is downloaded if necessary, its game is started in replay mode, and the page is shown until Ctrl-C.
    With --hosted, the platform shows the replay, and only its address is printed.
    """
    if (artifacts_dir is not None or mine) and not with_artifacts:
        raise click.UsageError("--artifacts-dir and --mine need --with-artifacts.")

    async def body(api: CoworldClient, running: Running) -> int:
        row = await api.episodes.get(episode)
        if with_artifacts:
            from .episode_requests import show_collected

            seats = await api.episodes.agent_logs(row, mine=mine)
            wanted: list[tuple[EvidenceKind, int]] = [
                ("artifact", seat.position) for seat in seats if seat.has_artifact is not False
            ]
            directory = artifacts_dir or Path(f"{episode}-artifacts")
            await show_collected(api, row, wanted, directory, running, prefix="", answer=False)
        if hosted:
            return await _hosted(api, row, out, timeout=timeout_seconds, open_browser=open_browser)

        from coworld_client.resources import replay_coworld
        from coworld_runner.runs import open_scratch

        running.resumable()
        manifest = (await api.coworlds.download(replay_coworld(row))).manifest
        async with open_scratch() as scratch:
            file = scratch.directory("replay") / f"{episode}.replay"
            with shown_progress(out, "replay") as tell:
                await api.episodes.download_replay(row, file, on_progress=tell)
            running.so_far, running.to_go_on = "", None
            options = PackageOptions.at(where, manifest=str(manifest), server=connection.server)
            return await _show(options, str(file), running, timeout=timeout_seconds, open_browser=open_browser)

    return run_api(out, connection, body)


async def _hosted(
    api: CoworldClient, row: EpisodeRequest, out: Output, *, timeout: float, open_browser: bool | None
) -> int:
    from ..browser import open_page, wants_browser

    session = await api.hosted.replay_session(row, timeout=timeout)
    out.answer({"episode_request_id": row.id, "viewer_url": session.viewer_url, "ready": session.ready})
    out.say(f"Watch:  {click.style(clean(session.viewer_url, one_line=True), bold=True)}")
    # A browser would also open files, and start programs for other schemes
    if wants_browser(open_browser) and session.viewer_url.startswith(("https://", "http://")):
        await open_page(session.viewer_url, out)
    return exitcodes.OK
