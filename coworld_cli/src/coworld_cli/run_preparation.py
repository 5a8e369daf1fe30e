"""Shared preparation of commands that run something: the package, its players' secrets, the backend."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from click.core import ParameterSource

from coworld_core.episode import Exit
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.text import listed
from coworld_runner import open_package
from coworld_runner.backend import Backend, Unit
from coworld_runner.episode import open_backend
from coworld_runner.package import (
    OwnPlayer,
    Package,
    SecretEnv,
    describe_environment,
    describe_registered,
    read_secret_env,
    resolve_package,
)

from . import exitcodes
from .event_loop import Running, opened_client
from .files import read_object
from .hints import worded
from .options.platform import Connection, server_for
from .options.play_options import (
    CellOptions,
    EvaluationOptions,
    MeasuringOptions,
    PackageOptions,
    PlayOptions,
    StoreOptions,
    WhereOptions,
)
from .options.values import key_values
from .output import Output
from .render.issues import render_issue
from .render.text import clean, command_line

if TYPE_CHECKING:
    from coworld_core.manifest import Manifest
    from coworld_runner.backends import ClusterOptions
    from coworld_runner.episode import BatchArguments, EpisodeArguments, Venue
    from coworld_runner.evaluation import Entrants, EvaluationRules
    from coworld_runner.package import RegisteredPlayer
    from coworld_runner.runs import Listener
    from coworld_runner.web import Gateway

    from .options.serving_options import ServingOptions
    from .render.progress import Progress

__all__ = [
    "batch_arguments",
    "config_changes",
    "ending_command",
    "episode_arguments",
    "evaluation_rules",
    "evidence_directory",
    "find_package",
    "opened_backend",
    "opened_for_cells",
    "opened_for_measuring",
    "opened_gateway",
    "opened_jobs",
    "opened_platform",
    "player_secrets",
    "read_secrets",
    "tell_network",
    "tell_players",
    "unit_status",
]


async def find_package(options: PackageOptions, running: Running) -> Package:
    """Resolve the package of a command, build it with `--build`, and report the issues of its manifest.

    A Coworld that is named by its id is downloaded, unless it was downloaded before.
    """
    out = running.out

    async def download(coworld: str, directory: Path) -> None:
        async with opened_client(Connection(server=options.server), anonymous=True) as api:
            await api.coworlds.download(coworld, directory)

    @contextmanager
    def building(why: str) -> Generator[Progress]:
        from .render.progress import show_progress

        if why:
            out.note(f"{why} --backend process runs the files themselves, as you and without isolation.")
        with show_progress(running, "build") as progress:
            yield progress

    try:
        package = await open_package(
            options.manifest,
            build=options.build,
            backend=options.backend,
            platform=options.platform,
            environment=key_values("--env", options.env, form="NAME=VALUE"),
            server=server_for(options.manifest, options.server),
            download=download,
            building=building,
        )
    except UsageError as error:
        if error.code == "manifest_not_found" and _game_left_out():
            near = worded(error.hint) if error.hint is not None and not isinstance(error.hint, Hint) else None
            error.hint = " ".join(filter(None, ["Name the game with -m, or go to its directory.", near]))
        raise
    told = [issue for issue in package.report.issues if issue.severity == "warning" or issue.code == "template_newer"]
    for issue in told[:3]:
        out.note(render_issue(package.report.source, issue))
    if len(told) > 3:
        out.note(f"… and {len(told) - 3} more: {command_line('validate', options.manifest)}")
    return package


def _game_left_out() -> bool:
    """Whether the command takes its game by the option `--game`, and it was not given."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source("game") is ParameterSource.DEFAULT


@asynccontextmanager
async def opened_backend(
    options: WhereOptions, package: Package, running: Running, *, store: bool = False
) -> AsyncGenerator[Backend]:
    """Enter the backend that a package runs on, and narrate which one and why.

    Args:
        options: The options of the command.
        package: The package.
        running: The command that runs.
        store: Whether pods of a cluster play other things, so that there may be its options.
    """
    if not store:
        options.refuse_cluster()
    if options.install and options.backend in ("docker", "kubernetes"):
        raise click.UsageError("--install is for local processes: an image has what its Dockerfile installs.")
    opened = open_backend(options.backend, package, cluster=options.cluster(), install=options.install)
    async with opened as (backend, choice):
        update = (worded(choice.hint) or "").removesuffix(".")
        why = "; ".join(filter(None, (choice.reason, update)))
        running.out.note(f"Backend: {backend.name} ({clean(why, one_line=True)})")
        with running.on_end_waits(backend.end_waits):
            yield backend


@asynccontextmanager
async def opened_for_measuring(
    options: PlayOptions,
    package: Package,
    entrants: Entrants,
    running: Running,
    *,
    others: bool,
    programs: bool = False,
) -> AsyncGenerator[Venue]:
    """Open the venue where players are measured, and narrate which.

    Args:
        options: The options of the command.
        package: The game.
        entrants: The players.
        running: The command that runs.
        others: Whether the game's own players may sit among them.
        programs: Whether to start programs in any case.
    """
    from coworld_runner.episode import ProgramVenue, RunOptions, find_hooks
    from coworld_runner.evaluation import NOT_OF_THE_KIT, find_workers

    if options.backend == "auto":
        options.refuse_cluster()
    how = RunOptions(
        backend=options.backend,
        install=options.install,
        options=options.episode(watch=False),
        hooks=find_hooks(options.hook),
        parallel=options.parallel,
    )
    async with find_workers(entrants, how, others=others, programs=programs) as (venue, why):
        if venue is not None:
            running.out.note(
                f"Games are played in this machine's worker processes (rules: {venue.count}), without "
                "sockets; --backend process plays programs."
            )
            yield venue
            return
        if why and why != NOT_OF_THE_KIT:
            running.out.note(f"Games are played as programs: {clean(why, one_line=True)}.")
        async with opened_backend(options, package, running) as backend:
            yield ProgramVenue(backend)


def ending_command(store: str, cluster: ClusterOptions) -> str:
    """The command that ends a run that pods of a cluster play."""
    given = {"--context": cluster.context, "--namespace": cluster.namespace, "--kubeconfig": cluster.kubeconfig}
    return command_line("stop", store, *[str(word) for one in given.items() if one[1] is not None for word in one])


@asynccontextmanager
async def opened_jobs(
    options: PlayOptions, stored: StoreOptions, package: Package, running: Running, *, detach: Sequence[str] = ()
) -> AsyncGenerator[Venue]:
    """Have the pods of a cluster play, and narrate where.

    Args:
        options: The options of the command.
        stored: Where episodes and rows are, and the image of the pods.
        package: The game.
        running: The command that runs.
        detach: The players of a measurement that is driven on the cluster, too.
    """
    from coworld_runner.jobs import JobPods, JobVenue

    assert stored.store is not None
    if options.backend not in ("auto", "kubernetes"):
        raise click.UsageError(f"--store is for pods of a cluster: it does not go with --backend {options.backend}.")
    pods = JobPods.of(image=stored.worker_image, count=options.parallel, cluster=options.cluster())
    async with JobVenue(package, stored.store, pods=pods, detach=detach, isolated=stored.isolated) as venue:
        running.out.note(
            f"Pods of a cluster play: {pods.count} of {clean(f'{pods.image}, by {venue.store}', one_line=True)}"
        )
        try:
            yield venue
        finally:
            if venue.under_way:
                ends = ending_command(stored.store, pods.cluster)
                running.so_far = f"Pods go on playing what is under way; {ends} ends them."


@asynccontextmanager
async def opened_for_cells(options: CellOptions, package: Package, running: Running) -> AsyncGenerator[BatchArguments]:
    """Open where several measurements are played, as far as that was said: otherwise, each of them knows best."""
    if options.store is not None:
        async with opened_jobs(options, options, package, running) as venue:
            yield {"venue": venue}
        return
    options.refuse_cluster()
    if options.backend == "auto" and not options.install:
        yield {}
        return
    async with opened_backend(options, package, running) as backend:
        yield {"backend": backend}


@asynccontextmanager
async def opened_platform(
    options: MeasuringOptions, players: Sequence[str], running: Running
) -> AsyncGenerator[tuple[Package, Venue]]:
    """Find a game and its players on a platform, which is to play them.

    Args:
        options: The options of the command. The game is a Coworld there, or a package here that has its name.
        players: Names of policies.
        running: The command that runs.
    """
    from coworld_client import HostedController
    from coworld_runner import HostedVenue

    options.refuse_here()
    game = options.manifest
    if await (await anyio.Path(game).expanduser()).exists():
        game = (await resolve_package(game)).manifest.game.name
    running.so_far = "What was played is kept, and what was requested goes on."
    async with opened_client(Connection(server=options.server)) as api:
        controller = HostedController(api)
        hosted = await controller.game(game, players)
        running.out.note(f"The platform plays: {api.server} ({hosted.manifest.game.name}, {hosted.id})")
        yield await resolve_package(hosted), HostedVenue(controller, hosted)


def tell_players(
    options: PlayOptions,
    players: Iterable[OwnPlayer | None],
    secrets: Mapping[str, str],
    package: Package,
    backend: Backend | None,
    out: Output,
    *,
    registered: Iterable[RegisteredPlayer | None] = (),
    measured: bool = False,
) -> None:
    """Say in which environment the user's own players run, and whether players reach the services that they call.

    Args:
        options: The options of the command.
        players: The user's own players.
        secrets: The secrets of every player.
        package: The package that is played.
        backend: The backend that it is played on; None: worker processes.
        out: Where to narrate.
        registered: The versions of the user's registry among all players.
        measured: Whether they are measured, so that they do not change.
    """
    own = [player for player in players if player is not None]
    housing = describe_environment(own, package, backend) if backend is not None else ()
    for line in (*describe_registered(registered, frozen=measured), *housing):
        out.note(clean(line, one_line=True))
    if backend is not None and backend.capabilities.network_isolation:
        # The keys of models go to the way there, and not to players
        keyed = [player for player in own if options.models is None or player.kind != "llm"]
        theirs = {name: value for player in keyed for name, value in player.secret_env.items()}
        tell_network(options, {**theirs, **secrets}, out)


def tell_network(options: PlayOptions, secrets: Mapping[str, str], out: Output) -> None:
    """Say whether players' network lets them reach the services that their secrets are for."""
    from coworld_runner.package import find_called_services
    from coworld_runner.web import is_named

    called = find_called_services(secrets)
    handed, where = clean(listed(called.secrets), one_line=True), clean(",".join(called.hosts), one_line=True)
    if options.player_https:
        out.note(f"Players reach the game and {', '.join(options.player_https)}, by HTTPS.")
        if missing := [host for host in called.hosts if not is_named(host, options.player_https)]:
            out.warn(f"players are handed {handed}, and --player-https does not name {clean(listed(missing))}.")
    elif options.network == "open":
        if options.use_bedrock:
            out.note(
                "Players reach the internet and each other, because they call Bedrock. "
                f"--player-https {where} lets them reach that alone."
            )
    elif called.unlisted:
        out.warn(
            f"players are handed {handed}, and do not reach {clean(listed(called.unlisted), one_line=True)}: their "
            "network is closed, and --player-https opens HTTPS on port 443 of public names alone. "
            "--backend process plays with this machine's network, --player-network open opens everything else."
        )
    elif called.secrets:
        hosts = ",".join(filter(None, (where, "HOST" if called.unknown else "")))
        out.warn(
            f"players are handed {handed}, and reach no service with it: their network is closed. "
            f"--player-https {hosts} opens that alone, --player-network open everything."
        )


def config_changes(options: PlayOptions, manifest: Manifest) -> dict[str, Any]:
    """The changes to the game config of a Coworld that a command's options name."""
    if not (options.config or options.assignments or options.steps):
        return {}
    from coworld_core.manifest import read_changes

    return read_changes(
        manifest,
        config=read_object(options.config, what="--config") if options.config else None,
        assignments=key_values("--set", options.assignments),
        steps=options.steps,
    )


def evaluation_rules(
    options: EvaluationOptions, package: Package, secret_env: Mapping[str, str] | None = None
) -> EvaluationRules:
    """What a measurement plays, and what counts."""
    from coworld_runner.evaluation import EvaluationRules

    return EvaluationRules(
        variant=options.variant,
        config=config_changes(options, package.manifest),
        command=options.run,
        secret_env=secret_env or {},
        seed=options.seed,
        max_blocks=options.max_blocks,
        metric=options.metric,
        forfeit=options.forfeit,
        count_starved=options.count_starved,
    )


def evidence_directory(options: PlayOptions, package: Package, run_id: str) -> Path:
    """The output directory: the given one, or a fresh one among the package's results. It is found by searches."""
    from coworld_runner.records import remember_directory
    from coworld_runner.runs import default_workspace

    if options.output_dir is not None:
        remember_directory(options.output_dir)
        return options.output_dir.expanduser().absolute()
    remember_directory(package.default_results_dir())
    return default_workspace(package.default_results_dir(), run_id)


def episode_arguments(
    options: PlayOptions,
    progress: Progress,
    backend: Backend | None,
    workspace: Path,
    run_id: str,
    *,
    watch: bool,
    countdown: float = 0.0,
    rematch: bool = False,
) -> EpisodeArguments:
    """Where and how to play, for `run_episode`; the last three are those of `PlayOptions.episode`."""
    run: EpisodeArguments = {
        "workspace": workspace,
        "options": options.episode(watch=watch, countdown=countdown, rematch=rematch),
        "overwrite": options.overwrite,
        "listeners": (progress,),
        "latest": options.output_dir is None,
        "run_id": run_id,
        "labels": options.labels,
        "hooks": options.hook,
    }
    if backend is not None:
        run["backend"] = backend
    return run


def batch_arguments(
    options: PlayOptions, progress: Progress, run: EpisodeArguments, *, venue: Venue | None = None
) -> BatchArguments:
    """Where and how to play many episodes; a venue stands in place of a backend."""
    return {
        **run,
        "venue": venue,
        "labels": options.labels,
        "hooks": options.hook,
        "parallel": options.parallel,
        "max_programs": options.max_programs,
        "episode_listeners": progress.episode_listeners,
    }


async def player_secrets(options: PlayOptions, out: Output) -> Mapping[str, str]:
    """The secrets of the players."""
    from coworld_runner.episode import bedrock_environment

    secrets = read_secrets(options.secret_env, options.secret_env_file, out)
    if not options.use_bedrock:
        return secrets.values
    credentials = await bedrock_environment(
        environment=os.environ, profile=options.aws_profile, region=options.aws_region
    )
    return {**credentials, **secrets.values}


def read_secrets(items: Sequence[str], files: Sequence[Path], out: Output) -> SecretEnv:
    """Read the given secrets, and warn of values that were given on the command line."""
    secrets = read_secret_env(items, files=files, environment=os.environ)
    if secrets.exposed:
        out.warn(
            f"the value of {', '.join(secrets.exposed)} stood on the command line, where process lists and "
            "shell history show it. Use --secret-env NAME, or --secret-env-file."
        )
    return secrets


@asynccontextmanager
async def opened_gateway(
    where: ServingOptions, out: Output, *, again: bool = False
) -> AsyncGenerator[tuple[Gateway | None, Sequence[Listener]]]:
    """Open the way to a game for other machines, and its metrics, before there is a game.

    With `again`, other games follow, and the way is open on this machine at least.

    Yields:
        The way, None if nobody asked for one; and what counts an episode that is played there.
    """
    public = where.at_least_here() if again else where.public
    if public is None:
        yield None, ()
        return
    from coworld_runner.web import open_gateway

    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(open_gateway(public, again=again))
        listeners: Sequence[Listener] = ()
        if where.metrics is not None:
            from coworld_runner.telemetry import GatewayMetrics, RunMetrics, open_metrics
            from coworld_runner.web import listen

            runs = RunMetrics()
            metrics = GatewayMetrics(gateway, runs.registry)
            listeners = (runs,)
            listener = listen(*where.metrics)
            host, port = listener.getsockname()[:2]
            await stack.enter_async_context(open_metrics(listener, read=metrics.read, trouble=metrics.trouble))
            out.note(f"Metrics: http://{f'[{host}]' if ':' in host else host}:{port}/metrics")
        if public.plain:
            out.note(
                "The tokens in the links travel unencrypted: whoever is in between can read them, and take a seat."
            )
        yield gateway, listeners


async def unit_status(ended: Exit | None, unit: Unit, out: Output, *, doing: str = "") -> int:
    """The exit status for a game that was open for viewing; shows the end of its log if it failed.

    Args:
        ended: How the game ended; None: the user ended it.
        unit: The game.
        out: Where to narrate.
        doing: What the game was doing, as a verb with its object.
    """
    if ended is None or ended.ok or ended.was_terminated:
        return exitcodes.OK
    out.note(f"The game {clean(str(ended), one_line=True)}{f' while it {doing}' if doing else ''}.")
    for line in clean(await unit.log_tail()).rstrip().splitlines()[-12:]:
        out.note(f"  │ {line}")
    return exitcodes.ANSWER_IS_NO
