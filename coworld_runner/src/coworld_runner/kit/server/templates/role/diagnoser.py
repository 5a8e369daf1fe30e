"""Diagnoses a player: here by its place, and by what its log complains about."""

from typing import Any

from coworld_core.roles import FinishedEpisode
from coworld_runner.kit.roles import TargetPlayer


def diagnose(episode: FinishedEpisode, player: TargetPlayer) -> dict[str, Any]:
    """Return the diagnosis: Markdown, or files by name; `findings.json` is for programs.

    An episode has `results`, `scores`, `names`, `replay` (bytes), `game_log`, `player_log(slot)`, and `ok` and
    `failure`; a player has `slot`, `name` and `source`. An exception means that there is no diagnosis.
    """
    if not episode.ok:
        raise ValueError(f"the episode has failed, so there is nothing to diagnose: {episode.failure}")
    score = episode.scores[player.slot]
    ahead = [name for name, other in zip(episode.names, episode.scores, strict=False) if other > score]
    complaints = [line for line in episode.player_log(player.slot).splitlines() if "error" in line.lower()]
    advice = [f"{name} did better: watch what it does in the replay." for name in ahead]
    advice += [f"Its log complains: {line}" for line in complaints[:3]]
    advice = advice or ["Nothing stands out: look for a better opponent."]
    page = [f"# {player.name or episode.names[player.slot]}: {score:g}, place {len(ahead) + 1}", ""]
    page += [f"* {line}" for line in advice]
    return {
        "diagnosis.md": "\n".join(page) + "\n",
        "findings.json": {"score": score, "scale": "the player's score", "recommendations": advice},
    }
