"""How the database finds what lists and leaderboards show: SQLite plans alike however much there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from support.observatory import inside

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
async def test_a_list_is_read_in_the_order_of_an_index(tmp_path: Path, path: str, index: str) -> None:
    async with inside(tmp_path) as platform:
        token = await platform.add_user("ann")
        asked: list[tuple[str, Any]] = []

        def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            asked.append((statement, parameters))

        engine = platform.services.database.engine
        event.listen(engine.sync_engine, "before_cursor_execute", note)
        await platform.ask("GET", path, token, expect=200)
        event.remove(engine.sync_engine, "before_cursor_execute", note)
        [(statement, parameters)] = [(text, given) for text, given in asked if "LIMIT" in text]
        async with engine.connect() as connection:
            rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plan = [str(row.detail) for row in rows]
        assert any(f"USING INDEX {index}" in step or f"USING COVERING INDEX {index}" in step for step in plan), plan
        assert not any("TEMP B-TREE" in step for step in plan), plan
