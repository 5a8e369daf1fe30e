"""Statistics from the results of an episode, for the game and for each seat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["SeatNames", "episode_stats"]

_STEPS = ("steps", "ticks")
"""Keys under which games report their length."""


@dataclass(frozen=True, kw_only=True)
class SeatNames:
    """The occupant of a seat; all None for a player that comes with the game."""

    policy_version_id: str | None = None
    policy_name: str | None = None
    policy_version: int | None = None


def episode_stats(results: Mapping[str, Any], seats: Sequence[SeatNames]) -> dict[str, Any]:
    """The statistics of one episode.

    A number in the results is a statistic of the game; a list with one number for each slot is one of the seats.

    Args:
        results: The game's results.
        seats: The occupants by slot.

    Returns:
        ``game_stats``, ``policy_stats`` (one entry for each seat) and ``steps``.
    """
    game: dict[str, float] = {}
    metrics: list[dict[str, float]] = [{} for _ in seats]
    for key, value in results.items():
        if key == "scores":
            continue
        if _is_number(value):
            game[key] = float(value)
        elif isinstance(value, list):
            figures = cast("list[Any]", value)
            if len(figures) == len(seats) and all(_is_number(figure) for figure in figures):
                for slot, figure in enumerate(figures):
                    metrics[slot][key] = float(figure)
    scores = _scores(results, len(seats))
    steps = next((int(results[key]) for key in _STEPS if _is_number(results.get(key))), None)
    return {
        "game_stats": game,
        "policy_stats": [
            {
                "position": slot,
                "policy_version_id": seat.policy_version_id,
                "policy_name": seat.policy_name,
                "policy_version": seat.policy_version,
                "num_agents": 1,
                "avg_metrics": metrics[slot],
                "avg_reward": scores[slot],
                "agents": [{"agent_id": slot, "reward": scores[slot], "metrics": metrics[slot]}],
            }
            for slot, seat in enumerate(seats)
        ],
        "steps": steps,
    }


def _scores(results: Mapping[str, Any], count: int) -> list[float]:
    value = results.get("scores")
    scores = cast("list[Any]", value) if isinstance(value, list) else []
    if len(scores) != count or not all(_is_number(score) for score in scores):
        return [0.0] * count
    return [float(score) for score in scores]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
