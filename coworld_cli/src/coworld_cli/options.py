"""Options that several commands share, and what they mean when they are parsed. Imports click and constants alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from coworld_core import durations

if TYPE_CHECKING:
    from coworld_runner.episode import EpisodeOptions

__all__ = [
    "DEFAULT_SERVER",
    "BackendFlags",
    "BackendName",
    "EpisodeFlags",
    "Seconds",
    "SectionCommand",
    "backend_options",
    "browser_option",
    "check_run",
    "cluster_options",
    "episode_flags",
    "episode_options",
    "given",
    "given_cluster",
    "manifest_argument",
    "refuse_cluster_options",
    "server_option",
]

DEFAULT_SERVER = "https://softmax.com/api"

_F = TypeVar("_F", bound=Callable[..., Any])

if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
    _StringType = click.ParamType[str]
else:
    _FloatType = _StringType = click.ParamType  # generic only since click 8.4

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "isolation": ("network_isolation", "file_isolation"),
    "network": ("network_isolation",),
    "files": ("file_isolation",),
    "memory": ("memory_limit",),
    "cpu": ("cpu_limit",),
    "pids": ("pids_limit",),
    "disk": ("disk_limit",),
    "images": ("images",),
}
"""What ``--require`` can be given → names of capabilities of a backend."""


_SECTIONS = ("What to play", "Evidence", "Where it runs", "Times", "Limits", "Secrets for players", "Options")
"""Headings of a long help, in order; an option without one stands under the last."""


class SectionOption(click.Option):
    """An option that knows under which heading of the help it stands."""

    def __init__(self, *args: Any, section: str, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section


class SectionCommand(click.Command):
    """A command whose help has its options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        rows: dict[str, list[tuple[str, str]]] = {section: [] for section in _SECTIONS}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None and isinstance(parameter, click.Option):
                section = parameter.section if isinstance(parameter, SectionOption) else _SECTIONS[-1]
                rows[section].append(row)
        for section, lines in rows.items():
            if lines:
                with formatter.section(section):
                    formatter.write_dl(lines)


def _option(section: str, *names: str, **attrs: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=SectionOption, section=section, **attrs)


class Seconds(_FloatType):
    """A time in seconds, more than zero; with ``zero`` also zero."""

    name = "seconds"

    def __init__(self, *, zero: bool = False, least: float = 0.0) -> None:
        self._zero = zero
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number."""
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        if not (seconds >= self._least and seconds < float("inf")) or (seconds == 0 and not self._zero):
            least = f"at least {self._least:g}" if self._least or self._zero else "more than 0"
            self.fail(f"{value!r} is not {least} seconds.", param, ctx)
        return seconds


class Quantity(_FloatType):
    """A Kubernetes quantity: bytes (``512Mi``) or processors (``1.5``, ``500m``)."""

    def __init__(self, resource: str) -> None:
        self.name = "bytes" if resource == "memory" else "number"
        self._resource = resource

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a quantity in its base unit."""
        if not isinstance(value, str):
            return float(value)
        from coworld_core.quantities import parse_quantity, quantity_problem

        problem = quantity_problem(self._resource, value)
        if problem is not None:
            self.fail(f"{value!r} {problem[0]}. {problem[1]}", param, ctx)
        return float(parse_quantity(value))


class BackendName(_StringType):
    """The name of a backend that is installed, whoever made it; with ``auto`` also that.

    What is installed is looked up when a name was given, or is completed: no help text pays for it.
    """

    name = "backend"

    def __init__(self, *, auto: bool = False) -> None:
        self._auto = auto

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """See that there is such a backend."""
        if self._auto and value == "auto":
            return "auto"
        from coworld_core.errors import UsageError
        from coworld_runner.backends.registry import find_backend

        try:
            find_backend(str(value))
        except UsageError as error:
            self.fail(" ".join(filter(None, (error.message, error.hint))), param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The names that begin like that."""
        from click.shell_completion import CompletionItem

        from coworld_runner.backends.registry import backend_names

        names = (*(("auto",) if self._auto else ()), *backend_names())
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def manifest_argument(function: _F) -> _F:
    """The MANIFEST argument."""
    return click.argument("manifest")(function)


def server_option(function: _F) -> _F:
    """Where ids are fetched from."""
    return _option(
        "Where it runs",
        "--server",
        default=DEFAULT_SERVER,
        metavar="URL",
        envvar="COWORLD_SERVER",
        show_default=True,
        show_envvar=True,
        help="API that a cow_… id is fetched from.",
    )(function)


def backend_options(function: _F) -> _F:
    """Where things run, and for which platform."""
    function = _option(
        "Where it runs", "--platform", metavar="OS/ARCH", help="Platform of the images, e.g. linux/amd64."
    )(function)
    return _option(
        "Where it runs",
        "--backend",
        type=BackendName(auto=True),
        metavar="NAME",
        default="auto",
        envvar="COWORLD_BACKEND",
        show_default=True,
        show_envvar=True,
        help="Local processes (process, for code you trust), Docker containers (docker), pods of a cluster "
        "(kubernetes), whichever of the first two fits (auto), or any other backend that is installed.",
    )(cluster_options(function))


def cluster_options(function: _F) -> _F:
    """Which cluster, for ``--backend kubernetes``; kept with the context rather than handed to the command."""
    options = [
        _option(
            "Where it runs",
            "--context",
            metavar="NAME",
            expose_value=False,
            callback=_keep_cluster,
            help="Context of the kubeconfig.  [default: the current one]",
        ),
        _option(
            "Where it runs",
            "--namespace",
            metavar="NAME",
            envvar="COWORLD_NAMESPACE",
            show_envvar=True,
            expose_value=False,
            callback=_keep_cluster,
            help="Namespace of the cluster.  [default: the context's own]",
        ),
        _option(
            "Where it runs",
            "--kubeconfig",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            expose_value=False,
            callback=_keep_cluster,
            help="How to reach the cluster.  [default: KUBECONFIG, ~/.kube/config]",
        ),
        _option(
            "Where it runs",
            "--collector-image",
            metavar="IMAGE",
            envvar="COWORLD_COLLECTOR_IMAGE",
            show_envvar=True,
            expose_value=False,
            callback=_keep_cluster,
            help="Any image with Python, for the helper in each pod.  [default: python:3.12-slim]",
        ),
        _option(
            "Where it runs",
            "--pull-secret",
            "pull_secrets",
            multiple=True,
            metavar="NAME",
            expose_value=False,
            callback=_keep_cluster,
            help="Secret of the namespace with which the cluster pulls images. May be repeated.",
        ),
        _option(
            "Where it runs",
            "--network-policy/--no-network-policy",
            default=None,
            expose_value=False,
            callback=_keep_cluster,
            help="Whether the cluster enforces network policies.  [default: seen from what is installed there]",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


_CLUSTER = "coworld_cli.cluster"
_WITHOUT_CLUSTER = ("auto", "process", "docker")


def _keep_cluster(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if value not in (None, ()):
        ctx.meta.setdefault(_CLUSTER, {})[param.name] = value
        if ctx.get_parameter_source(param.name) == ParameterSource.COMMANDLINE:
            ctx.meta.setdefault(f"{_CLUSTER}.named", param.opts[0])
    return value


def given_cluster() -> dict[str, Any]:
    """What was said about the cluster, by name of the option: what ``ClusterOptions`` takes."""
    ctx = click.get_current_context(silent=True)
    return dict(ctx.meta.get(_CLUSTER, {})) if ctx is not None else {}


def refuse_cluster_options(backend: str) -> None:
    """Refuse options that only a cluster has a use for, where certainly none is used.

    Raises:
        click.UsageError: One was given on the command line.
    """
    ctx = click.get_current_context(silent=True)
    named = ctx.meta.get(f"{_CLUSTER}.named") if ctx is not None else None
    if named is not None and backend in _WITHOUT_CLUSTER:
        raise click.UsageError(f"{named} goes with --backend kubernetes.", ctx)


def browser_option(function: _F) -> _F:
    """Whether to open a browser."""
    return click.option(
        "--open-browser/--no-open-browser",
        default=None,
        help="Open the page in a browser. Default: only from a terminal with a desktop.",
    )(function)


def episode_options(*, many: bool = False, people: bool = False, verify: bool = False) -> Callable[[_F], _F]:
    """The options of the commands that play.

    Args:
        many: Options of repeated runs.
        people: Options for people at seats.
        verify: Whether the replay can be verified.
    """
    fixture = "the certification fixture" + ("; where people play, the first variant" if people else "")
    options: list[Callable[[Any], Any]] = [
        _option("What to play", "--variant", metavar="ID", help=f"Variant to play. Default: {fixture}."),
        _option("What to play", "--seed", type=int, metavar="N", help="Put this seed into the game config."),
        _option(
            "What to play",
            "--run",
            multiple=True,
            metavar="TOKEN",
            help="Command of player images, one token each: --run python --run -m --run my_player.",
        ),
        _option(
            "Evidence",
            "--output-dir",
            "-o",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="New or empty directory for the evidence. Default: a fresh one under results/ beside the manifest.",
        ),
        _option("Evidence", "--overwrite", is_flag=True, help="Empty an output directory of an earlier run first."),
    ]
    if many:
        options += [
            _option(
                "Evidence",
                "--resume",
                is_flag=True,
                help="Go on with the episodes in the output directory: only those that it lacks are played.",
            ),
            _option(
                "What to play",
                "--episodes",
                "-n",
                type=click.IntRange(min=1),
                default=1,
                metavar="N",
                help="How many to play.",
                show_default=True,
            ),
            _option(
                "What to play",
                "--parallel",
                type=click.IntRange(min=1),
                default=1,
                metavar="K",
                help="How many episodes at a time.",
                show_default=True,
            ),
        ]
    if verify:
        options.append(
            _option(
                "Evidence",
                "--verify-replay/--no-verify-replay",
                default=False,
                help="Load the replay afterwards, and fail when the game does not show it.",
            )
        )
    if people:
        options += [
            _option(
                "What to play",
                "--human",
                type=click.IntRange(min=0),
                multiple=True,
                metavar="SLOT",
                help="Leave this seat to a person in the browser; repeatable. Default: bots in all seats.",
            ),
            _option("What to play", "--admin", is_flag=True, help="Ask the game for its admin page."),
        ]
    options += [
        backend_options,
        server_option,
        _option(
            "Times",
            "--timeout-seconds",
            type=Seconds(least=1),
            default=durations.EPISODE,
            help=f"Deadline of the whole episode.  [default: {durations.EPISODE:g}]",
        ),
        _option(
            "Times",
            "--ready-timeout-seconds",
            type=Seconds(),
            default=durations.READY,
            help=f"For the game to become healthy.  [default: {durations.READY:g}]",
        ),
        _option(
            "Times",
            "--player-exit-timeout-seconds",
            type=Seconds(zero=True),
            default=durations.PLAYER_EXIT,
            help=f"For players to end once the game is over.  [default: {durations.PLAYER_EXIT:g}]",
        ),
        _option(
            "Times",
            "--linger-seconds",
            type=Seconds(zero=True),
            default=durations.LINGER,
            help="How long a game may go on for viewers after results and replay are complete.  "
            f"[default: {durations.LINGER:g}]",
        ),
        _option(
            "What to play",
            "--on-player-failure",
            type=click.Choice(["stop", "continue"]),
            default="stop",
            show_default=True,
            help="End the episode when a player fails, or let the game decide.",
        ),
        _option(
            "Limits",
            "--player-network",
            type=click.Choice(["game-only", "open"]),
            default="game-only",
            show_default=True,
            help="What players can reach: the game alone, or the internet and each other too.",
        ),
        _option(
            "Limits",
            "--require",
            type=click.Choice(list(REQUIREMENTS)),
            multiple=True,
            help="Refuse to start on a backend that cannot enforce this; repeatable.",
        ),
        _option("Limits", "--player-memory", type=Quantity("memory"), help="Limit of each player, e.g. 512Mi."),
        _option("Limits", "--player-cpus", type=Quantity("cpu"), help="Limit of each player, e.g. 1.5 or 500m."),
        _option("Limits", "--player-pids", type=click.IntRange(min=1), metavar="N", help="Limit of each player."),
        _option("Limits", "--game-memory", type=Quantity("memory"), help="Limit of the game."),
        _option("Limits", "--game-cpus", type=Quantity("cpu"), help="Limit of the game."),
        _option("Limits", "--game-pids", type=click.IntRange(min=1), metavar="N", help="Limit of the game."),
        _option(
            "Secrets for players",
            "--secret-env",
            multiple=True,
            metavar="NAME",
            help="Hand players this variable of your environment; repeatable.",
        ),
        _option(
            "Secrets for players",
            "--secret-env-file",
            type=click.Path(path_type=Path, dir_okay=False),
            multiple=True,
            metavar="FILE",
            help="Hand players the variables of a file with a NAME=VALUE a line; repeatable.",
        ),
        _option("Secrets for players", "--use-bedrock", is_flag=True, help="Hand players AWS credentials for Bedrock."),
        _option("Secrets for players", "--aws-profile", metavar="NAME", help="AWS profile; needs --use-bedrock."),
        _option("Secrets for players", "--aws-region", metavar="REGION", help="AWS region; needs --use-bedrock."),
    ]

    def decorate(function: _F) -> _F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@dataclass(frozen=True, kw_only=True)
class BackendFlags:
    """Where things run, as given."""

    manifest: str
    backend: str = "auto"
    server: str = DEFAULT_SERVER
    platform: str | None = None


@dataclass(frozen=True, kw_only=True)
class EpisodeFlags(BackendFlags):
    """The options of a command that plays, as given."""

    players: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    variant: str | None = None
    seed: int | None = None
    output_dir: Path | None = None
    overwrite: bool = False
    resume: bool = False
    episodes: int = 1
    parallel: int = 1
    verify_replay: bool = False
    human: tuple[int, ...] = ()
    admin: bool = False
    timeout_seconds: float = durations.EPISODE
    ready_timeout_seconds: float = durations.READY
    player_exit_timeout_seconds: float = durations.PLAYER_EXIT
    linger_seconds: float = durations.LINGER
    on_player_failure: str = "stop"
    player_network: str = "game-only"
    require: tuple[str, ...] = ()
    player_memory: float | None = None
    player_cpus: float | None = None
    player_pids: int | None = None
    game_memory: float | None = None
    game_cpus: float | None = None
    game_pids: int | None = None
    secret_env: tuple[str, ...] = ()
    secret_env_file: tuple[Path, ...] = ()
    use_bedrock: bool = False
    aws_profile: str | None = None
    aws_region: str | None = None
    open_browser: bool | None = None
    given: frozenset[str] = frozenset()
    """Names of the options that were given rather than left to their default."""

    def options(self, *, watch: bool) -> EpisodeOptions:
        """How the episode is to be run. What was asked for by name must be enforced, not only wished for.

        Args:
            watch: Whether somebody wants to see how far the game is.
        """
        from coworld_runner.backend import Limits
        from coworld_runner.episode import EpisodeOptions

        defaults = EpisodeOptions()
        required = [name for word in self.require for name in REQUIREMENTS[word]]
        if "player_network" in self.given and self.player_network != "open":
            required.append("network_isolation")
        for word, field in (("memory", "memory_limit"), ("cpus", "cpu_limit"), ("pids", "pids_limit")):
            if getattr(self, f"player_{word}") is not None or getattr(self, f"game_{word}") is not None:
                required.append(field)

        def limits(base: Limits, memory: float | None, cpus: float | None, pids: int | None) -> Limits:
            return dataclasses.replace(
                base,
                memory_bytes=int(memory) if memory is not None else base.memory_bytes,
                cpus=cpus if cpus is not None else base.cpus,
                pids=pids if pids is not None else base.pids,
            )

        return EpisodeOptions(
            timeout=self.timeout_seconds,
            ready_timeout=self.ready_timeout_seconds,
            player_exit_timeout=self.player_exit_timeout_seconds,
            linger=self.linger_seconds,
            on_player_failure="continue" if self.on_player_failure == "continue" else "stop",
            game_limits=limits(defaults.game_limits, self.game_memory, self.game_cpus, self.game_pids),
            player_limits=limits(defaults.player_limits, self.player_memory, self.player_cpus, self.player_pids),
            player_network="open" if self.player_network == "open" else "game-only",
            required_capabilities=tuple(dict.fromkeys(required)),
            platform=self.platform,
            watch=watch,
            admin=self.admin,
        )


def given(ctx: click.Context) -> frozenset[str]:
    """Names of the parameters that were given, on the command line or in the environment."""
    default = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)
    return frozenset(name for name in ctx.params if ctx.get_parameter_source(name) not in default)


def episode_flags(**values: Any) -> EpisodeFlags:
    """The parsed options as a value, checked where they must fit together.

    Raises:
        click.UsageError: They do not.
        UsageError: The first ``--run`` is no program; the hint has the command as it was probably meant.
    """
    ctx = click.get_current_context()
    flags = EpisodeFlags(**values, given=given(ctx))
    check_run(flags.run)
    if (flags.aws_profile or flags.aws_region) and not flags.use_bedrock:
        raise click.UsageError("--aws-profile and --aws-region need --use-bedrock.", ctx)
    return flags


def check_run(run: tuple[str, ...]) -> None:
    """Check the tokens of ``--run``.

    Raises:
        UsageError: The first is no program; the hint has the command as it was probably meant.
    """
    if not run or len(run[0].split()) == 1:
        return
    import shlex

    try:
        tokens = shlex.split(run[0])
    except ValueError:
        tokens = run[0].split()
    meant = " ".join(f"--run {shlex.quote(token)}" for token in [*tokens, *run[1:]])
    from coworld_core.errors import UsageError

    raise UsageError(
        "The first --run is the program, so there must be no white space in it.",
        code="run_white_space",
        hint=f"Write: {meant}" if tokens else "Give one token at a time: --run python --run -m --run my_player",
    )
