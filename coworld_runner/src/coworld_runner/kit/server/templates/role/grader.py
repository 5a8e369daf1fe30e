"""Grades episodes: here by how close they were."""

from typing import Any

from coworld_core.roles import FinishedEpisode


def grade(episode: FinishedEpisode) -> dict[str, Any]:
    """Return the grade: a number, or `score` and whatever else there is to say.

    An episode has `results`, `scores`, `names`, `replay` (bytes), `game_log`, `player_log(slot)`, and `ok` and
    `failure`. An exception means that there is no grade.
    """
    if not episode.ok:
        raise ValueError(f"it has failed, so there is nothing to grade: {episode.failure}")
    first, second = (*sorted(episode.scores, reverse=True), 0.0, 0.0)[:2]
    winner = episode.names[episode.scores.index(first)] if first > second else "nobody"
    # `score` is required; each other field becomes a column of the table that is shown
    return {"score": first - second, "scale": "the winner's margin", "winner": winner}
