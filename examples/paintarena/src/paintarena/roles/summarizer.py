"""The summarizer, a reporter: who painted how much, as a page and as JSON."""

from collections.abc import Sequence
from typing import Any

from coworld_core.roles import FinishedEpisode
from paintarena.roles.tiles import Tiles, read_tiles

ID = "paint-arena-summarizer"


def report(episodes: Sequence[FinishedEpisode]) -> dict[str, Any]:
    """Summarize episodes: `summary.md` for people, `stats.json` for programs."""
    stats = [_stats(episode, read_tiles(episode)) for episode in episodes]
    return {
        "summary.md": "\n".join(_page(each) for each in stats),
        "stats.json": stats[0] if len(stats) == 1 else {"episodes": stats},
    }


def _stats(episode: FinishedEpisode, tiles: Tiles) -> dict[str, Any]:
    unpainted = tiles.total - sum(tiles.painted)
    return {
        "episode_id": episode.metadata.episode_id or episode.id,
        "variant_id": episode.metadata.variant_id,
        "grid": {"width": tiles.width, "height": tiles.height, "total_tiles": tiles.total},
        "ticks": episode.results["ticks"],
        "duration_seconds": episode.metadata.duration_seconds,
        "slots": [
            {
                "slot": slot,
                "policy_name": episode.names[slot],
                "painted_tiles": count,
                "share_pct": _share(count, tiles),
            }
            for slot, count in enumerate(tiles.painted)
        ],
        "unpainted_tiles": unpainted,
        "unpainted_share_pct": _share(unpainted, tiles),
        "winner_slot": tiles.winner,
        "margin_tiles": tiles.margin,
        "tie": tiles.tie,
    }


def _share(count: int, tiles: Tiles) -> float:
    return round(100 * count / tiles.total, 2)


def _page(stats: dict[str, Any]) -> str:
    grid, seconds = stats["grid"], stats["duration_seconds"]
    lasted = "unknown" if seconds is None else f"{seconds:g} s"
    rows = [(each["slot"], each["policy_name"], each["painted_tiles"], each["share_pct"]) for each in stats["slots"]]
    rows.append(("–", "*unpainted*", stats["unpainted_tiles"], stats["unpainted_share_pct"]))
    if stats["winner_slot"] is not None:
        name = stats["slots"][stats["winner_slot"]]["policy_name"]
        ending = f"**Winner:** {name}, by {stats['margin_tiles']} tiles."
    else:
        ending = "**Tie.**" if stats["tie"] else "Nobody painted anything."
    return "\n".join(
        [
            f"# PaintArena — Episode {stats['episode_id']}",
            "",
            f"Variant {stats['variant_id']}, grid {grid['width']} × {grid['height']}, duration {lasted}.",
            "",
            "| Slot | Policy | Tiles painted | Share |",
            "| --- | --- | --- | --- |",
            *(f"| {slot} | {name} | {count} | {share:.2f} % |" for slot, name, count, share in rows),
            "",
            ending,
            "",
        ]
    )
