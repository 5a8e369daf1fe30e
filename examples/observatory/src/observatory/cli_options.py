"""Options that several commands share: the Observatory, its worker, and the form of results."""

from __future__ import annotations

import datetime as dt
import functools
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coworld_cli.console import HostAndPort, Output, table
from coworld_core.commissioner import HOOKS
from coworld_core.errors import UsageError

from .data_directory import write_secret
from .quotas import read_size
from .settings import DEFAULT_PORT, Retention, Settings
from .work.seat_files import LEAST_LOG_BYTES

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from .services import Services

__all__ = [
    "Out",
    "artifacts_option",
    "changing",
    "commissioned",
    "followed",
    "invites",
    "judges_members",
    "keep_secret",
    "limits_seats",
    "looking",
    "metrics_option",
    "port_option",
    "retains",
    "run",
    "runs",
    "takes_submissions",
    "to_file",
    "traces_option",
    "verbose_option",
    "where",
    "with_services",
]


class Out(Output):
    """A command's output, as in `coworld`, but with JSON on a single line for programs that start a server."""

    def rows(
        self, head: Sequence[str], rows: Sequence[Sequence[object]], *, none: str, right: Collection[int] = ()
    ) -> None:
        """Write a table, or a note if it is empty."""
        if rows:
            cells = (["" if cell is None else str(cell) for cell in row] for row in rows)
            self.say(table([head, *cells], right=right))
        else:
            self.note(none)

    def answer(self, value: object) -> None:
        """Write a result as JSON, on one line."""
        if self.json:
            self.line(value)


def where(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--data`, `--database`, `--secret-key-file` and `--json` to a command, which takes `settings` and `out`."""

    @click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("observatory-data"),
        show_default=True,
        envvar="OBSERVATORY_DATA",
        show_envvar=True,
        help="Directory of this Observatory; made private.",
    )
    @click.option(
        "--database",
        metavar="URL",
        envvar="OBSERVATORY_DATABASE",
        show_envvar=True,
        help="postgresql://USER:PASSWORD@HOST/NAME.  [default: SQLite in the directory]",
    )
    @click.option(
        "--secret-key-file",
        "key",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="OBSERVATORY_SECRET_KEY_FILE",
        show_envvar=True,
        help="The installation's key, the same for all servers and workers of a database; created with it.  "
        "[default: the directory's name with .key, beside it]",
    )
    @click.option("--json", is_flag=True, help="Write the result as JSON to standard output.")
    @functools.wraps(function)
    def wrapped(*args: Any, data: Path, database: str | None, key: Path | None, json: bool, **kwargs: Any) -> Any:
        settings = Settings(data=data, database=database, key=key)
        return function(*args, settings=settings, out=Out(json=json), **kwargs)

    return wrapped


def run(function: Callable[..., Any], *args: Any) -> Any:
    """Run a command's work, with the user of this machine as the actor in the audit log."""
    import getpass
    import socket

    import anyio

    from .store.audit import Actor, acting

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"  # A user without a name, as in some containers
    with acting(Actor(kind="operator", origin=f"{user}@{socket.gethostname()}"[:256])):
        return anyio.run(function, *args)


def with_services(settings: Settings, work: Callable[[Services], Any]) -> Any:
    """Work with the stores of an Observatory, while its server may be running."""

    async def inside() -> Any:
        from .services import open_services

        async with open_services(settings) as services:
            return await work(services)

    return run(inside)


def looking(settings: Settings, look: Callable[[AsyncSession], Awaitable[Any]]) -> Any:
    """Read from the database of an Observatory."""

    async def inside(services: Services) -> Any:
        async with services.database.reading() as session:
            return await look(session)

    return with_services(settings, inside)


def changing(settings: Settings, change: Callable[[AsyncSession], Awaitable[Any]]) -> Any:
    """Change the database of an Observatory in one transaction."""

    async def inside(services: Services) -> Any:
        async with services.database.writing() as session:
            return await change(session)

    return with_services(settings, inside)


def to_file(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--to` to a command whose result is a secret; it takes `to`, for `keep_secret`."""
    return click.option(
        "--to",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write it into a file that only you can read, not to standard output.",
    )(function)


def invites(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of invitations to a command, which takes `days`, `url` and `to`."""
    days = click.option(
        "--days", type=click.IntRange(1, 365), default=14, show_default=True, metavar="N", help="How long a link works."
    )
    url = click.option("--url", metavar="URL", help="The server's URL for people.  [default: that of `serve`]")
    return days(url(to_file(function)))


def keep_secret(out: Out, to: Path | None, secret: str, answer: Mapping[str, object]) -> None:
    """Write a secret to a file with mode 0600, or to standard output.

    Args:
        out: The command's output.
        to: The file, if any; an existing one is replaced.
        secret: The secret, for a person or the file.
        answer: The JSON result including the secret; with a file, the secret is left out.

    Raises:
        UsageError: The file cannot be written (code `bad_file`).
    """
    if to is None:
        out.answer(answer)
        out.say(secret)
        return
    try:
        write_secret(to, f"{secret}\n".encode())
    except OSError as error:
        raise UsageError(f"{to} cannot be written: {error.strerror or error}.", code="bad_file") from error
    out.answer({"file": str(to)})
    out.note(f"Written to {to}, readable only by you.")


def retains(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the retention options to a command, which takes `retention`."""

    @click.option(
        "--keep-days",
        type=click.IntRange(0),
        metavar="N",
        envvar="OBSERVATORY_KEEP_DAYS",
        show_envvar=True,
        help="Remove replays, logs and players' files of episodes that ended more than N days ago.",
    )
    @click.option(
        "--keep-episodes",
        type=click.IntRange(0),
        metavar="N",
        envvar="OBSERVATORY_KEEP_EPISODES",
        show_envvar=True,
        help="The same, for all but the last N episodes of each account.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, keep_days: int | None, keep_episodes: int | None, **kwargs: Any) -> Any:
        return function(*args, retention=Retention(days=keep_days, episodes=keep_episodes), **kwargs)

    return wrapped


artifacts_option = click.option(
    "--artifacts",
    metavar="URL",
    envvar="OBSERVATORY_ARTIFACTS",
    show_envvar=True,
    help="Where the server keeps artifacts: a directory, or an fsspec URL such as s3://BUCKET/PREFIX.  "
    "[default: in the directory]",
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    envvar="OBSERVATORY_PORT",
    show_envvar=True,
    help="Port to listen on; 0: a free one.",
)


metrics_option = click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    envvar="OBSERVATORY_METRICS",
    show_envvar=True,
    type=HostAndPort(),
    help="Show metrics for Prometheus at /metrics and the state at /healthz, to whoever reaches this address.",
)
traces_option = click.option(
    "--traces",
    is_flag=True,
    envvar="OBSERVATORY_TRACES",
    show_envvar=True,
    help="Trace requests and episodes for OpenTelemetry, to where its own variables say.",
)
verbose_option = click.option("--verbose", "-v", is_flag=True, help="Log every request.")


def _together(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds several options to a command; its help lists the last one first."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in options:
            function = option(function)
        return function

    return add


followed = _together(
    click.option(
        "--report/--no-report",
        default=None,
        help="Have the Coworld's reporters report on each completed episode of a round.  [default: no]",
    ),
    click.option(
        "--grade/--no-grade",
        default=None,
        help="Have the Coworld's graders grade each completed episode of a round.  [default: no]",
    ),
)
"""Add the options of what follows an episode of a league to a command: fields of `LeagueSettings`."""


class _Size(click.IntRange):
    """A number of bytes, written as in a quota: `512K`."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a number of bytes."""
        size = read_size(value) if isinstance(value, str) else value
        if size is None:
            self.fail(f"{value!r} is no size. Write a number of bytes, or for example 512K or 16M.", param, ctx)
        return super().convert(size, param, ctx)


judges_members = _together(
    click.option(
        "--unplayable",
        type=click.IntRange(0),
        metavar="N",
        help="Bench a policy that the platform could not play in any of its last N episodes. 0: never.  [default: 3]",
    ),
    click.option(
        "--played-percent",
        type=click.IntRange(0, 100),
        metavar="N",
        help="Percentage of a season's rounds that an entry must have played to get a place in it.  [default: 50]",
    ),
)
"""Add the options of who gets a place and who is benched to a command: fields of `LeagueSettings`."""


def _moment(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """A date with or without a time, as the text that is stored; without a time zone it is UTC. `none` stays."""
    if value is None or value == "none":
        return value
    try:
        moment = dt.datetime.fromisoformat(value)
    except ValueError as error:
        said = f"{value!r} is no moment. Write 2026-01-31, or 2026-01-31T12:00, in UTC."
        raise click.BadParameter(said, context, option) from error
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)).isoformat()


takes_submissions = _together(
    click.option(
        "--final-season",
        type=click.IntRange(0),
        metavar="N",
        help="The season that its first champions play to the end, and after which the league is over. 0: none.",
    ),
    click.option(
        "--closes", "closes_at", callback=_moment, metavar="WHEN", help="When submissions close. none: never."
    ),
    click.option("--opens", "opens_at", callback=_moment, metavar="WHEN", help="When submissions open. none: at once."),
)
"""Add the options of when policies may be submitted to a command: fields of `LeagueSettings`."""
limits_seats = _together(
    click.option(
        "--artifact-bytes",
        type=_Size(0),
        metavar="SIZE",
        help="The largest artifact of a seat to keep; a larger one is not kept.  [default: 16M]",
    ),
    click.option(
        "--log-bytes",
        type=_Size(LEAST_LOG_BYTES),
        metavar="SIZE",
        help="Bytes to keep of each player's log, from its end; at least 8K.  [default: 1M]",
    ),
)
"""Add the options of what a seat may leave to a command: fields of `LeagueSettings`."""


def _named_hooks(context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> list[str] | None:
    """The hooks given by `--hook`; None if the option is absent."""
    if "none" in names and len(names) > 1:
        raise click.BadParameter("'none' stands alone: leave it out, or the other hooks.", context, option)
    return [name for name in dict.fromkeys(names) if name != "none"] if names else None


commissioned = _together(
    click.option(
        "--lifetime",
        "lifetime_seconds",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="How long a commissioner's round may take, its episodes included.  [default: 3600]",
    ),
    click.option(
        "--hook",
        "hooks",
        multiple=True,
        type=click.Choice([*HOOKS, "none"]),
        callback=_named_hooks,
        help="Also ask the commissioner this, which it must have a hook for: after each episode or round, for a "
        "division's standings, or for its description. May be repeated.  [default: none]",
    ),
    click.option(
        "--commissioner",
        "commissioner_runnable_id",
        metavar="ID",
        help="Have a commissioner of the Coworld's manifest decide rounds, divisions and places, not a pairing.",
    ),
)
"""Add the options of a league with a commissioner to a command: fields of `LeagueSettings`."""


_WORK = (
    *("backend", "packages", "namespace", "pull_secrets", "pods", "allow_privileged", "parallel", "lease"),
    *("episode_timeout", "connect_timeout"),
)
"""Fields of the settings that `runs` takes as they are given."""


def runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the worker's options to a command, which takes `work`, fields of the settings."""

    @click.option(
        "--backend",
        type=click.Choice(["auto", "process", "docker", "kubernetes", "none"]),
        default="auto",
        show_default=True,
        help="What plays the episodes. auto: local processes when packages are trusted, else Docker where there is an "
        "engine; none: only `observatory worker` elsewhere.",
    )
    @click.option(
        "--package",
        "packages",
        multiple=True,
        metavar="DIRECTORY",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        help="A package of your own: the commands that it declares, and no others, may run as local processes. May be "
        "repeated.",
    )
    @click.option(
        "--namespace",
        envvar="COWORLD_NAMESPACE",
        show_envvar=True,
        help="With Kubernetes: where games and players run.  [default: that of the kubeconfig, or of the worker's pod]",
    )
    @click.option(
        "--pull-secret",
        "pull_secrets",
        multiple=True,
        metavar="NAME",
        help="With Kubernetes: a Secret of the namespace with which the cluster pulls images (see `observatory "
        "pull-secret`). May be repeated.",
    )
    @click.option(
        "--pods",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        help="With Kubernetes: YAML with partial pod templates for all, game and player, laid over the pods.",
    )
    @click.option(
        "--allow-privileged",
        is_flag=True,
        help="Let --pods ask for what leads out of a pod: the host, root, Secrets, accounts.",
    )
    @click.option(
        "--parallel",
        type=click.IntRange(0, 256),
        default=1,
        show_default=True,
        help="Episodes to play at a time; 0: none here.",
    )
    @click.option(
        "--league-share",
        type=click.IntRange(0, 100),
        default=round(100 * Settings.league_share),
        show_default=True,
        metavar="PERCENT",
        help="How many of a hundred turns begin with the rounds of leagues; 100: everything else waits for them.",
    )
    @click.option(
        "--lease",
        type=click.FloatRange(1, 3600),
        default=30.0,
        show_default=True,
        help="Seconds after which the episodes of a worker that was killed are given to others.",
    )
    @click.option(
        "--episode-timeout",
        type=click.FloatRange(1),
        default=Settings.episode_timeout,
        show_default=True,
        help="Seconds an episode may take, everything included.",
    )
    @click.option(
        "--connect-timeout",
        type=click.FloatRange(1),
        default=Settings.connect_timeout,
        show_default=True,
        help="Seconds that players may take to connect once all have been started, whatever the game's config says, "
        "unless a player of the Coworld declares a longer startup.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, league_share: int, **kwargs: Any) -> Any:
        work = {name: kwargs.pop(name) for name in _WORK} | {"league_share": league_share / 100}
        return function(*args, work=work, **kwargs)

    return wrapped
