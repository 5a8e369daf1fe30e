"""Playing and replaying in the browser."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import click

from coworld_core.episode import SeatedPlayer
from coworld_core.ids import new_run_id
from coworld_core.outcome import Exit
from coworld_runner.backend import Unit
from coworld_runner.episode import run_episode
from coworld_runner.events import EventBus
from coworld_runner.links import PlayLinks
from coworld_runner.plan import EpisodePlan, plan_for_people
from coworld_runner.replay import ReplayOptions, open_replay
from coworld_runner.replays import resolve_replay
from coworld_runner.workspace import point_latest

from . import exitcodes
from .browser import open_page, wants_browser
from .episodes import find_package, opened_backend, prepare, show_episode, workspace_for
from .options import BackendFlags, EpisodeFlags
from .output import Output
from .progress import Progress, show_progress
from .running import Running
from .terminal import echo
from .text import clean, shown_path, table

__all__ = ["play", "replay"]


async def play(flags: EpisodeFlags, running: Running) -> int:
    """Play one episode that people can watch and take part in."""
    out = running.out
    prepared = await prepare(flags, out)
    plan = plan_for_people(prepared.plan) if flags.human else prepared.plan
    run_id = new_run_id()
    workspace = workspace_for(flags, prepared.package, run_id)

    def ready(links: PlayLinks) -> None:
        _show(out, _links(links, plan))
        if wants_browser(flags.open_browser):
            mine = next((links.players[slot] for slot in sorted(flags.human)), links.viewer)
            running.tasks.start_soon(open_page, mine, out)

    async with opened_backend(flags, prepared.package, running) as backend:
        with show_progress(running, plan.manifest.game.name) as progress:
            record = await run_episode(
                plan,
                backend=backend,
                workspace=workspace,
                options=flags.options(watch=not out.quiet),
                overwrite=flags.overwrite,
                listeners=(progress,),
                on_ready=ready,
                run_id=run_id,
            )
    if flags.output_dir is None and record.status == "completed":
        # a play that was broken off is not what one wants to see again
        point_latest(workspace.parent, workspace)
    return show_episode(record, workspace, flags, out)


def _show(out: Output, text: str) -> None:
    """Show links, which nobody can do without: to a program on standard output, else above what moves."""
    if out.above is not None:
        out.above(text)
    else:
        echo(text, err=out.json or sys.stdout.isatty())
        sys.stdout.flush()


def _links(links: PlayLinks, plan: EpisodePlan) -> str:
    """Each link on a line of its own, so that it can be clicked and copied whole."""
    rows: list[tuple[str, str, str]] = []
    for slot, link in sorted(links.players.items()):
        seat = plan.seats[slot]
        bot = seat.runnable is not None
        rows.append(
            (
                f"Seat {slot}",
                clean(str(SeatedPlayer(name=seat.name, player_id=seat.player_id)), one_line=True)
                + (", a bot; this link takes its seat" if bot else ", for you"),
                link,
            )
        )
    rows.append(("Watch", "everybody sees this", links.viewer))
    if links.admin is not None:
        rows.append(("Admin", "for the operator", links.admin))
    rows += [(f"Port {port}", "", address) for port, address in sorted(links.local_ports.items())]
    lines: list[str] = []
    for label, about, link in rows:
        mine = about.endswith("for you")
        lines.append(f"  {click.style(label, bold=True)}  {about if mine else click.style(about, dim=True)}".rstrip())
        lines.append(f"    {click.style(link, fg='green', bold=True) if mine else link}")
    return "\n" + "\n".join(lines) + "\n"


async def replay(
    flags: BackendFlags, argument: str, running: Running, *, timeout: float, open_browser: bool | None
) -> int:
    """Show a replay until a person has seen enough."""
    out = running.out
    package = await find_package(flags, out)
    async with (
        resolve_replay(argument, timeout=timeout) as file,
        opened_backend(flags, package, running) as backend,
    ):
        progress = Progress(running)
        bus = EventBus(new_run_id(), progress)
        async with open_replay(
            package.manifest,
            file.path,
            backend=backend,
            publish=bus.publish,
            options=ReplayOptions(ready_timeout=timeout, platform=flags.platform),
            run_id=bus.run_id,
        ) as session:
            out.answer(
                {
                    "link": session.link,
                    "run_id": session.run_id,
                    "backend": backend.name,
                    "replay": file.source,
                    "local_ports": {str(port): address for port, address in session.local_ports.items()},
                }
            )
            source = shown_path(Path(file.source)) if "://" not in file.source else file.source
            out.say(
                table([("Replay:", clean(source, one_line=True)), ("Watch: ", click.style(session.link, bold=True))])
            )
            for port, address in sorted(session.local_ports.items()):
                out.say(f"Port {port}: {address}")
            sys.stdout.flush()
            out.note("Ctrl-C ends it.")
            if wants_browser(open_browser):
                running.tasks.start_soon(open_page, session.link, out)
            with running.until_interrupted() as enough:
                ended = await _end_of(session.unit, enough)
            if ended is None or ended.ok or ended.signal in (2, 9, 15) or ended.code in (130, 137, 143):
                return exitcodes.OK
            out.note(f"The game {clean(str(ended), one_line=True)} while it showed the replay.")
            for line in clean(await session.unit.log_tail()).rstrip().splitlines()[-12:]:
                out.note(f"  │ {line}")
            return exitcodes.ANSWER_IS_NO


async def _end_of(unit: Unit, enough: anyio.Event) -> Exit | None:
    """Wait for the game to end (then how it did), or for a person to have seen enough (then None)."""
    ended: list[Exit] = []

    async def game_ends(scope: anyio.CancelScope) -> None:
        ended.append(await unit.wait())
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(game_ends, group.cancel_scope)
        await enough.wait()
        group.cancel_scope.cancel()
    return ended[0] if ended else None
