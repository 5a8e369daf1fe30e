"""The moves of games of nim as a table in Parquet, for analysis; it needs `pip install "coworld-core[parquet]"`."""

from collections.abc import Sequence

from moves import read_moves

from coworld_core.roles import ALL_SLOTS, FinishedEpisode, write_event_log

ID = "nim-parquet-moves"


def report(episodes: Sequence[FinishedEpisode]) -> dict[str, bytes]:
    """Write `moves.parquet`: what was left, what was taken, and whether that gave the game away."""
    rows: list[tuple[int, int, str, int | bool]] = []
    for episode in episodes:
        for move in read_moves(episode):
            rows += [
                (move.number, ALL_SLOTS, "left", move.left),
                (move.number, move.seat, "taken", move.taken),
                (move.number, move.seat, "gave_away", move.gave_away),
            ]
    return {"moves.parquet": write_event_log(rows)}
