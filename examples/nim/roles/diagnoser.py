"""Finds the moves at which a player gave a won game of nim away."""

from moves import Move, read_moves

from coworld_core.roles import FinishedEpisode
from coworld_runner.kit.roles import TargetPlayer

ID = "nim-diagnoser"


def diagnose(episode: FinishedEpisode, player: TargetPlayer) -> dict[str, object]:
    """Compare each of the player's moves with the best one, which leaves a multiple of four."""
    moves = [move for move in read_moves(episode) if move.seat == player.slot]
    chances = [move for move in moves if move.best]
    given, missed = [move for move in chances if move.gave_away], [move for move in moves if move.missed]
    advice = [_advice(move) for move in given]
    if missed:
        advice.append(f"It ran out of time in {len(missed)} of {len(moves)} moves: one stick was taken for it.")
    advice = advice or ["It gave nothing away."]
    won = episode.scores[player.slot] > 0
    kept = f"It could win at {len(chances)} of its {len(moves)} moves, and kept the win at {len(chances) - len(given)}."
    name = player.name or episode.names[player.slot]
    page = [f"# {name}, seat {player.slot}: {'won' if won else 'lost'}", "", kept, ""]
    return {
        "diagnosis.md": "\n".join([*page, *(f"* {text}" for text in advice), ""]),
        "findings.json": {
            "score": 1 - len(given) / len(chances) if chances else 1.0,
            "scale": "0 to 1: the share of winning positions that the player kept",
            "gave_away": [move.number for move in given],
            "recommendations": advice,
        },
    }


def _advice(move: Move) -> str:
    return (
        f"Move {move.number}: with {move.left} sticks left it took {move.taken}; "
        f"taking {move.best} leaves {move.left - move.best}, from where the other cannot win."
    )
