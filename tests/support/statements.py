"""The statements that a database is asked to execute."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["noted"]


@contextmanager
def noted(engine: AsyncEngine) -> Generator[list[tuple[str, Any]]]:
    """The statements that are executed meanwhile, with their parameters."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)
