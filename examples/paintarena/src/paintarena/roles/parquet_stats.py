"""The Parquet reporter: the ticks of an episode as a table, for analysis."""

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from coworld_core.lazy import load_library
from coworld_core.roles import FinishedEpisode
from coworld_core.roles.report import EVENT_LOG_COLUMNS
from paintarena.roles.tiles import read_tiles

ID = "paint-arena-parquet-stats-reporter"
ALL = -1
"""The player of rows that are about the whole game."""


def report(episodes: Sequence[FinishedEpisode]) -> dict[str, bytes]:
    """Write `stats.parquet`; the rows of several episodes follow each other, and ticks begin again with each."""
    return {"stats.parquet": _table([row for episode in episodes for row in _rows(episode)])}


def _rows(episode: FinishedEpisode) -> Iterator[tuple[int, int, str, Any]]:
    """The rows of an episode: tick, slot, key and value."""
    tiles = read_tiles(episode)
    for frame in episode.replay_json()["frames"]:
        tick = frame["tick"]
        yield tick, ALL, "scores", frame["scores"]
        yield tick, ALL, "tile_owners", frame["tile_owners"]
        yield tick, ALL, "arena", {"width": tiles.width, "height": tiles.height}
        for slot, (position, score) in enumerate(zip(frame["positions"], frame["scores"], strict=True)):
            yield tick, slot, "position", position
            yield tick, slot, "score", score
    last = episode.results["ticks"]
    yield last, ALL, "final_results", episode.results
    for slot, (score, painted) in enumerate(zip(episode.scores, tiles.painted, strict=True)):
        yield last, slot, "final_score", score
        yield last, slot, "painted_tiles", painted


def _table(rows: Sequence[tuple[int, int, str, Any]]) -> bytes:
    """An event log: the columns that every report has, values as JSON."""
    arrow = load_library("pyarrow", "pip install 'coworld-core[parquet]'")
    parquet = load_library("pyarrow.parquet", "pip install 'coworld-core[parquet]'")
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
