"""The `observatory` command: serve a platform, and manage its users and leagues."""

from __future__ import annotations

import functools
import ipaddress
import json as jsonlib
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

import click

from coworld_cli.console import CommandLine, HostAndPort
from coworld_core.text import authority, csv_text

from .cli_oidc import signs_in
from .cli_operator import add_operating, add_user_operating, shown_quotas
from .cli_options import (
    Out,
    artifacts_option,
    changing,
    commissioned,
    followed,
    invites,
    judges_members,
    keep_secret,
    limits_seats,
    looking,
    metrics_option,
    port_option,
    retains,
    run,
    runs,
    takes_submissions,
    to_file,
    traces_option,
    verbose_option,
    where,
    with_services,
)
from .quotas import Quotas, read_quotas
from .settings import OidcProvider, Retention, Settings

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from .identity.invitations import Invitation
    from .services import Services
    from .work.executor import Executor

__all__ = ["cli", "main"]


class _Observatory(CommandLine):
    """Writes JSON, including errors, on one line: a program that starts a server reads the first line."""

    one_line = "--json"


@click.group(
    "observatory", cls=_Observatory, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(metadata.version("observatory"), prog_name="observatory")
def cli() -> None:
    """Run a platform for Coworlds on this machine.

    \b
    Try:    observatory demo                    a platform with a game, a league and two bots that play
    First:  observatory user add ME --team      create an account; its token is shown once
    Then:   observatory serve                   serve the platform on http://127.0.0.1:8787
    """  # noqa: D301 (click recognises a paragraph that keeps its lines by this character)


def _proxies(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """The addresses given by `--trusted-proxy`; the default ones without it."""
    if not given:
        return Settings.trusted_proxies
    if given == ("none",):
        return ()
    for text in given:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}.", context, option) from error
    return given


@cli.command("serve")
@where
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@port_option
@click.option("--allow-remote", is_flag=True, help="With local processes: also allow addresses other than loopback.")
@click.option(
    "--trust-uploads",
    is_flag=True,
    help="With local processes: also run uploaded player files, as your user and without isolation. Only for your own "
    "machine; loopback only.",
)
@click.option("--url", metavar="URL", help="The URL that clients use, if the server is behind a proxy.")
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    envvar="OBSERVATORY_TRUSTED_PROXIES",
    show_envvar=True,
    callback=_proxies,
    help="Address or network of a proxy that gives the client's address in X-Forwarded-For; `none`: no proxy. May be "
    "repeated.  [default: 127.0.0.1 and ::1]",
)
@click.option(
    "--internal-address",
    metavar="HOST:PORT",
    type=HostAndPort(),
    envvar="OBSERVATORY_INTERNAL_ADDRESS",
    show_envvar=True,
    help="Where other servers of the same database reach this one.  [default: where it listens]",
)
@artifacts_option
@runs
@retains
@signs_in
@click.option(
    "--quota",
    "quotas",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Limit for each account: waiting and running `episodes` (2000), `sessions` that people play (2), `replays` "
    "shown (4), `stored` bytes (50G), unpacked bytes of one `image` (2G), `requests` a second (500), new `rows` a day "
    "(100000). `none` removes a limit. May be repeated.",
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=Settings.connections,
    show_default=True,
    metavar="N",
    help="Connections to replays that an address may have open, and as many to games.",
)
@click.option(
    "--private-webhooks",
    is_flag=True,
    help="Let webhooks lead to addresses that are not public: to this machine, and into its networks.",
)
@metrics_option
@traces_option
@verbose_option
def serve_command(
    settings: Settings,
    out: Out,
    host: str,
    port: int,
    allow_remote: bool,
    trust_uploads: bool,
    url: str | None,
    trusted_proxies: tuple[str, ...],
    internal_address: tuple[str, int] | None,
    artifacts: str | None,
    work: dict[str, Any],
    retention: Retention,
    oidc: OidcProvider | None,
    quotas: tuple[str, ...],
    connections: int,
    private_webhooks: bool,
    metrics: tuple[str, int] | None,
    traces: bool,
    verbose: bool,
) -> None:
    """Serve the platform until it is stopped.

    The first line of output gives the address; with --json it is an object with `url`.
    """
    from dataclasses import replace

    from . import server

    limits = Quotas(**read_quotas(quotas))
    settings = replace(
        settings,
        artifacts=artifacts,
        quotas=limits,
        connections=connections,
        private_webhooks=private_webhooks,
        retention=retention,
        oidc=oidc,
        trust_uploads=trust_uploads,
        trusted_proxies=trusted_proxies,
        internal_address=authority(*internal_address) if internal_address is not None else None,
        **work,
    )
    server.require_safe_address(settings, host, allow_remote=allow_remote)
    _log_to_stderr(verbose)
    run(_serve, settings, out, server.bind(host, port), url, _metrics_listener(metrics), _traces(traces))


@cli.command("demo")
@where
@port_option
@click.option("--prepare", is_flag=True, help="Only create all of it, for a server and workers that run apart.")
@click.option("--url", metavar="URL", help="With --prepare: the URL of that server.")
@metrics_option
@verbose_option
def demo_command(
    settings: Settings,
    out: Out,
    port: int,
    prepare: bool,
    url: str | None,
    metrics: tuple[str, int] | None,
    verbose: bool,
) -> None:
    """Serve a complete platform to explore and take part in.

    It has the sample world, a league that plays continuously, two house bots in it, and an account for you. Programs,
    including those that you upload, run as local processes with your user: use it on your own machine only. It listens
    on loopback only. Starting it again with the same directory resumes it.
    """
    from dataclasses import replace

    from . import server
    from .demo import open_league, prepare_world

    if url and not prepare:
        raise click.UsageError("--url goes with --prepare: a demo that serves is reached at the address it listens on.")
    settings = replace(settings, backend="process", packages=(prepare_world(settings.data),), trust_uploads=True)
    _log_to_stderr(verbose)
    if prepare:
        made = with_services(replace(settings, url=url.rstrip("/")) if url else settings, open_league)
        out.answer(made.to_dict())
        out.say(f"Prepared the league {made.league!r}, for {made.page}; the token of an account is in {made.token}.")
        return
    run(_demo, settings, out, server.bind("127.0.0.1", port), _metrics_listener(metrics))


async def _demo(settings: Settings, out: Out, listener: Any, metrics: Any) -> None:
    from . import server
    from .demo import open_league

    settings = server.with_url(settings, listener, None)
    with server.stop_signals(out.note) as stopped:
        async with server.serve(settings, listener, metrics=metrics) as services:
            demo = await open_league(services)
            at = _metrics_at(metrics)
            out.answer({"url": settings.url, "pid": os.getpid(), **demo.to_dict(), **at})
            out.say(f"Observatory at {settings.url}, with the running league {demo.league!r}: {demo.page}")
            _tell_metrics(out, at)
            _tell_notice(out, services.runtime.executor)
            out.say("\nTo take part, in another terminal:")
            for command in demo.commands:
                out.say(f"  {command}")
            out.say("\nCtrl-C stops it; the same command resumes it.")
            await stopped()


async def _serve(settings: Settings, out: Out, listener: Any, url: str | None, metrics: Any, traces: Any) -> None:
    import sqlalchemy as sa

    from . import server
    from .store.models import User

    settings = server.with_url(settings, listener, url)
    with server.stop_signals(out.note) as stopped:
        async with server.serve(settings, listener, metrics=metrics, traces=traces) as services:
            async with services.database.reading() as session:
                users = await session.scalar(sa.select(sa.func.count()).select_from(User))
            data, at = str(settings.data.absolute()), _metrics_at(metrics)
            out.answer({"url": settings.url, "data": data, "users": users, "pid": os.getpid(), **at})
            out.say(f"Observatory at {settings.url}  (data in {data})")
            _tell_metrics(out, at)
            _tell_notice(out, services.runtime.executor)
            if not users:
                out.note(f"There are no accounts yet. Create one:  observatory user add NAME --data {settings.data}")
            else:
                out.note(f"Sign in:  coworld set-token --server {settings.url}")
            await stopped()


@cli.command("worker")
@where
@click.option("--url", metavar="URL", help="The server's URL, for pulling images from its registry.")
@artifacts_option
@runs
@metrics_option
@traces_option
def worker_command(
    settings: Settings,
    out: Out,
    url: str | None,
    artifacts: str | None,
    work: dict[str, Any],
    metrics: tuple[str, int] | None,
    traces: bool,
) -> None:
    """Play episodes until it is stopped, in addition to a server's own worker or in its executor.

    It needs the database, artifacts and key of the server.
    """
    from dataclasses import replace

    settings = replace(settings, artifacts=artifacts, **work)
    if url is not None:
        settings = replace(settings, url=url.rstrip("/"))
    _log_to_stderr(verbose=False)
    run(_work, settings, out, _metrics_listener(metrics), _traces(traces))


async def _work(settings: Settings, out: Out, metrics: Any, traces: Any) -> None:
    from contextlib import AsyncExitStack

    from coworld_core.errors import UsageError

    from . import server
    from .runtime import open_worker
    from .services import open_services
    from .work.executor import open_executor, worker_name

    async with AsyncExitStack() as stack:
        stopped = stack.enter_context(server.stop_signals(out.note))
        services = await stack.enter_async_context(open_services(settings))
        at = _metrics_at(metrics)
        services.runtime.traces = traces
        if metrics is not None:
            await stack.enter_async_context(server.serve_metrics(services, metrics))
        executor = await stack.enter_async_context(open_executor(services))
        if executor is None or settings.parallel < 1:
            raise UsageError(
                "No backend on this machine can play episodes.",
                code="no_backend",
                hint="Start Docker, or trust a package with --package DIRECTORY.",
            )
        async with open_worker(services, executor, owner=worker_name()):
            out.answer({"backend": executor.backend.name, "parallel": settings.parallel, "pid": os.getpid(), **at})
            out.say(f"Playing episodes with {executor.backend.name}, {settings.parallel} at a time.")
            _tell_metrics(out, at)
            _tell_notice(out, executor)
            await stopped()


def _metrics_listener(metrics: tuple[str, int] | None) -> Any:
    """The socket that shows metrics; None if nobody asked for them."""
    from . import server

    return server.bind(*metrics, option="--metrics") if metrics is not None else None


def _traces(asked: bool) -> Any:
    """What traces a server or a worker; None if nobody asked for it."""
    if not asked:
        return None
    from .operations.traces import PlatformTraces

    return PlatformTraces()


def _metrics_at(listener: Any) -> dict[str, str]:
    """Where metrics are shown, for a command's answer."""
    from . import server

    return {"metrics": f"{server.address_of(listener)}/metrics"} if listener is not None else {}


def _tell_metrics(out: Out, at: Mapping[str, str]) -> None:
    for address in at.values():
        out.say(f"Metrics at {address}")


def _tell_notice(out: Out, executor: Executor | None) -> None:
    if executor is not None and executor.notice is not None:
        out.note(executor.notice)


@cli.command("pull-secret")
@click.option("--url", metavar="URL", help="The server's URL for the cluster's nodes.  [default: that of `serve`]")
@click.option("--name", default="observatory-pull", show_default=True, help="The name of the Secret.")
@to_file
@where
def pull_secret_command(settings: Settings, out: Out, url: str | None, name: str, to: Path | None) -> None:
    """Write the Secret with which a cluster pulls this Observatory's images.

    It allows pulling any image, and pushing none. Apply it with `observatory pull-secret | kubectl apply -f -`, and
    pass its name to the worker with --pull-secret.
    """
    from dataclasses import replace

    from .identity.worker_login import pull_secret, worker_login

    if url is not None:
        settings = replace(settings, url=url.rstrip("/"))

    async def make(services: Services) -> dict[str, object]:
        return pull_secret(name, services.settings.registry, worker_login(services.vault))

    made = with_services(settings, make)
    keep_secret(out, to, jsonlib.dumps(made, indent=2), made)


@cli.group("user")
def user_group() -> None:
    """Manage accounts and their tokens."""


@user_group.command("add")
@click.argument("name")
@click.option("--email", help="Shown by whoami.")
@click.option("--team", is_flag=True, help="A member of the team: may use team routes, and see everything on request.")
@to_file
@where
def user_add(settings: Settings, out: Out, name: str, email: str | None, team: bool, to: Path | None) -> None:
    """Create an account and print its token, which is shown only once."""

    async def add(services: Services) -> dict[str, object]:
        from .identity.accounts import add_user

        async with services.database.writing() as session:
            user, token = await add_user(session, services.tokens, name, email=email, team=team)
        return {"id": user.id, "name": user.name, "team": user.is_team, "token": token.text}

    _tell_token(out, to, with_services(settings, add))


@user_group.command("invite")
@click.argument("name")
@click.option("--email", help="Shown by whoami.")
@click.option("--team", is_flag=True, help="A new account is a member of the team.")
@invites
@where
def user_invite(
    settings: Settings, out: Out, name: str, email: str | None, team: bool, days: int, url: str | None, to: Path | None
) -> None:
    """Make a link by which somebody gets a token, once; with an account, unless there is one of that name."""
    from .identity.invitations import Person, invite

    person = Person(name=name, email=email, team=team)
    [made] = _invitations(settings, url, lambda session: _each(invite(session, person, days=days)))
    keep_secret(out, to, str(made["link"]), made)


@user_group.command("import")
@click.argument("file", type=click.File("rb"))
@invites
@where
def user_import(settings: Settings, out: Out, file: BinaryIO, days: int, url: str | None, to: Path | None) -> None:
    """Invite everybody in a CSV file with the columns name and, if wanted, email and team (yes or no).

    The result is CSV with a link for each, by which they get a token, once. Who has an account already gets none.
    """
    from .identity.invitations import invite_all, read_people

    people = read_people(file.read())
    made = _invitations(settings, url, lambda session: invite_all(session, people, days=days))
    keep_secret(
        out,
        to,
        csv_text([{key: one[key] for key in ("name", "email", "link")} for one in made]).rstrip("\n"),
        {"items": made},
    )
    invited = sum(one["link"] is not None for one in made)
    out.note(f"{invited} invited, for {days} days; {len(made) - invited} had an account.")


async def _each(one: Awaitable[Invitation]) -> list[Invitation]:
    return [await one]


def _invitations(
    settings: Settings, url: str | None, make: Callable[[AsyncSession], Awaitable[list[Invitation]]]
) -> list[dict[str, Any]]:
    """Make invitations, and show them with their links."""
    base = (url or settings.url).rstrip("/")

    async def change(session: AsyncSession) -> list[dict[str, Any]]:
        return [
            {
                "id": one.user.id,
                "name": one.user.name,
                "email": one.user.email,
                "team": one.user.is_team,
                "link": one.code and f"{base}/invitations/{one.code}",
            }
            for one in await make(session)
        ]

    return changing(settings, change)


@user_group.command("token")
@click.argument("name")
@click.option("--revoke", is_flag=True, help="Revoke all earlier tokens and sessions of the account.")
@click.option("--label", default="another", show_default=True, metavar="TEXT", help="What it is for.")
@click.option("--days", type=click.IntRange(1), metavar="N", help="Days that it is valid.  [default: until revoked]")
@to_file
@where
def user_token(
    settings: Settings, out: Out, name: str, revoke: bool, label: str, days: int | None, to: Path | None
) -> None:
    """Create another token for an account, and print it."""

    async def make(services: Services) -> dict[str, object]:
        from .identity.accounts import new_token

        async with services.database.writing() as session:
            token = await new_token(session, services.tokens, name, revoke=revoke, label=label, days=days)
        return {"name": name, "token": token.text}

    _tell_token(out, to, with_services(settings, make))


@user_group.command("quota")
@click.argument("name")
@click.argument("quotas", metavar="[QUOTA=NUMBER]...", nargs=-1)
@click.option("--reset", is_flag=True, help="Remove the account's own quotas, so that the default ones apply.")
@where
def user_quota(settings: Settings, out: Out, name: str, quotas: tuple[str, ...], reset: bool) -> None:
    """Set the quotas of one account, overriding the default ones.

    `observatory user quota ANN episodes=10000 requests=none`
    """
    from .identity.accounts import keep_quotas

    async def keep(session: AsyncSession) -> dict[str, object]:
        user = await keep_quotas(session, name, quotas, reset=reset)
        return {"id": user.id, "name": user.name, "quotas": user.quotas or {}}

    result = changing(settings, keep)
    out.answer(result)
    out.say(f"{name}: {shown_quotas(result['quotas']) or 'default quotas'}")


add_user_operating(user_group)
add_operating(cli)


@cli.group("league")
def league_group() -> None:
    """Manage the leagues of this Observatory."""


@league_group.command("add")
@click.argument("name")
@click.option("--coworld", required=True, metavar="NAME", help="The Coworld that it plays; must be uploaded already.")
@click.option("--variant", metavar="ID", help="The variant that it plays.  [default: the Coworld's first]")
@click.option("--private", is_flag=True, help="Shown only to visitors with an account.")
@click.option(
    "--every",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Play rounds of its champions while a server runs, with at least this much time between the starts of two "
    "rounds.  [default: it plays no rounds]",
)
@click.option(
    "--pairing",
    metavar="NAME",
    default="free-play",
    show_default=True,
    help="How a round is paired, as in `coworld tournament`: round-robin, swiss, ladder, single-elimination ….",
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    metavar="N",
    help="Rounds of a season, which is then archived before the next begins.  [default: as many as the pairing has]",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Blocks of each match; in a block each entrant plays in every seat.",
)
@click.option(
    "--divisions",
    type=click.IntRange(1, 20),
    default=1,
    show_default=True,
    help="Number of divisions, one above the other. Newcomers start in the lowest.",
)
@click.option(
    "--moves",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="How many members change places between neighbouring divisions at the end of a season.",
)
@click.option(
    "--size", type=click.IntRange(1), default=8, show_default=True, help="Members of each division except the lowest."
)
@click.option(
    "--entries-per-user",
    type=click.IntRange(0),
    metavar="N",
    default=1,
    show_default=True,
    help="Champions that one account may have; its further players continue their ratings. 0: any number.",
)
@click.option("--check", is_flag=True, help="A submission first plays an episode against itself.")
@click.option(
    "--faults",
    type=click.IntRange(1),
    metavar="N",
    help="Disqualify a policy that was at fault in each of its last N episodes.  [default: never]",
)
@judges_members
@takes_submissions
@limits_seats
@followed
@commissioned
@where
def league_add(
    settings: Settings,
    out: Out,
    name: str,
    coworld: str,
    variant: str | None,
    private: bool,
    every: float | None,
    divisions: int,
    **terms: object,
) -> None:
    """Create a league that accepts submissions."""
    from .api.leagues import create_league, league_divisions

    async def make(session: AsyncSession) -> dict[str, object]:
        league = await create_league(
            session,
            name,
            coworld=coworld,
            variant_id=variant,
            public=not private,
            every=every,
            terms=_named_terms(terms),
            divisions=divisions,
        )
        lowest, *_ = await league_divisions(session, league.id)
        return {"id": league.id, "name": league.name, "coworld": league.game.name, "division_id": lowest.id}

    made = changing(settings, make)
    out.answer(made)
    out.say(f"{made['id']}  {made['name']} ({made['coworld']})")


@league_group.command("set")
@click.argument("name")
@click.option(
    "--every", type=click.FloatRange(0), metavar="SECONDS", help="Least time between the starts of two rounds."
)
@click.option("--pairing", metavar="NAME", help="How a round is paired; before the first round of a season.")
@click.option("--blocks", type=click.IntRange(1, 100), help="Blocks of each match; before the first round of a season.")
@click.option(
    "--rounds", type=click.IntRange(0), metavar="N", help="Rounds of a season; 0: as many as the pairing has."
)
@click.option("--moves", type=click.IntRange(0), help="How many members change places at the end of a season.")
@click.option("--size", type=click.IntRange(1), help="Members of each division except the lowest.")
@click.option(
    "--entries-per-user",
    type=click.IntRange(0),
    metavar="N",
    help="Champions that one account may have; those that joined first are benched. 0: any number.",
)
@click.option("--check/--no-check", default=None, help="A submission first plays an episode against itself.")
@click.option("--faults", type=click.IntRange(0), metavar="N", help="Faults in a row that disqualify; 0: never.")
@judges_members
@takes_submissions
@limits_seats
@followed
@commissioned
@where
def league_set(settings: Settings, out: Out, name: str, every: float | None, **terms: object) -> None:
    """Change how a league plays, from its next round on. Other settings stay as they are."""
    from .api.leagues import change_league_settings

    named = _named_terms(terms)
    if every is None and not named:
        raise click.UsageError("Give at least one setting to change, such as --rounds 10.")

    async def change(session: AsyncSession) -> dict[str, object]:
        league = await change_league_settings(session, name, every=every, terms=named)
        return {"id": league.id, "name": league.name, "terms": league.commissioner_config or {}}

    result = changing(settings, change)
    out.answer(result)
    said = {**named, **({} if every is None else {"every": every})}
    if (hooks := terms.get("hooks")) is not None:
        said["hooks"] = " ".join(cast("list[str]", hooks)) or "none"
    words = ", ".join(f"{key.partition('_')[0]} {'none' if value is None else value}" for key, value in said.items())
    out.say(f"{result['name']}: {words}, from the next round on.")


def _named_terms(terms: Mapping[str, object]) -> dict[str, object]:
    """The settings that were given, by field of `LeagueSettings`."""
    # The values that mean None for these settings.
    none = {
        "opens_at": "none",
        "closes_at": "none",
        "final_season": 0,
        "rounds": 0,
        "faults": 0,
        "unplayable": 0,
        "entries_per_user": 0,
        "commissioner_runnable_id": "",
    }
    return {
        key: None if key in none and value == none[key] else value for key, value in terms.items() if value is not None
    }


@league_group.command("list")
@where
def league_list(settings: Settings, out: Out) -> None:
    """List the leagues, with their settings and progress."""
    from .operations.overview import leagues

    found = looking(settings, leagues)
    out.answer({"items": found})
    for league in found:
        out.say(f"{league['id']}  {league['name']} ({league['coworld']})" + ("" if league["public"] else "  (private)"))
        plays = f"{league['decides']}, season {league['season']}, {league['members']} members, {league['divisions']} "
        entries = "any number" if league["entries_per_user"] is None else league["entries_per_user"]
        plays += f"division{'s' if league['divisions'] > 1 else ''}, entries of one account: {entries}"
        out.say(f"    {league['state']}: {plays}{_under_way(league)}")
        if league["submissions"]:
            out.say(f"    {league['submissions']}")
        if league["roles"]:
            out.say(f"    Each completed episode of a round is {league['roles']}.")
        if league["trouble"]:
            out.say(f"    The last attempt failed: {league['trouble']}")
        if league["unattended"]:
            out.say(f"    {league['unattended']}")
        for one in league["stopped"]:
            out.say(f"    {one['division']}: {one['why']}")
            out.note(
                f"`observatory league season {shlex.quote(league['name'])}` closes the season and begins the next."
            )
    if not found:
        out.note("No leagues yet: observatory league add NAME --coworld NAME")


def _under_way(league: dict[str, Any]) -> str:
    rounds = (f"round {one['round']}: {one['over']} of {one['episodes']} episodes" for one in league["rounds"])
    return "".join(f", {text}" for text in rounds)


@league_group.command("pause")
@click.argument("name")
@where
def league_pause(settings: Settings, out: Out, name: str) -> None:
    """Pause a league: it begins no more rounds; a round under way is finished."""
    _act_on_league(settings, out, name, "pause")


@league_group.command("resume")
@click.argument("name")
@where
def league_resume(settings: Settings, out: Out, name: str) -> None:
    """Resume a paused league."""
    _act_on_league(settings, out, name, "resume")


@league_group.command("season")
@click.argument("name")
@where
def league_season(settings: Settings, out: Out, name: str) -> None:
    """Close a league's season now, and begin the next.

    Its tables are archived, and members are promoted and relegated. Episodes of a round under way no longer count.
    """
    _act_on_league(settings, out, name, "season")


def _act_on_league(settings: Settings, out: Out, name: str, action: str) -> None:
    from .work.seasons import change_league

    result = changing(settings, functools.partial(change_league, reference=name, action=action))
    out.answer(result)
    out.say(f"{result['name']}: {result['state']}, season {result['season']}.")
    for move in result["moves"]:
        out.say(f"  {move['name']}: {move['from']} → {move['to']}")


def _tell_token(out: Out, to: Path | None, made: dict[str, object]) -> None:
    keep_secret(out, to, str(made["token"]), made)
    out.note(f"This is the token of {made['name']}; it is not stored and cannot be shown again.")


def _log_to_stderr(verbose: bool) -> None:
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("observatory", "uvicorn"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if verbose else logging.WARNING)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit with its status; every error becomes a line or a JSON object."""
    sys.exit(cli.run(argv))


if __name__ == "__main__":
    main()
