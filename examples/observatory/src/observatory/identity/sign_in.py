"""Signing in: a token or a code is exchanged for another token. Who fails is limited and noted, by address."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import HTTPConnection

from ..errors import Refusal, forbidden
from ..store.audit import Actor, acting, audit
from ..store.database import Database
from ..store.models import Player, Token, User
from .auth import Authenticator
from .limits import RateLimit, sender_of

__all__ = ["SignIns"]

FAILURES = 5
"""Attempts in a minute that may fail, from one address."""


class SignIns:
    """Attempts to sign in."""

    def __init__(self) -> None:
        self._failed = RateLimit("failed attempts to sign in", 60.0)

    @asynccontextmanager
    async def attempt(self, database: Database, connection: HTTPConnection) -> AsyncGenerator[None]:
        """Try to sign in within the block, which only reads: strangers do not get the lock of writing for nothing.

        A refusal in the block is a failure, and written to the audit log.

        Raises:
            Refusal: 429 (code `too_many_requests`): five have failed.
        """
        sender, failed = sender_of(connection), 0
        # Before the look, so that many at once are not all admitted
        self._failed.take(sender, FAILURES)
        try:
            yield
        except Refusal as refusal:
            failed = 1
            origin = connection.client.host if connection.client else None
            with acting(Actor(kind="anonymous", origin=origin)):
                async with database.writing() as session:
                    audit(session, "sign_in.failed", subject=connection.url.path, code=refusal.code)
            raise
        finally:
            self._failed.add(sender, FAILURES, failed - 1)

    @asynccontextmanager
    async def by_token(
        self,
        database: Database,
        tokens: Authenticator,
        connection: HTTPConnection,
        text: str,
        kinds: Collection[str] = ("user",),
    ) -> AsyncGenerator[tuple[AsyncSession, Token, User, Player | None]]:
        """A transaction for whom a token of these kinds belongs to.

        Raises:
            Refusal: 403 (code `bad_token` or `account_disabled`), 429.
        """
        async with self.attempt(database, connection), database.reading() as session:
            await _require(session, tokens, text, kinds)
        async with database.writing() as session:
            # It may have been revoked in between.
            yield session, *await _require(session, tokens, text, kinds)


async def _require(
    session: AsyncSession, tokens: Authenticator, text: str, kinds: Collection[str]
) -> tuple[Token, User, Player | None]:
    found = await tokens.find(session, text)
    if found is None:
        raise forbidden("This token is not valid on this server.", code="bad_token")
    if found[0].kind not in kinds:
        raise forbidden("This token does not belong to a user account.", code="bad_token")
    return found
