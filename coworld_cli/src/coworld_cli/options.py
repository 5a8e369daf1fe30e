"""Options that several commands share, each declared once: with its help, and with what it means to the libraries.

A class of options says of each field which option of the command line fills it; ``takes`` gives a command these
options, and hands it an instance. Imports click and constants alone: a help pays for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast, dataclass_transform

import click
from click.core import ParameterSource

from coworld_core import durations

from .output import output_options

if TYPE_CHECKING:
    from pathlib import Path

    from coworld_runner.backend import Limits
    from coworld_runner.backends.registry import ClusterOptions
    from coworld_runner.episode.running import EpisodeOptions

    _FloatType = click.ParamType[float]
    _TextType = click.ParamType[str]
else:
    _FloatType = _TextType = click.ParamType  # generic only since click 8.4

__all__ = [
    "DIRECTORY",
    "FILE",
    "GIVEN_FILE",
    "BackendName",
    "Connection",
    "EvaluationOptions",
    "IdType",
    "Listing",
    "PackageOptions",
    "PathType",
    "PlayOptions",
    "PolicyType",
    "Seconds",
    "SectionCommand",
    "WhereOptions",
    "browser_option",
    "check_run",
    "concurrency_option",
    "division_filter",
    "include_option",
    "key_values",
    "league_filter",
    "listing_options",
    "manifest_argument",
    "mine_filter",
    "overwrite_option",
    "package_server_option",
    "platform_options",
    "player_filter",
    "policy_filter",
    "round_filter",
    "seconds_option",
    "server_option",
    "takes",
]

DEFAULT_SERVER = "https://softmax.com/api"

_F = TypeVar("_F", bound=Callable[..., Any])

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


# --- types of values ----------------------------------------------------------------------------------------------


class PathType(click.Path):
    """A path, as ``pathlib`` has it; that is imported when one was given: no help text pays for it."""

    def coerce_path_result(self, value: Any) -> Any:
        """Make it one."""
        from pathlib import Path

        return Path(value)


FILE = PathType(dir_okay=False)
"""A file that is read or written."""
GIVEN_FILE = PathType(dir_okay=False, exists=True, allow_dash=True)
"""A file that is there, or ``-`` for standard input."""
DIRECTORY = PathType(file_okay=False)
"""A directory that may yet have to be made."""


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


class BackendName(_TextType):
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


class IdType(_TextType):
    """An id of one of several kinds (``coworld_core.api.ids``); another kind is told apart by its name.

    Args:
        kinds: What it may name.
        names: Whether a name that is no id will do as well.
    """

    name = "id"

    def __init__(self, *kinds: str, names: bool = False) -> None:
        self._kinds = kinds
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check an id."""
        from coworld_core.api.ids import check_id, id_kind

        text = str(value).strip()
        if self._names and text and id_kind(text) is None:
            return text
        return check_id(text, self._kinds)


class PolicyType(_TextType):
    """A policy as people name it: ``NAME``, ``NAME:N``, ``NAME:vN``, or the id of a version."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check a reference."""
        from coworld_core.api import PolicyRef

        text = str(value).strip()
        PolicyRef.parse(text)
        return text


def key_values(option: str, items: tuple[str, ...], *, form: str = "KEY=VALUE") -> dict[str, str]:
    """``KEY=VALUE`` items as a mapping, split at the first ``=``.

    Raises:
        click.UsageError: An item has no key or no ``=``.
    """
    pairs: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} {item!r} is not {form}.", click.get_current_context())
        pairs[key.strip()] = value
    return pairs


def check_run(run: tuple[str, ...]) -> None:
    """Check the tokens of ``--run``.

    Raises:
        UsageError: The first is no program; the hint has the command as it was probably meant.
    """
    if not run or len(run[0].split()) == 1:
        return
    import shlex

    from coworld_core.errors import UsageError

    try:
        tokens = shlex.split(run[0])
    except ValueError:
        tokens = run[0].split()
    meant = " ".join(f"--run {shlex.quote(token)}" for token in [*tokens, *run[1:]])
    raise UsageError(
        "The first --run is the program, so there must be no white space in it.",
        code="run_white_space",
        hint=f"Write: {meant}" if tokens else "Give one token at a time: --run python --run -m --run my_player",
    )


# --- how a class declares options ---------------------------------------------------------------------------------

_SECTIONS = (
    "What to play",
    "What counts",
    "Evidence",
    "Where it runs",
    "Times",
    "Limits",
    "Secrets for players",
    "Options",
)
"""Headings of a long help, in order; an option without one stands under the last."""


class SectionOption(click.Option):
    """An option that knows under which heading of the help it stands."""

    def __init__(self, *args: Any, section: str = _SECTIONS[-1], **attrs: Any) -> None:
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


class _Declared:
    """What fills a field of a class of options: an option of these names, or an argument where there are none."""

    def __init__(self, names: tuple[str, ...], default: Any, attrs: Mapping[str, Any]) -> None:
        self.names = names
        self.default = default
        self.attrs = attrs


def _option(*names: str, default: Any = None, **attrs: Any) -> Any:
    """A field, and the option that fills it; one that may be repeated gives a tuple."""
    if attrs.get("multiple"):
        return _Declared(names, (), attrs)
    return _Declared(names, default, {"default": default, **attrs})


def _argument(default: Any, **attrs: Any) -> Any:
    """A field, and the argument that fills it."""
    return _Declared((), default, attrs)


@dataclass_transform(kw_only_default=True)
class Options:
    """Values of options, with the defaults of those that were not given.

    A dataclass in all but its cost: to make one as large as these takes as long as half of a help.
    """

    declared: ClassVar[Mapping[str, _Declared]] = {}
    """What fills each field, in the order of the help."""

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Declared)}
        cls.declared = {**cls.declared, **own}
        for name, value in own.items():
            setattr(cls, name, value.default)

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)
        self.check()

    def check(self) -> None:
        """See that they fit together.

        Raises:
            click.UsageError: They do not.
        """

    def but(self, **values: Any) -> Self:
        """The same with other values."""
        return type(self)(**{**self.__dict__, **values})


def takes(
    into: str, kind: type[Options], *, without: Collection[str] = (), **changes: Mapping[str, Any]
) -> Callable[[_F], _F]:
    """Give a command the options that a class declares, and hand it an instance.

    Args:
        into: The command's parameter that gets it.
        kind: The class.
        without: Fields whose options the command does not have: they keep their defaults.
        changes: By field, what is otherwise about its option for this command.
    """
    names = [name for name in kind.declared if name not in without]

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def wrapped(*args: Any, **values: Any) -> Any:
            filled = kind(**{name: values.pop(name) for name in names})
            return function(*args, **values, **{into: filled})

        for name in reversed(names):
            wrapped = declared_by(kind, name, **changes.get(name, {}))(wrapped)
        return cast("_F", wrapped)

    return decorate


def declared_by(kind: type[Options], name: str, **changes: Any) -> Callable[[_F], _F]:
    """The option, or the argument, that fills one field of a class."""
    declared = kind.declared[name]
    attrs = {**declared.attrs, **changes}
    if not declared.names:
        return click.argument(name, **attrs)
    return click.option(*declared.names, name, cls=SectionOption, **attrs)


# --- where things run, and what -----------------------------------------------------------------------------------

_WHERE = "Where it runs"
_WITHOUT_CLUSTER = ("auto", "process", "docker")


class WhereOptions(Options):
    """Where things run, and for which platform."""

    backend: str = _option(
        "--backend",
        section=_WHERE,
        type=BackendName(auto=True),
        metavar="NAME",
        default="auto",
        envvar="COWORLD_BACKEND",
        show_default=True,
        show_envvar=True,
        help="Local processes (process, for code you trust), Docker containers (docker), pods of a cluster "
        "(kubernetes), whichever of the first two fits (auto), or any other backend that is installed.",
    )
    context: str | None = _option(
        "--context", section=_WHERE, metavar="NAME", help="Context of the kubeconfig.  [default: the current one]"
    )
    namespace: str | None = _option(
        "--namespace",
        section=_WHERE,
        metavar="NAME",
        envvar="COWORLD_NAMESPACE",
        show_envvar=True,
        help="Namespace of the cluster.  [default: the context's own]",
    )
    kubeconfig: Path | None = _option(
        "--kubeconfig",
        section=_WHERE,
        type=FILE,
        metavar="FILE",
        help="How to reach the cluster.  [default: KUBECONFIG, ~/.kube/config]",
    )
    collector_image: str | None = _option(
        "--collector-image",
        section=_WHERE,
        metavar="IMAGE",
        envvar="COWORLD_COLLECTOR_IMAGE",
        show_envvar=True,
        help="Any image with Python, for the helper in each pod.  [default: python:3.12-slim]",
    )
    pull_secrets: tuple[str, ...] = _option(
        "--pull-secret",
        section=_WHERE,
        multiple=True,
        metavar="NAME",
        help="Secret of the namespace with which the cluster pulls images. May be repeated.",
    )
    network_policy: bool | None = _option(
        "--network-policy/--no-network-policy",
        section=_WHERE,
        help="Whether the cluster enforces network policies.  [default: seen from what is installed there]",
    )
    platform: str | None = _option(
        "--platform", section=_WHERE, metavar="OS/ARCH", help="Platform of the images, e.g. linux/amd64."
    )

    def cluster(self) -> ClusterOptions:
        """What was said about a cluster."""
        from dataclasses import fields

        from coworld_runner.backends.registry import ClusterOptions

        return ClusterOptions(**{item.name: getattr(self, item.name) for item in fields(ClusterOptions)})

    def refuse_cluster(self) -> None:
        """Refuse options that only a cluster has a use for, where certainly none is used.

        Raises:
            click.UsageError: One was given on the command line.
        """
        from dataclasses import fields

        from coworld_runner.backends.registry import ClusterOptions

        ctx = click.get_current_context(silent=True)
        if ctx is None or self.backend not in _WITHOUT_CLUSTER:
            return
        only = {item.name for item in fields(ClusterOptions)}
        for param in ctx.command.params:
            if param.name in only and ctx.get_parameter_source(param.name) == ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{param.opts[0]} goes with --backend kubernetes.", ctx)

    def backend_words(self) -> list[str]:
        """The words of a follow-up command that say where it is to run."""
        return ["--backend", self.backend] if self.backend != "auto" else []


def _server(help: str, **attrs: Any) -> Any:
    return _option(
        "--server",
        default=DEFAULT_SERVER,
        metavar="URL",
        envvar="COWORLD_SERVER",
        show_default=True,
        show_envvar=True,
        help=help,
        **attrs,
    )


class PackageOptions(WhereOptions):
    """A package, and where it is to run."""

    manifest: str = _argument("")
    server: str = _server("API that a cow_… id is fetched from.", section=_WHERE)

    @classmethod
    def at(cls, where: WhereOptions, *, manifest: str, server: str) -> PackageOptions:
        """A package that is to run where a command that takes no MANIFEST was told."""
        return cls(**where.__dict__, manifest=manifest, server=server)


manifest_argument = declared_by(PackageOptions, "manifest")
package_server_option = declared_by(PackageOptions, "server")

_TOKENS = "one token each: --run python --run -m --run my_player."


class PlayOptions(PackageOptions):
    """What the commands that play can be told; each of them leaves out what it has no use for."""

    players: tuple[str, ...] = _argument((), nargs=-1, metavar="[EPISODE_REQUEST.json | PLAYER...]")
    player: tuple[str, ...] = _option(
        "--player",
        section="What to play",
        multiple=True,
        metavar="PLAYER",
        help="The same as PLAYER: a file (./bot.py), a directory, the id of a bundled player, an image, or random. "
        "Repeatable; @N behind it seats it N times.",
    )
    variant: str | None = _option(
        "--variant",
        section="What to play",
        metavar="ID",
        help="Variant to play. Default: the certification fixture.",
    )
    seed: int | None = _option(
        "--seed", section="What to play", type=int, metavar="N", help="Put this seed into the game config."
    )
    run: tuple[str, ...] = _option(
        "--run",
        section="What to play",
        multiple=True,
        metavar="TOKEN",
        help=f"Command of player images, {_TOKENS}",
    )
    output_dir: Path | None = _option(
        "--output-dir",
        "-o",
        section="Evidence",
        type=DIRECTORY,
        metavar="DIR",
        help="New or empty directory for the evidence. Default: a fresh one under results/ beside the manifest.",
    )
    overwrite: bool = _option(
        "--overwrite",
        section="Evidence",
        default=False,
        is_flag=True,
        help="Empty an output directory of an earlier run first.",
    )
    resume: bool = _option(
        "--resume",
        section="Evidence",
        default=False,
        is_flag=True,
        help="Go on with the episodes in the output directory: only those that it lacks are played.",
    )
    episodes: int = _option(
        "--episodes",
        "-n",
        section="What to play",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="How many to play.",
        show_default=True,
    )
    parallel: int = _option(
        "--parallel",
        section="What to play",
        type=click.IntRange(min=1),
        default=1,
        metavar="K",
        help="How many episodes at a time.",
        show_default=True,
    )
    verify_replay: bool = _option(
        "--verify-replay/--no-verify-replay",
        section="Evidence",
        default=False,
        help="Load the replay afterwards, and fail when the game does not show it.",
    )
    human: tuple[int, ...] = _option(
        "--human",
        section="What to play",
        type=click.IntRange(min=0),
        multiple=True,
        metavar="SLOT",
        help="Leave this seat to a person in the browser; repeatable. Default: bots in all seats.",
    )
    admin: bool = _option(
        "--admin", section="What to play", default=False, is_flag=True, help="Ask the game for its admin page."
    )
    timeout_seconds: float = _option(
        "--timeout-seconds",
        section="Times",
        type=Seconds(least=1),
        default=durations.EPISODE,
        help=f"Deadline of the whole episode.  [default: {durations.EPISODE:g}]",
    )
    ready_timeout_seconds: float = _option(
        "--ready-timeout-seconds",
        section="Times",
        type=Seconds(),
        default=durations.READY,
        help=f"For the game to become healthy.  [default: {durations.READY:g}]",
    )
    player_exit_timeout_seconds: float = _option(
        "--player-exit-timeout-seconds",
        section="Times",
        type=Seconds(zero=True),
        default=durations.PLAYER_EXIT,
        help=f"For players to end once the game is over.  [default: {durations.PLAYER_EXIT:g}]",
    )
    linger_seconds: float = _option(
        "--linger-seconds",
        section="Times",
        type=Seconds(zero=True),
        default=durations.LINGER,
        help="How long a game may go on for viewers after results and replay are complete.  "
        f"[default: {durations.LINGER:g}]",
    )
    on_player_failure: Literal["stop", "continue"] = _option(
        "--on-player-failure",
        section="What to play",
        type=click.Choice(["stop", "continue"]),
        default="stop",
        show_default=True,
        help="End the episode when a player fails, or let the game decide.",
    )
    player_network: Literal["game-only", "open"] | None = _option(
        "--player-network",
        section="Limits",
        type=click.Choice(["game-only", "open"]),
        help="What players can reach: the game alone, or the internet and each other too.  [default: game-only]",
    )
    require: tuple[str, ...] = _option(
        "--require",
        section="Limits",
        type=click.Choice(list(REQUIREMENTS)),
        multiple=True,
        help="Refuse to start on a backend that cannot enforce this; repeatable.",
    )
    player_memory: float | None = _option(
        "--player-memory", section="Limits", type=Quantity("memory"), help="Limit of each player, e.g. 512Mi."
    )
    player_cpus: float | None = _option(
        "--player-cpus", section="Limits", type=Quantity("cpu"), help="Limit of each player, e.g. 1.5 or 500m."
    )
    player_pids: int | None = _option(
        "--player-pids", section="Limits", type=click.IntRange(min=1), metavar="N", help="Limit of each player."
    )
    game_memory: float | None = _option(
        "--game-memory", section="Limits", type=Quantity("memory"), help="Limit of the game."
    )
    game_cpus: float | None = _option("--game-cpus", section="Limits", type=Quantity("cpu"), help="Limit of the game.")
    game_pids: int | None = _option(
        "--game-pids", section="Limits", type=click.IntRange(min=1), metavar="N", help="Limit of the game."
    )
    secret_env: tuple[str, ...] = _option(
        "--secret-env",
        section="Secrets for players",
        multiple=True,
        metavar="NAME",
        help="Hand players this variable of your environment; repeatable.",
    )
    secret_env_file: tuple[Path, ...] = _option(
        "--secret-env-file",
        section="Secrets for players",
        type=FILE,
        multiple=True,
        metavar="FILE",
        help="Hand players the variables of a file with a NAME=VALUE a line; repeatable.",
    )
    use_bedrock: bool = _option(
        "--use-bedrock",
        section="Secrets for players",
        default=False,
        is_flag=True,
        help="Hand players AWS credentials for Bedrock.",
    )
    aws_profile: str | None = _option(
        "--aws-profile", section="Secrets for players", metavar="NAME", help="AWS profile; needs --use-bedrock."
    )
    aws_region: str | None = _option(
        "--aws-region", section="Secrets for players", metavar="REGION", help="AWS region; needs --use-bedrock."
    )

    def check(self) -> None:
        """See that they fit together."""
        check_run(self.run)
        if self.players and self.player:
            raise click.UsageError(
                "Players are named one after the other or with --player, not both.", click.get_current_context()
            )
        if (self.aws_profile or self.aws_region) and not self.use_bedrock:
            raise click.UsageError("--aws-profile and --aws-region need --use-bedrock.", click.get_current_context())

    @property
    def named(self) -> tuple[str, ...]:
        """The players, however they were named."""
        return self.players or self.player

    def episode(self, *, watch: bool) -> EpisodeOptions:
        """How the episode is to be run. What was asked for by name must be enforced, not only wished for.

        Args:
            watch: Whether somebody wants to see how far the game is.
        """
        from coworld_runner.episode.running import EpisodeOptions

        defaults = EpisodeOptions()
        required = [name for word in self.require for name in REQUIREMENTS[word]]
        required += ["network_isolation"] if self.player_network == "game-only" else []
        limited = {
            "memory_limit": (self.player_memory, self.game_memory),
            "cpu_limit": (self.player_cpus, self.game_cpus),
            "pids_limit": (self.player_pids, self.game_pids),
        }
        required += [name for name, values in limited.items() if any(value is not None for value in values)]
        return EpisodeOptions(
            timeout=self.timeout_seconds,
            ready_timeout=self.ready_timeout_seconds,
            player_exit_timeout=self.player_exit_timeout_seconds,
            linger=self.linger_seconds,
            on_player_failure=self.on_player_failure,
            game_limits=_limited(defaults.game_limits, self.game_memory, self.game_cpus, self.game_pids),
            player_limits=_limited(defaults.player_limits, self.player_memory, self.player_cpus, self.player_pids),
            player_network=self.player_network or defaults.player_network,
            required_capabilities=tuple(dict.fromkeys(required)),
            platform=self.platform,
            watch=watch,
            admin=self.admin,
        )


class EvaluationOptions(PlayOptions):
    """What the commands that measure players can be told as well."""

    max_blocks: int = _option(
        "--max-blocks",
        section="What counts",
        type=click.IntRange(min=1),
        default=200,
        metavar="N",
        show_default=True,
        help="Play this many blocks at most: a block is one seed, and everybody in every seat.",
    )
    metric: str = _option(
        "--metric",
        section="What counts",
        default="",
        metavar="POINTER",
        help="What is measured, by JSON pointer into the results: a list of one number a seat.  [default: the scores]",
    )
    forfeit: float | None = _option(
        "--forfeit",
        section="What counts",
        type=float,
        metavar="SCORE",
        help="Score of a player that failed and left no results.  [default: the worst that was seen by then]",
    )
    count_starved: bool = _option(
        "--count-starved",
        section="What counts",
        default=False,
        is_flag=True,
        help="Count episodes in which the machine was short of processors: for games in which time does not matter.",
    )


def _limited(base: Limits, memory: float | None, cpus: float | None, pids: int | None) -> Limits:
    import dataclasses

    given = {"memory_bytes": int(memory) if memory is not None else None, "cpus": cpus, "pids": pids}
    return dataclasses.replace(base, **{name: value for name, value in given.items() if value is not None})


# --- a platform ---------------------------------------------------------------------------------------------------


class Connection(Options):
    """Which server, and as whom."""

    server: str = _server("The platform.")
    as_user: bool = _option("--as-user", default=False, is_flag=True, help="Be yourself, whatever player is active.")
    as_player: str | None = _option(
        "--as-player", type=IdType("player"), metavar="PLY", help="Be this player of yours."
    )
    elevated: bool = _option(
        "--elevated",
        default=False,
        is_flag=True,
        help="Use the rights of the platform's team, where you have them.",
    )

    def check(self) -> None:
        """See that they fit together."""
        if self.as_user and self.as_player:
            raise click.UsageError("--as-user and --as-player exclude each other.", click.get_current_context())
        if self.elevated and self.as_player:
            raise click.UsageError("A player has no rights of the team: --elevated needs --as-user.")

    @property
    def identity(self) -> str:
        """What the client calls it: ``active``, ``user`` or the id of a player."""
        return self.as_player or ("user" if self.as_user else "active")


def platform_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command what all have that talk to a platform: a ``Connection``, and an ``Output``."""
    return takes("connection", Connection)(output_options(function))


server_option = declared_by(Connection, "server")
"""For a command that is nobody in particular."""


class Listing(Options):
    """How much of a list, and in which form."""

    limit: int | None
    """Rows at most; None: all there are."""
    offset: int = 0
    jsonl: bool = False


def listing_options(limit: int | None, *, offset: bool = False, noun: str = "rows") -> Callable[[_F], _F]:
    """Give a command that lists ``--limit``, ``--all`` and ``--jsonl``, and hand it a ``Listing`` as ``listing``.

    Args:
        limit: Rows by default; None: all there are.
        offset: Whether a list can be begun in its middle.
        noun: What is listed.
    """
    default = f"  [default: {limit}]" if limit is not None else " Default: all."
    count = click.IntRange(min=1)
    options = [
        click.option("--limit", type=count, default=limit, metavar="N", help=f"List at most N {noun}.{default}"),
        *(
            [
                click.option(
                    "--offset",
                    type=click.IntRange(min=0),
                    default=0,
                    metavar="N",
                    help=f"Leave out the first N {noun}.",
                )
            ]
            if offset
            else []
        ),
        click.option("--all", is_flag=True, help=f"List all {noun}, however many there are."),
        click.option("--jsonl", is_flag=True, help=f"Write the {noun} as JSON, one a line, as they come in."),
    ]

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def wrapped(*args: Any, limit: int | None, all: bool, jsonl: bool, offset: int = 0, **kwargs: Any) -> Any:
            ctx = click.get_current_context()
            if all and ctx.get_parameter_source("limit") != ParameterSource.DEFAULT:
                raise click.UsageError("--all and --limit exclude each other.", ctx)
            if jsonl and kwargs.get("json"):
                raise click.UsageError("--json and --jsonl exclude each other.", ctx)
            listing = Listing(limit=None if all else limit, offset=offset, jsonl=jsonl)
            return function(*args, listing=listing, **kwargs)

        for option in reversed(options):
            wrapped = option(wrapped)
        return cast("_F", wrapped)

    return decorate


league_filter = click.option(
    "--league", "-l", type=IdType("league"), metavar="LEAGUE_ID", help="Only those of this league."
)
division_filter = click.option(
    "--division", "-d", type=IdType("division"), metavar="DIVISION_ID", help="Only those of this division."
)
round_filter = click.option("--round", "-r", type=IdType("round"), metavar="ROUND_ID", help="Only those of this round.")
policy_filter = click.option(
    "--policy",
    "-p",
    type=PolicyType(),
    metavar="POLICY",
    help="Only those of this policy, anyone's: NAME, NAME:N, NAME:vN or the id of a version.",
)
player_filter = click.option("--player", type=IdType("player"), metavar="PLY", help="Only those of this player.")
mine_filter = click.option("--mine", is_flag=True, help="Only yours.")

browser_option = click.option(
    "--open-browser/--no-open-browser",
    default=None,
    help="Open the page in a browser. Default: only from a terminal with a desktop.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")


def seconds_option(name: str, default: float, help: str, *, least: float = 0.0) -> Callable[[_F], _F]:
    """An option for a time, whose help says how long it is by default."""
    return click.option(name, type=Seconds(least=least), default=default, help=f"{help}  [default: {default:g}]")


_PARTS = ("results", "replay", "error_info", "game_logs", "player_logs", "player_artifact")

include_option = click.option(
    "--include",
    type=click.Choice(_PARTS),
    multiple=True,
    help="Only this part; repeatable. Default: everything that you may see.",
)


def concurrency_option(noun: str) -> Callable[[_F], _F]:
    """How many of something are fetched at a time."""
    return click.option(
        "--concurrency",
        type=click.IntRange(1, 16),
        default=4,
        metavar="N",
        show_default=True,
        help=f"How many {noun} at a time.",
    )
