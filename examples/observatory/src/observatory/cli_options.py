"""What several commands have in common: where the Observatory is, what plays its episodes, how results are written."""

from __future__ import annotations

import functools
import json as jsonlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coworld_core import durations
from coworld_core.errors import UsageError

from .settings import Retention, Settings, write_secret

if TYPE_CHECKING:
    from .services import Services

__all__ = ["Out", "keep_secret", "retains", "run", "runs", "to_file", "where", "with_services"]


class Out:
    """Results to standard output, narration to standard error.

    Args:
        json: Whether standard output gets JSON and nothing else.
    """

    def __init__(self, json: bool) -> None:
        self.json = json

    def note(self, text: str = "") -> None:
        """Narrate."""
        click.echo(text, err=True)

    def say(self, text: str = "") -> None:
        """Write a part of the result for a person."""
        if not self.json:
            click.echo(text)

    def table(self, *rows: Sequence[object], right: Collection[int] = ()) -> None:
        """Write rows of cells for a person, the first its heading; columns ``right`` are set to the right."""
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            placed = (
                cell.rjust(width) if index in right else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            self.say("  ".join(placed).rstrip())

    def answer(self, value: object) -> None:
        """Write the result for a program, on one line."""
        if self.json:
            click.echo(jsonlib.dumps(value, default=str))


def where(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--data``, ``--database``, ``--key`` and ``--json``; it takes ``settings`` and ``out``."""

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
        "--key",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="OBSERVATORY_KEY",
        show_envvar=True,
        help="What encrypts secrets; made the first time.  [default: the directory's name and .key, beside it]",
    )
    @click.option("--json", is_flag=True, help="Write the result as JSON to standard output.")
    @functools.wraps(function)
    def wrapped(*args: Any, data: Path, database: str | None, key: Path | None, json: bool, **kwargs: Any) -> Any:
        settings = Settings(data=data, database=database, key=key)
        return function(*args, settings=settings, out=Out(json), **kwargs)

    return wrapped


def run(function: Callable[..., Any], *args: Any) -> Any:
    """Do what a command does, in the name of whoever is at the machine."""
    import getpass
    import socket

    import anyio

    from .store.audit import Actor, acting

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"  # a user without a name, as in some containers
    with acting(Actor(kind="operator", origin=f"{user}@{socket.gethostname()}"[:256])):
        return anyio.run(function, *args)


def with_services(settings: Settings, work: Callable[[Services], Any]) -> Any:
    """Do something with the stores of an Observatory, which may be served meanwhile."""

    async def inside() -> Any:
        from .services import open_services

        async with open_services(settings) as services:
            return await work(services)

    return run(inside)


def to_file(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command whose result is a secret ``--to``; it takes ``to``, for ``keep_secret``."""
    return click.option(
        "--to",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write it into a file that only you can read, not to standard output.",
    )(function)


def keep_secret(out: Out, to: Path | None, secret: str, answer: Mapping[str, object]) -> None:
    """Hand a secret over: into a file with mode 0600, or to standard output.

    Args:
        out: The command's output.
        to: The file, if it is to be one; one that is there is replaced.
        secret: What a person or a file gets.
        answer: What a program gets, the secret in it; with a file, only what is no secret.

    Raises:
        UsageError: The file cannot be written (code ``bad_file``).
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
    out.note(f"Written to {to}, for your eyes only.")


def retains(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the rule of what is kept of old episodes; it takes ``retention``."""

    @click.option(
        "--keep-days",
        type=click.IntRange(0),
        metavar="N",
        envvar="OBSERVATORY_KEEP_DAYS",
        show_envvar=True,
        help="Throw away replays, logs and players' files of episodes that were over longer ago.",
    )
    @click.option(
        "--keep-episodes",
        type=click.IntRange(0),
        metavar="N",
        envvar="OBSERVATORY_KEEP_EPISODES",
        show_envvar=True,
        help="The same, for all but the last so many episodes of each account.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, keep_days: int | None, keep_episodes: int | None, **kwargs: Any) -> Any:
        return function(*args, retention=Retention(days=keep_days, episodes=keep_episodes), **kwargs)

    return wrapped


def runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of what plays episodes; it takes ``work``, fields of the settings."""

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
        "--pull-secret",
        "pull_secrets",
        multiple=True,
        metavar="NAME",
        help="With Kubernetes: a Secret of the namespace with which the cluster pulls images (see `observatory "
        "pull-secret`). May be repeated.",
    )
    @click.option(
        "--parallel",
        type=click.IntRange(0, 256),
        default=1,
        show_default=True,
        help="Episodes at a time; 0: none here.",
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
        default=durations.EPISODE,
        show_default=True,
        help="Seconds an episode may take, everything included.",
    )
    @functools.wraps(function)
    def wrapped(
        *args: Any,
        backend: str,
        packages: tuple[Path, ...],
        pull_secrets: tuple[str, ...],
        parallel: int,
        lease: float,
        episode_timeout: float,
        **kwargs: Any,
    ) -> Any:
        work = {
            "backend": backend,
            "packages": packages,
            "pull_secrets": pull_secrets,
            "parallel": parallel,
            "lease": lease,
            "episode_timeout": episode_timeout,
        }
        return function(*args, work=work, **kwargs)

    return wrapped
