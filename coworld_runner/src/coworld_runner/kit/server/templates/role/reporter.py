"""Reports on episodes: here with a table of their scores."""

from collections.abc import Sequence
from typing import Any

from coworld_core.roles import FinishedEpisode


def report(episodes: Sequence[FinishedEpisode]) -> dict[str, Any]:
    """Return the report: Markdown, or files by name, the first page (`.md` or `.html`) for people.

    An episode has `results`, `scores`, `names`, `replay` (bytes), `game_log`, `player_log(slot)`, and `ok` and
    `failure`. An exception means that there is no report.
    """
    lines = [f"# Episodes: {len(episodes)}", ""]
    for episode in episodes:
        lines += [f"## {episode.id}", ""]
        if not episode.ok:
            lines += [f"It has failed: {episode.failure}", ""]
            continue
        lines += ["| Seat | Player | Score |", "| ---: | --- | ---: |"]
        rows = zip(episode.names, episode.scores, strict=False)
        lines += [f"| {slot} | {name} | {score:g} |" for slot, (name, score) in enumerate(rows)]
        lines += ["", f"The game's log has {len(episode.game_log.splitlines())} lines.", ""]
    # What is neither text nor bytes is written as JSON, for programs
    return {"report.md": "\n".join(lines), "results.json": [episode.results for episode in episodes]}
