"""The grader: how decided a game was, from 0 for a tie to 1 if one player owns the whole board."""

from typing import Any

from coworld_core.roles import FinishedEpisode
from paintarena.roles.tiles import read_tiles

ID = "paint-arena-grader"


def grade(episode: FinishedEpisode) -> dict[str, Any]:
    """Grade an episode by the winner's margin as a share of the board."""
    tiles = read_tiles(episode)
    return {
        "score": tiles.margin / tiles.total,
        "scale": "0 to 1: the winner's margin as a share of the board",
        "margin_tiles": tiles.margin,
        "total_tiles": tiles.total,
        "winner_slot": tiles.winner,
    }
