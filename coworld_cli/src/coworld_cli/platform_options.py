"""Options of the commands that talk to a platform, and what they mean when they are parsed. Imports click alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .options import DEFAULT_SERVER, given

__all__ = [
    "Connection",
    "IdType",
    "Listing",
    "PolicyType",
    "api_address",
    "connection_options",
    "division_filter",
    "id_type",
    "key_values",
    "league_filter",
    "listing_options",
    "mine_filter",
    "platform_server_option",
    "player_filter",
    "policy_filter",
    "policy_type",
    "round_filter",
]


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Which server, and as whom."""

    server: str = DEFAULT_SERVER
    as_user: bool = False
    as_player: str | None = None
    elevated: bool = False

    @property
    def identity(self) -> str:
        """What the client calls it: ``active``, ``user`` or the id of a player."""
        return self.as_player or ("user" if self.as_user else "active")


@dataclass(frozen=True, kw_only=True)
class Listing:
    """How much of a list, and in which form."""

    limit: int | None
    """Rows at most; None: all there are."""
    offset: int = 0
    jsonl: bool = False


if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # generic only since click 8.4


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


def id_type(*kinds: str, names: bool = False) -> IdType:
    """The type of an argument that is an id of one of several kinds."""
    return IdType(*kinds, names=names)


def policy_type() -> PolicyType:
    """The type of an argument that names a policy."""
    return PolicyType()


league_filter = click.option(
    "--league", "-l", type=id_type("league"), metavar="LEAGUE_ID", help="Only those of this league."
)
"""Only what belongs to a league."""

division_filter = click.option(
    "--division", "-d", type=id_type("division"), metavar="DIVISION_ID", help="Only those of this division."
)
"""Only what belongs to a division."""

round_filter = click.option(
    "--round", "-r", type=id_type("round"), metavar="ROUND_ID", help="Only those of this round."
)
"""Only what belongs to a round."""

policy_filter = click.option(
    "--policy",
    "-p",
    type=policy_type(),
    metavar="POLICY",
    help="Only those of this policy, anyone's: NAME, NAME:N, NAME:vN or the id of a version.",
)
"""Only what concerns a policy."""

player_filter = click.option("--player", type=id_type("player"), metavar="PLY", help="Only those of this player.")
"""Only what concerns a player."""

mine_filter = click.option("--mine", is_flag=True, help="Only yours.")
"""Only what concerns you."""


def platform_server_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which platform."""
    return click.option(
        "--server",
        default=DEFAULT_SERVER,
        metavar="URL",
        envvar="COWORLD_SERVER",
        show_default=True,
        show_envvar=True,
        help="The platform.",
    )(function)


def connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--server`` and who to be, and hand it a ``Connection`` as ``connection``."""

    @platform_server_option
    @click.option("--as-user", is_flag=True, help="Be yourself, whatever player is active.")
    @click.option("--as-player", type=IdType("player"), metavar="PLY", help="Be this player of yours.")
    @click.option("--elevated", is_flag=True, help="Use the rights of the platform's team, where you have them.")
    @functools.wraps(function)
    def wrapped(*args: Any, server: str, as_user: bool, as_player: str | None, elevated: bool, **kwargs: Any) -> Any:
        if as_user and as_player:
            raise click.UsageError("--as-user and --as-player exclude each other.", click.get_current_context())
        if elevated and as_player:
            raise click.UsageError("A player has no rights of the team: --elevated needs --as-user.")
        connection = Connection(server=server, as_user=as_user, as_player=as_player, elevated=elevated)
        return function(*args, connection=connection, **kwargs)

    return wrapped


def listing_options(
    limit: int | None, *, offset: bool = False, noun: str = "rows"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command that lists ``--limit``, ``--all`` and ``--jsonl``, and hand it a ``Listing`` as ``listing``.

    Args:
        limit: Rows by default; None: all there are.
        offset: Whether a list can be begun in its middle.
        noun: What is listed.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, limit: int | None, all: bool, jsonl: bool, offset: int = 0, **kwargs: Any) -> Any:
            ctx = click.get_current_context()
            named = given(ctx)
            if all and "limit" in named:
                raise click.UsageError("--all and --limit exclude each other.", ctx)
            if jsonl and kwargs.get("json"):
                raise click.UsageError("--json and --jsonl exclude each other.", ctx)
            listing = Listing(limit=None if all else limit, offset=offset, jsonl=jsonl)
            return function(*args, listing=listing, **kwargs)

        wrapped = click.option("--jsonl", is_flag=True, help=f"Write the {noun} as JSON, one a line, as they come in.")(
            wrapped
        )
        wrapped = click.option("--all", is_flag=True, help=f"List all {noun}, however many there are.")(wrapped)
        if offset:
            wrapped = click.option(
                "--offset",
                type=click.IntRange(min=0),
                default=0,
                metavar="N",
                help=f"Leave out the first N {noun}.",
            )(wrapped)
        default = f"  [default: {limit}]" if limit is not None else " Default: all."
        return click.option(
            "--limit",
            type=click.IntRange(min=1),
            default=limit,
            metavar="N",
            help=f"List at most N {noun}.{default}",
        )(wrapped)

    return decorate


def api_address(server: str) -> str:
    """Where a server's API begins, for what is fetched without the client."""
    bare = server.rstrip("/")
    return bare if bare.endswith(("/api", "/observatory")) else f"{bare}/observatory"


def key_values(option: str, items: tuple[str, ...]) -> dict[str, str]:
    """``KEY=VALUE`` items as a mapping, split at the first ``=``.

    Raises:
        click.UsageError: An item has no key or no ``=``.
    """
    pairs: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} {item!r} is not KEY=VALUE.", click.get_current_context())
        pairs[key.strip()] = value
    return pairs
