"""Board and card games as a Coworld, with the rules of OpenSpiel."""

from pydantic import Field

from coworld_runner.kit.wrappers import OpenSpiel, OpenSpielConfig

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
        """The board; for chess, a diagram instead of OpenSpiel's one line."""
        drawn = super().draw()
        if not self.config.game.startswith("chess"):
            return drawn
        rows, turn, *_ = drawn.split()
        diagram = "".join("." * int(mark) if mark.isdigit() else mark for mark in rows).split("/")
        lines = [f"{8 - number} {' '.join(row)}" for number, row in enumerate(diagram)]
        return "\n".join([*lines, "  a b c d e f g h", f"{'White' if turn == 'w' else 'Black'} to move"])
