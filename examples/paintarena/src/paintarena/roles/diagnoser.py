"""The diagnoser: what one player did with its ticks, and what it might do better."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from coworld_core.roles import FinishedEpisode
from coworld_runner.kit.roles import TargetPlayer
from paintarena.roles.tiles import read_tiles

ID = "paint-arena-diagnoser"
FEW = 0.1
"""Share of ticks up to which a waste of them is not worth a word."""


def diagnose(episode: FinishedEpisode, player: TargetPlayer) -> dict[str, Any]:
    """Diagnose a player from the frames of the replay."""
    tiles, slot = read_tiles(episode), player.slot
    frames = episode.replay_json()["frames"]
    stood, repainted, lost = _habits(frames, slot)
    ticks = max(1, len(frames) - 1)
    advice = [
        f"It stood still in {stood} of {ticks} ticks: moving paints." if stood > FEW * ticks else "",
        f"It stepped on its own tiles {repainted} times in {ticks} ticks: head for tiles it does not own."
        if repainted > FEW * ticks
        else "",
        f"It lost {lost} of its tiles to others: take back those that are near, which counts twice." if lost else "",
    ]
    recommendations = [text for text in advice if text] or ["Nothing stands out: look for a better opponent."]
    findings = {
        "diagnoser_id": ID,
        "target_policy_uri": player.uri,
        "score": tiles.painted[slot] / tiles.total,
        "scale": "0 to 1: the share of the board that the player owns",
        "margin_tiles": tiles.margin,
        "total_tiles": tiles.total,
        "winner_slot": tiles.winner,
        "ticks": ticks,
        "stood_still": stood,
        "own_tiles_repainted": repainted,
        "tiles_lost": lost,
        "recommendations": recommendations,
    }
    name = player.name or episode.names[slot]
    result = "a tie" if tiles.tie else "won" if tiles.winner == slot else "lost"
    page = [
        f"# {name}, slot {slot}: {result}",
        "",
        f"It owned {tiles.painted[slot]} of {tiles.total} tiles at the end.",
        "",
        *(f"* {text}" for text in recommendations),
        "",
    ]
    return {"diagnosis.md": "\n".join(page), "findings.json": findings}


def _habits(frames: Sequence[dict[str, Any]], slot: int) -> tuple[int, int, int]:
    """Count ticks in which a slot stood still or stepped on its own tiles, and the tiles that it lost."""
    stood = repainted = lost = 0
    for before, after in pairwise(frames):
        (x, y), place = after["positions"][slot], before["positions"][slot]
        if [x, y] == list(place):
            stood += 1
        elif before["tile_owners"][y * after["width"] + x] == slot:
            repainted += 1
        pairs = zip(before["tile_owners"], after["tile_owners"], strict=True)
        lost += sum(old == slot != new for old, new in pairs)
    return stood, repainted, lost
