"""Writes the idea that the diagnoses ask for, or the next one that no earlier step has tried."""

from pathlib import Path

from coworld_runner.kit.roles import OptimizerTask

ID = "nim-optimizer"

MOST = "legal[-1]"
FOURS = 'next((move for move in legal if (observation["left"] - move["take"]) % 4 == 0), legal[0])'
IDEAS = {"It takes as many sticks as it may.": MOST, "It leaves a multiple of four.": FOURS}
PLAYER = '''"""{idea}"""


def act(observation, legal, rng):
    return {move}
'''


def optimize(task: OptimizerTask, player: Path | None) -> str | None:
    """Write an idea; without a player, only say which."""
    tried = {step.note for step in task.history}
    ideas = [idea for idea in IDEAS if idea not in tried]
    if any(found.get("gave_away") for found in task.findings):
        # It gave won games away, and the last idea never does
        ideas.reverse()
    if not ideas:
        return None
    if player is not None:
        player.write_text(PLAYER.format(idea=ideas[0], move=IDEAS[ideas[0]]))
    return ideas[0]
