"""Signing in: a token or a code is exchanged for another token. Who fails is limited and noted, by address."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import HTTPConnection

from ..errors import Refusal, forbidden
from ..store.audit import Actor, acting, audit
from ..store.columns import now
from ..store.database import Database
from ..store.models import AuditEntry, Player, Token, User
from .auth import Authenticator
from .limits import sender_of

__all__ = ["SignIns"]

FAILURES = 5
"""Attempts in a minute that may fail, from one address, at all servers together."""

_WINDOW = dt.timedelta(seconds=60)
_FAILED = "sign_in.failed"


class SignIns:
    """Attempts to sign in."""

    def __init__(self) -> None:
        self._going_on: Counter[str] = Counter()

    @asynccontextmanager
    async def attempt(self, database: Database, connection: HTTPConnection) -> AsyncGenerator[None]:
        """Try to sign in within the block, which only reads: strangers do not get the lock of writing for nothing.

        A refusal in the block is a failure, and written to the audit log, by which all servers count.

        Raises:
            Refusal: 429 (code `too_many_requests`): five have failed.
        """
        sender = sender_of(connection)
        self._going_on[sender] += 1
        # What goes on may fail, too: many at once are not all admitted
        going_on = self._going_on[sender]
        try:
            await _require_few(database, sender, going_on)
            try:
                yield
            except Refusal as refusal:
                origin = connection.client.host if connection.client else None
                network = {} if origin == sender else {"network": sender}
                with acting(Actor(kind="anonymous", origin=origin)):
                    async with database.writing() as session:
                        audit(session, _FAILED, subject=connection.url.path, code=refusal.code, **network)
                raise
        finally:
            self._going_on[sender] -= 1
            if not self._going_on[sender]:
                del self._going_on[sender]

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


async def _require_few(database: Database, sender: str, going_on: int) -> None:
    """Refuse an attempt if with those that go on too many may have failed.

    Raises:
        Refusal: 429.
    """
    theirs = sa.or_(AuditEntry.origin == sender, AuditEntry.detail["network"].as_string() == sender)
    failed = sa.select(AuditEntry.created_at).where(
        AuditEntry.action == _FAILED, AuditEntry.created_at > now() - _WINDOW, theirs
    )
    async with database.reading() as session:
        moments = list(await session.scalars(failed.order_by(AuditEntry.created_at.desc()).limit(FAILURES)))
    if len(moments) + going_on > FAILURES:
        wait = moments[-1] + _WINDOW - now() if len(moments) == FAILURES else dt.timedelta()
        raise Refusal(
            429,
            f"Too many failed attempts to sign in: the limit is {FAILURES} in {_WINDOW.seconds} s. Try again later.",
            code="too_many_requests",
            headers={"Retry-After": str(max(1, math.ceil(wait.total_seconds())))},
        )


async def _require(
    session: AsyncSession, tokens: Authenticator, text: str, kinds: Collection[str]
) -> tuple[Token, User, Player | None]:
    found = await tokens.find(session, text)
    if found is None:
        raise forbidden("This token is not valid on this server.", code="bad_token")
    if found[0].kind not in kinds:
        raise forbidden("This token does not belong to a user account.", code="bad_token")
    return found
