"""GAME_TITLE as a Coworld: the rules are OpenSpiel's."""

from pydantic import Field

from coworld_runner.kit.wrappers import OpenSpiel, OpenSpielConfig


class NewGame(OpenSpiel):
    """GAME_TITLE, as OpenSpiel plays it.

    SEES
    """

    class Config(OpenSpielConfig):
        """Settings that may differ between episodes: the game's parameters in OpenSpiel."""

        game: str = Field(
            default="kuhn_poker",
            pattern=r"^kuhn_poker(\(|$)",
            description="The game's name in OpenSpiel, with parameters if there are any.",
        )

    seats = 2
    most_seats = 10
    live_scores = False
    version = "LIBRARY"
