"""What supporting roles say about episodes that have ended: grades, reports and diagnoses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, opened_client, run_async
from ..options.common import seconds_option
from ..options.declarations import SectionOption, first_given, option, takes
from ..options.platform import Connection, server_field
from ..options.play_options import WhereOptions
from ..options.values import PathType
from ..output import Output, output_options
from ..platform_roles import hosted_episodes, opened_roles
from ..render.text import clean
from ..render.transfers import shown_progress

if TYPE_CHECKING:
    from coworld_core.roles import Role
    from coworld_runner.roles import Grades, RoleAnswer, RoleArguments, RoleProgram

__all__ = ["commands", "fetched_bundles"]

commands = NounGroup()


class RoleRunOptions(WhereOptions):
    """Which package, and how its program is run."""

    game: str | None = option(
        "--game",
        "-m",
        section="What to play",
        metavar="MANIFEST",
        help="The game.  [default: the one that the episode's record names; for an ereq_… id, it is downloaded]",
    )
    server: str | None = server_field("Platform that an ereq_… id is of.")
    run: tuple[str, ...] = option(
        "--run",
        section="What to play",
        multiple=True,
        metavar="WORD",
        help="Command for an image, one word each: --run python --run -m --run my_grader.",
    )
    network: str = option(
        "--network",
        section="Where it runs",
        type=click.Choice(["none", "open"]),
        default="none",
        show_default=True,
        help="Whether the program reaches the network, as one that calls a service must.",
    )
    secret_env: tuple[str, ...] = option(
        "--secret-env",
        multiple=True,
        metavar="NAME",
        help="Pass this variable of your environment to the program; repeatable.",
    )
    on_platform: bool = option(
        "--on-platform",
        section="Where it runs",
        is_flag=True,
        default=False,
        help="Have the platform run it: RUN is an ereq_… id, and the program one of its Coworld's manifest.",
    )
    again: bool = option("--again", is_flag=True, default=False, help="Run the program even if its answer is there.")


_timeout = seconds_option(
    "--timeout-seconds",
    600.0,
    "Time for the program, from its preparation to its end. With --on-platform: how long to wait, by default until "
    "it ends.",
)
_directory = click.option(
    "--output-dir",
    "-o",
    cls=SectionOption,
    section="Evidence",
    type=PathType(),
    metavar="DIR",
    help="Where to keep what it says.  [default: roles/ in the episode's workspace, or beside you for a bundle]",
)


@commands.command("grade")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--grader",
    metavar="GRADER",
    help="An id of the manifest, a file (./grader.py), a command that names one, or an image.",
)
@click.option(
    "--parallel", type=click.IntRange(min=1), default=2, show_default=True, metavar="K", help="How many at a time."
)
@takes("options", RoleRunOptions)
@_timeout
@output_options
def grade(
    out: Output,
    options: RoleRunOptions,
    runs: tuple[str, ...],
    grader: str | None,
    parallel: int,
    timeout_seconds: float,
) -> int:
    """Grade episodes.

    RUN is the workspace of an episode, of a run of many or one of its episodes (`results/latest/3`), `latest`, a
    bundle, or an ereq_… id, whose bundle is downloaded to ./ID.zip. The grader is the manifest's, unless another one is
    named. Grades stay in `roles/` of each workspace: the same command gives only what is missing. With --on-platform,
    the platform grades its own episodes, and nothing is downloaded but the grades.

    Exit status: 1 when an episode has no grade.
    """

    async def body(running: Running) -> int:
        from coworld_runner.roles import grade_episodes

        async def work(program: RoleProgram, places: Sequence[str], how: RoleArguments) -> Callable[[], int]:
            grades = await grade_episodes(places, grader=program, parallel=parallel, **how)

            def show() -> int:
                return _graded(program.id, grades, out)

            return show

        if options.on_platform:
            from coworld_runner.roles import grade_hosted

            episodes = hosted_episodes(runs)
            async with opened_roles(options.server, running, timeout=_waits(timeout_seconds)) as (api, how):
                grades = await grade_hosted(api.role_runs, episodes, grader=grader, parallel=parallel, **how)
            return _graded(grades.grader or grader or "", grades, out)
        return await _with_program(options, running, "grader", grader, runs, timeout_seconds, work)

    return run_async(out, body)


@commands.command("report-episode")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--reporter",
    metavar="REPORTER",
    help="An id of the manifest, a file (./reporter.py), a command that names one, or an image.",
)
@click.option(
    "--socket",
    is_flag=True,
    help="Ask it on its socket /reporter, as a platform does; by default, its environment has the request.",
)
@click.option(
    "--private",
    is_flag=True,
    help="With --on-platform: give it the logs and artifacts of your own players, too. Nobody else sees what it says.",
)
@takes("options", RoleRunOptions)
@_directory
@_timeout
@output_options
def report_episode(
    out: Output,
    options: RoleRunOptions,
    runs: tuple[str, ...],
    reporter: str | None,
    socket: bool,
    private: bool,
    output_dir: Path | None,
    timeout_seconds: float,
) -> int:
    """Write a report about one or more episodes.

    RUN is as for `grade`; several are reported on together. A report of Markdown is shown here; its files stay in a
    directory beside the episode.

    Exit status: 1 when there is no valid report.
    """
    if private and not options.on_platform:
        raise click.UsageError("--private goes with --on-platform.")

    async def body(running: Running) -> int:
        from coworld_runner.roles import report_episodes

        if options.on_platform:
            from coworld_runner.roles import ask_hosted

            episodes = hosted_episodes(runs)
            if len(episodes) != 1:
                raise click.UsageError("A platform reports on one episode at a time: name one.")
            async with opened_roles(options.server, running, timeout=_waits(timeout_seconds)) as (api, how):
                told = await ask_hosted(
                    api.role_runs,
                    episodes[0],
                    "reporter",
                    named=reporter,
                    private=private,
                    directory=output_dir,
                    **how,
                )
            return _shown(told, out)

        async def work(program: RoleProgram, places: Sequence[str], how: RoleArguments) -> Callable[[], int]:
            report = await report_episodes(places, reporter=program, directory=output_dir, **how)
            return lambda: _shown(report, out)

        return await _with_program(options, running, "reporter", reporter, runs, timeout_seconds, work, socket=socket)

    return run_async(out, body)


@commands.command("diagnose-episode")
@click.argument("episode", metavar="RUN")
@click.option("--player", required=True, metavar="PLAYER", help="The player's slot, or its name.")
@click.option(
    "--diagnoser",
    metavar="DIAGNOSER",
    help="An id of the manifest, a file (./diagnoser.py), a command that names one, or an image.",
)
@takes("options", RoleRunOptions)
@_directory
@_timeout
@output_options
def diagnose_episode(
    out: Output,
    options: RoleRunOptions,
    episode: str,
    player: str,
    diagnoser: str | None,
    output_dir: Path | None,
    timeout_seconds: float,
) -> int:
    """Say what a player did well and badly in an episode.

    RUN is as for `grade`. A diagnosis of Markdown is shown here; its files stay in a directory beside the episode.

    Exit status: 1 when there is no valid diagnosis.
    """

    async def body(running: Running) -> int:
        from coworld_runner.roles import diagnose_episode

        if options.on_platform:
            from coworld_runner.roles import ask_hosted, hosted_player

            (run,) = hosted_episodes((episode,))
            async with opened_roles(options.server, running, timeout=_waits(timeout_seconds)) as (api, how):
                who = hosted_player(await api.episodes.get(run), player)
                told = await ask_hosted(
                    api.role_runs, run, "diagnoser", named=diagnoser, player=who, directory=output_dir, **how
                )
            return _shown(told, out)

        async def work(program: RoleProgram, places: Sequence[str], how: RoleArguments) -> Callable[[], int]:
            told = await diagnose_episode(places[0], player, diagnoser=program, directory=output_dir, **how)
            return lambda: _shown(told, out)

        return await _with_program(options, running, "diagnoser", diagnoser, (episode,), timeout_seconds, work)

    return run_async(out, body)


_Work = Callable[["RoleProgram", Sequence[str], "RoleArguments"], Awaitable[Callable[[], int]]]
"""Does the work on episodes of this machine, and returns what shows its result once there is no display any more. That
returns the exit status."""


async def _with_program(
    options: RoleRunOptions,
    running: Running,
    role: Role,
    named: str | None,
    runs: Sequence[str],
    timeout: float,
    work: _Work,
    *,
    socket: bool = False,
) -> int:
    """Find the package and the program of a role, open a backend, and do the work."""
    from coworld_runner.roles import RoleOptions, find_role, package_of

    from ..render.progress import show_progress
    from ..run_preparation import opened_backend, read_secrets

    places, downloaded = await fetched_bundles(runs, running, server=options.server, with_game=options.game is None)
    package = await package_of(options.game or downloaded, places[:1])
    program = find_role(package, role, named, run=options.run)
    how = RoleOptions(
        timeout=timeout,
        socket=socket,
        network="open" if options.network == "open" else "none",
        secret_env=read_secrets(options.secret_env, (), running.out).values,
        platform=options.platform,
    )
    async with opened_backend(options, package, running) as backend:
        with show_progress(running, package.manifest.game.name) as progress:
            ended = await work(
                program,
                places,
                {"game": package, "backend": backend, "options": how, "publish": progress, "again": options.again},
            )
    return ended()


async def fetched_bundles(
    runs: Sequence[str], running: Running, *, server: str | None, with_game: bool
) -> tuple[Sequence[str], Path | None]:
    """Download the bundles of episodes of a platform, unless they are here, and the Coworld that they are of.

    Args:
        runs: The episodes, here or on the platform.
        running: The work.
        server: The platform.
        with_game: Whether the Coworld is needed.

    Returns:
        The episodes on this machine, and the manifest of the Coworld if it was needed.
    """
    from ..files import platform_episode, target_file

    named = [platform_episode(run) for run in runs]
    if not any(named):
        return runs, None
    running.resumable()
    places: list[str] = []
    manifest: Path | None = None
    async with opened_client(Connection(server=server), anonymous=True) as api:
        for run, episode in zip(runs, named, strict=True):
            if episode is None:
                places.append(run)
                continue
            target = target_file(None, f"{episode}.zip", overwrite=True)
            if not target.exists():
                with shown_progress(running.out, target.name) as tell:
                    await api.episodes.download_bundle(episode, target, on_progress=tell)
            places.append(str(target))
            if manifest is None and with_game:
                row = await api.episodes.get(episode)
                if row.coworld_id:
                    manifest = (await api.coworlds.download(row.coworld_id)).manifest
    return places, manifest


def _waits(timeout: float) -> float | None:
    """How long to wait for a platform, which has a limit of its own for the program."""
    return timeout if first_given({"timeout_seconds"}) is not None else None


def _graded(grader: str, grades: Grades, out: Output) -> int:
    """Show grades."""
    from ..render.roles import grades_answer, grades_text

    out.answer(grades_answer(grader, grades))
    out.say(grades_text(grader, grades))
    return exitcodes.OK if grades.ok else exitcodes.ANSWER_IS_NO


def _shown(answer: RoleAnswer, out: Output) -> int:
    """Show what a role has said, and where it is."""
    from ..render.markdown import show_markdown
    from ..render.roles import answer_text, role_answer

    out.answer(role_answer(answer))
    if answer.page is not None and answer.page.suffix == ".md":
        show_markdown(clean(answer.page.read_text(encoding="utf-8")), out)
        out.say()
    out.say(answer_text(answer))
    return exitcodes.OK if answer.ok else exitcodes.ANSWER_IS_NO
