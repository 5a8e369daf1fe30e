"""Reports on games of nim: every move, and who had the game won."""

from collections.abc import Sequence
from dataclasses import asdict

from moves import Move, read_moves

from coworld_core.roles import FinishedEpisode

ID = "nim-summarizer"


def report(episodes: Sequence[FinishedEpisode]) -> dict[str, object]:
    """Write a page with a table of moves for each game, and the same as JSON."""
    games = [(episode, read_moves(episode)) for episode in episodes]
    return {
        "summary.md": "\n".join(_page(episode, moves) for episode, moves in games),
        "moves.json": [
            {"episode": episode.id, "moves": [asdict(move) | {"best": move.best} for move in moves]}
            for episode, moves in games
        ],
    }


def _page(episode: FinishedEpisode, moves: list[Move]) -> str:
    winner = episode.names[episode.scores.index(max(episode.scores))]
    rows = [
        f"| {move.number} | {episode.names[move.seat]} | {move.left} | {move.taken} | {_remark(move)} |"
        for move in moves
    ]
    head = [f"# Nim: {winner} won after {len(moves)} moves", "", "| Move | Player | Left | Taken | |"]
    return "\n".join([*head, "| ---: | --- | ---: | ---: | --- |", *rows, ""])


def _remark(move: Move) -> str:
    if move.gave_away:
        return f"gave the game away: {move.best} wins"
    return "ran out of time" if move.missed else ""
