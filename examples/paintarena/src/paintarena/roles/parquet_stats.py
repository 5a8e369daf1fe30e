"""The Parquet reporter: the ticks of an episode as a table, for analysis."""

from collections.abc import Iterator, Sequence
from typing import Any

from coworld_core.roles import ALL_SLOTS, FinishedEpisode, write_event_log
from paintarena.roles.tiles import read_tiles

ID = "paint-arena-parquet-stats-reporter"


def report(episodes: Sequence[FinishedEpisode]) -> dict[str, bytes]:
    """Write `stats.parquet`; the rows of several episodes follow each other, and ticks begin again with each."""
    return {"stats.parquet": write_event_log(row for episode in episodes for row in _rows(episode))}


def _rows(episode: FinishedEpisode) -> Iterator[tuple[int, int, str, Any]]:
    """The rows of an episode: tick, slot, key and value."""
    tiles = read_tiles(episode)
    for frame in episode.replay_json()["frames"]:
        tick = frame["tick"]
        yield tick, ALL_SLOTS, "scores", frame["scores"]
        yield tick, ALL_SLOTS, "tile_owners", frame["tile_owners"]
        yield tick, ALL_SLOTS, "arena", {"width": tiles.width, "height": tiles.height}
        for slot, (position, score) in enumerate(zip(frame["positions"], frame["scores"], strict=True)):
            yield tick, slot, "position", position
            yield tick, slot, "score", score
    last = episode.results["ticks"]
    yield last, ALL_SLOTS, "final_results", episode.results
    for slot, (score, painted) in enumerate(zip(episode.scores, tiles.painted, strict=True)):
        yield last, slot, "final_score", score
        yield last, slot, "painted_tiles", painted
