"""Games that are talked as a Coworld: the rules are TextArena's."""

from pydantic import Field

from coworld_runner.wrapping.textarena import TextArena, TextArenaConfig

GAMES = ("IteratedPrisonersDilemma-v0", "SimpleNegotiation-v0", "LiarsDice-v0")


class TableTalk(TextArena):
    """Promises, trades and bluffs in words of one's own, as TextArena plays them.

    A seat reads a text, and answers with any text; what counts as a move stands in brackets. Which game it is stands in
    the config.
    """

    class Config(TextArenaConfig):
        """Which game, with the arguments that TextArena has for it."""

        game: str = Field(
            default="IteratedPrisonersDilemma-v0",
            pattern=rf"^({'|'.join(GAMES)})(-[a-z]+)?(\(|$)",
            description=f"One of {', '.join(GAMES)}, with arguments if there are any: {GAMES[0]}(num_rounds=3).",
        )

    seats = 2
    most_seats = 4
    version = "textarena==0.7.4"
