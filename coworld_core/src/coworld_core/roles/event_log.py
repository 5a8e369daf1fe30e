"""Event logs: what happened in an episode as a table in Parquet, with the columns that every report has."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..lazy import load_library
from .report import EVENT_LOG_COLUMNS

if TYPE_CHECKING:
    from pydantic import JsonValue

__all__ = ["ALL_SLOTS", "write_event_log"]

ALL_SLOTS = -1
"""The player of rows that are about the whole game."""


def write_event_log(rows: Iterable[tuple[int, int, str, JsonValue]]) -> bytes:
    """Return an event log as the content of a Parquet file.

    Args:
        rows: Tick, slot (or `ALL_SLOTS`), what it is, and its value, which is written as JSON.

    Raises:
        UsageError: `pyarrow` is not installed.
    """
    arrow: Any = load_library("pyarrow", "pip install 'coworld-core[parquet]'")
    parquet: Any = load_library("pyarrow.parquet", "pip install 'coworld-core[parquet]'")
    told = [(*row[:3], json.dumps(row[3], sort_keys=True, separators=(",", ":"))) for row in rows]
    table = arrow.table(
        {
            name: arrow.array([row[index] for row in told], kind)
            for index, (name, kind) in enumerate(EVENT_LOG_COLUMNS.items())
        }
    )
    file = io.BytesIO()
    parquet.write_table(table, file, compression="snappy", row_group_size=max(1, len(told)))
    return file.getvalue()
