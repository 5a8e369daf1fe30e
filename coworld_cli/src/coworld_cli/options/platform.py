"""Options of the commands that talk to a platform: which one, as whom, and how much of a list."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from ..output import output_options
from .declarations import Options, declared_by, option, refuse_options, takes
from .values import IdType, PolicyType, parse_labels

__all__ = [
    "DEFAULT_SERVER",
    "Connection",
    "Listing",
    "division_filter",
    "include_option",
    "label_filter",
    "label_option",
    "league_filter",
    "listing_options",
    "mine_filter",
    "platform_options",
    "player_filter",
    "policy_filter",
    "resolved",
    "round_filter",
    "server_field",
    "server_for",
    "server_option",
    "sign_in_option",
]

_SECTION = "Server and identity"
DEFAULT_SERVER = "https://softmax.com/api"

_F = TypeVar("_F", bound=Callable[..., Any])


def server_field(help: str, *, default: str | None = None) -> Any:
    """A field that `--server` fills; None is the server of the last sign-in."""
    return option(
        "--server",
        section=_SECTION,
        default=default,
        metavar="URL",
        envvar="COWORLD_SERVER",
        show_default=default or f"where you signed in last, or {DEFAULT_SERVER}",
        show_envvar=True,
        help=help,
    )


def resolved(server: str | None) -> str:
    """The normalised address of a server; None is that of the last sign-in."""
    from coworld_client.sign_in import resolve_server

    return resolve_server(server)


def server_for(source: str, server: str | None) -> str | None:
    """The server from which a package is fetched; None if it is named in another way than by its id."""
    from coworld_runner.package import coworld_id

    return resolved(server) if coworld_id(source) is not None else None


class SignIn(Options):
    """Where to sign in."""

    server: str = server_field("The platform.", default=DEFAULT_SERVER)


class Connection(Options):
    """Which server, and as whom."""

    server: str | None = server_field("The platform.")
    as_user: bool = option(
        "--as-user",
        section=_SECTION,
        default=False,
        is_flag=True,
        help="Act as your user account, ignoring any active player.",
    )
    as_player: str | None = option(
        "--as-player",
        section=_SECTION,
        type=IdType("player"),
        metavar="PLY",
        help="Act as this one of your players.",
    )
    as_team: str | None = option(
        "--as-team",
        section=_SECTION,
        metavar="TEAM",
        help="Act for this one of your teams: what you upload is its.",
    )
    elevated: bool = option(
        "--elevated",
        section=_SECTION,
        default=False,
        is_flag=True,
        help="Use the rights of the platform's team, if you have them.",
    )

    def check(self) -> None:
        """Check that the options fit together."""
        if self.as_user and self.as_player:
            raise click.UsageError("--as-user and --as-player exclude each other.", click.get_current_context())
        if self.as_team and (self.as_player or self.elevated):
            raise click.UsageError("--as-team goes neither with --as-player nor with --elevated.")
        if self.elevated and self.as_player:
            raise click.UsageError("Players do not have the team's rights: --elevated needs --as-user.")

    def refuse(self, why: str) -> None:
        """Refuse these options where nothing is asked of a platform.

        Args:
            why: What to say after the option.

        Raises:
            click.UsageError: One of them is on the command line.
        """
        refuse_options(self.declared, why)

    @property
    def identity(self) -> str:
        """The identity in the client's terms: `active`, `user` or the id of a player."""
        return self.as_player or ("user" if self.as_user or self.as_team else "active")


def platform_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that all platform commands have: a `Connection` and an `Output`."""
    return takes("connection", Connection)(output_options(function))


server_option = declared_by(Connection, "server")
"""For a command that needs no identity."""
sign_in_option = declared_by(SignIn, "server")
"""For a command that signs in: where, whatever other servers one has signed in to."""


class Listing(Options):
    """How much of a list to show, and in which form."""

    limit: int | None
    """The maximum number of rows; None: all of them."""
    offset: int = 0
    cursor: str | None = None
    """Where to start instead of at an offset: the `next_cursor` of an earlier answer."""
    jsonl: bool = False


def listing_options(
    limit: int | None, *, offset: bool = False, cursor: bool = True, noun: str = "rows"
) -> Callable[[_F], _F]:
    """Add `--limit`, `--all` and `--jsonl` to a command that lists, and pass it a `Listing` as `listing`.

    Args:
        limit: The default maximum number of rows; None: all of them.
        offset: Whether the list takes `--offset`.
        cursor: Whether the list takes `--cursor`.
        noun: The name of the rows, in the plural.
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
                    help=f"Skip the first N {noun}.",
                )
            ]
            if offset
            else []
        ),
        *(
            [click.option("--cursor", metavar="CURSOR", help="Start at the `next_cursor` of an earlier --json answer.")]
            if cursor
            else []
        ),
        click.option("--all", is_flag=True, help=f"List all {noun}, however many there are."),
        click.option("--jsonl", is_flag=True, help=f"Write the {noun} as lines of JSON, as they arrive."),
    ]

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def wrapped(
            *args: Any,
            limit: int | None,
            all: bool,
            jsonl: bool,
            offset: int = 0,
            cursor: str | None = None,
            **kwargs: Any,
        ) -> Any:
            ctx = click.get_current_context()
            if all and ctx.get_parameter_source("limit") != ParameterSource.DEFAULT:
                raise click.UsageError("--all and --limit exclude each other.", ctx)
            if jsonl and kwargs.get("json"):
                raise click.UsageError("--json and --jsonl exclude each other.", ctx)
            if cursor and offset:
                raise click.UsageError("--cursor and --offset exclude each other.", ctx)
            listing = Listing(limit=None if all else limit, offset=offset, cursor=cursor, jsonl=jsonl)
            return function(*args, listing=listing, **kwargs)

        for each in reversed(options):
            wrapped = each(wrapped)
        return cast("_F", wrapped)

    return decorate


league_filter = click.option(
    "--league", "-l", type=IdType("league", names=True), metavar="LEAGUE", help="Only those of this league: name or id."
)
division_filter = click.option(
    "--division",
    "-d",
    type=IdType("division", names=True),
    metavar="DIVISION",
    help="Only those of this division: name (also as LEAGUE/DIVISION) or id.",
)
round_filter = click.option("--round", "-r", type=IdType("round"), metavar="ROUND_ID", help="Only those of this round.")
policy_filter = click.option(
    "--policy",
    "-p",
    type=PolicyType(),
    metavar="POLICY",
    help="Only those of this policy, whoever owns it: NAME, NAME:N, NAME:vN or the id of a version.",
)
player_filter = click.option(
    "--player",
    type=IdType("player", names=True),
    metavar="PLAYER",
    help="Only those of this player: id, or the name of yours or, with --league, of anyone's there.",
)
mine_filter = click.option("--mine", is_flag=True, help="Only yours.")


def _patterns(_ctx: click.Context, _param: click.Parameter, items: tuple[str, ...]) -> dict[str, str]:
    from coworld_core.records import label_patterns

    return label_patterns(items)


def _labels(_ctx: click.Context, _param: click.Parameter, items: tuple[str, ...]) -> dict[str, str]:
    return parse_labels(items)


label_filter = click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_patterns,
    metavar="NAME[=VALUE]",
    help="Only those with this label; repeatable. VALUE may have wildcards.",
)


def label_option(help: str, *, also: tuple[str, ...] = ()) -> Callable[[_F], _F]:
    """Add `--label`, which is given labels, and pass them as `labels`.

    Args:
        help: What is labelled.
        also: Other names of the option.
    """
    return click.option(
        "--label", *also, "labels", multiple=True, callback=_labels, metavar="NAME=VALUE", help=f"{help}; repeatable."
    )


_PARTS = ("results", "replay", "error_info", "game_logs", "player_logs", "player_artifact", "metadata")

include_option = click.option(
    "--include",
    type=click.Choice(_PARTS),
    multiple=True,
    help="Include only this part; repeatable. Default: everything that you may see.",
)
