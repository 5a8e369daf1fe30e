"""Invitations: accounts whose owners sign in by a link that works once, and lists of people to invite."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ..names import NameRefused
from ..store.audit import audit
from ..store.models import AuthCode, User
from .accounts import AccountError, make_account
from .auth import new_code, usable_code

__all__ = ["Invitation", "Person", "invite", "invite_all", "invited_by", "read_people"]

_YES = ("yes", "y", "true", "1", "x")
_NO = ("", "no", "n", "false", "0")
_SHOWN = 10
"""How many mistakes of a list are named."""


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody to invite."""

    name: str
    email: str | None = None
    team: bool = False


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """An account, and the code of its link; None for an account of a list that was there before."""

    user: User
    code: str | None


async def invite(session: AsyncSession, person: Person, *, days: int) -> Invitation:
    """Invite somebody by a link that works once; makes the account, unless there is one of exactly that name.

    Args:
        session: A writing session.
        person: Who; for an account that exists, only the name counts.
        days: How long the link works.

    Raises:
        NameRefused: The name cannot be used, or looks like another account's.
    """
    user = await _named(session, person) or await make_account(
        session, person.name, email=person.email, team=person.team
    )
    audit(session, "account.invited", user_id=user.id, days=days)
    return Invitation(user=user, code=await new_code(session, user.id, lifetime=dt.timedelta(days=days)))


async def invite_all(session: AsyncSession, people: Sequence[Person], *, days: int) -> list[Invitation]:
    """Invite everybody of a list who has no account yet, or nobody if anything is wrong with a name.

    Args:
        session: A writing session, to be rolled back after an error.
        people: The list.
        days: How long the links work.

    Raises:
        AccountError: What is wrong with each name (code `bad_people`).
    """
    there = [await _named(session, person) for person in people]
    made: list[Invitation] = []
    wrong: list[str] = []
    for person, user in zip(people, there, strict=True):
        try:
            if user is None and await _named(session, person) is not None:
                raise NameRefused(f"{person.name!r} is in the list twice.")
            made.append(Invitation(user=user, code=None) if user else await invite(session, person, days=days))
        except NameRefused as error:
            wrong.append(error.message)
    _refuse(wrong)
    return made


async def invited_by(session: AsyncSession, code: str) -> User | None:
    """Whom a code invites; None if it is unknown, used or expired."""
    return await session.scalar(sa.select(User).join(AuthCode, AuthCode.user_id == User.id).where(usable_code(code)))


def read_people(data: bytes) -> list[Person]:
    """Read a list of people: CSV with the columns `name` and, if wanted, `email` and `team` (yes or no).

    Args:
        data: The file, in UTF-8, with a line of column names; commas, semicolons or tabs separate.

    Raises:
        AccountError: It is no such list (code `bad_people`), with each line that is wrong.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AccountError("The list is not in UTF-8.", code="bad_people", hint="Save it as UTF-8.") from error
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    rows = csv.DictReader(text.splitlines(), delimiter=delimiter, skipinitialspace=True)
    columns = {column.strip().lower(): column for column in rows.fieldnames or ()}
    unknown = set(columns) - {"name", "email", "team"}
    if "name" not in columns or unknown:
        said = "has no column `name`" if "name" not in columns else f"has unknown columns: {', '.join(sorted(unknown))}"
        raise AccountError(f"The list {said}.", code="bad_people", hint="Its first line is: name,email,team")
    people: list[Person] = []
    wrong: list[str] = []
    for row in rows:
        cells = {name: (row.get(column) or "").strip() for name, column in columns.items()}
        team = cells.get("team", "").lower()
        if not any(cells.values()):
            continue
        if not cells["name"]:
            wrong.append(f"Line {rows.line_num}: the name is missing.")
        elif team not in (*_YES, *_NO):
            wrong.append(f"Line {rows.line_num}: {team!r} is neither yes nor no.")
        elif None in row:
            wrong.append(f"Line {rows.line_num} has more cells than the first.")
        people.append(Person(name=cells["name"], email=cells.get("email") or None, team=team in _YES))
    _refuse(wrong)
    return people


async def _named(session: AsyncSession, person: Person) -> User | None:
    return await session.scalar(sa.select(User).where(User.name == person.name.strip()))


def _refuse(wrong: Sequence[str]) -> None:
    if wrong:
        more = [f"And {len(wrong) - _SHOWN} more."] if len(wrong) > _SHOWN else []
        raise AccountError("\n".join([*wrong[:_SHOWN], *more]), code="bad_people", hint="Nobody was invited.")
