"""Quotas of accounts.

The operator's defaults (`Settings.quotas`) can be replaced for an account by `User.quotas`. Team members have no
quotas.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import HTTPConnection

from coworld_core.text import plural

from ..bounded_mapping import BoundedMapping
from ..errors import Refusal, conflict
from ..quotas import Quotas
from ..store.account_lock import lock_account
from ..store.models import EpisodeRequest, Player, RoleRun, User
from ..store.usage import stored_bytes

__all__ = [
    "QUOTA_CODES",
    "REQUEST_WINDOW",
    "ConnectionLimit",
    "RateLimit",
    "Taker",
    "quotas_of",
    "require_episodes",
    "require_player",
    "require_stored",
    "room_of",
    "sender_of",
    "taker_of",
    "too_much_stored",
]

QUOTA_CODES = frozenset({"quota_exceeded", "too_many_requests"})
"""Codes of refusals for exceeded quotas."""

REQUEST_WINDOW = 10.0
"""Seconds over which the quota of requests is averaged."""


def quotas_of(user: User, base: Quotas) -> Quotas:
    """The quotas of an account."""
    if user.is_team:
        return Quotas(**dict.fromkeys(asdict(base)))
    own: Mapping[str, int | None] = {name: value for name, value in (user.quotas or {}).items() if name in asdict(base)}
    return replace(base, **own)


@dataclass(frozen=True)
class Taker:
    """Whom something that is limited counts for."""

    key: str
    """The account's id, or what `sender_of` returns."""
    quotas: Quotas
    known: bool
    """Whether it is an account."""


def taker_of(user: User | None, connection: HTTPConnection, base: Quotas) -> Taker:
    """The account of a request, or its sender if it has none.

    Args:
        user: The account, if there is one.
        connection: The request.
        base: The default quotas.
    """
    if user is None:
        return Taker(sender_of(connection), base, known=False)
    return Taker(user.id, quotas_of(user, base), known=True)


def sender_of(connection: HTTPConnection) -> str:
    """The address of a request for limits: of IPv6 the network of 64 bits, as one line has all of its addresses."""
    host = connection.client.host if connection.client else ""
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        if isinstance(address, ipaddress.IPv6Address):
            inner = address.ipv4_mapped
            return str(inner or ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return host


async def require_episodes(db: AsyncSession, user: User, base: Quotas, more: int, *, person: str | None) -> None:
    """Refuse further episodes, or roles to run on them, if an account would exceed its quota.

    Args:
        db: A writing session.
        user: The account.
        base: The default quotas.
        more: The number of further ones.
        person: Who asks for a team, if the account is one; what people ask for teams counts for them as well.

    Raises:
        Refusal: 429 (code `quota_exceeded`).
    """
    accounts = [user] if person is None else [user, await db.get_one(User, person)]
    for account in accounts:
        await _require_episodes(db, account, quotas_of(account, base).episodes, more)


async def _require_episodes(db: AsyncSession, user: User, most: int | None, more: int) -> None:
    if most is None:
        return
    await lock_account(db, user.id)
    there = 0
    for table, asked in ((EpisodeRequest, sa.true()), (RoleRun, ~RoleRun.automatic)):
        # Written so that each half has its index
        by = sa.or_(table.user_id == user.id, sa.and_(table.person_id == user.id, table.person_id != table.user_id))
        active = sa.select(sa.func.count()).where(by, table.status.in_(("pending", "running")), asked)
        there += await db.scalar(active) or 0
    if there + more > most:
        what = "episode or role" if more == 1 else "episodes"
        raise Refusal(
            429,
            f"{more} more {what} would exceed your quota: {there} of {most} are pending or running. "
            "Try again when some have finished, or request fewer.",
            code="quota_exceeded",
            headers={"Retry-After": "60"},
        )


async def require_player(db: AsyncSession, user: User, base: Quotas) -> None:
    """Refuse another player if an account has as many as its quota allows.

    Raises:
        Refusal: 409 (code `quota_exceeded`): waiting does not help.
    """
    most = quotas_of(user, base).players
    if most is None:
        return
    await lock_account(db, user.id)
    there = await db.scalar(sa.select(sa.func.count()).select_from(Player).where(Player.user_id == user.id)) or 0
    if there >= most:
        raise conflict(
            f"Your account has {plural(there, 'player')}, and its quota is {most}. Play as one of them, or ask an "
            "operator for a larger quota.",
            code="quota_exceeded",
        )


async def room_of(db: AsyncSession, user: User, base: Quotas) -> int | None:
    """How many more bytes an account may store, negative if it has too many; None: no limit."""
    most = quotas_of(user, base).stored
    return None if most is None else most - await stored_bytes(db, user.id)


async def require_stored(db: AsyncSession, user: User, base: Quotas, *, more: int = 0, status: int = 413) -> None:
    """Refuse if an account has stored too much, including changes in this transaction.

    Args:
        db: A writing session; the refusal rolls back its transaction.
        user: The account.
        base: The default quotas.
        more: Bytes that are not in any row yet.
        status: Status of the refusal; 429 if a later attempt may succeed, once something has been deleted.

    Raises:
        Refusal: 413 or 429 (code `quota_exceeded`).
    """
    most = quotas_of(user, base).stored
    if most is None:
        return
    await lock_account(db, user.id)
    there = await stored_bytes(db, user.id)
    if there + more > most:
        raise too_much_stored(there + more, most, status=status)


def too_much_stored(size: int, most: int, *, status: int = 413) -> Refusal:
    """The refusal of more bytes than an account may store.

    Args:
        size: The bytes that it would have stored.
        most: The most bytes that it may store.
        status: Status of the refusal.
    """
    return Refusal(
        status,
        f"Your stored data would be {size} bytes, and your quota is {most}. Ask an operator for a larger "
        "quota, or wait until the files of old episodes are deleted.",
        code="quota_exceeded",
        headers={
            "RateLimit-Policy": f'"stored";q={most};qu="content-bytes"',
            "RateLimit": '"stored";r=0',
            **({"Retry-After": "3600"} if status == 429 else {}),
        },
    )


class RateLimit:
    """Limits how much each caller has in a window of time, with room for bursts (the generic cell rate algorithm).

    Args:
        what: What is limited, as in `too many requests`.
        window: Seconds over which the rate is averaged.
        code: The code of refusals.
        most_callers: The number of callers to remember; the one without requests for longest is forgotten first.
    """

    def __init__(
        self, what: str, window: float, *, code: str = "too_many_requests", most_callers: int = 10_000
    ) -> None:
        self._what = what
        self._window = window
        self._code = code
        self._due: BoundedMapping[str, float] = BoundedMapping(most_callers)

    def take(self, caller: str, most: int | None, *, many: int = 1) -> dict[str, str]:
        """Admit a caller; returns headers with what remains.

        Args:
            caller: A user's id, or an address.
            most: The most of it in a window; None: no limit.
            many: How much it takes; 0: nothing yet, if anything remains.

        Raises:
            Refusal: 429 with `Retry-After`.
        """
        if most is None:
            return {}
        now, pause = time.monotonic(), self._window / max(most, 1)
        due = max(self._due.get(caller, 0.0), now) + many * pause
        late, name = due - now - self._window, self._what.replace(" ", "-")
        policy = {"RateLimit-Policy": f'"{name}";q={most};w={round(self._window)}'}
        if late > 0:
            raise Refusal(
                429,
                f"Too many {self._what}: the limit is {most} in {round(self._window)} s. Wait, then try again.",
                code=self._code,
                headers=policy | {"RateLimit": f'"{name}";r=0', "Retry-After": str(math.ceil(late))},
            )
        if many:
            self._due[caller] = due
        return policy | {"RateLimit": f'"{name}";r={int(-late / pause)}'}

    def add(self, caller: str, most: int | None, many: int) -> None:
        """Count what a caller has had, or, negative, gives back; it may be more than the limit."""
        if most is not None and many:
            now = time.monotonic()
            self._due[caller] = max(self._due.get(caller, 0.0), now) + many * self._window / max(most, 1)


class ConnectionLimit:
    """Limits the connections that each sender has open at a time, apart for each kind."""

    def __init__(self) -> None:
        self._open: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def held(self, kind: str, sender: str, most: int) -> Generator[None]:
        """Count a connection while the block lasts.

        Args:
            kind: What it leads to; each kind is counted apart.
            sender: From `sender_of`.
            most: The most connections of this kind.

        Raises:
            Refusal: 429 (code `too_many_connections`).
        """
        place = (kind, sender)
        if self._open[place] >= most:
            raise Refusal(
                429,
                f"{most} connections to such games are open from your address, the most allowed. Close one, then try "
                "again.",
                code="too_many_connections",
                headers={"Retry-After": "10"},
            )
        self._open[place] += 1
        try:
            yield
        finally:
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]
