"""Grades a game of nim: the share of its moves after which a won game was still won."""

from moves import read_moves

from coworld_core.roles import FinishedEpisode

ID = "nim-grader"


def grade(episode: FinishedEpisode) -> dict[str, object]:
    """Count the moves at which a game could be given away, and those at which it was."""
    chances = [move for move in read_moves(episode) if move.best]
    given = [move for move in chances if move.gave_away]
    return {
        "score": 1 - len(given) / len(chances) if chances else 1.0,
        "scale": "0 to 1: the share of winning positions that were kept",
        "given_away": len(given),
        "last_mistake_by": episode.names[given[-1].seat] if given else "nobody",
    }
