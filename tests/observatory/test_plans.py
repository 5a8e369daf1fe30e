"""How the database finds what lists and leaderboards show: SQLite plans alike however much there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.observatory import inside
from support.observatory_kit import open_platform, roster, seed
from support.statements import noted

from observatory.work.queue import Queue

NEWEST = "ix_episode_requests{}_newest"


@pytest.mark.parametrize(
    ("path", "index"),
    [
        ("/v2/episode-requests", NEWEST.format("")),
        ("/v2/episode-requests?league_id=x&status=completed", NEWEST.format("_league")),
        ("/v2/episode-requests?division_id=x", NEWEST.format("_division")),
        ("/v2/episode-requests?coworld_id=x", NEWEST.format("_coworld")),
    ],
)
async def test_list_queries_use_an_index(tmp_path: Path, path: str, index: str) -> None:
    async with inside(tmp_path) as platform:
        token = await platform.add_user("ann")
        engine = platform.services.database.engine
        with noted(engine) as asked:
            await platform.ask("GET", path, token, expect=200)
        [(statement, parameters)] = [(text, given) for text, given in asked if "LIMIT" in text]
        async with engine.connect() as connection:
            rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plan = [str(row.detail) for row in rows]
        assert any(f"USING INDEX {index}" in step or f"USING COVERING INDEX {index}" in step for step in plan), plan
        assert not any("TEMP B-TREE" in step for step in plan), plan


async def test_repeated_list_loads_only_changed_rows(tmp_path: Path, database: str | None) -> None:
    async with open_platform(tmp_path, backend="none", database=database) as platform:
        ann = await platform.account("ann")
        world = await seed(platform.services, ann.id)
        await platform.policy(ann, "a")
        async with platform.client(ann) as client:

            async def listed() -> tuple[list[str], int]:
                """The states of the episodes, and how many of them were loaded."""
                with noted(platform.services.database.engine) as asked:
                    entries = (await client.get("/v2/episode-requests")).json()["entries"]
                loads = [parameters for text, parameters in asked if text.startswith("SELECT participants.")]
                return sorted(row["status"] for row in entries), sum(map(len, loads))

            body = {"coworld_id": world.id, "roster": roster("a", "a"), "num_episodes": 3}
            assert (await client.post("/v2/experience-requests", json=body)).status_code == 200
            assert await listed() == (["pending"] * 3, 3)
            assert await listed() == (["pending"] * 3, 0)
            assert await Queue(platform.services.database, owner="w").claim() is not None
            assert await listed() == (["pending", "pending", "running"], 1)
