"""Accounts: creating and finding them, their tokens and quotas."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import CoworldError

from ..names import NameRefused, new_name, require_distinct
from ..quotas import read_quotas
from ..store.audit import audit
from ..store.columns import now
from ..store.models import SignInLink, Token, User
from .auth import Authenticator, MintedToken

__all__ = [
    "AccountError",
    "add_user",
    "find_user",
    "keep_quotas",
    "make_account",
    "new_token",
    "own_tokens",
    "revoke_all",
    "revoke_token",
]


class AccountError(CoworldError):
    """The requested change of an account is invalid."""

    kind = "usage"
    default_code = "account"


async def add_user(
    session: AsyncSession, tokens: Authenticator, name: str, *, email: str | None = None, team: bool = False
) -> tuple[User, MintedToken]:
    """Create an account with its first token.

    Raises:
        NameRefused: The name cannot be used, is taken, or looks like another account's.
    """
    user = await make_account(session, name, email=email, team=team)
    return user, await tokens.mint(session, "user", user.id, label="first")


async def make_account(
    session: AsyncSession, name: str, *, email: str | None = None, team: bool = False, shared: bool = False
) -> User:
    """Create an account that has no token yet; `shared`: that of a team, which never has one.

    Raises:
        NameRefused: The name cannot be used, is taken, or looks like another account's.
    """
    name = new_name(name)
    if await session.scalar(sa.select(User.id).where(User.name == name)) is not None:
        raise NameRefused(
            f"A user named {name!r} already exists.",
            code="name_taken",
            hint="Choose another name." if shared else f"`observatory user token {name}` makes another token.",
        )
    require_distinct(name, await session.scalars(sa.select(User.name)), "the user {!r}")
    user = User(name=name, email=email, is_team=team, is_shared=shared)
    session.add(user)
    await session.flush()
    audit(session, "account.made", user_id=user.id, team="yes" if team else None, shared="yes" if shared else None)
    return user


async def new_token(
    session: AsyncSession,
    tokens: Authenticator,
    name: str,
    *,
    revoke: bool = False,
    label: str = "another",
    days: int | None = None,
    latest: dt.datetime | None = None,
) -> MintedToken:
    """Create another token for a user, optionally revoking all earlier ones.

    Args:
        session: A writing session.
        tokens: Creates it.
        name: The user's name or id.
        revoke: Revoke all earlier tokens and sessions first.
        label: What it is for, for its owner.
        days: Days that it is valid; None: until revoked.
        latest: When it ends at the latest.

    Raises:
        AccountError: There is no such user.
    """
    user = await find_user(session, name)
    if revoke:
        await revoke_all(session, user)
    lifetime = None if days is None else dt.timedelta(days)
    return await tokens.mint(session, "user", user.id, label=label, lifetime=lifetime, latest=latest)


async def own_tokens(session: AsyncSession, user_id: str) -> list[Token]:
    """The valid tokens and sessions with which somebody acts as an account or as one of its players, newest first."""
    statement = sa.select(Token).where(
        Token.user_id == user_id,
        Token.revoked_at.is_(None),
        sa.or_(Token.expires_at.is_(None), Token.expires_at > now()),
        # The registry's are made for each push, and expire by themselves
        Token.kind != "registry",
    )
    return list(await session.scalars(statement.order_by(Token.created_at.desc(), Token.id)))


async def revoke_token(session: AsyncSession, user_id: str, token_id: str) -> Token | None:
    """Revoke a token or session of an account; returns it, also if it is no longer valid, or None without one."""
    token = await session.get(Token, token_id)
    if token is None or token.user_id != user_id:
        return None
    if token.revoked_at is None:
        token.revoked_at = now()
        audit(session, "token.revoked", user_id=user_id, subject=token_id, kind=token.kind, label=token.label)
    return token


async def keep_quotas(session: AsyncSession, name: str, quotas: Iterable[str], *, reset: bool = False) -> User:
    """Set quotas of an account that replace the defaults.

    Args:
        session: A writing session.
        name: The user's name.
        quotas: The quotas to change, in the form for `read_quotas`; others stay.
        reset: Remove earlier settings first.

    Raises:
        AccountError: There is no such user.
        UsageError: There is no such quota.
    """
    changed = read_quotas(quotas)
    user = await find_user(session, name)
    user.quotas = ({} if reset else dict(user.quotas or {})) | changed or None
    shown = {key: "none" if value is None else value for key, value in (user.quotas or {}).items()}
    audit(session, "account.quotas", user_id=user.id, **shown)
    return user


async def find_user(session: AsyncSession, name: str) -> User:
    """Find an account by name or id.

    Raises:
        AccountError: There is no such user (code `unknown_user`).
    """
    user = await session.scalar(sa.select(User).where(sa.or_(User.name == name, User.id == name)))
    if user is None:
        hint = "`observatory user list` has the names."
        raise AccountError(f"There is no user {name!r}.", code="unknown_user", hint=hint)
    return user


async def revoke_all(session: AsyncSession, user: User) -> None:
    """Revoke all tokens and sessions of an account, those of its players too, and its links to providers."""
    await session.execute(sa.delete(SignInLink).where(SignInLink.user_id == user.id))
    revoked = await session.scalars(
        sa.update(Token)
        .where(Token.user_id == user.id, Token.revoked_at.is_(None))
        .values(revoked_at=now())
        .returning(Token.id)
    )
    if count := len(revoked.all()):
        audit(session, "token.revoked", user_id=user.id, tokens=count)
