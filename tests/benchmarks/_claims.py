"""What it costs to find who is next in the queue, by its lines and by sorting all that waits."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from _measure import show
from support.observatory import new_services
from support.observatory_kit import seed
from support.postgres import execute

from observatory.identity.accounts import add_user
from observatory.settings import Settings
from observatory.store.models import EpisodeRequest, User
from observatory.work.queue import first_of

_BATCH = 5000


async def claims_of(
    waitings: Iterable[int], owner_counts: Iterable[int], server: str | None
) -> dict[str, dict[str, float]]:
    """Seconds for each number of waiting episodes and of owners, each on a database of its own."""
    claims: dict[str, dict[str, float]] = {}
    for waiting, owners in itertools.product(waitings, owner_counts):
        database = None
        if server is not None:
            await execute(server, f"CREATE DATABASE claims_{waiting}_{owners}")
            database = server.format(name=f"claims_{waiting}_{owners}")
        with tempfile.TemporaryDirectory() as directory:
            found_in = await measure_claims(waiting, owners, database, Path(directory))
        claims[f"{waiting:,} of {owners:,}"] = found_in
    lines = [[of, *(f"{one * 1000:.1f}" for one in seconds.values())] for of, seconds in claims.items()]
    show("Milliseconds to find what is next", ["waiting, of owners", "by lines", "all sorted"], lines)
    return claims


def sorted_order() -> sa.Select[str]:
    """The first of all that waits, in the order of turns."""
    turns = (EpisodeRequest.round_id.is_not(None).desc(), User.served_at.asc().nulls_first())
    waiting = sa.select(EpisodeRequest.id).join(User, User.id == EpisodeRequest.user_id)
    order = (*turns, EpisodeRequest.created_at, EpisodeRequest.index)
    return waiting.where(EpisodeRequest.status == "pending").order_by(*order).limit(1)


async def measure_claims(waiting: int, owners: int, database: str | None, directory: Path) -> dict[str, float]:
    """Seconds to find what is next when so many episodes of so many owners wait: by lines, and by sorting all of them.

    The second is how it was found before there was an index of lines.
    """
    async with new_services(Settings(data=directory / "observatory", database=database)) as services:
        async with services.database.writing() as session:
            teacher, _ = await add_user(session, services.tokens, "teacher")
        world = await seed(services, teacher.id)
        common: dict[str, Any] = {"coworld_id": world.id, "own_config": {}}
        async with services.database.writing() as session:
            await session.execute(sa.insert(User), [{"id": f"u{n}", "name": f"u{n}"} for n in range(owners)])
            for first in range(0, waiting, _BATCH):
                rows = [{"user_id": f"u{n % owners}", "index": n, **common} for n in range(first, first + _BATCH)]
                await session.execute(sa.insert(EpisodeRequest), rows[: waiting - first])
        seconds: dict[str, list[float]] = {"lines": [], "sorted": []}
        by_line, by_sorting = first_of(EpisodeRequest, rounds_first=True), sorted_order()
        for _ in range(5):
            for name, statement in (("lines", by_line), ("sorted", by_sorting)):
                async with services.database.reading() as session:
                    begun = time.perf_counter()
                    assert (await session.execute(statement, {"closed": []})).first() is not None
                    seconds[name].append(time.perf_counter() - begun)
        return {name: min(found) for name, found in seconds.items()}
