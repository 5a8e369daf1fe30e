"""Games played in free text as a Coworld, with the rules of TextArena."""

from pydantic import Field

from coworld_runner.kit.wrappers import TextArena, TextArenaConfig

GAMES = ("IteratedPrisonersDilemma-v0", "SimpleNegotiation-v0", "LiarsDice-v0")


class TableTalk(TextArena):
    """Promises, trades and bluffs in free text, with the rules of TextArena.

    A seat reads a text and answers with any text; moves are written in brackets. The config says which game is played.
    """

    class Config(TextArenaConfig):
        """The game, with its TextArena arguments."""

        game: str = Field(
            default="IteratedPrisonersDilemma-v0",
            pattern=rf"^({'|'.join(GAMES)})(-[a-z]+)?(\(|$)",
            description=f"One of {', '.join(GAMES)}, optionally with arguments: {GAMES[0]}(num_rounds=3).",
        )

    seats = 2
    most_seats = 4
    score_range = (-1, 1)
    version = "textarena==0.7.4"
