"""Local episodes, played by programs and by people."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from .._group import NounGroup
from ..options.common import browser_option, in_terminal_option
from ..options.declarations import SectionCommand, refuse_options, takes
from ..options.play_options import AttemptOptions, PlayOptions, StoreOptions
from ..options.role_options import EpisodeRoleOptions
from ..options.serving_options import ServingOptions
from ..output import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from coworld_core.episode import BatchSummary, EpisodeRecord
    from coworld_runner.backend import Backend
    from coworld_runner.certification import SigningKey
    from coworld_runner.episode import PlayLinks
    from coworld_runner.package import EpisodePlan, Package
    from coworld_runner.roles import EpisodeRole, RoleResult

    from ..event_loop import Running
    from ..render.progress import Progress

__all__ = ["MEASURING", "commands", "play_episodes"]

commands = NounGroup()

_PEOPLE = ("human", "admin")
_MANY = ("episodes", "parallel", "max_programs")
_LIVE = ("watch",)
_WITH_A_BACKEND = (
    "watch",
    "verify_replay",
    "report",
    "reporter",
    "diagnose",
    "diagnoser",
    "grade",
    "grader",
    "sign_with",
)
MEASURING = ("--metric", "--forfeit", "--count-starved", "--markdown")
"""Options of `coworld mix` that an episode has no use for."""
_COUNTDOWN = 3.0
"""Seconds for people to look at the board before the game starts."""


class _Run(SectionCommand):
    """Sends whoever gives options for measuring to the command that has them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in MEASURING:
                raise
            raise click.UsageError(
                f"{error.option_name} is for measuring players: `coworld mix` takes it, and shares the seats.", ctx
            ) from None


@commands.command("run", cls=_Run)
@takes("options", PlayOptions, without=_PEOPLE)
@takes("attempts", AttemptOptions)
@takes("stored", StoreOptions)
@takes("roles", EpisodeRoleOptions)
@output_options
def run(
    out: Output, options: PlayOptions, attempts: AttemptOptions, stored: StoreOptions, roles: EpisodeRoleOptions
) -> int:
    """Play episodes of a Coworld, and keep scores, replay and logs.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id.

    PLAYER is a file or a directory of yours, the id of a bundled player, or an image: one for all seats, or one per
    seat; a suffix @N gives it N seats. Without any, the bundled players sit as in the certification fixture. An
    episode request is a file that says all of this.

    A bot is one file: either with a function act(observation, legal, rng), or a program that connects to the address
    in COWORLD_PLAYER_WS_URL.

    Exit status: 1 when an episode has a fault, or when a role that was asked for has said nothing valid.
    """
    from ..event_loop import run_async

    return run_async(out, lambda running: play_episodes(options, running, roles, attempts, stored))


@commands.command("play")
@takes(
    "options",
    PlayOptions,
    # The links name the seats before hooks could change them
    without=("verify_replay", "hook", "hook_timeout_seconds", *_MANY, *_LIVE),
    variant={
        "help": "Variant to play, or a pattern that matches only one. Default: the first, and not the certification "
        "fixture."
    },
)
@takes("where", ServingOptions)
@browser_option
@in_terminal_option
@click.option("--rematch", is_flag=True, help="Play again on the same links when somebody asks for it, until Ctrl-C.")
@output_options
def play(
    out: Output,
    options: PlayOptions,
    where: ServingOptions,
    open_browser: bool | None,
    in_terminal: bool,
    rematch: bool,
) -> int:
    """Play in the browser or terminal: people, bots or both.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. PLAYER is a file
    or a directory of yours, the id of a bundled player, an image, random or human: one for all seats, or one per seat.

    Without --human, bots take all seats and you watch. With people, the game counts down once everyone is there, if it
    can. The links contain the seats' tokens: anyone who has one can play. With --host, people and bots on other
    machines can, with TLS.

    With --in-terminal, the board and the scores are shown here, for games that tell them in text. The first --human
    seat is yours: type an action, its number, or field=value.

    With --rematch, pages have a button for the next game at the end, and the links stay valid.
    """
    from ..event_loop import run_async

    if in_terminal and open_browser:
        raise click.UsageError("--in-terminal and --open-browser exclude each other.", click.get_current_context())
    if rematch and (in_terminal or out.json):
        raise click.UsageError("--rematch is for games on pages.", click.get_current_context())
    wanted = False if in_terminal else open_browser
    return run_async(
        out,
        lambda running: _play(options, where, running, open_browser=wanted, in_terminal=in_terminal, rematch=rematch),
    )


# --- from options to a plan ---------------------------------------------------------------------------------------


async def _prepared(
    options: PlayOptions, running: Running, *, watched: bool = False
) -> tuple[Package, Sequence[EpisodePlan]]:
    """Resolve the package and plan the episode, without starting anything; one for each variant.

    With `watched`, there is only one, and the default is the first variant: a certification fixture ends too soon to be
    watched.
    """
    from coworld_core.episode import load_request
    from coworld_core.errors import UsageError
    from coworld_runner.package import plan_episode, plan_variants

    from ..render.text import shown_path
    from ..run_preparation import config_changes, find_package, player_secrets

    package = await find_package(options, running)
    secrets = await player_secrets(options, running.out)
    request_path = _request_path(options.players)
    if request_path is not None and len(options.named) > 1:
        raise UsageError(
            f"{shown_path(request_path)} is an episode request, which names the players; nothing can follow it.",
            code="request_excludes_options",
        )
    variant = options.variant
    if watched and request_path is None and package.manifest.variants:
        variant = variant or package.manifest.variants[0].id
    common: dict[str, Any] = {
        "players": options.named if request_path is None else (),
        "variant": variant,
        "run": options.run,
        "humans": options.human,
        "secret_env": secrets,
        "seed": options.seed,
        "config": config_changes(options, package.manifest),
    }
    if request_path is not None:
        request = load_request(request_path, manifest=package.manifest)
        return package, (plan_episode(package, request=request, **common),)
    return package, (plan_episode(package, **common),) if watched else plan_variants(package, **common)


def _request_path(players: tuple[str, ...]) -> Path | None:
    """The first positional argument, if it is an episode request: named `*.json`, or beginning with `{`."""
    from pathlib import Path

    if not players:
        return None
    path = Path(players[0])
    if players[0].endswith(".json"):
        return path
    try:
        with path.open("rb") as file:
            return path if file.read(200).lstrip().startswith(b"{") else None
    except OSError:
        return None


# --- from a plan to a result --------------------------------------------------------------------------------------


async def _playable(
    options: PlayOptions, attempts: AttemptOptions, running: Running
) -> tuple[Package, Sequence[EpisodePlan]]:
    """Prepare a run without people.

    Raises:
        UsageError: There is nothing to resume, or a seat is for a person.
    """
    from coworld_core.errors import UsageError

    package, plans = await _prepared(options, running)
    many = _are_many(options, attempts, plans)
    if attempts.resume and (options.output_dir is None or not many or options.overwrite):
        raise UsageError(
            "--resume continues a run of several episodes in its directory.",
            code="nothing_to_resume",
            hint="Repeat the interrupted command with the same --episodes and -o, and without --overwrite.",
        )
    if any(seat.runnable is None for seat in plans[0].seats):
        raise UsageError(
            "This command is for programs; it would not show people where to play.",
            code="human_in_run",
            hint="`coworld play` takes the same arguments and shows the link of each seat.",
        )
    if options.watch and len(plans) > 1:
        raise UsageError(
            f"--watch shows one episode, and {options.variant!r} matches {len(plans)} variants.", code="bad_count"
        )
    return package, plans


def _are_many(options: PlayOptions, attempts: AttemptOptions, plans: Sequence[EpisodePlan]) -> bool:
    """Whether a run may have more than one attempt at more than one episode, each with a row."""
    return options.episodes > 1 or len(plans) > 1 or bool(attempts.retry)


async def play_episodes(
    options: PlayOptions,
    running: Running,
    asked: EpisodeRoleOptions | None = None,
    attempts: AttemptOptions | None = None,
    stored: StoreOptions | None = None,
) -> int:
    """Play one episode or several, and show the result, and what roles say that were asked for."""
    from coworld_core.ids import new_run_id
    from coworld_runner.episode import run_episode

    from ..browser import open_page
    from ..render.progress import show_progress
    from ..run_preparation import batch_arguments, episode_arguments, evidence_directory, opened_backend

    out = running.out
    attempts = attempts or AttemptOptions()
    package, plans = await _playable(options, attempts, running)
    plan, many = plans[0], _are_many(options, attempts, plans)
    roles = _roles(asked, package) if asked is not None else ()
    signer = _signer(asked)
    results: Sequence[RoleResult] = ()
    run_id = new_run_id()
    workspace = evidence_directory(options, package, run_id)

    if stored is not None and stored.store is not None:
        if not many:
            raise click.UsageError("--store is for several episodes: add -n N.", click.get_current_context())
        refuse_options(_WITH_A_BACKEND, "needs the programs here: it does not go with --store.")
        return await _play_stored(options, attempts, stored, package, plans, running)

    def ready(links: PlayLinks) -> None:
        if options.watch:
            out.note(f"Watch: {links.viewer}")
            running.tasks.start_soon(open_page, links.viewer, out)

    async with opened_backend(options, package, running) as backend:
        _tell_players(options, plan, package, backend, out)
        if roles:
            from coworld_runner.roles import require_roles

            await require_roles(roles, plan, backend, platform=options.platform)
        with show_progress(running, plan.manifest.game.name) as progress:
            watch = not out.quiet if not many else out.live
            run = episode_arguments(options, progress, backend, workspace, run_id, watch=watch)
            if not many:
                record = await run_episode(plan, on_ready=ready, **run)
                if options.verify_replay:
                    from coworld_runner.replay import verify_episode_replay

                    out.note("Verifying the replay …")
                    record = await verify_episode_replay(
                        plan, record, workspace=workspace, backend=backend, listeners=(progress,)
                    )
                summary = None
            else:
                from coworld_runner.episode import run_batch

                progress.expect(options.episodes * len(plans))
                batch = batch_arguments(options, progress, run)
                summary = await run_batch(
                    plans, episodes=options.episodes, resume=attempts.resume, retry=attempts.again, **batch
                )
                if options.verify_replay:
                    from coworld_runner.replay import verify_batch_replays

                    out.note("Verifying the replays …")
                    summary = await verify_batch_replays(
                        plan, summary, workspace=workspace, backend=backend, listeners=(progress,)
                    )
                record = None
            rows = summary.episodes if summary is not None else ()
            places = [workspace / row.workspace for row in rows] or [workspace]
            if roles:
                results = await _after(places, roles, package, backend, options, progress)
            if signer is not None:
                from coworld_runner.certification.verification import sign_records

                sign_records(places, signer)
    if summary is not None:
        return _show_batch(summary, workspace, out, results)
    assert record is not None
    return _show_episode(record, workspace, options, out, results)


async def _play_stored(
    options: PlayOptions,
    attempts: AttemptOptions,
    stored: StoreOptions,
    package: Package,
    plans: Sequence[EpisodePlan],
    running: Running,
) -> int:
    """Have pods of a cluster play episodes from a store, and show the result."""
    from coworld_core.ids import new_run_id
    from coworld_runner.episode import run_batch

    from ..render.progress import show_progress
    from ..run_preparation import batch_arguments, episode_arguments, evidence_directory, opened_jobs

    out, run_id = running.out, new_run_id()
    workspace = evidence_directory(options, package, run_id)
    async with opened_jobs(options, stored, package, running) as venue:
        with show_progress(running, package.manifest.game.name) as progress:
            progress.expect(options.episodes * len(plans))
            run = episode_arguments(options, progress, None, workspace, run_id, watch=False)
            batch = batch_arguments(options, progress, run, venue=venue)
            summary = await run_batch(
                plans, episodes=options.episodes, resume=attempts.resume, retry=attempts.again, **batch
            )
    return _show_batch(summary, workspace, out, ())


def _signer(asked: EpisodeRoleOptions | None) -> SigningKey | None:
    """The key that signs records; it is read before anything is played."""
    if asked is None or asked.sign_with is None:
        return None
    from coworld_runner.certification import read_signing_key

    return read_signing_key(asked.sign_with.expanduser())


def _roles(asked: EpisodeRoleOptions, package: Package) -> tuple[EpisodeRole, ...]:
    """The roles that are asked for, in the order in which their answers are shown."""
    if not any((asked.report, asked.reporter, asked.diagnose, asked.grade, asked.grader)):
        # Importing what runs them would delay every game
        return ()
    from coworld_runner.roles import EpisodeRole, find_roles

    roles: list[EpisodeRole] = []
    if asked.report or asked.reporter:
        roles += [EpisodeRole(program=program) for program in find_roles(package, "reporter", asked.reporter)]
    if asked.diagnose:
        programs = find_roles(package, "diagnoser", asked.diagnoser)
        roles += [EpisodeRole(program=program, player=name) for name in asked.diagnose for program in programs]
    if asked.grade or asked.grader:
        roles += [EpisodeRole(program=program) for program in find_roles(package, "grader", asked.grader)]
    return tuple(roles)


async def _after(
    places: Sequence[Path],
    roles: Sequence[EpisodeRole],
    package: Package,
    backend: Backend,
    options: PlayOptions,
    progress: Progress,
) -> tuple[RoleResult, ...]:
    """Run roles on episodes that have ended."""
    from coworld_runner.roles import RoleOptions, run_episode_roles

    return await run_episode_roles(
        places,
        roles,
        game=package,
        backend=backend,
        options=RoleOptions(platform=options.platform),
        publish=progress,
    )


async def _play(
    options: PlayOptions,
    where: ServingOptions,
    running: Running,
    *,
    open_browser: bool | None,
    in_terminal: bool,
    rematch: bool,
) -> int:
    """Play one episode that people can watch and take part in, or one after the other."""
    from coworld_core.ids import new_run_id
    from coworld_runner.episode import iter_rematches, run_episode
    from coworld_runner.package import plan_for_people

    from .. import exitcodes
    from ..browser import open_page, wants_browser
    from ..render.progress import show_progress
    from ..render.results import describe_seats, play_links
    from ..run_preparation import episode_arguments, evidence_directory, opened_backend, opened_gateway
    from ..terminal_view import TerminalGame

    out = running.out
    package, (plan,) = await _prepared(options, running, watched=True)
    people = [slot for slot, seat in enumerate(plan.seats) if seat.runnable is None]
    plan = plan_for_people(plan) if people else plan
    view: TerminalGame | None = None
    if in_terminal:
        names = tuple(seat.name for seat in plan.seats)
        view = TerminalGame(out, plan.manifest.game.name, names, seat=people[0] if people else None)

    def ready(links: PlayLinks) -> None:
        nonlocal links_shown
        shared = links
        if gateway is not None:
            gateway.lead(links.address)
            shared = links.at(gateway.base)
        if links_shown:
            return
        links_shown = True
        if view is None or len(people) > 1 or gateway is not None:
            out.show(play_links(shared, describe_seats(plan)))
        if view is not None:
            running.tasks.start_soon(view.show, links)
        elif wants_browser(open_browser):
            own = shared if rematch else links
            mine = next((own.players[slot] for slot in people), own.viewer)
            running.tasks.start_soon(open_page, mine, out)

    async def one(plan: EpisodePlan, workspace: Path, run_id: str) -> EpisodeRecord:
        with show_progress(running, plan.manifest.game.name) as progress:
            countdown = _COUNTDOWN if people else 0.0
            run = episode_arguments(
                options,
                progress,
                backend,
                workspace,
                run_id,
                watch=not out.quiet,
                countdown=countdown,
                rematch=rematch,
            )
            run["listeners"] = (*run.get("listeners", ()), *counting)
            return await run_episode(plan, on_ready=ready, **run)

    links_shown, status = False, exitcodes.OK
    run_id = new_run_id()
    workspace = evidence_directory(options, package, run_id)
    async with (
        opened_gateway(where, out, again=rematch) as (gateway, counting),
        opened_backend(options, package, running) as backend,
    ):
        _tell_players(options, plan, package, backend, out)
        if view is not None:
            # Progress would be drawn over the board
            running.out = Output(json=out.json, quiet=True)
        async with aclosing(iter_rematches(plan, gateway if rematch else None)) as games:
            async for number, game in games:
                place = workspace.with_name(f"{workspace.name}-{number + 1}") if number else workspace
                record = await one(game, place, new_run_id() if number else run_id)
                running.out = out
                if view is not None:
                    await view.finish()
                if record.ok and not people and not rematch and wants_browser(open_browser):
                    await _show_again(package, workspace, backend, out)
                status = _show_episode(record, place, options, out)
                if rematch:
                    out.note("Rematch: by the button of a page, or by any of the links. Ctrl-C ends.")
    return status


def _tell_players(options: PlayOptions, plan: EpisodePlan, package: Package, backend: Backend, out: Output) -> None:
    from ..run_preparation import tell_players

    secrets = {name: value for seat in plan.seats for name, value in seat.secret_env.items()}
    registered = [seat.registered for seat in plan.seats]
    tell_players(options, (seat.own for seat in plan.seats), secrets, package, backend, out, registered=registered)


async def _show_again(package: Package, workspace: Path, backend: Backend, out: Output) -> None:
    """Open a page with the replay, because the game's own page ended with the game."""
    from coworld_core.episode import EpisodeLayout
    from coworld_core.errors import EpisodeError
    from coworld_runner import replay_page

    from ..browser import open_page
    from ..files import write_whole

    replay = EpisodeLayout(workspace).replay
    if replay.is_file():
        try:
            page = await replay_page(package, replay, backend=backend)
        except EpisodeError:
            # The result shows the command for the replay
            return
        await open_page(write_whole(workspace / "replay.html", page.html.encode()).as_uri(), out)


def _show_episode(
    record: EpisodeRecord, workspace: Path, options: PlayOptions, out: Output, results: Sequence[RoleResult] = ()
) -> int:
    """Write the result of an episode and of its roles, and return the exit status."""
    from coworld_core.episode import EpisodeLayout, read_record

    from .. import exitcodes
    from ..render.results import episode_result
    from ..render.text import command_line, shown_path

    layout = EpisodeLayout(workspace)
    if results:
        record = read_record(layout.record)
    files = {"results": layout.results, "replay": layout.replay, "logs": layout.logs, "record": layout.record}
    paths = {name: str(path) if path.exists() else None for name, path in files.items()}
    out.answer({"workspace": str(workspace), "paths": paths, "ok": record.ok, **record.model_dump(mode="json")})
    follow_up = None
    if layout.replay.is_file():
        follow_up = command_line("replay", options.manifest, shown_path(layout.replay), *options.backend_options())
    out.say(episode_result(record, layout, follow_up=follow_up))
    _show_roles(results, out)
    return exitcodes.OK if record.ok and all(result.ok for result in results) else exitcodes.ANSWER_IS_NO


def _show_batch(summary: BatchSummary, workspace: Path, out: Output, results: Sequence[RoleResult]) -> int:
    """Write the result of several episodes and of their roles, and return the exit status."""
    from .. import exitcodes
    from ..render.results import batch_result
    from ..render.roles import results_answer

    out.answer(
        {
            "workspace": str(workspace),
            "paths": {"summary": str(workspace / "summary.json")},
            "ok": summary.ok,
            **({"roles": results_answer(results)} if results else {}),
            **summary.model_dump(mode="json"),
        }
    )
    out.say(batch_result(summary, workspace))
    _show_roles(results, out)
    return exitcodes.OK if summary.ok and all(result.ok for result in results) else exitcodes.ANSWER_IS_NO


def _show_roles(results: Sequence[RoleResult], out: Output) -> None:
    """Write what roles have said: all of it about one episode, and what fits a few lines about several."""
    if not results:
        return
    from ..render.markdown import show_markdown
    from ..render.roles import results_text
    from ..render.text import clean

    if len({result.job.run for result in results}) == 1:
        for result in results:
            page = result.answer.page if result.answer is not None else None
            if page is not None and page.suffix == ".md":
                out.say()
                show_markdown(clean(page.read_text(encoding="utf-8")), out, paged=False)
    out.say()
    out.say(results_text(results))
