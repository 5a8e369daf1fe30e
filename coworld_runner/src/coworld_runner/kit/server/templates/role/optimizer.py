"""Improves a player: here by trying ideas, one after the other, until all have been tried."""

from pathlib import Path

from coworld_runner.kit.roles import OptimizerTask

IDEAS = [("rng.choice(legal)", "legal[-1]"), ("rng.choice(legal)", "legal[0]"), ("legal[-1]", "legal[0]")]
"""What to replace in the player's source, and by what."""


def optimize(task: OptimizerTask, player: Path | None) -> list[str]:
    """Change the player where it is, and return what was changed, or what is advised; nothing if there is none.

    `player` is a file or a folder, or None if only advice is asked for. A task has `goal`, `game`, `step`, `docs`,
    `grades`, `findings`, `history` (earlier steps, each with `status`, `reason` and `note`) and `episodes` (each with
    `episode`, the player's `slot`, its `outcome`, `grade` and `findings`).
    """
    lost = sum(each.outcome == "lost" for each in task.episodes)
    advice = [text for found in task.findings for text in found.get("recommendations", [])]
    advice.append(f"It lost {lost} of {len(task.episodes)} episodes.")
    if player is None:
        return advice
    tried = " ".join(step.note or "" for step in task.history)
    for before, after in IDEAS:
        for file in sorted(player.rglob("*.py")) if player.is_dir() else [player]:
            change, source = f"{before} became {after}", file.read_text(encoding="utf-8")
            if before in source and change not in tried:
                file.write_text(source.replace(before, after), encoding="utf-8")
                return [change]
    return []
