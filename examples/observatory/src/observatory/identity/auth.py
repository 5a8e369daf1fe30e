"""Who calls: tokens, what they are worth, and what their bearers may see.

A token is ``<prefix>_<public id>_<secret>``. The public id finds its row, whose argon2 hash the secret must match; that
a text has matched once is remembered by its SHA-256, so that a request costs a look-up and no hashing. The row itself
is read every time: a token revoked or expired is worth nothing at once.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import anyio
import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from sqlalchemy.ext.asyncio import AsyncSession

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
    "new_code",
    "take_code",
]

SESSION_COOKIE = "observatory_session"
"""Cookie in which a browser keeps a ``web`` token; good for reading only, so no other site can make it write."""

PLAYER_SESSION = dt.timedelta(hours=24)
"""How long a player's token is good for."""

CODE_LIFETIME = dt.timedelta(minutes=5)
"""How long a sign-in code is good for."""

TokenKind = Literal["user", "player", "web", "registry"]

_PREFIXES: Mapping[TokenKind, str] = {"user": "obs", "player": "ply", "web": "obw", "registry": "obr"}
_TOKEN = re.compile(r"(?P<prefix>[a-z]{3})_(?P<id>[0-9a-f]{24})_(?P<secret>[A-Za-z0-9_-]{43})", re.ASCII)
_REMEMBERED = 4096

# the secrets are 256 random bits, which no search finds: the hash has to be one-way, not slow
_HASHER = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1)


@dataclass(frozen=True)
class Caller:
    """Who a request comes from."""

    kind: Literal["anonymous", "user", "player"]
    user: User | None = None
    player: Player | None = None
    elevated: bool = False
    """Whether a member of the team asked for the team's rights with this request."""
    token_id: str | None = None
    token_kind: TokenKind | None = None

    @property
    def known(self) -> bool:
        """Whether it is anybody at all."""
        return self.user is not None

    @property
    def is_team(self) -> bool:
        """Whether it is a member of the team, in person."""
        return self.kind == "user" and self.user is not None and self.user.is_team

    @property
    def user_id(self) -> str | None:
        """The user, also behind a player; None for nobody."""
        return self.user.id if self.user else None

    @property
    def player_id(self) -> str | None:
        """The player whose session this is."""
        return self.player.id if self.player else None

    @property
    def subject_id(self) -> str | None:
        """The player or the user; None for nobody."""
        return self.player_id or self.user_id

    def owns(self, user_id: str | None, player_id: str | None = None) -> bool:
        """Whether something of a user (and perhaps of one of its players) is the caller's to see.

        A user sees what its players have; a player sees what is its own, and what is the user's in person.
        """
        if self.elevated:
            return True
        if self.user is None or user_id != self.user.id:
            return False
        return self.player is None or player_id in (None, self.player.id)

    def require(self) -> User:
        """The user behind the call.

        Raises:
            Refusal: 401 for nobody.
        """
        if self.user is None:
            raise unauthenticated()
        return self.user


ANONYMOUS = Caller("anonymous")
"""Nobody in particular."""


@dataclass(frozen=True)
class MintedToken:
    """A new token; this is the only time its text is known."""

    id: str
    text: str
    expires_at: dt.datetime | None

    def __repr__(self) -> str:
        return f"<MintedToken {self.id}>"


class Authenticator:
    """Makes tokens and recognises them."""

    def __init__(self) -> None:
        self._matched: OrderedDict[bytes, None] = OrderedDict()

    async def mint(
        self,
        session: AsyncSession,
        kind: TokenKind,
        user_id: str,
        *,
        player_id: str | None = None,
        label: str | None = None,
        lifetime: dt.timedelta | None = None,
        repository: str | None = None,
        actions: str | None = None,
    ) -> MintedToken:
        """Make a token.

        Args:
            session: A writing session.
            kind: What it is for.
            user_id: Whose it is.
            player_id: For ``player``: the player it speaks for.
            label: What its owner calls it.
            lifetime: How long it is good for; None: until revoked.
            repository: For ``registry``: the only repository it is for; None: all.
            actions: For ``registry``: ``pull`` or ``pull,push``.
        """
        public, secret = secrets.token_hex(12), secrets.token_urlsafe(32)
        text = f"{_PREFIXES[kind]}_{public}_{secret}"
        expires_at = None if lifetime is None else now() + lifetime
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
        self._remember(text)
        return MintedToken(id=public, text=text, expires_at=expires_at)

    async def find(self, session: AsyncSession, text: str) -> tuple[Token, User, Player | None] | None:
        """The token a text is, with its user and player, if it is good; None otherwise.

        Raises:
            Refusal: 403 for that of an account which an operator has disabled (code ``account_disabled``).
        """
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        found = (
            await session.execute(
                sa.select(Token, User, Player)
                .join(User, User.id == Token.user_id)
                .outerjoin(Player, Player.id == Token.player_id)
                .where(Token.id == match["id"])
            )
        ).first()
        if found is None:
            return None
        token, user = found[0], found[1]
        # an outer join: there may be none
        player = cast("Player | None", found[2])
        expired = token.expires_at is not None and token.expires_at <= now()
        gone = player is not None and player.disabled_at is not None
        if expired or gone or token.revoked_at is not None or _PREFIXES.get(token.kind) != match["prefix"]:  # pyright: ignore[reportArgumentType]
            return None
        if not await self._matches(text, match["secret"], token.hash):
            return None
        if user.disabled_at is not None:
            because = f": {user.disabled_reason}" if user.disabled_reason else "."
            raise forbidden(f"The account {user.name} was disabled by an operator{because}", code="account_disabled")
        return token, user, player

    async def caller(
        self, session: AsyncSession, headers: Mapping[str, str], cookies: Mapping[str, str], *, reading: bool
    ) -> Caller | None:
        """Who sent a request; None when it shows a token that is not good.

        Args:
            session: A session.
            headers: The request's, by lower-case name.
            cookies: The request's.
            reading: Whether it changes nothing; only then does a cookie count.

        Raises:
            Refusal: 403 when team rights are asked for by who has none, and for an account that was disabled.
        """
        text, kinds = _shown(headers), ("user", "player")
        if text is None and reading and SESSION_COOKIE in cookies:
            text, kinds = cookies[SESSION_COOKIE], ("web",)
        elevate = headers.get("x-use-elevated-privileges", "").strip().lower() in ("true", "1")
        if text is None:
            if elevate:
                raise unauthenticated("Team rights need a token of a member of the team.")
            return ANONYMOUS
        found = await self.find(session, text)
        if found is None or found[0].kind not in kinds:
            return None
        token, user, player = found
        if elevate and player is not None:
            raise forbidden("A player's session cannot ask for team rights.", code="elevation_refused")
        if elevate and not user.is_team:
            raise forbidden(f"{user.name} is not a member of the team.", code="elevation_refused")
        return Caller(
            kind="player" if player else "user",
            user=user,
            player=player,
            elevated=elevate,
            token_id=token.id,
            token_kind=token.kind,  # pyright: ignore[reportArgumentType]
        )

    async def _matches(self, text: str, secret: str, hashed: str) -> bool:
        digest = hashlib.sha256(text.encode()).digest()
        if digest in self._matched:
            self._matched.move_to_end(digest)
            return True
        try:
            await anyio.to_thread.run_sync(_HASHER.verify, hashed, secret)
        except (VerifyMismatchError, InvalidHashError):
            return False
        self._remember(text)
        return True

    def _remember(self, text: str) -> None:
        self._matched[hashlib.sha256(text.encode()).digest()] = None
        while len(self._matched) > _REMEMBERED:
            self._matched.popitem(last=False)


def _shown(headers: Mapping[str, str]) -> str | None:
    if (authorization := headers.get("authorization")) is not None:
        scheme, _, text = authorization.strip().partition(" ")
        return text.strip() if scheme.lower() == "bearer" else ""
    return headers.get("x-auth-token")


async def new_code(session: AsyncSession, user_id: str) -> str:
    """A sign-in code for a user: good once, for five minutes."""
    # people type it after a command's name, where a dash at its beginning would make it an option
    code = f"obc_{secrets.token_urlsafe(32)}"
    session.add(AuthCode(digest=_digest(code), user_id=user_id, expires_at=now() + CODE_LIFETIME))
    await session.flush()
    return code


async def take_code(session: AsyncSession, code: str) -> str:
    """Use a sign-in code up and return whose it was.

    Raises:
        Refusal: 400 for no code of ours, 410 for one that was used or has expired.
    """
    taken = await session.scalar(
        sa.update(AuthCode)
        .where(AuthCode.digest == _digest(code), AuthCode.used_at.is_(None), AuthCode.expires_at > now())
        .values(used_at=now())
        .returning(AuthCode.user_id)
    )
    if taken is not None:
        return taken
    if await session.get(AuthCode, _digest(code)) is None:
        raise Refusal(400, "This is no sign-in code of this server.", code="bad_code")
    raise Refusal(410, "This sign-in code was used already, or has expired: sign in again.", code="code_expired")


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
