"""The operator's commands: accounts, policies, queue, workers, disk, audit log, backup and retention."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coworld_core.text import shown_size

from .cli_options import Out, artifacts_option, changing, looking, retains, run, where, with_services
from .settings import Retention, Settings

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from .services import Services

__all__ = ["add_operating", "add_user_operating", "shown_quotas"]

_reason = click.option("--reason", metavar="TEXT", help="The reason, shown to the owner.")


def add_user_operating(group: click.Group) -> None:
    """Add the commands that list, disable and enable accounts to the group `user`."""
    for command in (_user_list, _user_disable, _user_enable, _user_delete):
        group.add_command(command)


def add_operating(cli: click.Group) -> None:
    """Add the operator's commands to the command line."""
    for command in (_policy, _queue, _workers, _disk, _audit, _backup, _restore, _retention):
        cli.add_command(command)


@click.command("list")
@where
def _user_list(settings: Settings, out: Out) -> None:
    """List the accounts, with their own quotas, stored bytes and waiting episodes."""
    from .operations.overview import accounts

    users = looking(settings, accounts)
    out.answer({"items": users})
    rows = [
        (
            user["id"],
            user["name"],
            ", ".join(word for word, on in (("team", user["team"]), ("disabled", user["disabled_at"])) if on),
            shown_quotas(user["quotas"]),
            shown_size(user["stored"]),
            user["waiting"],
        )
        for user in users
    ]
    none = "No accounts yet: observatory user add NAME"
    out.rows(("ID", "NAME", "", "QUOTAS", "STORED", "WAITING"), rows, none=none, right=(4, 5))


@click.command("disable")
@click.argument("name")
@_reason
@where
def _user_disable(settings: Settings, out: Out, name: str, reason: str | None) -> None:
    """Disable an account: its tokens and sessions are refused from now on, and its queued episodes are cancelled.

    Everything that it made stays. `observatory user enable` reverses this.
    """
    from .operations.moderation import disable_user

    async def close(session: AsyncSession) -> dict[str, Any]:
        user, cancelled = await disable_user(session, name, reason=reason)
        return {
            "id": user.id,
            "name": user.name,
            "disabled_at": user.disabled_at,
            "disabled_reason": reason,
            "episodes_cancelled": cancelled,
        }

    result = changing(settings, close)
    out.answer(result)
    out.say(f"{result['name']} is disabled.{_cancelled(result)}")


@click.command("enable")
@click.argument("name")
@where
def _user_enable(settings: Settings, out: Out, name: str) -> None:
    """Enable a disabled account; its tokens are valid again."""
    from .operations.moderation import enable_user

    async def reopen(session: AsyncSession) -> dict[str, Any]:
        user = await enable_user(session, name)
        return {"id": user.id, "name": user.name, "disabled_at": None}

    result = changing(settings, reopen)
    out.answer(result)
    out.say(f"{result['name']} is enabled.")


@click.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Delete it; otherwise only say what that would do.")
@where
def _user_delete(settings: Settings, out: Out, name: str, yes: bool) -> None:
    """Say what deleting an account would do, or delete it, for good.

    Episodes, replays and standings stay under a neutral name, since others have a part in them.
    """
    from .operations.deletion import delete_named

    async def delete(services: Services) -> dict[str, Any]:
        return dataclasses.asdict(await delete_named(services, name, really=yes))

    result = with_services(settings, delete)
    out.answer(result | {"deleted": yes})
    words = ("episodes", "requests", "memberships", "unused", "tokens")
    out.say(
        f"{result['name']} {'is' if yes else 'would be'} deleted, and called {result['neutral_name']}: "
        + ", ".join(f"{result[word]} {word}" for word in words)
        + f".\nGoes: {result['goes']}.\nStays: {result['stays']}."
    )


@click.group("policy")
def _policy() -> None:
    """List, disable and enable uploaded policies."""


@_policy.command("list")
@click.option("--user", metavar="NAME", help="Only policies of this account.")
@click.option("--disabled", is_flag=True, help="Only disabled policies.")
@where
def _policy_list(settings: Settings, out: Out, user: str | None, disabled: bool) -> None:
    """List policy versions, by owner and name."""
    from .operations.overview import policies

    found = looking(settings, functools.partial(policies, owner=user, disabled=disabled))
    out.answer({"items": found})
    rows = [
        (
            row["id"],
            row["user"],
            f"{row['name']}:v{row['version']}",
            row["disabled"] and f"disabled: {row['disabled_reason'] or 'no reason given'}",
        )
        for row in found
    ]
    out.rows(("ID", "USER", "POLICY", ""), rows, none="No policies.")


_which = click.argument("reference", metavar="POLICY")
_owner = click.option("--user", metavar="NAME", help="The owner, if several have a policy of that name.")


@_policy.command("disable")
@_which
@_owner
@_reason
@where
def _policy_disable(settings: Settings, out: Out, reference: str, user: str | None, reason: str | None) -> None:
    """Disable a policy (NAME), or a version of it (NAME:v3, or an id).

    It is no longer scheduled, queued episodes with it are cancelled, and its owner sees the reason.
    """
    from .operations.moderation import disable_policy, find_policy, policy_label

    async def close(session: AsyncSession) -> dict[str, Any]:
        row = await find_policy(session, reference, owner=user)
        cancelled = await disable_policy(session, row, reason=reason)
        return {
            "id": row.id,
            "policy": policy_label(row),
            "disabled_at": row.disabled_at,
            "disabled_reason": reason,
            "episodes_cancelled": cancelled,
        }

    result = changing(settings, close)
    out.answer(result)
    out.say(f"{result['policy']} is disabled.{_cancelled(result)}")


@_policy.command("enable")
@_which
@_owner
@where
def _policy_enable(settings: Settings, out: Out, reference: str, user: str | None) -> None:
    """Enable a disabled policy, or a version of it."""
    from .operations.moderation import enable_policy, find_policy, policy_label

    async def reopen(session: AsyncSession) -> dict[str, Any]:
        row = await find_policy(session, reference, owner=user)
        enable_policy(session, row)
        return {"id": row.id, "policy": policy_label(row), "disabled_at": None}

    result = changing(settings, reopen)
    out.answer(result)
    out.say(f"{result['policy']} is enabled.")


@click.command("queue")
@where
def _queue(settings: Settings, out: Out) -> None:
    """Show waiting and running episodes and roles by account, the account that is served next first."""
    from .operations.overview import queue

    rows = looking(settings, queue)
    out.answer({"items": rows, **{key: sum(row[key] for row in rows) for key in ("waiting", "running")}})
    cells = [(row["user"], row["waiting"], row["running"], _moment(row["oldest_at"])) for row in rows]
    none = "Nothing is waiting or running."
    out.rows(("USER", "WAITING", "RUNNING", "OLDEST"), cells, none=none, right=(1, 2))


@click.command("workers")
@where
def _workers(settings: Settings, out: Out) -> None:
    """Show the workers, when each was last seen, and the episodes and roles that it runs."""
    from .operations.overview import workers

    rows = looking(settings, workers)
    out.answer({"items": rows})
    cells = [
        (
            row["name"],
            row["state"],
            row["backend"],
            f"{len(row['episodes']) + len(row['roles'])}/{row['parallel'] if row['parallel'] is not None else '?'}",
            _moment(row["seen_at"]),
            ", ".join([*row["episodes"], *row["roles"]]),
        )
        for row in rows
    ]
    none = "No workers: observatory worker"
    out.rows(("WORKER", "STATE", "BACKEND", "BUSY", "LAST SEEN", "EPISODES"), cells, none=none)
    for row in rows:
        if row["trouble"]:
            out.note(f"{row['name']}: {row['trouble']}")


@click.command("disk")
@where
def _disk(settings: Settings, out: Out) -> None:
    """Show stored bytes by account and kind, and the free space."""
    from .operations.overview import disk

    found = looking(settings, functools.partial(disk, directory=settings.data))
    out.answer(found)
    cells = [(row["user"], row["kind"], row["items"], shown_size(row["bytes"])) for row in found["items"]]
    out.rows(("USER", "KIND", "ITEMS", "SIZE"), cells, none="Nothing is stored.", right=(2, 3))
    used, free, whole = (shown_size(found[name]) for name in ("bytes", "free_bytes", "disk_bytes"))
    out.say(f"{used} stored; {free} of {whole} are free.")


@click.command("audit")
@click.option(
    "--since", metavar="WHEN", help="Only since a date (2026-01-31, or with a time), or for a duration: 7d, 12h, 30m."
)
@click.option("--user", metavar="NAME", help="Only entries by or about this account.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N entries.")
@where
def _audit(settings: Settings, out: Out, since: str | None, user: str | None, last: int | None) -> None:
    """Show the audit log, oldest first: operators' actions, and events that concern security."""
    from .store.audit import audit_lines

    moment = None if since is None else _since(since)
    lines = looking(settings, functools.partial(audit_lines, since=moment, user=user, limit=last))
    out.answer({"items": lines})
    cells = [
        (
            _moment(line["at"]),
            line["by"] or line["actor"],
            line["origin"],
            line["action"],
            " ".join(str(part) for part in (line["user"], line["subject"]) if part),
            ", ".join(f"{key} {_listed(value)}" for key, value in line["detail"].items()),
        )
        for line in lines
    ]
    out.rows(("WHEN", "BY", "FROM", "WHAT", "ABOUT", ""), cells, none="No entries.")


@click.command("backup")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--replace", is_flag=True, help="Replace the present content of the directory.")
@artifacts_option
@where
def _backup(settings: Settings, out: Out, directory: Path, replace: bool, artifacts: str | None) -> None:
    """Copy everything except the key into a directory; the server may keep running.

    Keep the key elsewhere: without it, the secrets cannot be read.
    """
    to = directory.absolute()

    async def copy(services: Services) -> dict[str, Any]:
        from .operations.backup import back_up

        return await back_up(services, to, replace=replace)

    settings = dataclasses.replace(settings, artifacts=artifacts)
    note = with_services(settings, copy)
    out.answer({"directory": str(to), **note})
    out.say(f"{directory}: {_contents(note)}.")
    if note["missing"]:
        out.note(f"Missing: {', '.join(note['missing'][:5])}{' …' if len(note['missing']) > 5 else ''}")
    out.note(f"The key is not included: {settings.key_file}")


@click.command("restore")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--replace", is_flag=True, help="Replace existing data, which is lost.")
@artifacts_option
@where
def _restore(settings: Settings, out: Out, directory: Path, replace: bool, artifacts: str | None) -> None:
    """Restore a backup into --data, --database and --artifacts; its key must be in place.

    The database and the store may be of another kind than those of the backup.
    """
    from .operations.backup import restore

    settings = dataclasses.replace(settings, artifacts=artifacts)
    note = run(functools.partial(restore, directory.absolute(), settings, replace=replace))
    out.answer({"data": str(settings.data.absolute()), **note})
    out.say(f"{settings.data}: {_contents(note)}.")


@click.command("retention")
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@retains
@artifacts_option
@where
def _retention(settings: Settings, out: Out, dry_run: bool, retention: Retention, artifacts: str | None) -> None:
    """Remove replays, logs and players' files of old episodes; records, results and scores stay.

    `observatory serve` does this every hour if given the same two options.
    """
    if retention == Retention():
        raise click.UsageError("No rule given: pass --keep-days or --keep-episodes.")

    async def work(services: Services) -> dict[str, Any]:
        from .operations.retention import prune

        return await prune(services, retention, dry_run=dry_run)

    gone = with_services(dataclasses.replace(settings, artifacts=artifacts), work)
    out.answer({**gone, "dry_run": dry_run})
    files = f"{gone['files']} files ({shown_size(gone['bytes'])}) of {gone['episodes']} episodes"
    out.say(f"{files} would be removed." if dry_run else f"{files} were removed.")


def _contents(note: dict[str, Any]) -> str:
    counts = ", ".join(f"{note[name]} {name}" for name in ("rows", "images", "artifacts"))
    return f"{counts} of {_moment(note['made_at'])} UTC"


_AGES = {"d": "days", "h": "hours", "m": "minutes"}


def _since(text: str) -> dt.datetime:
    """Parse the value of `--since`.

    Raises:
        click.BadParameter: It is neither a date nor a duration.
    """
    if (age := re.fullmatch(r"(\d{1,5})([dhm])", text, re.ASCII)) is not None:
        return dt.datetime.now(dt.UTC) - dt.timedelta(**{_AGES[age[2]]: int(age[1])})
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a date or duration: write 2026-01-31, 2026-01-31T12:00, or 7d, 12h, 30m.",
            param_hint="--since",
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def shown_quotas(quotas: dict[str, int | None]) -> str:
    """Quotas of one account, in words; empty if it has none of its own."""
    return ", ".join(f"{key} {'none' if value is None else value}" for key, value in quotas.items())


def _cancelled(result: dict[str, Any]) -> str:
    return f" Episodes cancelled: {result['episodes_cancelled']}." if result["episodes_cancelled"] else ""


def _moment(text: str | None) -> str:
    return text[:19].replace("T", " ") if text else ""


def _listed(value: str | float | list[str]) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
