"""Authentication: tokens, and the access of their bearers.

A token is `<prefix>_<public id>_<secret>`. The public id finds its row, and the secret must match the row's argon2
hash. A successful match is remembered by the text's SHA-256, so that later requests need no hashing. The row is read
every time, so a revoked or expired token is invalid at once.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, cast
from urllib.parse import unquote

import anyio
import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import undefer
from starlette.requests import HTTPConnection

from ..bounded_mapping import BoundedMapping
from ..errors import Refusal, forbidden, unauthenticated
from ..store.audit import audit
from ..store.columns import now
from ..store.models import AuthCode, Player, Token, User

__all__ = [
    "ANONYMOUS",
    "SESSION_COOKIE",
    "Authenticator",
    "Caller",
    "MintedToken",
    "TokenKind",
    "basic_password",
    "new_code",
    "require_code",
    "require_enabled",
    "take_code",
    "usable_code",
]

SESSION_COOKIE = "observatory_session"
"""The cookie with a browser's `web` token; valid only for reading, so that other sites cannot make it write."""

PLAYER_SESSION = dt.timedelta(hours=24)
"""How long a player's token is valid."""

CODE_LIFETIME = dt.timedelta(minutes=5)
"""How long a sign-in code is valid."""

TokenKind = Literal["user", "player", "web", "registry"]

_PREFIXES: Mapping[TokenKind, str] = {"user": "obs", "player": "ply", "web": "obw", "registry": "obr"}
_TOKEN = re.compile(r"(?P<prefix>[a-z]{3})_(?P<id>[0-9a-f]{24})_(?P<secret>[A-Za-z0-9_-]{43})", re.ASCII)
_REMEMBERED = 4096

# Secrets are 256 random bits, so the hash must be one-way but need not be slow.
_HASHER = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1)


@dataclass(frozen=True)
class Caller:
    """The caller of a request."""

    kind: Literal["anonymous", "user", "player"]
    user: User | None = None
    """The account: a team, if its member acts for it with this request."""
    player: Player | None = None
    elevated: bool = False
    """Whether a team member asked for team rights with this request."""
    token_id: str | None = None
    token_kind: TokenKind | None = None
    person_id: str | None = None
    """Who acts for a team with this request; None: the user."""
    teams: frozenset[str] = frozenset()
    """Ids of the teams that the user belongs to; none for a player's session."""
    offices: Mapping[str, str] = field(default_factory=dict[str, str])
    """`organiser` or `assistant`, by the id of each league that the user helps to run; none for a player's session."""

    @property
    def known(self) -> bool:
        """Whether the caller is authenticated."""
        return self.user is not None

    @property
    def is_team(self) -> bool:
        """Whether the caller is a team member in person, not one of its players."""
        return self.kind == "user" and self.user is not None and self.user.is_team

    @property
    def user_id(self) -> str | None:
        """The user, also for a player's session; None if anonymous."""
        return self.user.id if self.user else None

    @property
    def actor_id(self) -> str | None:
        """The person who acts, for the audit log; None if anonymous."""
        return self.person_id or self.user_id

    @property
    def accounts(self) -> frozenset[str]:
        """Ids of the user and of its teams."""
        return self.teams if self.user is None else self.teams | {self.user.id}

    @property
    def player_id(self) -> str | None:
        """The player, for a player's session."""
        return self.player.id if self.player else None

    @property
    def subject_id(self) -> str | None:
        """The player or the user; None if anonymous."""
        return self.player_id or self.user_id

    def owns(self, user_id: str | None, player_id: str | None = None) -> bool:
        """Whether the caller may see something that belongs to a user, or to one of its players.

        A user may see everything of its players and of its teams. A player may see its own things, and those of the
        user itself.
        """
        return self.elevated or self.is_owner(user_id, player_id)

    def is_owner(self, user_id: str | None, player_id: str | None = None) -> bool:
        """Whether something belongs to the caller, as `owns` says, whatever the rights of the team are."""
        if user_id not in self.accounts:
            return False
        return self.player is None or player_id in (None, self.player.id)

    def oversees(self, league_id: str | None) -> bool:
        """Whether the caller may see everything of a league."""
        return self.elevated or league_id in self.offices

    def require(self) -> User:
        """The user of the call.

        Raises:
            Refusal: 401 if anonymous.
        """
        if self.user is None:
            raise unauthenticated()
        return self.user


ANONYMOUS = Caller("anonymous")
"""An anonymous caller."""


@dataclass(frozen=True)
class MintedToken:
    """A new token with its text, which is not stored."""

    id: str
    text: str
    expires_at: dt.datetime | None

    def __repr__(self) -> str:
        return f"<MintedToken {self.id}>"


class Authenticator:
    """Creates and verifies tokens."""

    def __init__(self) -> None:
        self._matched: BoundedMapping[bytes, User] = BoundedMapping(_REMEMBERED)

    async def mint(
        self,
        session: AsyncSession,
        kind: TokenKind,
        user_id: str,
        *,
        player_id: str | None = None,
        label: str | None = None,
        lifetime: dt.timedelta | None = None,
        latest: dt.datetime | None = None,
        repository: str | None = None,
        actions: str | None = None,
    ) -> MintedToken:
        """Create a token.

        Args:
            session: A writing session.
            kind: The kind of the token.
            user_id: Its user.
            player_id: For `player`: its player.
            label: A name given by its owner.
            lifetime: How long it is valid; None: until revoked.
            latest: When it ends at the latest; None: whenever `lifetime` says.
            repository: For `registry`: its only repository; None: all.
            actions: For `registry`: `pull` or `pull,push`.

        Raises:
            Refusal: 403 (code `is_team`): somebody would sign in as a team.
        """
        user = await session.get_one(User, user_id)
        if user.is_shared and kind in ("user", "web"):
            raise forbidden(
                f"{user.name} is a team, which has no tokens: its members act for it with their own.", code="is_team"
            )
        public, secret = secrets.token_hex(12), secrets.token_urlsafe(32)
        text = f"{_PREFIXES[kind]}_{public}_{secret}"
        ends = [*([] if lifetime is None else [now() + lifetime]), *([] if latest is None else [latest])]
        expires_at = min(ends, default=None)
        hashed = await anyio.to_thread.run_sync(_HASHER.hash, secret)
        session.add(
            Token(
                id=public,
                kind=kind,
                user_id=user_id,
                player_id=player_id,
                hash=hashed,
                label=label,
                repository=repository,
                actions=actions,
                expires_at=expires_at,
            )
        )
        action = "session.opened" if kind == "web" else "token.made"
        until = None if expires_at is None else expires_at.isoformat()
        audit(session, action, user_id=user_id, subject=public, kind=kind, label=label, player=player_id, until=until)
        await session.flush()
        self._matched[_sha256(text)] = user
        return MintedToken(id=public, text=text, expires_at=expires_at)

    def remembered(self, connection: HTTPConnection) -> User | None:
        """The account whose token a request shows, without a look into the database: as of its last valid use here.

        Says only for whom the request counts; `find` says whether the token is still valid.
        """
        return self._matched.get(_sha256(_any_token(connection)))

    async def recall(self, session: AsyncSession, connection: HTTPConnection) -> User | None:
        """As `remembered`, after a look into the database if need be."""
        with suppress(Refusal):
            await self.find(session, _any_token(connection))
        return self.remembered(connection)

    async def find(self, session: AsyncSession, text: str) -> tuple[Token, User, Player | None] | None:
        """Find the valid token of a text, with its user and player; None if it is invalid.

        Raises:
            Refusal: 403 if an operator has disabled its account (code `account_disabled`).
        """
        digest = _sha256(text)
        found = await self._find(session, text, matched=digest in self._matched)
        if found is None:
            self._matched.pop(digest, None)
            return None
        self._matched[digest] = user = found[1]
        require_enabled(user)
        return found

    async def _find(
        self, session: AsyncSession, text: str, *, matched: bool
    ) -> tuple[Token, User, Player | None] | None:
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        found = (
            await session.execute(
                sa.select(Token, User, Player)
                .join(User, User.id == Token.user_id)
                .outerjoin(Player, Player.id == Token.player_id)
                .where(Token.id == match["id"])
                .options(undefer(User.teams), undefer(User.offices))
            )
        ).first()
        if found is None:
            return None
        token, user = found[0], found[1]
        # From an outer join: None without a player.
        player = cast("Player | None", found[2])
        expired = token.expires_at is not None and token.expires_at <= now()
        gone = player is not None and player.disabled_at is not None
        if expired or gone or token.revoked_at is not None or _PREFIXES.get(token.kind) != match["prefix"]:  # pyright: ignore[reportArgumentType]
            return None
        return (token, user, player) if matched or await _matches(match["secret"], token.hash) else None

    async def caller(
        self, session: AsyncSession, headers: Mapping[str, str], cookies: Mapping[str, str], *, reading: bool
    ) -> Caller | None:
        """Identify the caller of a request; None if its token is invalid.

        Args:
            session: A session.
            headers: The request's headers, by lower-case name.
            cookies: The request's cookies.
            reading: Whether the request only reads; otherwise cookies are ignored.

        Raises:
            Refusal: 403 if a caller without team rights asks for them, if the account is disabled, or if the caller is
                no member of the team to act for (code `not_member`).
        """
        text, kinds = _shown(headers), ("user", "player")
        if text is None and reading and SESSION_COOKIE in cookies:
            text, kinds = cookies[SESSION_COOKIE], ("web",)
        elevate = headers.get("x-use-elevated-privileges", "").strip().lower() in ("true", "1")
        if text is None:
            if elevate:
                raise unauthenticated("Team rights require a team member's token.")
            return ANONYMOUS
        found = await self.find(session, text)
        if found is None or found[0].kind not in kinds:
            return None
        token, user, player = found
        if elevate and player is not None:
            raise forbidden("A player's session cannot request team rights.", code="elevation_refused")
        if elevate and not user.is_team:
            raise forbidden(f"{user.name} is not a member of the team.", code="elevation_refused")
        teams = frozenset((user.teams or "").split()) if player is None else frozenset[str]()
        if (name := headers.get("x-team")) is not None:
            team = await session.scalar(
                sa.select(User).where(User.id.in_(teams), User.name == unquote(name), User.disabled_at.is_(None))
            )
            if team is None or elevate:
                why = "Team rights are a person's own." if elevate else f"You are in no team {unquote(name)!r}."
                raise forbidden(why, code="not_member")
            kind = cast("TokenKind", token.kind)
            return Caller("user", user=team, token_id=token.id, token_kind=kind, person_id=user.id)
        offices = (user.offices or "").split() if player is None else ()
        return Caller(
            kind="player" if player else "user",
            user=user,
            teams=teams,
            offices=dict(cast("tuple[str, str]", tuple(one.split(":"))) for one in offices),
            player=player,
            elevated=elevate,
            token_id=token.id,
            token_kind=token.kind,  # pyright: ignore[reportArgumentType]
        )


def require_enabled(user: User) -> None:
    """Refuse an account that an operator has disabled.

    Raises:
        Refusal: 403 (code `account_disabled`), with the reason.
    """
    if user.disabled_at is not None:
        because = f": {user.disabled_reason}" if user.disabled_reason else "."
        raise forbidden(f"The account {user.name} was disabled by an operator{because}", code="account_disabled")


async def _matches(secret: str, hashed: str) -> bool:
    try:
        await anyio.to_thread.run_sync(_HASHER.verify, hashed, secret)
    except (VerifyMismatchError, InvalidHashError):
        return False
    return True


def _any_token(connection: HTTPConnection) -> str:
    """What a request shows, in whichever way; empty for nothing."""
    text = _shown(connection.headers) or basic_password(connection.headers.get("authorization", ""))
    return text or connection.cookies.get(SESSION_COOKIE, "")


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def basic_password(authorization: str) -> str | None:
    """The password of a header for HTTP Basic, empty if it cannot be read; None for a header of another kind."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(rest.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _shown(headers: Mapping[str, str]) -> str | None:
    if (authorization := headers.get("authorization")) is not None:
        scheme, _, text = authorization.strip().partition(" ")
        return text.strip() if scheme.lower() == "bearer" else ""
    return headers.get("x-auth-token")


async def new_code(
    session: AsyncSession, user_id: str, *, lifetime: dt.timedelta = CODE_LIFETIME, team_id: str | None = None
) -> str:
    """Create a sign-in code for a user, or the code of an invitation into a team; valid once."""
    # People type it after a command's name, where a leading dash would make it an option.
    code = f"obc_{secrets.token_urlsafe(32)}"
    session.add(AuthCode(digest=_digest(code), user_id=user_id, team_id=team_id, expires_at=now() + lifetime))
    await session.flush()
    return code


async def require_code(session: AsyncSession, code: str) -> None:
    """Check that a sign-in code can be used, without a change.

    Raises:
        Refusal: 400 for an unknown code, 410 for one that was used or has expired.
    """
    known = await session.get(AuthCode, _digest(code))
    if known is None or known.team_id is not None:
        raise Refusal(400, "The sign-in code was not issued by this server.", code="bad_code")
    if known.used_at is not None or known.expires_at <= now():
        raise _code_expired()


async def take_code(session: AsyncSession, code: str) -> str:
    """Use a sign-in code; returns its user.

    Raises:
        Refusal: 410 if it was used or has expired.
    """
    taken = await session.scalar(
        sa.update(AuthCode).where(usable_code(code)).values(used_at=now()).returning(AuthCode.user_id)
    )
    if taken is None:
        raise _code_expired()
    return taken


def _code_expired() -> Refusal:
    return Refusal(410, "The sign-in code was already used or has expired. Sign in again.", code="code_expired")


def usable_code(code: str, *, team: bool = False) -> sa.ColumnElement[bool]:
    """The condition that a sign-in code was issued, or one of a team, and neither used nor has expired."""
    kind = AuthCode.team_id.is_not(None) if team else AuthCode.team_id.is_(None)
    return sa.and_(AuthCode.digest == _digest(code), kind, AuthCode.used_at.is_(None), AuthCode.expires_at > now())


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
