"""Board and card games as a Coworld, with the rules of OpenSpiel."""

from pydantic import Field

from coworld_core.rules.pictures import SEATS, board, grid
from coworld_runner.kit.wrappers import OpenSpiel, OpenSpielConfig

COLOURS = {"x": SEATS[0], "o": SEATS[3], ".": "#b2bec3"}
GAMES = ("connect_four", "chess", "backgammon", "hanabi", "leduc_poker", "goofspiel")


class Board(OpenSpiel):
    """Connect four, chess, backgammon, Hanabi, Leduc poker and Goofspiel, with the rules of OpenSpiel.

    A seat sees the game as text, and moves by name. The config says which game is played.
    """

    class Config(OpenSpielConfig):
        """The game, with its OpenSpiel parameters."""

        game: str = Field(
            default="connect_four",
            pattern=rf"^({'|'.join(GAMES)})(\(|$)",
            description=f"One of {', '.join(GAMES)}, optionally with parameters: hanabi(colors=3).",
        )

    seats = 2
    most_seats = 5
    version = "open_spiel==2.0.2"

    def draw(self) -> str:
        """The board: for connect four a picture to click, for chess a diagram instead of OpenSpiel's one line."""
        drawn = super().draw()
        if self.config.game.startswith("connect_four"):
            rows, turn = drawn.split(), "".join("xo"[seat] for seat in self.to_act())
            squares = grid(rows, COLOURS, action=lambda column, _: f"{turn}{column}" if turn else None)
            return board(10 * len(rows[0]), 10 * len(rows), squares, title=f"{turn} to move" if turn else "The end")
        if not self.config.game.startswith("chess"):
            return drawn
        rows, turn, *_ = drawn.split()
        diagram = "".join("." * int(mark) if mark.isdigit() else mark for mark in rows).split("/")
        lines = [f"{8 - number} {' '.join(row)}" for number, row in enumerate(diagram)]
        return "\n".join([*lines, "  a b c d e f g h", f"{'White' if turn == 'w' else 'Black'} to move"])
